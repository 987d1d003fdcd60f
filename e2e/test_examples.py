"""Every manifest of ``deploy/examples`` does what its comment says."""

from collections import Counter
from pathlib import Path

import pytest

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.groups import define_podgroups, with_coscheduling
from e2e.harness.manifests import read_manifest
from e2e.harness.objects import Json, is_rejected, is_running, node_of
from e2e.harness.storage import storage_class, volume
from e2e.harness.workspace import Workspace

DIRECTORY = Path(__file__).parents[1] / "deploy" / "examples"
BACKLOG = DIRECTORY / "batch.yaml"
STORY = DIRECTORY / "cost-model.yaml"
"""Needs a configuration of its own: `test_cost_model` has it."""
EXAMPLES = sorted(set(DIRECTORY.glob("*.yaml")) - {BACKLOG, STORY})

ZONES = ("a", "b", "c")


def of(app: str, pods: list[Json]) -> list[Json]:
    return [pod for pod in pods if pod["metadata"]["labels"]["app"] == app]


async def deployment(space: Workspace, objects: list[Json]) -> None:
    await space.add_nodes(2)
    await space.apply(*objects)
    await space.wait_for_pods(3, is_running)


async def statefulset(space: Workspace, objects: list[Json]) -> None:
    node, _ = await space.add_nodes(2)
    default = f"{space.name}-default"
    volumes = [volume(f"{default}-{number}", node, default) for number in range(3)]
    await space.apply(storage_class(default, default=True), *volumes)
    await space.apply(*objects)
    pods = await space.wait_for_pods(3, is_running)
    assert {node_of(pod) for pod in pods} == {node}


async def spread_and_affinity(space: Workspace, objects: list[Json]) -> None:
    nodes = await space.add_nodes(6, zones=ZONES)
    zone = dict(zip(nodes, ZONES * 2, strict=True))
    await space.apply(*objects)
    pods = await space.wait_for_pods(8, is_running)
    assert len({node_of(pod) for pod in of("cache", pods)}) == 2
    frontends = Counter(zone[node_of(pod)] for pod in of("frontend", pods))
    assert frontends == dict.fromkeys(ZONES, 2)


async def preemption(space: Workspace, objects: list[Json]) -> None:
    *batch, urgent = objects
    await space.add_nodes(2, cpu="2")
    await space.apply(*batch)
    await space.wait_for_pods(4, is_running)
    await space.apply(urgent)

    def is_settled(pod: Json) -> bool:
        return is_running(pod) or (bool(of("batch", [pod])) and is_rejected(pod))

    pods = await space.wait_for_pods(5, is_settled)
    assert sum(map(is_running, of("batch", pods))) == 2


async def numa(space: Workspace, objects: list[Json]) -> None:
    await space.add_nodes(2, cpu="8")
    await space.apply(*objects)
    pods = await space.wait_for_pods(2, is_running)
    assert {pod["status"]["qosClass"] for pod in pods} == {"Guaranteed"}


async def gang(space: Workspace, objects: list[Json]) -> None:
    await space.add_nodes(1, cpu="2")
    await space.apply(*objects)
    await space.wait_for_pods(3, is_rejected)
    # There was room for two, and none of them took it.
    await space.add_nodes(1, cpu="1")
    jobs = f"/apis/batch/v1/namespaces/{space.name}/jobs/training"
    await space.api.wait_until(jobs, lambda job: job["status"].get("succeeded") == 3)


PROMISES = {
    "gang": gang,
    "deployment": deployment,
    "statefulset": statefulset,
    "spread-and-affinity": spread_and_affinity,
    "preemption": preemption,
    "numa": numa,
}


@pytest.mark.parametrize("manifest", EXAMPLES, ids=lambda manifest: manifest.stem)
async def test_example(space: Workspace, launch: Launch, manifest: Path, tmp_path: Path) -> None:
    await define_podgroups(space.api)
    launch(*NO_ELECTION, with_coscheduling(tmp_path))
    await PROMISES[manifest.stem](space, await read_manifest(manifest))


async def test_example_of_a_backlog(space: Workspace, launch: Launch, tmp_path: Path) -> None:
    fast = await space.add_nodes(2, cpu="8", pool="fast")
    await space.add_nodes(2, cpu="8")
    await space.apply(*await read_manifest(BACKLOG))
    # How soon a controller makes them all is not what this is about.
    await space.wait_for_pods(60, lambda _: True)
    await define_podgroups(space.api)
    launch(*NO_ELECTION, with_coscheduling(tmp_path, batch={"enabled": True}))
    pods = await space.wait_for_pods(60, is_running)
    assert {node_of(pod) for pod in of("bound", pods)} <= set(fast)
