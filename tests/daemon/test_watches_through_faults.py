"""The daemon follows its cluster through cut, silent and outdated watches, and through restarts."""

from __future__ import annotations

import pytest

from tests.builders import Json, make_pod, make_worker
from tests.daemon.support import (
    Cluster,
    Replica,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
)

PODS = r"/pods$"


def restarts(replica: Replica, kind: str, reason: str) -> float:
    return replica.sample("equipoise_watch_restarts_total", kind=kind, reason=reason)


async def test_cut_watches_lose_nothing(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster) as replica:
        names: list[str] = []
        for turn in range(3):
            await eventually(lambda: cluster.faults.cut_watches(PODS) > 0)
            names += cluster.submit_many(5, make_pod, f"turn-{turn}")
            await expect_bound(cluster, *names)
        assert restarts(replica, "Pod", "cut") == 3


async def test_changes_behind_a_compaction_are_found_by_listing(cluster: Cluster) -> None:
    cluster.add(make_worker("a"), make_worker("b"))
    names = cluster.submit_many(4, make_pod, "old")
    async with running_daemon(cluster) as replica:
        await expect_bound(cluster, *names)

        def meanwhile() -> None:
            cluster.delete_pod(names[0])
            cluster.remove_node("a")
            cluster.add(make_worker("c").pods("1"))
            cluster.submit(make_pod("theirs").scheduler("default-scheduler"))
            cluster.bind("theirs", "c")
            cluster.faults.compact()

        await cluster.restart(meanwhile)
        state = replica.daemon.core.state
        await eventually(lambda: set(state.names()) == {"b", "c"})
        await eventually(lambda: len(state.pods_on("c")) == 1 and state.pod_count == 4)
        cluster.submit(make_pod("new"))
        await expect_bound(cluster, "new")
        assert cluster.node_of("new") == "b"
        assert restarts(replica, "Pod", "gone") == 1


async def test_a_node_that_was_replaced_behind_our_back_is_a_new_node(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    cluster.submit(make_pod("p").cpu("8"))
    async with running_daemon(cluster) as replica:
        await expect_pending(cluster, replica, "p")

        def meanwhile() -> None:
            cluster.remove_node("n")
            cluster.add(make_worker("n").cpu("16"))
            cluster.faults.compact()

        await cluster.restart(meanwhile)
        await expect_bound(cluster, "p")


async def test_a_silent_watch_is_noticed(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, watch_idle_seconds=0.3) as replica:
        await eventually(lambda: cluster.faults.watches >= 2)
        cluster.faults.silence_watches()
        cluster.submit(make_pod("p"))
        await eventually(lambda: restarts(replica, "Pod", "silent") >= 1)
        cluster.faults.resume_watches()
        await expect_bound(cluster, "p")


async def test_pods_created_while_the_api_server_is_away_are_bound(cluster: Cluster) -> None:
    cluster.add(*(make_worker(f"n{number}") for number in range(4)))
    async with running_daemon(cluster):
        first = cluster.submit_many(100, make_pod, "before")
        # In the middle: some are bound, some under way, some not yet seen.
        await eventually(lambda: len(cluster.bound()) > 10)
        later: list[str] = []
        await cluster.restart(lambda: later.extend(cluster.submit_many(50, make_pod, "during")))
        await expect_bound(cluster, *first, *later)
        for name in (*first, *later):
            assert len(cluster.events(name, "Scheduled")) <= 1


@pytest.mark.parametrize("kind", ["node", "pod"])
async def test_an_object_that_does_not_decode_costs_only_itself(
    lax_cluster: Cluster, kind: str
) -> None:
    cluster = lax_cluster
    cluster.add(make_worker("n"))
    async with running_daemon(cluster) as replica:
        broken: Json
        if kind == "node":
            broken = make_worker("broken").obj()
            broken["status"]["allocatable"] = ["not", "a", "map"]
            cluster.add(broken)
        else:
            broken = make_pod("broken").obj()
            broken["spec"]["nodeSelector"] = 7
            cluster.submit(broken)
        labels = {"kind": kind.capitalize()}
        await eventually(
            lambda: replica.sample("equipoise_watch_decode_errors_total", **labels) == 1
        )
        cluster.submit(make_pod("good"))
        await expect_bound(cluster, "good")
        assert replica.daemon.core.state.node_count == 1


async def test_explicit_nulls_are_as_good_as_absent_fields(lax_cluster: Cluster) -> None:
    cluster = lax_cluster
    node = make_worker("n").obj()
    node["spec"] |= {"taints": None, "unschedulable": None}
    pod = make_pod("p").obj()
    pod["spec"] |= {"nodeSelector": None, "affinity": None}
    cluster.add(node)
    async with running_daemon(cluster):
        cluster.submit(pod)
        await expect_bound(cluster, "p")
