"""Pods that cannot be placed say why, in kube-scheduler's words, and are placed once they can."""

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json, condition, is_bound, is_rejected, pod
from e2e.harness.workspace import Workspace


async def test_impossible_pod_is_explained_then_bound_when_a_node_fits(
    space: Workspace, launch: Launch
) -> None:
    await space.add_nodes(3, cpu="4")
    launch(*NO_ELECTION)
    await space.create_pods([pod("huge", cpu="64")])

    told = condition(await space.wait_for_pod("huge", is_rejected), "PodScheduled")
    assert told["status"] == "False"
    assert told["message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")

    events = await space.api.wait_until(
        space.events, lambda found: found["items"], fieldSelector="reason=FailedScheduling"
    )
    event = events["items"][0]
    assert event["note"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert (event["type"], event["action"]) == ("Warning", "Scheduling")
    assert event["reportingController"] == "equipoise"
    assert event["regarding"]["name"] == "huge"

    (large_node,) = await space.add_nodes(1, cpu="96")
    bound = await space.wait_for_pod("huge", is_bound)
    assert bound["spec"]["nodeName"] == large_node
    assert condition(bound, "PodScheduled")["status"] == "True"


async def test_reasons_of_different_nodes_are_counted_and_sorted(
    space: Workspace, launch: Launch
) -> None:
    cordoned, tainted, *_ = await space.add_nodes(5, cpu="4")
    await space.api.patch(f"/api/v1/nodes/{cordoned}", {"spec": {"unschedulable": True}})
    taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    await space.api.patch(f"/api/v1/nodes/{tainted}", {"spec": {"taints": [taint]}})
    launch(*NO_ELECTION)
    await space.create_pods([pod("huge", cpu="64", memory="1Ti")])

    told = condition(await space.wait_for_pod("huge", is_rejected), "PodScheduled")

    assert told["message"].startswith(
        "0/5 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable,"
        " 3 Insufficient cpu, 3 Insufficient memory."
    )


async def test_pod_waiting_for_room_is_bound_when_another_leaves(
    space: Workspace, launch: Launch
) -> None:
    await space.add_nodes(1, cpu="1")
    launch(*NO_ELECTION)
    await space.create_pods([pod("first", cpu="800m")])
    await space.wait_for_pod("first", is_bound)
    await space.create_pods([pod("second", cpu="800m")])
    await space.wait_for_pod("second", is_rejected)

    await space.api.delete(f"{space.pods}/first")

    await space.wait_for_pod("second", is_bound)


async def test_of_many_equal_pods_as_many_are_bound_as_fit_and_the_rest_is_told_once(
    space: Workspace, launch: Launch
) -> None:
    await space.add_nodes(1, cpu="1")
    launch(*NO_ELECTION)
    names = [f"huge-{number}" for number in range(60)]
    await space.create_pods([pod(name, cpu="8") for name in names])
    for name in names:
        await space.wait_for_pod(name, is_rejected)

    (large_node,) = await space.add_nodes(1, cpu="33")

    def four_are_bound(pods: Json) -> bool:
        return sum(map(is_bound, pods["items"])) == 4

    pods = await space.api.wait_until(space.pods, four_are_bound)
    assert {each["spec"].get("nodeName") for each in pods["items"]} == {None, large_node}

    def all_were_told(events: Json) -> bool:
        return {each["regarding"]["name"] for each in events["items"]} == set(names)

    events = await space.api.wait_until(
        space.events, all_were_told, fieldSelector="reason=FailedScheduling"
    )
    # Each at its first failure, and the first again whenever the new node was nearly ready.
    assert len(events["items"]) <= len(names) + 10
