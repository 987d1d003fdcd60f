"""Gangs on a real API server: all of their members run, or none has a node."""

import random
from collections import Counter
from pathlib import Path

import pytest

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.election import NO_ELECTION
from e2e.harness.groups import (
    define_podgroups,
    group,
    group_of,
    member,
    with_coscheduling,
)
from e2e.harness.objects import Json, condition, is_bound, is_rejected, is_running
from e2e.harness.workspace import Workspace


@pytest.fixture(autouse=True)
async def defined(api: ApiClient) -> None:
    await define_podgroups(api)


def groups_path(space: Workspace) -> str:
    return f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{space.name}/podgroups"


async def wait_for_phase(space: Workspace, name: str, phase: str) -> Json:
    return await space.api.wait_until(
        f"{groups_path(space)}/{name}",
        lambda seen: seen.get("status", {}).get("phase") == phase,
    )


def bound_by_group(pods: list[Json]) -> Counter[str]:
    return Counter(group_of(each) for each in pods if is_bound(each))


async def test_two_gangs_and_room_for_one_and_a_half(
    space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    await space.add_nodes(3, cpu="2")
    launch(*NO_ELECTION, with_coscheduling(tmp_path))
    await space.apply(group("red", 4), group("blue", 4))
    # Interleaved: tried one by one, each gang would take half of what is there.
    pods = [member(f"{name}-{number}", name) for number in range(4) for name in ("red", "blue")]
    for each in pods:
        await space.create_pods([each])

    def is_settled(each: Json) -> bool:
        return is_running(each) or is_rejected(each)

    seen = await space.wait_for_pods(8, is_settled)
    (first,) = bound_by_group(seen)
    assert bound_by_group(seen) == {first: 4}
    second = "red" if first == "blue" else "blue"
    for each in seen:
        if group_of(each) == second:
            message = condition(each, "PodScheduled")["message"]
            assert message.startswith(f"pod group {space.name}/{second}: 2 of 4 members can be")
            assert "0/3 nodes are available: 3 Insufficient cpu." in message
    running = await wait_for_phase(space, first, "Running")
    assert running["status"]["running"] == running["status"]["scheduled"] == 4
    waiting = await wait_for_phase(space, second, "Scheduling")
    assert waiting["status"]["scheduled"] == 0
    assert not running["metadata"].get("finalizers")
    assert not running["metadata"].get("annotations")

    for each in seen:
        if group_of(each) == first:
            path = f"{space.pods}/{each['metadata']['name']}"
            await space.api.delete(path, gracePeriodSeconds="0")

    after = await space.wait_for_pods(4, is_running)
    assert {group_of(each) for each in after} == {second}
    await wait_for_phase(space, second, "Running")


async def test_fifty_gangs_at_130_percent_demand(
    space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    nodes, each_node, gangs = 20, 8, 50
    await space.add_nodes(nodes, cpu=str(each_node))
    launch(*NO_ELECTION, with_coscheduling(tmp_path))
    chance = random.Random(7)
    sizes = {f"gang-{number}": chance.choice((2, 3, 4, 5, 7)) for number in range(gangs)}
    while sum(sizes.values()) < 1.3 * nodes * each_node:
        sizes[chance.choice(list(sizes))] += 1
    await space.apply(*(group(name, size) for name, size in sizes.items()))
    members = [
        member(f"{name}-{number}", name) for name, size in sizes.items() for number in range(size)
    ]
    chance.shuffle(members)
    await space.create_pods(members)

    finished = 0
    while finished < gangs:
        # A gang that runs is whole; a whole gang ends, and frees its nodes for others.
        whole = await some_whole_gangs(space, sizes)
        for name in whole:
            await space.api.delete(
                space.pods,
                labelSelector=f"scheduling.x-k8s.io/pod-group={name}",
                gracePeriodSeconds="0",
            )
            await space.api.delete(f"{groups_path(space)}/{name}")
            del sizes[name]
        finished += len(whole)
    assert await space.api.items(space.pods) == []


async def some_whole_gangs(space: Workspace, sizes: dict[str, int]) -> list[str]:
    """Wait until the cluster is settled: no gang is partly bound, and at least one runs."""

    def settled(pods: Json) -> bool:
        bound = bound_by_group(pods["items"])
        return bool(bound) and all(bound[name] == sizes.get(name) for name in bound)

    answer = await space.api.wait_until(space.pods, settled)
    return list(bound_by_group(answer["items"]))[:5]


async def test_a_job_is_a_gang_and_its_status_follows(
    space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    await space.add_nodes(1, cpu="2")
    launch(*NO_ELECTION, with_coscheduling(tmp_path))
    template = member("unnamed", "training")
    spec = {**template["spec"], "restartPolicy": "Never"}
    labels = template["metadata"]["labels"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "training"},
        "spec": {
            "parallelism": 3,
            "completions": 3,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    # Members may come before their group.
    await space.apply(job)
    gated = await space.wait_for_pods(3, lambda _: True)
    assert not any(map(is_bound, gated))
    await space.apply(group("training", 3))
    await space.wait_for_pods(3, is_rejected)
    await space.add_nodes(1, cpu="1")
    done = await wait_for_phase(space, "training", "Finished")
    assert done["status"]["succeeded"] == 3
    assert done["status"]["occupiedBy"] == f"{space.name}/training"


async def test_a_member_is_replaced_in_the_middle_of_it(
    space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    await space.add_nodes(1, cpu="4")
    launch(*NO_ELECTION, with_coscheduling(tmp_path))
    await space.apply(group("g", 3, scheduleTimeoutSeconds=30))
    await space.create_pods([member("a", "g"), member("b", "g")])
    await space.api.delete(f"{space.pods}/b", gracePeriodSeconds="0")
    await space.create_pods([member("c", "g")])
    assert not any(map(is_bound, await space.api.items(space.pods)))
    await space.create_pods([member("d", "g")])
    await space.wait_for_pods(3, is_running)
