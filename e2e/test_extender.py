"""An extender in Go, built with kube-scheduler's own types, works with Equipoise unchanged.

The stock configuration file is the same that kube-scheduler would read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import Launch
from e2e.controlplane.binaries import locate
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json, condition, node_of, pod, priority_class
from e2e.harness.processes import Process, answers_ok, start_on_free_ports
from e2e.harness.workspace import Workspace

RACK, RANK, BOUND_BY = "example.com/rack", "example.com/rank", "example.com/bound-by"


@pytest.fixture
def extender(control_plane: ControlPlane, tmp_path: Path) -> Iterator[str]:
    """The URL of a running extender."""
    log = tmp_path / "extender.log"

    def start(port: int) -> tuple[Process, str]:
        url = f"http://127.0.0.1:{port}"
        command: list[str | Path] = [
            locate("extender"),
            f"--address=127.0.0.1:{port}",
            f"--kubeconfig={control_plane.admin_kubeconfig}",
        ]
        process = Process(command, log)
        process.wait_ready(lambda: answers_ok(f"{url}/healthz"))
        return process, url

    process, url = start_on_free_ports(1, start)
    yield url
    process.stop()


@pytest.fixture
def stock_config(extender: str, tmp_path: Path) -> str:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "equipoise"}],
        "extenders": [
            {
                "urlPrefix": extender,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "bindVerb": "bind",
                "weight": 5,
                "httpTimeout": "20s",
                "managedResources": [{"name": "example.com/slot", "ignoredByScheduler": True}],
            }
        ],
    }
    path = tmp_path / "stock.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def in_rack(name: str, rack: str, cpu: str = "10m", **spec: Any) -> Json:
    """A pod that asks the extender for a rack; no node offers the resource it manages."""
    made = pod(name, cpu=cpu, **spec)
    made["metadata"]["annotations"] = {RACK: rack}
    made["spec"]["containers"][0]["resources"]["limits"] = {"example.com/slot": "1"}
    made["spec"]["containers"][0]["resources"]["requests"]["example.com/slot"] = "1"
    return made


async def racks(space: Workspace, cpu: str = "4") -> list[str]:
    """Four nodes: in no rack, in a, and two in b."""
    names = await space.add_nodes(4, cpu=cpu)
    for name, rack, rank in zip(names[1:], "abb", (10, 1, 9), strict=True):
        labels = {RACK: rack, RANK: str(rank)}
        await space.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    return names


async def test_it_filters_prioritizes_and_binds(
    space: Workspace, launch: Launch, stock_config: str
) -> None:
    _, rack_a, _, rack_b = await racks(space)
    launch("--config", stock_config, *NO_ELECTION)

    await space.create_pods([in_rack(f"a-{i}", "a") for i in range(5)])
    await space.create_pods([in_rack(f"b-{i}", "b") for i in range(5)])
    await space.create_pods([pod("plain"), in_rack("nowhere", "c")])

    for i in range(5):
        assert node_of(await space.wait_for_pod(f"a-{i}")) == rack_a
        assert node_of(await space.wait_for_pod(f"b-{i}")) == rack_b
    bound = await space.wait_for_pod("a-0")
    assert bound["metadata"]["annotations"][BOUND_BY] == "extender"
    plain = await space.wait_for_pod("plain")
    assert BOUND_BY not in plain["metadata"].get("annotations", {})
    rejected = await space.wait_for_pod("nowhere", lambda p: condition(p, "PodScheduled"))
    said = condition(rejected, "PodScheduled")
    assert said["reason"] == "Unschedulable"
    assert "1 node(s) were in no rack" in said["message"]
    assert "3 node(s) were in another rack" in said["message"]


async def test_it_trims_victims(space: Workspace, launch: Launch, stock_config: str) -> None:
    _, rack_a, *_ = await racks(space, cpu="1")
    await space.apply(priority_class(f"{space.name}-high", 1000))
    launch("--config", stock_config, *NO_ELECTION)
    await space.create_pods([pod(f"low-{i}", cpu="900m") for i in range(4)])
    await space.wait_for_pods(4)

    await space.create_pods(
        [in_rack("high", "a", cpu="900m", priorityClassName=f"{space.name}-high")]
    )

    assert node_of(await space.wait_for_pod("high")) == rack_a
    left = await space.wait_for_pods(4)
    assert rack_a not in {node_of(p) for p in left if p["metadata"]["name"] != "high"}
