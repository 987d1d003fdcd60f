"""A gated pod is left alone until its last gate is removed."""

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import condition, is_bound, pod
from e2e.harness.workspace import Workspace


async def test_gated_pod_waits_until_the_last_gate_is_gone(
    space: Workspace, launch: Launch
) -> None:
    await space.add_nodes(2)
    launch(*NO_ELECTION)
    gates = [{"name": "example.com/quota"}, {"name": "example.com/image"}]
    await space.create_pods([pod("gated", schedulingGates=gates)])

    # Each pod bound later proves that the scheduler had every chance to take up the gated one.
    await space.create_pods([pod("passer-by-1")])
    await space.wait_for_pod("passer-by-1", is_bound)
    await space.api.patch(f"{space.pods}/gated", {"spec": {"schedulingGates": gates[:1]}})
    await space.create_pods([pod("passer-by-2")])
    await space.wait_for_pod("passer-by-2", is_bound)
    gated = await space.api.get(f"{space.pods}/gated")
    assert not is_bound(gated)
    assert condition(gated, "PodScheduled")["reason"] == "SchedulingGated"
    assert await space.events_with_reason("FailedScheduling") == []

    await space.api.patch(f"{space.pods}/gated", {"spec": {"schedulingGates": []}})

    await space.wait_for_pod("gated", is_bound)
