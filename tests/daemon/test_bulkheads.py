"""What goes wrong with the bindings of one namespace is no concern of pods of others."""

from __future__ import annotations

import pytest

from tests.builders import make_pod, make_worker
from tests.daemon.support import (
    BINDING,
    Cluster,
    configuration,
    eventually,
    expect_bound,
    running_daemon,
)

BAD = r"/namespaces/bad/pods/.*/binding$"
MANY = 1 << 30


@pytest.fixture
def shared(cluster: Cluster) -> Cluster:
    """A cluster with room for all pods, and a second namespace."""
    cluster.create_namespace("bad")
    cluster.add(*(make_worker(f"n{number}").cpu("1000") for number in range(10)))
    return cluster


def submit_bad(cluster: Cluster, count: int) -> list[str]:
    names = [f"bad-{number:04d}" for number in range(count)]
    cluster.submit(*(make_pod(name, "bad") for name in names))
    return names


async def test_bindings_that_fail_for_one_namespace_hold_up_nobody_else(shared: Cluster) -> None:
    shared.faults.fail("POST", BAD, status=500, times=MANY)
    config = configuration(own={"server": {"port": 0}, "binding": {"concurrency": 8}})
    async with running_daemon(shared, config) as replica:
        bad = submit_bad(shared, 300)
        await eventually(lambda: len(replica.daemon.core.bindings) > 100, "many are being tried")
        good = shared.submit_many(300, make_pod, "good")
        await expect_bound(shared, *good)
        assert not shared.bound().keys() & set(bad)
        errors = {"result": "error", "profile": "equipoise"}
        await eventually(
            lambda: replica.sample("scheduler_schedule_attempts_total", **errors) >= 100,
            "they are given up, and back off in the queue",
        )
        shared.faults.clear()
        await eventually(lambda: shared.bound().keys() >= set(bad), "all are bound in the end")


async def test_bindings_that_hang_for_one_namespace_hold_up_nobody_else(shared: Cluster) -> None:
    config = configuration(own={"server": {"port": 0}, "binding": {"concurrency": 8}})
    async with running_daemon(shared, config):
        with shared.faults.hold("POST", BAD) as held:
            bad = submit_bad(shared, 64)
            for _ in range(8):
                await held.reached()
            good = shared.submit_many(300, make_pod, "good")
            await expect_bound(shared, *good)
            assert not shared.bound().keys() & set(bad)
        await eventually(lambda: shared.bound().keys() >= set(bad), "all are bound in the end")


async def test_nodes_that_go_while_bindings_wait_for_their_turn_get_no_pods(
    shared: Cluster,
) -> None:
    """The API server is slow: what has not been sent yet is decided anew."""
    config = configuration(own={"server": {"port": 0}, "binding": {"concurrency": 1}})
    async with running_daemon(shared, config) as replica:
        state = replica.daemon.core.state
        with shared.faults.hold("POST", BINDING) as held:
            names = shared.submit_many(100, make_pod, "p")
            await held.reached()
            await eventually(lambda: state.assumed_count == len(names), "all are decided")
            doomed = {f"n{number}" for number in range(9)}
            for name in doomed:
                shared.remove_node(name)
            await eventually(lambda: state.node_count == 1, "the daemon knows")
        await expect_bound(shared, *names)
        late = [name for name, node in shared.bound().items() if node in doomed]
        assert len(late) <= 1, "only the one that was sent before"
        outdated = replica.sample("equipoise_decisions_outdated_total", cause="node")
        assert outdated >= 80
