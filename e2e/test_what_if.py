"""What a simulation says of the cluster as it is, is what then happens."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import NO_ELECTION
from e2e.harness.kubeconfig import token_user
from e2e.harness.objects import (
    HOSTNAME,
    ZONE,
    Json,
    deployment,
    is_bound,
    is_rejected,
    pod,
    priority_class,
)
from e2e.harness.workspace import Workspace

OURS = {"what-if": "yes"}
"""The nodes of these tests."""


def among(key: str, **more: object) -> Json:
    """About pods of the Deployment, in a domain of ``key``."""
    return {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": key, **more}


KINDS: dict[str, Json] = {
    "by what they request": {},
    "evenly over zones": {
        "topologySpreadConstraints": [
            among(ZONE, maxSkew=1, whenUnsatisfiable="DoNotSchedule"),
        ]
    },
    "one on each node": {
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [among(HOSTNAME)]}
        }
    },
}


async def equipoise(*arguments: str | Path) -> tuple[int, str, str]:
    """Run the program as a user does: exit code, output and complaints."""
    command = (sys.executable, "-m", "scheduler", *map(str, arguments))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    output, complaints = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), complaints.decode()


@pytest.mark.parametrize("kind", KINDS)
async def test_so_many_more_fit_as_are_then_bound(
    kind: str, control_plane: ControlPlane, space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    await space.add_nodes(5, cpu="2", zones=("a", "a", "b", "c", "c"), **OURS)
    launch(*NO_ELECTION)
    rules = {"nodeSelector": OURS, **KINDS[kind]}
    await space.apply(deployment("web", 2, cpu="300m", **rules))
    await space.wait_for_pods(2)
    workload = f"deployment/{space.name}/web"
    access = ("--kubeconfig", control_plane.admin_kubeconfig)

    code, output, _ = await equipoise(
        "simulate", "--from-cluster", *access, "--more", workload, "-o", "json"
    )

    assert code == 0
    more = json.loads(output)["more"]
    assert more["complete"]
    assert more["fit"] > 0
    snapshot = tmp_path / "cluster.json.zst"
    assert (await equipoise("snapshot", snapshot, *access))[0] == 0
    _, output, _ = await equipoise("simulate", "-f", snapshot, "--more", workload, "-o", "json")
    assert json.loads(output)["more"]["fit"] == more["fit"]

    replicas = 2 + more["fit"]
    await space.apply(deployment("web", replicas + 1, cpu="300m", **rules))
    pods = await space.wait_for_pods(replicas + 1, lambda each: is_bound(each) or is_rejected(each))
    assert sum(map(is_bound, pods)) == replicas


async def test_who_would_be_evicted_is(
    control_plane: ControlPlane, space: Workspace, launch: Launch
) -> None:
    (node,) = await space.add_nodes(1, cpu="2", **OURS)
    await space.apply(priority_class(f"{space.name}-high", 1000))
    low = [pod(f"low-{i}", cpu="900m", nodeSelector=OURS) for i in range(2)]
    scheduler = launch(*NO_ELECTION)
    await space.create_pods(low)
    await space.wait_for_pods(2)
    scheduler.process.stop()  # so that the pod waits until it was asked about
    high = pod("high", cpu="1", nodeSelector=OURS, priorityClassName=f"{space.name}-high")
    await space.create_pods([high])

    code, output, _ = await equipoise(
        *("simulate", "--from-cluster", "--kubeconfig", control_plane.admin_kubeconfig),
        *("--evict", "-o", "json"),
    )

    assert code == 0
    (eviction,) = json.loads(output)["evictions"]
    assert (eviction["by"], eviction["node"]) == (f"{space.name}/high", node)
    launch(*NO_ELECTION)
    victim = eviction["pod"].partition("/")[2]
    await space.api.wait_until_gone(f"{space.pods}/{victim}")
    assert (await space.wait_for_pod("high"))["spec"]["nodeName"] == node
    left = {each["metadata"]["name"] for each in await space.api.items(space.pods)}
    assert left == {"low-0", "low-1", "high"} - {victim}


async def test_without_the_right_to_list_nodes_nothing_is_said(
    control_plane: ControlPlane, api: ApiClient, space: Workspace
) -> None:
    accounts = f"/api/v1/namespaces/{space.name}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": "nobody"}})
    answer = await api.create(f"{accounts}/nobody/token", {"spec": {}})
    kubeconfig = control_plane.kubeconfig("nobody", token_user(answer["status"]["token"]))

    code, output, complaints = await equipoise(
        "simulate", "--from-cluster", "--kubeconfig", kubeconfig
    )

    assert (code, output) == (1, "")
    assert "403 Forbidden" in complaints
    assert "list" in complaints
