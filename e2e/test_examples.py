"""Every manifest of ``deploy/examples`` does what its comment says."""

from collections import Counter
from pathlib import Path

import pytest

from e2e.conftest import Launch
from e2e.harness.devices import (
    GPU,
    NIC,
    Ledger,
    board,
    claims_in,
    gpu,
    ledger,
    resource_slice,
    results_of,
)
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


async def devices_selector(space: Workspace, objects: list[Json]) -> None:
    small, old, right = await space.add_nodes(3)
    await space.apply(
        resource_slice(small, [gpu("gpu-0", "24Gi"), gpu("gpu-1", "24Gi")]),
        resource_slice(old, [gpu("gpu-0", "80Gi", "volta")]),
        resource_slice(right, [gpu("gpu-0", "40Gi", "ampere"), gpu("gpu-1", "80Gi")]),
    )
    await space.apply(*objects)
    pods = await space.wait_for_pods(2, is_running)
    assert {node_of(pod) for pod in pods} == {right}
    await adds_up(space)


async def devices_shared(space: Workspace, objects: list[Json]) -> None:
    (node,) = await space.add_nodes(1)
    shared = [gpu("gpu-0", "80Gi", allowMultipleAllocations=True)]
    await space.apply(resource_slice(node, shared))
    await space.apply(*objects)
    await space.wait_for_pods(4, is_running)
    claims = await space.api.items(claims_in(space.name))
    taken = [result["consumedCapacity"] for each in claims for result in results_of(each)]
    assert taken == [{"memory": "20Gi"}] * 4
    await adds_up(space)


async def devices_partitions(space: Workspace, objects: list[Json]) -> None:
    (node,) = await space.add_nodes(1)
    await space.apply(*board(node))
    await space.apply(*objects)

    # Two halves are the whole board: the third pod waits.
    def is_settled(pod: Json) -> bool:
        return is_running(pod) or is_rejected(pod)

    pods = await space.wait_for_pods(3, is_settled)
    assert sum(map(is_running, pods)) == 2
    await adds_up(space)


async def devices_one_switch(space: Workspace, objects: list[Json]) -> None:
    apart, together = await space.add_nodes(2)
    for node, switches in ((apart, ("a", "b")), (together, ("b", "b"))):
        for driver, name, switch in zip((GPU, NIC), ("gpu-0", "nic-0"), switches, strict=True):
            attributes = {"topology.example.com/switch": {"string": switch}}
            device = {"name": name, "attributes": attributes}
            await space.apply(resource_slice(node, [device], driver=driver))
    await space.apply(*objects)
    (pod,) = await space.wait_for_pods(1, is_running)
    assert node_of(pod) == together
    await adds_up(space)


async def devices_extended_resource(space: Workspace, objects: list[Json]) -> None:
    (node,) = await space.add_nodes(1)
    await space.apply(resource_slice(node, [gpu("gpu-0"), gpu("gpu-1")]))
    await space.apply(*objects)
    pods = await space.wait_for_pods(2, is_running)
    assert all(pod["status"]["extendedResourceClaimStatus"] for pod in pods)
    await adds_up(space)


async def adds_up(space: Workspace) -> None:
    """No device was given away twice, and each pod has its own."""
    assert await ledger(space.api, space.name) == Ledger([], [], [], [], [])


PROMISES = {
    "devices-selector": devices_selector,
    "devices-shared": devices_shared,
    "devices-partitions": devices_partitions,
    "devices-one-switch": devices_one_switch,
    "devices-extended-resource": devices_extended_resource,
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
