"""Pods of high priority get the room of others, and no more of it than they need."""

import asyncio
from collections.abc import AsyncIterator, Callable

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import (
    HOSTNAME,
    Json,
    condition,
    deployment,
    is_rejected,
    is_running,
    node_of,
    pod,
    priority_class,
)
from e2e.harness.patience import PATIENCE
from e2e.harness.workspace import Workspace


def budget(app: str, min_available: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}},
    }


async def history(
    events: AsyncIterator[Json], until: Callable[[Json], bool]
) -> dict[str, list[Json]]:
    """All that is seen of each pod, oldest first, until something holds of one of them."""
    seen: dict[str, list[Json]] = {}
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            current = event["object"]
            seen.setdefault(current["metadata"]["name"], []).append(current)
            if until(current):
                break
    return seen


async def test_the_least_important_pod_goes_and_a_budget_is_kept(
    space: Workspace, launch: Launch
) -> None:
    guarded, open_to_all = await space.add_nodes(2, cpu="2")
    important, polite, minor = (f"{space.name}-{name}" for name in ("vip", "polite", "minor"))
    await space.apply(
        priority_class(important, 1000),
        priority_class(polite, 1000, policy="Never"),
        priority_class(minor, 10),
        budget("guarded", min_available=2),
    )
    launch(*NO_ELECTION)

    def low(name: str, node: str, **spec: str) -> Json:
        labels = {"app": name.partition("-")[0]}
        return pod(name, cpu="1", labels=labels, nodeSelector={HOSTNAME: node}, **spec)

    # But for the budget, either pod of the guarded node would be less of a loss than `minor`.
    await space.create_pods(
        [
            low("guarded-1", guarded),
            low("guarded-2", guarded),
            low("minor", open_to_all, priorityClassName=minor),
            low("major", open_to_all, priorityClassName=polite),
        ]
    )
    await space.wait_for_pods(4, is_running)
    watched = f"/apis/policy/v1/namespaces/{space.name}/poddisruptionbudgets/guarded"
    await space.api.wait_until(watched, lambda pdb: pdb["status"].get("currentHealthy") == 2)

    await space.create_pods([pod("patient", cpu="1", priorityClassName=polite)])
    told = condition(await space.wait_for_pod("patient", is_rejected), "PodScheduled")
    assert told["message"] == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate,"
        " preemption: not eligible due to preemptionPolicy=Never."
    )
    await space.api.delete(f"{space.pods}/patient")

    def vip_runs(pod: Json) -> bool:
        return pod["metadata"]["name"] == "vip" and is_running(pod)

    async with space.api.watch(space.pods) as events:
        await space.create_pods([pod("vip", cpu="1", priorityClassName=important)])
        seen = await history(events, until=vip_runs)

    assert node_of(seen["vip"][-1]) == open_to_all
    nominated = {each["status"].get("nominatedNodeName") for each in seen["vip"]}
    assert nominated == {None, open_to_all}
    left = {each["metadata"]["name"] for each in await space.api.items(space.pods)}
    assert left == {"guarded-1", "guarded-2", "major", "vip"}
    target = condition(seen["minor"][-1], "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert target["message"] == "equipoise: preempting to accommodate a higher priority pod"
    recorded = await space.api.wait_until(
        space.events, lambda found: found["items"], fieldSelector="reason=Preempted"
    )
    (event,) = recorded["items"]
    uid = seen["vip"][-1]["metadata"]["uid"]
    assert event["regarding"]["name"] == "minor"
    assert event["note"] == f"Preempted by pod {uid} on node {open_to_all}"


async def test_many_pods_preempt_no_more_than_they_need(space: Workspace, launch: Launch) -> None:
    await space.add_nodes(5, cpu="4")
    important = f"{space.name}-vip"
    await space.apply(priority_class(important, 1000))
    launch(*NO_ELECTION)
    await space.create_pods([pod(f"low-{number}", cpu="1") for number in range(20)])
    await space.wait_for_pods(20, is_running)

    await space.apply(deployment("vip", 10, cpu="1", priorityClassName=important))

    await space.api.wait_until(
        f"{space.deployments}/vip", lambda found: found["status"].get("availableReplicas") == 10
    )
    pods = await space.api.items(space.pods)
    assert sum(each["metadata"]["name"].startswith("low") for each in pods) == 10
