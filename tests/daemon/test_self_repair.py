"""Bindings that were answered and not made, and events that a watch lost, are repaired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import msgspec
import pytest

from scheduler import cache_check
from scheduler.cache_check import CacheCheck
from tests.builders import make_pod, make_worker
from tests.daemon.support import (
    BINDING,
    Cluster,
    Replica,
    configuration,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
)
from tests.kube.support import ScriptedClient

QUICKLY = {"server": {"port": 0}, "binding": {"confirmSeconds": 0.2}}


async def test_pods_whose_binding_is_answered_and_not_done_are_bound_in_the_end(
    cluster: Cluster,
) -> None:
    cluster.add(*(make_worker(f"n{number}") for number in range(5)))
    cluster.faults.pretend("POST", BINDING, times=47)
    async with running_daemon(cluster, configuration(own=QUICKLY)) as replica:
        names = cluster.submit_many(50, make_pod, "p")
        await expect_bound(cluster, *names)
        settled = {"outcome": "unbound"}
        assert replica.sample("equipoise_assumed_pods_settled_total", **settled) >= 47
        await eventually(lambda: not replica.daemon.core.state.assumed_count)


async def test_a_watch_that_says_nothing_leaves_nobody_assumed(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, configuration(own=QUICKLY)) as replica:
        with cluster.faults.hold("POST", BINDING) as held:
            names = cluster.submit_many(5, make_pod, "p")
            await held.reached()
            await eventually(lambda: len(replica.daemon.pods()) == 5, "all are known")
            cluster.faults.silence_watches()
        state = replica.daemon.core.state
        await eventually(lambda: len(cluster.bound()) == 5)
        await eventually(lambda: not state.assumed_count, "all are read")
        assert state.pod_count == len(names)
        settled = {"outcome": "bound"}
        assert replica.sample("equipoise_assumed_pods_settled_total", **settled) == 5
        cluster.faults.resume_watches()


Damage = Callable[[Replica], None]


def lost_pod(replica: Replica) -> None:
    state = replica.daemon.core.state
    state.remove_pod(_uid(replica, "bound-0000"))


def superfluous_pod(replica: Replica) -> None:
    replica.daemon.core.state.set_pod(make_pod("ghost").cpu("1").on("n0").info())


def moved_pod(replica: Replica) -> None:
    state = replica.daemon.core.state
    info = state.pod(_uid(replica, "bound-0000"))
    assert info is not None
    other = "n1" if info.node_name == "n0" else "n0"
    state.set_pod(info.bound_to(other))


def lost_node(replica: Replica) -> None:
    replica.daemon.core.state.remove_node("n0")


def superfluous_node(replica: Replica) -> None:
    replica.daemon.core.state.set_node(make_worker("ghost").struct())


def stale_node(replica: Replica) -> None:
    replica.daemon.core.state.set_node(make_worker("n0").taint("t").label(a="b").struct())


def wrong_sum(replica: Replica) -> None:
    columns = replica.daemon.core.state.columns
    columns.requested[0, replica.daemon.core.state.row("n1")] += 500


def assumed_by_nobody(replica: Replica) -> None:
    core = replica.daemon.core
    info = core.queue._pods.get("default/waiting-0000")
    assert info is not None
    core.queue.delete(info.info)
    core.state.assume(info.info, "n0")


def lost_from_queue(replica: Replica) -> None:
    queue = replica.daemon.core.queue
    queued = queue._pods.get("default/waiting-0000")
    assert queued is not None
    queue.delete(queued.info)


def _uid(replica: Replica, name: str) -> str:
    return str(replica.cluster.pod(name)["metadata"]["uid"])


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        pytest.param(lost_pod, "pod", id="a pod that was lost"),
        pytest.param(superfluous_pod, "pod", id="a pod that does not exist"),
        pytest.param(moved_pod, "pod", id="a pod on the wrong node"),
        pytest.param(lost_node, "node", id="a node that was lost"),
        pytest.param(superfluous_node, "node", id="a node that does not exist"),
        pytest.param(stale_node, "node", id="an old version of a node"),
        pytest.param(wrong_sum, "node", id="a wrong sum"),
        pytest.param(assumed_by_nobody, "assumed", id="a pod that is assumed for no reason"),
        pytest.param(lost_from_queue, "queue", id="a pod that is missing from the queue"),
    ],
)
async def test_what_differs_is_found_and_repaired(
    cluster: Cluster, damage: Damage, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_check, "RECHECK_SECONDS", 0.0)
    cluster.add(make_worker("n0"), make_worker("n1"))
    async with running_daemon(cluster) as replica:
        bound = cluster.submit_many(6, make_pod, "bound")
        waiting = cluster.submit_many(3, lambda name: make_pod(name).cpu("1000"), "waiting")
        await expect_bound(cluster, *bound)
        for name in waiting:
            await expect_pending(cluster, replica, name)
        await replica.settled()
        await replica.agrees_with_the_cluster()
        damage(replica)
        lines = await replica.daemon.cache_check.check()
        assert lines, "found"
        assert replica.sample("equipoise_cache_mismatches_total", kind=kind) == len(lines)
        assert await replica.daemon.cache_check.check() == [], "repaired"
        await replica.settled()
        assert all(replica.queued(name) for name in waiting)
        assert replica.sample("equipoise_cache_checks_total", result="differs") == 1


async def test_the_check_runs_by_itself(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_check, "RECHECK_SECONDS", 0.0)
    cluster.add(make_worker("n0"))
    own = {"server": {"port": 0}, "cacheCheck": {"intervalSeconds": 0.05}}
    async with running_daemon(cluster, configuration(own=own)) as replica:
        agrees = {"result": "agrees"}
        await eventually(lambda: replica.sample("equipoise_cache_checks_total", **agrees) >= 2)
        replica.daemon.core.state.remove_node("n0")
        await eventually(lambda: replica.daemon.core.state.node_count == 1, "repaired")


async def test_a_list_that_cannot_be_read_fails_the_check_and_not_the_daemon(
    cluster: Cluster,
) -> None:
    async with running_daemon(cluster) as replica:
        page_of_a_proxy = ScriptedClient(msgspec.Raw(b"<html>Service temporarily slow</html>"))
        check = CacheCheck(replica.daemon.core, page_of_a_proxy, replica.metrics)
        await check.check_safely()
        assert replica.sample("equipoise_cache_checks_total", result="failed") == 1


async def test_a_busy_cluster_is_no_difference(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods come and are bound while the check runs: nothing is wrong, and nothing is touched."""
    monkeypatch.setattr(cache_check, "RECHECK_SECONDS", 1.0)
    cluster.add(*(make_worker(f"n{number}").cpu("1000") for number in range(3)))
    own = {"server": {"port": 0}, "cacheCheck": {"intervalSeconds": 0.01}}
    async with running_daemon(cluster, configuration(own=own)) as replica:
        number = 0
        while number < 20 or replica.sample("equipoise_cache_checks_total", result="agrees") < 2:
            number += 1
            names = cluster.submit_many(20, make_pod, f"p{number}")
            await expect_bound(cluster, *names)
            for name in names[:: 2 if number <= 20 else 1]:  # the nodes must not become full
                cluster.delete_pod(name)
        assert replica.sample("equipoise_cache_checks_total", result="differs") == 0


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_and_nothing_is_bound_twice_whatever_happens(
    cluster: Cluster, seed: int
) -> None:
    """Bindings that fail, are lost, lied about or late, while nodes and pods come and go."""
    random = Random(seed)
    faults = cluster.faults
    own = {"server": {"port": 0}, "binding": {"confirmSeconds": 0.2, "concurrency": 4}}
    nodes = [f"n{number}" for number in range(6)]
    cluster.add(*(make_worker(name).pods("40") for name in nodes))
    where: dict[str, str] = {}

    def look() -> None:
        for name, node in cluster.bound().items():
            uid = cluster.pod(name)["metadata"]["uid"]
            assert where.setdefault(uid, node) == node, "bound twice"

    async with running_daemon(cluster, configuration(own=own)) as replica:
        alive: list[str] = []
        for number in range(12):
            match random.randrange(5):
                case 0:
                    faults.pretend("POST", BINDING, times=random.randrange(5))
                case 1:
                    faults.drop("POST", BINDING, processed=bool(random.randrange(2)), times=3)
                case 2:
                    faults.fail(
                        "POST", BINDING, status=random.choice([409, 429, 500, 503]), times=3
                    )
                case 3:
                    faults.delay("POST", BINDING, 0.05, times=5)
                case 4:
                    faults.cut_watches()
            alive += cluster.submit_many(12, make_pod, f"p{number}")
            if random.randrange(2):
                victim = alive.pop(random.randrange(len(alive)))
                cluster.delete_pod(victim)
            if random.randrange(2):
                name = random.choice(nodes)
                cluster.remove_node(name)
                cluster.add(make_worker(name).pods("40"))
            for _ in range(50):  # the daemon is in the middle of it
                await asyncio.sleep(0)
            look()
        await eventually(lambda: cluster.bound().keys() >= set(alive), "all are bound")
        look()
        await eventually(lambda: not replica.daemon.core.state.assumed_count)
        counts = replica.daemon.core.queue.view.counts
        await eventually(lambda: not counts()["in-flight"], "all answers have come")
