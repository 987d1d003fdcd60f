"""Pods that are changed, deleted or added again while they are in the queue."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec
import pytest

from scheduler.model.podinfo import PodInfo

from .support import NODE_ADD, Bench, make_pod

A = make_pod("a")


# The pod's own changes.


@pytest.mark.parametrize("in_flight", [False, True], ids=["while parked", "while in flight"])
@pytest.mark.parametrize(
    ("new", "tier"),
    [
        pytest.param(make_pod("a", tolerations=1), "backoff", id="a cure"),
        pytest.param(make_pod("a", labels={"x": "y"}), "unschedulable", id="no cure"),
    ],
)
def test_a_change_of_the_pod_may_cure_it(new: PodInfo, tier: str, in_flight: bool) -> None:
    bench = Bench()
    queued = bench.popped(A)
    if in_flight:
        bench.queue.update(A, new)
    bench.queue.requeue_rejected(queued, {"Taints"}, (), "no")
    if not in_flight:
        bench.queue.update(A, new)
    assert bench.tiers() == {"a": tier}
    assert queued.info is new


def test_a_change_of_one_pod_does_not_wake_another() -> None:
    bench = Bench()
    bench.rejected(A, "Taints")
    b = make_pod("b")
    bench.rejected(b, "Taints")
    bench.queue.update(b, make_pod("b", tolerations=1))
    assert bench.tiers() == {"a": "unschedulable", "b": "backoff"}


def test_an_active_pod_is_replaced_and_reordered() -> None:
    bench = Bench()
    bench.queue.add(A)
    bench.queue.add(make_pod("b", priority=1))
    bench.queue.update(A, make_pod("a", priority=2))
    assert bench.pop().info.priority == 2


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    bench = Bench()
    bench.queue.update(A, make_pod("a", priority=1))
    assert bench.tiers() == {"a": "active"}


# Deletion and recreation.


@pytest.mark.parametrize(
    "bring",
    [
        pytest.param(lambda bench: bench.queue.add(A), id="active"),
        pytest.param(lambda bench: bench.rejected(A, "Fit"), id="unschedulable"),
        pytest.param(
            lambda bench: (bench.rejected(A, "Fit"), bench.queue.on_event(NODE_ADD)), id="backoff"
        ),
        pytest.param(
            lambda bench: bench.queue.requeue_error(bench.popped(A), "boom"), id="error-backoff"
        ),
        pytest.param(lambda bench: bench.queue.add(make_pod("a", gates=["x"])), id="gated"),
    ],
)
def test_a_deleted_pod_is_gone_from_any_tier(bring: Callable[[Bench], object]) -> None:
    bench = Bench()
    bring(bench)
    assert len(bench.queue) == 1
    bench.queue.delete(A)
    assert len(bench.queue) == 0
    bench.queue.on_event(NODE_ADD)
    bench.clock.advance(3600)
    bench.queue.flush()
    assert bench.queue.pop() is None


def test_a_pod_deleted_in_flight_does_not_come_back() -> None:
    bench = Bench()
    queued = bench.popped(A)
    bench.queue.delete(A)
    bench.queue.requeue_error(queued, "boom")
    assert bench.queue.view.counts() == dict.fromkeys(bench.queue.view.counts(), 0)


def test_a_namesake_is_another_pod() -> None:
    bench = Bench()
    queued = bench.popped(A)
    again = make_pod("a", uid="second")
    bench.queue.update(A, again)
    bench.queue.requeue_rejected(queued, {"Fit"}, (), "no")
    assert bench.tiers() == {"a": "active"}
    bench.queue.delete(A)
    assert bench.pop().info is again


def test_a_namesake_replaces_a_waiting_pod_whose_deletion_was_missed() -> None:
    bench = Bench()
    bench.rejected(A, "Fit")
    again = make_pod("a", uid="second")
    bench.queue.add(again)
    queued = bench.pop()
    assert queued.info is again
    assert queued.attempts == 1


def test_a_namesake_that_waits_keeps_its_place_from_one_that_comes_back() -> None:
    bench = Bench()
    queued = bench.popped(A)
    bench.queue.add(make_pod("a", uid="second"))
    bench.queue.requeue_error(queued, "boom")
    assert bench.tiers() == {"a": "active"}


def test_a_settled_pod_is_not_taken_back(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    queued = bench.popped(A)
    bench.queue.done(A.uid)
    with caplog.at_level(logging.ERROR, logger="scheduler"):
        bench.queue.requeue_error(queued, "boom")
    assert len(bench.queue) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "Pod came back that was not in flight"
    ]


def test_a_condition_that_makes_the_object_longer_leaves_a_pod_among_its_equals() -> None:
    bench = Bench()
    for info in (A, make_pod("b")):
        bench.queue.requeue_rejected(bench.popped(info), ["Fit"], (), "no", "equal")
    told = make_pod("a", message="0/1 nodes are available")
    longer = msgspec.structs.replace(told.pod.metadata, resource_version="2", json_bytes=1000)
    bench.queue.update(A, PodInfo(msgspec.structs.replace(told.pod, metadata=longer)))
    assert len(bench.queue._pods.unschedulable._cohorts) == 1
