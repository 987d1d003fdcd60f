"""Pods are bound; a pod that fits nowhere says why and waits for just the event that cures it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import Json, PodBuilder, make_node, make_pod, make_worker, requirement, term
from tests.daemon.support import (
    Cluster,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
)


async def test_pods_are_bound_once_and_say_so(cluster: Cluster) -> None:
    cluster.add(*(make_worker(f"n{number}") for number in range(5)))
    async with running_daemon(cluster) as replica:
        names = cluster.submit_many(50, lambda name: make_pod(name).cpu("200m"), "p")
        await expect_bound(cluster, *names)
        await eventually(
            lambda: all(len(cluster.events(name, "Scheduled")) == 1 for name in names),
            "a Scheduled event for each pod",
        )
        assert replica.sample("scheduler_schedule_attempts_total", **SCHEDULED) == 50
    for name in names:
        (event,) = cluster.events(name, "Scheduled")
        assert event["note"] == f"Successfully assigned default/{name} to {cluster.node_of(name)}"
        assert (event["type"], event["action"]) == ("Normal", "Binding")
        assert "series" not in event


async def test_pods_that_were_there_before_the_scheduler_are_bound(cluster: Cluster) -> None:
    names = cluster.submit_many(10, make_pod, "early")
    cluster.add(make_worker("n"))
    async with running_daemon(cluster):
        await expect_bound(cluster, *names)


async def test_pods_of_other_schedulers_are_left_alone_but_counted(cluster: Cluster) -> None:
    cluster.add(make_worker("n").pods("1"))
    cluster.submit(make_pod("theirs").scheduler("default-scheduler"))
    async with running_daemon(cluster) as replica:
        cluster.bind("theirs", "n")
        await eventually(lambda: replica.daemon.core.state.pod_count == 1)
        cluster.submit(make_pod("ours"))
        message = await expect_pending(cluster, replica, "ours")
        assert message.startswith("0/1 nodes are available: 1 Too many pods.")


async def test_a_pod_that_fits_nowhere_says_why(cluster: Cluster) -> None:
    cluster.add(make_worker("a"), make_worker("b").cordoned(), make_worker("c").taint("dedicated"))
    async with running_daemon(cluster) as replica:
        cluster.submit(make_pod("giant").cpu("100"))
        message = await expect_pending(cluster, replica, "giant")
        assert message.startswith(
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
            "1 node(s) were unschedulable."
        )
        await eventually(lambda: bool(cluster.events("giant", "FailedScheduling")))
        (event,) = cluster.events("giant", "FailedScheduling")
        assert (event["type"], event["action"], event["note"]) == ("Warning", "Scheduling", message)


async def test_an_empty_cluster_says_so_and_its_first_node_is_used(cluster: Cluster) -> None:
    async with running_daemon(cluster) as replica:
        cluster.submit(make_pod("p"))
        message = await expect_pending(cluster, replica, "p")
        assert message == "no nodes available to schedule pods"
        cluster.add(make_worker("n"))
        await expect_bound(cluster, "p")


async def test_gated_pods_wait_without_an_attempt(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster) as replica:
        cluster.submit(make_pod("held").gate("example.com/approval"), make_pod("free"))
        await expect_bound(cluster, "free")
        entry = replica.queued("held")
        assert entry is not None
        assert (entry.tier, entry.attempts) == ("gated", 0)
        cluster.change_pod("held", lambda pod: pod["spec"].pop("schedulingGates"))
        await expect_bound(cluster, "held")


# One node with one defect for each way to be rejected, and a pod that may only go there. All
# others must sleep through the cure, since nothing changed for them.


def only_on(node: str) -> PodBuilder:
    named = term(fields=(requirement("metadata.name", "In", node),))
    return make_pod(f"wants-{node}").cpu("2").required(named)


def uncordon(cluster: Cluster) -> None:
    cluster.change_node("cordoned", lambda node: node["spec"].pop("unschedulable"))


def untaint(cluster: Cluster) -> None:
    cluster.change_node("tainted", lambda node: node["spec"].pop("taints"))


def label(cluster: Cluster) -> None:
    cluster.change_node("plain", lambda node: node["metadata"].update(labels={"disk": "ssd"}))


def grow(cluster: Cluster) -> None:
    cluster.change_node("small", lambda node: node["status"]["allocatable"].update(cpu="4"), STATUS)


def make_room(cluster: Cluster) -> None:
    cluster.delete_pod("resident")


def join(cluster: Cluster) -> None:
    cluster.add(make_worker("absent"))


STATUS = "status"
UNSCHEDULABLE = {"result": "unschedulable", "profile": "equipoise"}
SCHEDULED = {"result": "scheduled", "profile": "equipoise"}
CURES: dict[str, Callable[[Cluster], Any]] = {
    "cordoned": uncordon,
    "tainted": untaint,
    "plain": label,
    "small": grow,
    "full": make_room,
    "absent": join,
}


@pytest.mark.parametrize("cured", CURES)
async def test_an_event_wakes_those_it_may_cure_and_nobody_else(
    cluster: Cluster, cured: str
) -> None:
    cluster.add(
        make_worker("cordoned").cordoned(),
        make_worker("tainted").taint("dedicated"),
        make_worker("plain"),
        make_node("small").cpu("1").memory("16Gi"),
        make_worker("full"),
    )
    cluster.submit(make_pod("resident").cpu("4"))
    cluster.bind("resident", "full")
    async with running_daemon(cluster) as replica:
        pods = {node: only_on(node) for node in CURES}
        pods["plain"].node_selector(disk="ssd")
        cluster.submit(*pods.values())
        for node in CURES:
            await expect_pending(cluster, replica, f"wants-{node}")
        before = {node: replica.attempts(f"wants-{node}") for node in CURES}
        CURES[cured](cluster)
        await expect_bound(cluster, f"wants-{cured}")
        assert cluster.node_of(f"wants-{cured}") == cured
        await replica.settled()
        after = {node: replica.attempts(f"wants-{node}") for node in CURES if node != cured}
        tried = {node for node, attempts in after.items() if attempts > before[node]}
        assert tried == set()
        assert cluster.bound().keys() - {"resident"} == {f"wants-{cured}"}


async def test_a_pod_that_is_changed_may_cure_itself(cluster: Cluster) -> None:
    cluster.add(make_worker("n").taint("dedicated"))
    async with running_daemon(cluster) as replica:
        cluster.submit(make_pod("p"))
        await expect_pending(cluster, replica, "p")

        def tolerate(pod: Json) -> None:
            pod["spec"]["tolerations"].append({"key": "dedicated", "operator": "Exists"})

        cluster.change_pod("p", tolerate)
        await expect_bound(cluster, "p")


async def test_a_removed_node_is_no_longer_used(cluster: Cluster) -> None:
    cluster.add(make_worker("stays").pods("1"), make_worker("goes"))
    async with running_daemon(cluster) as replica:
        cluster.remove_node("goes")
        await eventually(lambda: replica.daemon.core.state.node_count == 1)
        cluster.submit(make_pod("a"), make_pod("b"))
        await eventually(lambda: len(cluster.bound()) == 1)
        waiting = "a" if cluster.node_of("b") else "b"
        await expect_pending(cluster, replica, waiting)
        assert set(cluster.bound().values()) == {"stays"}


async def test_many_equal_pods_cost_few_words_and_as_many_follow_as_fit(cluster: Cluster) -> None:
    cluster.add(make_node("small").cpu("1"))
    async with running_daemon(cluster) as replica:
        names = cluster.submit_many(120, lambda name: make_pod(name).cpu("2"), "p")
        await eventually(
            lambda: all(cluster.events(name, "FailedScheduling") for name in names),
            "an event for each pod",
        )
        await eventually(
            lambda: replica.requests("PATCH", 200) == len(names), "a condition for each pod"
        )
        await replica.settled()
        assert replica.daemon.core.queue.view.counts()["unschedulable"] == len(names)
        attempts = replica.sample("scheduler_schedule_attempts_total", **UNSCHEDULABLE)
        assert attempts == len(names)

        cluster.add(make_node("large").cpu("10"))
        await eventually(lambda: len(cluster.bound()) == 5, "as many as fit")
        await replica.settled()
        tried = replica.sample("scheduler_schedule_attempts_total", **UNSCHEDULABLE) - attempts
        assert tried <= 1, "none at all, if the next one is looked at before its back-off ends"
        assert replica.requests("PATCH", 200) <= len(names) + 2
        await replica.agrees_with_the_cluster()
