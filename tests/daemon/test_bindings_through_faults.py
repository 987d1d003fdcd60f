"""Bindings that are refused, lost, repeated, overtaken or slow end as one binding, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scheduler.kube.events import WORKERS
from scheduler.pipeline import open_bindings
from tests.builders import Json, make_pod, make_worker
from tests.daemon.support import (
    BINDING,
    EVENTS,
    STATUS,
    WAIT_SECONDS,
    Cluster,
    configuration,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
)

ERRORS = {"result": "error", "profile": "equipoise"}


def refused(cluster: Cluster) -> None:
    cluster.faults.fail("POST", BINDING, status=500)


def asked_to_wait(cluster: Cluster) -> None:
    cluster.faults.fail("POST", BINDING, status=429, headers={"Retry-After": "1"})


def dropped_after(cluster: Cluster) -> None:
    cluster.faults.drop("POST", BINDING, processed=True)


def dropped_before(cluster: Cluster) -> None:
    cluster.faults.drop("POST", BINDING, processed=False)


def dropped_and_unreadable(cluster: Cluster) -> None:
    cluster.faults.drop("POST", BINDING, processed=True)
    cluster.faults.fail("GET", r"/pods/p$", status=503, times=2)


@pytest.mark.parametrize(
    "fault", [refused, asked_to_wait, dropped_after, dropped_before, dropped_and_unreadable]
)
async def test_a_binding_that_meets_a_fault_ends_as_one_binding(
    cluster: Cluster, fault: Callable[[Cluster], None]
) -> None:
    cluster.add(make_worker("n"))
    fault(cluster)
    async with running_daemon(cluster) as replica:
        cluster.submit(make_pod("p"))
        await expect_bound(cluster, "p")
        await eventually(lambda: bool(cluster.events("p", "Scheduled")), "the Scheduled event")
        await replica.settled()
        assert len(cluster.events("p", "Scheduled")) == 1
        assert not cluster.events("p", "FailedScheduling")
        assert replica.sample("scheduler_schedule_attempts_total", **ERRORS) == 0


async def test_a_pod_that_another_scheduler_bound_meanwhile_stays_there(cluster: Cluster) -> None:
    cluster.add(make_worker("ours"), make_worker("theirs").cordoned())
    async with running_daemon(cluster) as replica:
        with cluster.faults.hold("POST", BINDING) as held:
            cluster.submit(make_pod("p"))
            await held.reached()
            # The daemon does not see it before it tries: only the response shows it.
            cluster.faults.silence_watches()
            cluster.bind("p", "theirs")
        await eventually(lambda: replica.daemon.core.queue.view.counts()["error-backoff"] == 1)
        cluster.faults.resume_watches()
        state = replica.daemon.core.state
        await eventually(lambda: len(state.pods_on("theirs")) == 1)
        assert not state.pods_on("ours")
        await replica.settled()
        assert cluster.condition("p")["status"] == "True", "no word against a pod that is bound"
        assert not cluster.events("p", "Scheduled")


async def test_a_pod_deleted_while_it_is_bound_leaves_nothing_behind(cluster: Cluster) -> None:
    cluster.add(make_worker("n").pods("1"))
    async with running_daemon(cluster) as replica:
        with cluster.faults.hold("POST", BINDING, times=1) as held:
            cluster.submit(make_pod("p"))
            await held.reached()
            cluster.delete_pod("p")
            await eventually(lambda: not replica.daemon.core.state.pod_count, "its room is free")
            cluster.submit(make_pod("next"))
            await expect_bound(cluster, "next")
        await eventually(lambda: not len(replica.daemon.core.bindings))
        assert replica.queued("p") is None


async def test_a_pod_that_is_being_deleted_is_not_tried_for_ever(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    pod = make_pod("p").obj()
    pod["metadata"]["finalizers"] = ["example.com/slow"]
    async with running_daemon(cluster) as replica:
        with cluster.faults.hold("POST", BINDING, times=1) as held:
            cluster.submit(pod)
            await held.reached()
            cluster.delete_pod("p")
            seen = replica.daemon.pods()
            await eventually(lambda: seen["default/p"].deleting, "the daemon knows")
        await replica.settled()
        assert replica.queued("p") is None
        assert not replica.daemon.core.state.pod_count


async def test_a_pod_replaced_while_it_is_bound_is_a_new_pod(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster) as replica:
        with cluster.faults.hold("POST", BINDING, times=1) as held:
            cluster.submit(make_pod("p"))
            await held.reached()
            cluster.delete_pod("p")
            cluster.submit(make_pod("p"))
            await expect_bound(cluster, "p")
        await replica.settled()
        await eventually(lambda: bool(cluster.events("p", "Scheduled")))
        uid = cluster.pod("p")["metadata"]["uid"]
        assert [event["regarding"]["uid"] for event in cluster.events("p", "Scheduled")] == [uid]


async def test_a_change_made_during_a_failing_binding_counts_in_the_next_attempt(
    cluster: Cluster,
) -> None:
    cluster.add(make_worker("n"))
    cluster.faults.fail("POST", BINDING, status=403)
    cluster.faults.fail("PATCH", STATUS, status=403)  # or its echo would bring the pod up to date

    def tolerate(pod: Json) -> None:
        pod["spec"]["tolerations"].append({"key": "dedicated", "operator": "Exists"})

    def taint(node: Json) -> None:
        node["spec"]["taints"] = [{"key": "dedicated", "effect": "NoSchedule"}]

    async with running_daemon(cluster) as replica:
        core = replica.daemon.core
        with cluster.faults.hold("POST", BINDING, times=1) as held:
            cluster.submit(make_pod("p"))
            await held.reached()
            cluster.change_pod("p", tolerate)
            cluster.change_node("n", taint)
            seen = replica.daemon.pods()
            await eventually(lambda: len(seen["default/p"].spec.tolerations) == 3)
            await eventually(lambda: core.state.describe("n")["taints"] != [])
        await expect_bound(cluster, "p")


async def test_held_bindings_are_bounded_and_all_end(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A namespace that is slow has another bound, which a busy machine may reach first.
    monkeypatch.setattr(open_bindings, "SLOW_SECONDS", WAIT_SECONDS)
    cluster.add(*(make_worker(f"n{number:02d}") for number in range(20)))
    # Created before requests are held: a request that is held for too long is sent again.
    names = cluster.submit_many(2000, make_pod, "p")
    config = configuration(own={"server": {"port": 0}, "binding": {"concurrency": 16}})
    with cluster.faults.hold("POST", BINDING) as held:
        async with running_daemon(cluster, config) as replica:
            core = replica.daemon.core
            for _ in range(16):
                await held.reached()
            await eventually(lambda: core.bindings.full, "as many bindings as may be")
            most = len(core.bindings)
            assert most == replica.sample("scheduler_goroutines", operation="binding")
            assert most < len(names)
            with pytest.raises(TimeoutError):  # a seventeenth request would arrive at once
                async with asyncio.timeout(0.2):
                    await held.reached()
            assert not cluster.bound()
            held.release()
            await expect_bound(cluster, *names)


async def test_a_status_patch_that_fails_costs_nothing_but_the_condition(cluster: Cluster) -> None:
    cluster.faults.fail("PATCH", STATUS, status=500, times=2)
    async with running_daemon(cluster) as replica:
        cluster.submit(make_pod("p"))
        await expect_pending(cluster, replica, "p")
        cluster.add(make_worker("n"))
        await expect_bound(cluster, "p")


async def test_a_late_condition_neither_delays_nor_overrides_a_binding(cluster: Cluster) -> None:
    async with running_daemon(cluster) as replica:
        with cluster.faults.hold("PATCH", STATUS) as held:
            cluster.submit(make_pod("p"))
            await held.reached()
            cluster.add(make_worker("n"))
            await expect_bound(cluster, "p")
        await eventually(lambda: replica.requests("PATCH", 409) == 1, "the patch came too late")
    assert cluster.condition("p")["status"] == "True"


async def test_a_condition_is_written_to_a_pod_that_changed_meanwhile(cluster: Cluster) -> None:
    async with running_daemon(cluster) as replica:
        with cluster.faults.hold("PATCH", STATUS) as held:
            cluster.submit(make_pod("p"))
            await held.reached()
            cluster.change_pod("p", lambda pod: pod["metadata"].update(labels={"new": "yes"}))
        await expect_pending(cluster, replica, "p")
        assert replica.requests("PATCH", 409) == 1
        assert cluster.pod("p")["metadata"]["labels"] == {"new": "yes"}


async def test_events_that_cannot_be_sent_disturb_nobody(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    cluster.faults.fail("POST", EVENTS, status=403, times=5)
    async with running_daemon(cluster) as replica:
        names = cluster.submit_many(20, make_pod, "p")
        await expect_bound(cluster, *names)
        await eventually(lambda: replica.sample("equipoise_events_dropped_total") == 5)
        await eventually(
            lambda: sum(len(cluster.events(name, "Scheduled")) for name in names) == 15
        )


async def test_events_that_do_not_fit_are_dropped_and_counted(cluster: Cluster) -> None:
    cluster.add(*(make_worker(f"n{number}") for number in range(2)))
    # One binding after the other, so that each worker has a turn before the next event.
    own = {"server": {"port": 0}, "events": {"queueSize": 3}, "binding": {"concurrency": 1}}
    async with running_daemon(cluster, configuration(own=own)) as replica:
        with cluster.faults.hold("POST", EVENTS) as held:
            names = cluster.submit_many(100, make_pod, "p")
            await held.reached()
            await expect_bound(cluster, *names)
            await replica.settled()
            # Each worker is sending one, three wait: all others had to go.
            kept = WORKERS + 3
            await eventually(
                lambda: replica.sample("equipoise_events_dropped_total") == len(names) - kept
            )
        await eventually(lambda: sum(len(cluster.events(n, "Scheduled")) for n in names) == kept)
