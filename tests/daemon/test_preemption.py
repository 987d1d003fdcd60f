"""Preemption through an API server: conditions, deletions, nominations, effects of faults."""

from __future__ import annotations

import pytest

from scheduler.kube.lease import LeaderElector
from tests.builders import Json, PodBuilder, make_pod, make_worker
from tests.daemon.support import (
    Cluster,
    configuration,
    eventually,
    expect_bound,
    running_daemon,
    starting_daemon,
)
from tests.daemon.test_webhooks import ELECTION


def low(name: str) -> PodBuilder:
    return make_pod(name).cpu("2")


def vip() -> Json:
    pod = make_pod("vip").cpu("4").obj()
    pod["spec"]["priorityClassName"] = "important"
    return pod


def prepare(cluster: Cluster) -> None:
    """One node, and a class of pods that may preempt others."""
    cluster.add(make_worker("n"))
    registry = cluster.server.registry
    classes = registry.builtin("priorityclasses", "scheduling.k8s.io")
    registry.create(classes, "", {"metadata": {"name": "important"}, "value": 100})


def leaving(cluster: Cluster, name: str) -> bool:
    return "deletionTimestamp" in cluster.pod(name)["metadata"]


def target(cluster: Cluster, name: str) -> Json:
    conditions = cluster.pod(name)["status"]["conditions"]
    return next((c for c in conditions if c["type"] == "DisruptionTarget"), {})


async def test_victims_are_told_and_deleted_and_the_pod_gets_their_node(cluster: Cluster) -> None:
    prepare(cluster)
    async with running_daemon(cluster) as replica:
        cluster.submit(low("a"), low("b"))
        await expect_bound(cluster, "a", "b")
        cluster.submit(vip())
        await eventually(lambda: leaving(cluster, "a") and leaving(cluster, "b"), "victims leave")
        for name in ("a", "b"):
            condition = target(cluster, name)
            assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        await eventually(
            lambda: all(cluster.events(name, "Preempted") for name in ("a", "b")), "events"
        )
        await eventually(
            lambda: cluster.pod("vip")["status"].get("nominatedNodeName") == "n", "the nomination"
        )
        assert cluster.node_of("vip") == ""

        cluster.delete_pod("a")
        cluster.delete_pod("b")
        await expect_bound(cluster, "vip")
        assert len(replica.daemon.core.state.nominations) == 0


async def test_evictions_that_fail_are_tried_again(cluster: Cluster) -> None:
    prepare(cluster)
    async with running_daemon(cluster):
        cluster.submit(low("a"), low("b"))
        await expect_bound(cluster, "a", "b")
        cluster.faults.fail("DELETE", r"/pods/[ab]$", status=500, times=2)
        cluster.submit(vip())
        await eventually(lambda: leaving(cluster, "a") and leaving(cluster, "b"), "victims leave")
        cluster.delete_pod("a")
        cluster.delete_pod("b")
        await expect_bound(cluster, "vip")


async def test_no_eviction_is_under_way_when_the_lease_is_given_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.app.STOP_SECONDS", 0.05)
    under_way: list[int] = []
    release = LeaderElector._release

    async def watched(elector: LeaderElector) -> None:
        under_way.append(len(replica.daemon.core.background))
        await release(elector)

    monkeypatch.setattr(LeaderElector, "_release", watched)
    prepare(cluster)
    config = configuration(kube={"leaderElection": ELECTION})
    async with starting_daemon(cluster, config) as replica:
        cluster.submit(low("a"), low("b"))
        await expect_bound(cluster, "a", "b")
        with cluster.faults.hold("DELETE", r"/pods/[ab]$") as held:
            cluster.submit(vip())
            await held.reached()
            assert len(replica.daemon.core.background) == 1
            replica.daemon.stop()
            assert await replica.task == 0
    assert under_way == [0]


async def test_nominations_are_known_after_a_restart(cluster: Cluster) -> None:
    prepare(cluster)
    async with running_daemon(cluster):
        cluster.submit(low("a"), low("b"))
        await expect_bound(cluster, "a", "b")
        cluster.submit(vip())
        await eventually(
            lambda: cluster.pod("vip")["status"].get("nominatedNodeName") == "n", "the nomination"
        )
        await eventually(lambda: leaving(cluster, "a") and leaving(cluster, "b"), "victims leave")
    async with running_daemon(cluster) as replica:
        uid = cluster.pod("vip")["metadata"]["uid"]
        assert replica.daemon.core.state.nominations.node_of(uid) == "n"
        cluster.delete_pod("a")
        cluster.delete_pod("b")
        await expect_bound(cluster, "vip")
