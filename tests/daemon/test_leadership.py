"""Two replicas: one schedules, the other stands by; no replica writes without the lease."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest

from scheduler.config.loading import Configuration
from tests.builders import make_pod, make_worker
from tests.daemon.support import (
    BINDING,
    Cluster,
    Replica,
    configuration,
    eventually,
    expect_bound,
    running_daemon,
    starting_daemon,
)
from tests.patience import PATIENCE

LEASE = r"/leases"


def electing(lease_duration: str = "60s", renew_deadline: str = "40s") -> Configuration:
    """Leases that outlast whatever else the machine does, unless a test is about their end."""
    election = {
        "leaderElect": True,
        "leaseDuration": lease_duration,
        "renewDeadline": renew_deadline,
        "retryPeriod": "100ms",
        "resourceNamespace": "kube-system",
    }
    return configuration(kube={"leaderElection": election})


def leads(replica: Replica) -> bool:
    return replica.sample("leader_election_master_status", name="equipoise") == 1


def scheduled_once(cluster: Cluster, name: str) -> bool:
    return len(cluster.events(name, "Scheduled")) == 1


async def test_a_standby_keeps_its_caches_warm_and_binds_nothing(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with (
        running_daemon(cluster, electing()) as first,
        running_daemon(cluster, electing()) as second,
    ):
        await eventually(lambda: leads(first) != leads(second), "one of them leads")
        leader, standby = (first, second) if leads(first) else (second, first)
        names = cluster.submit_many(20, make_pod, "p")
        await expect_bound(cluster, *names)
        state = standby.daemon.core.state
        await eventually(lambda: state.pod_count == 20, "the standby has seen it all")
        await eventually(lambda: leader.requests("POST", 201) >= 20, "all answers have come")
        assert standby.requests("POST", 201) == 0
        assert not standby.daemon.core.queue.view.counts()["active"]


async def test_a_leader_that_is_stopped_hands_over_at_once(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(starting_daemon(cluster, electing()))
        await eventually(lambda: leads(first))
        second = await stack.enter_async_context(running_daemon(cluster, electing()))
        before = cluster.submit_many(10, make_pod, "before")
        await expect_bound(cluster, *before)
        first.daemon.stop()
        assert await first.task == 0
        assert cluster.lease()["holderIdentity"] == ""
        after = cluster.submit_many(10, make_pod, "after")
        await expect_bound(cluster, *after)
        assert leads(second)
        assert cluster.lease()["leaseTransitions"] >= 1
        for name in (*before, *after):
            await eventually(partial(scheduled_once, cluster, name), f"one event for {name}")


async def test_a_stop_in_the_middle_of_much_work_binds_no_pod_twice(cluster: Cluster) -> None:
    cluster.add(*(make_worker(f"n{number}") for number in range(10)))
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(starting_daemon(cluster, electing()))
        await eventually(lambda: leads(first))
        await stack.enter_async_context(running_daemon(cluster, electing()))
        names = cluster.submit_many(400, make_pod, "p")
        await eventually(lambda: len(cluster.bound()) > 50)
        where = cluster.bound()
        first.daemon.stop()
        assert await first.task == 0
        await expect_bound(cluster, *names)
        assert {name: cluster.node_of(name) for name in where} == where
        for name in names:
            assert len(cluster.events(name, "Scheduled")) <= 1


async def test_a_stolen_lease_ends_all_writing(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with starting_daemon(cluster, electing()) as replica:
        await eventually(lambda: leads(replica))
        with cluster.faults.hold("POST", BINDING) as held:
            cluster.submit_many(5, make_pod, "p")
            await held.reached()
            cluster.steal_lease("somebody-else")
            assert await asyncio.wait_for(replica.task, PATIENCE) == 1
            revision = cluster.revision
        assert cluster.revision == revision
        assert not cluster.bound()
        errors = {"result": "error", "profile": "equipoise"}
        assert replica.sample("scheduler_schedule_attempts_total", **errors) == 0
        assert cluster.lease()["holderIdentity"] == "somebody-else", "it is not ours to release"


async def test_a_leader_that_cannot_renew_ends(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with starting_daemon(cluster, electing("6s", "5s")) as replica:
        await eventually(lambda: leads(replica))
        cluster.faults.fail(".*", LEASE, status=503, times=1000)
        assert await asyncio.wait_for(replica.task, PATIENCE) == 1
        assert cluster.lease()["holderIdentity"] != "", "it could not be released"
        assert not leads(replica)


async def test_an_api_server_that_is_gone_for_too_long_ends_the_leader(cluster: Cluster) -> None:
    async with starting_daemon(cluster, electing("6s", "5s")) as replica:
        await eventually(lambda: leads(replica))
        await cluster.server.stop()
        assert await asyncio.wait_for(replica.task, PATIENCE) == 1


async def test_an_api_server_that_comes_back_in_time_changes_nothing(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, electing()) as replica:
        await eventually(lambda: leads(replica))
        await cluster.restart()
        cluster.submit(make_pod("p"))
        await expect_bound(cluster, "p")
        assert leads(replica)


@pytest.mark.parametrize("elected", [True, False], ids=["standing by", "before the first sync"])
async def test_a_replica_that_never_led_stops_at_once(cluster: Cluster, elected: bool) -> None:
    async with AsyncExitStack() as stack:
        if elected:
            leader = await stack.enter_async_context(running_daemon(cluster, electing()))
            await eventually(lambda: leads(leader))
            replica = await stack.enter_async_context(starting_daemon(cluster, electing()))
            await replica.daemon.until_synced()
        else:
            stack.enter_context(cluster.faults.hold("GET", r"/pods$"))
            replica = await stack.enter_async_context(starting_daemon(cluster, electing()))
            await eventually(lambda: replica.daemon.server is None)
        replica.daemon.stop()
        assert await asyncio.wait_for(replica.task, PATIENCE) == 0
        if elected:
            assert leads(leader)
