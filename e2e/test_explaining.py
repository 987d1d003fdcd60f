"""What `explain` says of pods on a real API server: never that they go where they do not."""

from pathlib import Path

import aiohttp

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.election import NO_ELECTION
from e2e.harness.groups import define_podgroups, group, member, with_coscheduling
from e2e.harness.objects import HOSTNAME, Json, is_rejected, is_running, pod, priority_class
from e2e.harness.scheduler import SchedulerProcess
from e2e.harness.workspace import Workspace


async def explained(scheduler: SchedulerProcess, space: Workspace, name: str) -> Json:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{scheduler.url}/api/v1/explain?pod={space.name}/{name}") as answer,
    ):
        said: Json = await answer.json()
    return said


async def test_pods_that_wait_are_not_said_to_go_to_a_node(
    space: Workspace, launch: Launch, api: ApiClient, tmp_path: Path
) -> None:
    await define_podgroups(api)
    first, second = await space.add_nodes(2, cpu="2")
    urgent = f"{space.name}-urgent"
    await space.apply(priority_class(urgent, 1000, policy="Never"), group("pair", 2))
    scheduler = launch(*NO_ELECTION, with_coscheduling(tmp_path))
    await space.create_pods([pod("low", cpu="2", nodeSelector={HOSTNAME: first})])
    await space.wait_for_pod("low", is_running)

    gates = [{"name": "example.com/quota"}]
    await space.create_pods(
        [
            pod("gated", cpu="1", schedulingGates=gates),
            member("pair-1", "pair", cpu="2"),
            member("pair-2", "pair", cpu="2"),
            pod("never", cpu="2", priorityClassName=urgent, nodeSelector={HOSTNAME: first}),
        ]
    )
    for name in ("pair-1", "pair-2", "never"):
        await space.wait_for_pod(name, is_rejected)

    gated = await explained(scheduler, space, "gated")
    assert (gated["node"], gated["wouldGoTo"]) == (None, second)
    assert gated["standing"]["plugins"] == ["SchedulingGates"]
    for name in ("pair-1", "pair-2"):
        one = await explained(scheduler, space, name)
        assert (one["node"], one["standing"]["state"]) == (None, "group")
        assert "1 of 2 members can be placed" in one["standing"]["message"]
    never = await explained(scheduler, space, "never")
    assert never["node"] is None
    assert "preemptionPolicy=Never" in never["preemption"]["message"]
    low = await explained(scheduler, space, "low")
    assert (low["boundTo"], low["standing"]["state"]) == (first, "bound")
