"""Two replicas: one leads, the other takes over, and no pod is bound twice or lost."""

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter

from e2e.conftest import Launch
from e2e.harness.election import PATIENT_ELECTION, QUICK_ELECTION, holder, wait_for_leader
from e2e.harness.objects import Json, is_bound, pod
from e2e.harness.patience import PATIENCE
from e2e.harness.scheduler import LEASE, SchedulerProcess
from e2e.harness.workspace import Workspace


async def test_standby_takes_over_when_the_leader_is_killed(
    space: Workspace, launch: Launch
) -> None:
    nodes = await space.add_nodes(30, cpu="2")
    leader = launch(*QUICK_ELECTION)
    first_leader = await wait_for_leader(space.api)
    # It waits for as long as the leader's lease says, and keeps its own for longer.
    launch(*PATIENT_ELECTION)

    await space.create_pods([pod(f"before-{number}", cpu="200m") for number in range(200)])
    await space.api.wait_until(
        space.pods, lambda pods: sum(map(is_bound, pods["items"])) >= 20, resourceVersion="0"
    )
    leader.process.kill()
    await space.create_pods([pod(f"after-{number}", cpu="200m") for number in range(100)])

    await wait_for_leader(space.api, other_than=first_leader)
    # Ten pods of 200m fill a node of 2 CPUs: a placement that one replica made and the other did
    # not know of would leave a node with more than ten, or a pod without a place.
    pods = await space.wait_for_pods(300)
    assert Counter(each["spec"]["nodeName"] for each in pods) == dict.fromkeys(nodes, 10)
    await assert_no_pod_was_bound_twice(space, pods)


async def assert_no_pod_was_bound_twice(space: Workspace, pods: list[Json]) -> None:
    """Every pod has at most one Scheduled event (the killed leader may owe its last few) and it
    names the node where the pod is; pods that only the second leader can have bound have one."""
    node_of = {each["metadata"]["uid"]: each["spec"]["nodeName"] for each in pods}
    late = {
        each["metadata"]["uid"] for each in pods if each["metadata"]["name"].startswith("after")
    }

    def all_told(events: Json) -> bool:
        return {event["regarding"]["uid"] for event in events["items"]} >= late

    answer = await space.api.wait_until(space.events, all_told, fieldSelector="reason=Scheduled")
    events: list[Json] = answer["items"]
    assert max(Counter(event["regarding"]["uid"] for event in events).values()) == 1
    for event in events:
        assert event.get("series") is None
        assert event["note"].endswith(f" to {node_of[event['regarding']['uid']]}")


async def test_leader_that_is_asked_to_stop_releases_the_lease(
    space: Workspace, launch: Launch
) -> None:
    leader = launch(*PATIENT_ELECTION)
    await wait_for_leader(space.api)

    leader.process.send(signal.SIGTERM)

    assert leader.process.wait() == 0
    assert holder(await space.api.get(LEASE)) == ""


async def decisions(*replicas: SchedulerProcess) -> subprocess.CompletedProcess[str]:
    """``equipoise decisions``, asking these."""
    servers = (part for each in replicas for part in ("--server", each.url))
    command = [sys.executable, "-m", "scheduler", "decisions", "-o", "json", *servers]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


async def test_commands_find_the_leader_and_tell_a_standby_from_it(
    space: Workspace, launch: Launch
) -> None:
    await space.add_nodes(1)
    first = launch(*PATIENT_ELECTION)
    identity = await wait_for_leader(space.api)
    second = launch(*PATIENT_ELECTION)
    await space.create_pods([pod("before")])
    await space.wait_for_pod("before")

    # A replica that has just started has not read the lease yet.
    while not (asked := await decisions(second)).returncode:
        assert "there is no leader yet" in asked.stderr
    assert (asked.returncode, asked.stdout) == (1, "")
    assert f"is a standby: the leader is {identity}" in asked.stderr

    found = await decisions(second, first)
    assert (found.returncode, found.stderr) == (0, "")
    answer = json.loads(found.stdout)
    assert answer["replica"] == {"identity": identity, "leading": True, "leader": identity}
    assert [each["pod"] for each in answer["decisions"]] == [f"{space.name}/before"]

    first.process.send(signal.SIGTERM)
    assert first.process.wait() == 0
    await wait_for_leader(space.api, other_than=identity)
    await space.create_pods([pod("after")])
    await space.wait_for_pod("after")
    taken_over = json.loads((await decisions(first, second)).stdout)
    assert [each["pod"] for each in taken_over["decisions"]] == [f"{space.name}/after"]
