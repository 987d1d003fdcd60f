"""Every way from one place of the queue to another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from scheduler.model.events import Action, Event
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, unschedulable
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.in_flight import MAX_EVENTS
from scheduler.queueing.queued_pod import BACKOFF_WINDOW

from .support import (
    GATES,
    GROUP_ADD,
    NODE_ADD,
    NODE_TAINT,
    POD_DELETE,
    PROFILE,
    Bench,
    make_pod,
    never,
)

A = make_pod("a")


# Arrival.


def test_pods_are_popped_by_priority_then_by_age() -> None:
    bench = Bench()
    bench.queue.add(make_pod("low"))
    bench.clock.advance(1)
    bench.queue.add(make_pod("high-1", priority=5))
    bench.clock.advance(1)
    bench.queue.add(make_pod("high-2", priority=5))
    assert [bench.pop().key for _ in range(3)] == [
        "default/high-1",
        "default/high-2",
        "default/low",
    ]
    assert bench.queue.pop() is None


def test_a_gated_pod_is_not_popped_and_says_why() -> None:
    bench = Bench()
    bench.queue.add(make_pod("a", gates=["x", "y"]))
    (entry,) = bench.queue.view.snapshot()
    assert (entry.tier, entry.plugins) == ("gated", (GATES,))
    assert entry.message == "waiting for scheduling gates: [x y]"
    assert bench.queue.pop() is None


def test_a_gated_pod_starts_its_scheduling_time_when_the_gate_opens() -> None:
    bench = Bench()
    gated, free = make_pod("a", gates=["x"]), make_pod("a")
    bench.queue.add(gated)
    bench.clock.advance(60)
    bench.queue.update(gated, free)
    queued = bench.pop()
    assert queued.info is free
    assert queued.initial_attempt == bench.clock.now
    assert queued.timestamp == bench.clock.now - 60
    assert (queued.message, queued.gating_plugin) == ("", "")


def test_a_pod_that_is_added_twice_is_queued_once() -> None:
    bench = Bench()
    bench.queue.add(A)
    newer = make_pod("a", priority=3)
    bench.queue.add(newer)
    assert len(bench.queue) == 1
    assert bench.pop().info is newer


# Rejection.


@pytest.mark.parametrize(
    ("event", "tier"),
    [
        pytest.param(NODE_ADD, "backoff", id="an event its plugin listens to"),
        pytest.param(POD_DELETE, "backoff", id="another"),
        pytest.param(GROUP_ADD, "unschedulable", id="an event of another plugin"),
        pytest.param(Event("Service", Action.ADD), "unschedulable", id="an event of no plugin"),
    ],
)
@pytest.mark.parametrize("in_flight", [False, True], ids=["while parked", "while in flight"])
def test_an_event_wakes_only_what_it_may_cure(event: Event, tier: str, in_flight: bool) -> None:
    bench = Bench()
    queued = bench.popped(A)
    if in_flight:
        bench.queue.on_event(event)
    bench.queue.requeue_rejected(queued, {"Fit"}, (), "no")
    if not in_flight:
        bench.queue.on_event(event)
    assert bench.tiers() == {"a": tier}


def test_an_event_before_the_pop_cures_nothing() -> None:
    bench = Bench()
    other = bench.popped(make_pod("other"))
    bench.queue.add(A)
    bench.queue.on_event(NODE_ADD)
    bench.rejected(A, "Fit")
    assert bench.tiers() == {"a": "unschedulable"}
    bench.queue.done(other.info.uid)


def test_a_woken_pod_whose_backoff_is_over_is_active_at_once() -> None:
    bench = Bench()
    bench.rejected(A, "Fit")
    bench.clock.advance(2)
    bench.queue.on_event(NODE_ADD)
    assert bench.tiers() == {"a": "active"}


@pytest.mark.parametrize("in_flight", [False, True], ids=["while parked", "while in flight"])
def test_the_cure_of_a_pending_plugin_spares_the_backoff(in_flight: bool) -> None:
    bench = Bench()
    queued = bench.popped(A)
    if in_flight:
        bench.queue.on_event(NODE_ADD)
        bench.queue.on_event(GROUP_ADD)
    bench.queue.requeue_rejected(queued, {"Fit"}, {"Gang"}, "no")
    if not in_flight:
        bench.queue.on_event(GROUP_ADD)
    assert bench.tiers() == {"a": "active"}


def test_another_cure_of_a_pod_with_a_pending_plugin_backs_off() -> None:
    bench = Bench()
    bench.rejected(A, "Fit", pending=["Gang"])
    bench.queue.on_event(NODE_ADD)
    assert bench.tiers() == {"a": "backoff"}


def test_an_event_leaves_out_the_excluded_pod() -> None:
    bench = Bench()
    flying = bench.popped(A)
    bench.rejected(make_pod("b"), "Fit")
    bench.queue.on_event(replace(POD_DELETE, exclude=A.uid))
    bench.queue.requeue_rejected(flying, {"Fit"}, (), "no")
    assert bench.tiers() == {"a": "unschedulable", "b": "backoff"}
    bench.queue.on_event(replace(POD_DELETE, exclude=A.uid))
    assert bench.tiers()["a"] == "unschedulable"


def test_rejection_without_a_plugin_counts_as_an_error() -> None:
    bench = Bench()
    queued = bench.rejected(A)
    assert bench.tiers() == {"a": "error-backoff"}
    assert (queued.unschedulable_count, queued.consecutive_errors) == (0, 1)


def test_a_rejection_ends_a_row_of_errors() -> None:
    bench = Bench()
    queued = bench.popped(A)
    bench.queue.requeue_error(queued, "boom")
    bench.clock.advance(2)
    bench.queue.flush()
    bench.queue.requeue_rejected(bench.pop(), {"Fit"}, (), "no")
    assert (queued.unschedulable_count, queued.consecutive_errors, queued.attempts) == (1, 0, 2)
    assert queued.message == "no"


# Back-off.


def test_nobody_active_lets_the_best_backing_off_pod_go_early() -> None:
    bench = Bench()
    for name, priority in (("low", 1), ("high", 2)):
        bench.rejected(make_pod(name, priority=priority), "Fit")
    bench.queue.on_event(NODE_ADD)
    assert bench.tiers() == {"low": "backoff", "high": "backoff"}
    assert bench.pop().key == "default/high"


def test_early_attempts_make_no_back_off_longer_than_the_longest() -> None:
    """What they cost is that the pod may not go early again, and no wait beyond the setting."""
    bench = Bench()
    queued = bench.popped(A)
    early = 0
    for _ in range(40):
        bench.queue.requeue_rejected(queued, {"Fit"}, (), "no", by_filters=True)
        assert queued.backoff_until - bench.clock.now <= 10.0 + BACKOFF_WINDOW
        bench.queue.on_event(NODE_ADD)
        early += bench.tiers()["a"] == "backoff"
        if bench.tiers()["a"] != "backoff":
            bench.clock.now = queued.backoff_until
            bench.queue.flush()
        queued = bench.pop()
    assert 2 <= early <= 10
    assert bench.clock.now >= 1000.0 + 30 * 10.0


def test_a_pod_with_an_error_never_goes_early() -> None:
    bench = Bench()
    bench.queue.requeue_error(bench.popped(A), "boom")
    assert bench.queue.pop() is None
    assert bench.queue.next_deadline() == 1002.0
    bench.clock.now = 1001.9
    bench.queue.flush()
    assert bench.queue.pop() is None
    bench.clock.now = 1002.0
    bench.queue.flush()
    assert bench.pop().info is A


def test_backoffs_of_one_window_become_active_together() -> None:
    bench = Bench()
    bench.rejected(make_pod("low"), "Fit")
    bench.clock.advance(0.4)
    bench.rejected(make_pod("high", priority=1), "Fit")
    bench.queue.on_event(NODE_ADD)
    bench.clock.now = 1002.0
    bench.queue.flush()
    assert bench.tiers() == {"low": "active", "high": "active"}
    assert bench.pop().key == "default/high"


def test_no_backoff_when_it_is_switched_off() -> None:
    bench = Bench(max_backoff=0.0)
    bench.rejected(A, "Fit")
    bench.queue.on_event(NODE_ADD)
    assert bench.tiers() == {"a": "active"}


# Timeout.


def test_a_pod_parked_for_too_long_is_tried_again_and_marked() -> None:
    bench = Bench()
    bench.rejected(A, "Fit")
    assert bench.queue.next_deadline() == 1300.5
    bench.clock.advance(299.9)
    bench.queue.flush()
    assert bench.tiers() == {"a": "unschedulable"}
    bench.clock.advance(0.1)
    bench.queue.flush()
    queued = bench.pop()
    assert queued.was_flushed
    bench.queue.requeue_rejected(queued, {"Fit"}, (), "no")
    assert not queued.was_flushed


def test_a_gated_pod_is_not_flushed() -> None:
    bench = Bench()
    bench.queue.add(make_pod("a", gates=["x"]))
    bench.clock.advance(3600)
    bench.queue.flush()
    assert bench.tiers() == {"a": "gated"}
    assert bench.queue.next_deadline() is None


# Activation.


def test_activation_ignores_backoff_but_not_the_gate() -> None:
    bench = Bench()
    bench.rejected(A, "Fit")
    bench.queue.requeue_error(bench.popped(make_pod("b")), "boom")
    bench.queue.add(make_pod("c", gates=["x"]))
    bench.queue.activate(["default/a", "default/b", "default/c", "default/unknown"])
    assert bench.tiers() == {"a": "active", "b": "active", "c": "gated"}


def test_a_pod_activated_in_flight_is_not_parked() -> None:
    bench = Bench()
    queued = bench.popped(A)
    bench.queue.activate([A.key])
    bench.queue.requeue_rejected(queued, {"Fit"}, (), "no")
    assert bench.tiers() == {"a": "backoff"}


# Gates of plugins.


class Valve:
    """A PreEnqueue plugin that gates every pod while it is closed."""

    def __init__(self) -> None:
        self.closed = False

    def __call__(self, _info: PodInfo) -> Status:
        return unschedulable("closed").by("Valve") if self.closed else SUCCESS


VALVE_HINTS = {
    "Fit": [HintRegistration("Node", Action.ADD), HintRegistration("Pod", Action.DELETE)],
    # As preemption does: it listens, so that its gate is asked again, and never cures by itself.
    "Valve": [HintRegistration("Pod", Action.DELETE, never)],
}


def test_a_gated_pod_only_minds_events_of_its_gate() -> None:
    valve = Valve()
    bench = Bench(VALVE_HINTS, valve)
    bench.rejected(A, "Fit")
    valve.closed = True
    bench.queue.on_event(NODE_ADD)
    assert bench.tiers() == {"a": "gated"}
    valve.closed = False
    bench.queue.on_event(NODE_ADD)
    assert bench.tiers() == {"a": "gated"}
    bench.queue.on_event(POD_DELETE)
    assert bench.tiers() == {"a": "backoff"}


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(lambda bench: bench.queue.flush(), id="when its time is up"),
        pytest.param(lambda bench: bench.queue.activate([A.key]), id="when it is activated"),
    ],
)
def test_the_gate_is_not_asked_again_on_the_way_from_backoff_to_active(
    move: Callable[[Bench], None],
) -> None:
    valve = Valve()
    bench = Bench(VALVE_HINTS, valve)
    bench.rejected(A, "Fit")
    bench.queue.on_event(NODE_ADD)
    valve.closed = True
    bench.clock.advance(5)
    move(bench)
    assert bench.tiers() == {"a": "active"}


def test_too_many_events_in_flight_count_as_a_cure() -> None:
    bench = Bench()
    queued = bench.popped(A)
    for _ in range(MAX_EVENTS + 1):
        bench.queue.on_event(GROUP_ADD)
    bench.queue.requeue_rejected(queued, {"Fit"}, (), "no")
    assert bench.tiers() == {"a": "backoff"}


def test_a_taint_that_goes_is_a_node_that_comes() -> None:
    bench = Bench()
    bench.rejected(A, "Fit")
    bench.rejected(make_pod("b"), "Deaf")
    bench.queue.on_event(NODE_TAINT)
    assert bench.tiers() == {"a": "backoff", "b": "unschedulable"}


# What people see.


def test_the_listing_tells_what_each_pod_waits_for() -> None:
    bench = Bench()
    bench.rejected(make_pod("parked"), "Taints", "Fit")
    bench.queue.requeue_error(bench.popped(make_pod("failed")), "boom")
    bench.clock.advance(0.25)
    bench.queue.add(make_pod("new"))
    seen = [
        (e.pod, e.tier, e.waiting_seconds, e.retry_seconds, e.attempts, e.plugins, e.message)
        for e in bench.queue.view.snapshot()
    ]
    assert seen == [
        ("default/new", "active", 0.0, None, 0, (), ""),
        ("default/failed", "error-backoff", 0.25, 1.25, 1, (), "boom"),
        ("default/parked", "unschedulable", 0.25, 299.75, 1, ("Fit", "Taints"), "no"),
    ]
    assert {e.profile for e in bench.queue.view.snapshot()} == {PROFILE}
    assert bench.queue.view.counts() == {
        "active": 1,
        "backoff": 0,
        "error-backoff": 1,
        "unschedulable": 1,
        "gated": 0,
        "in-flight": 0,
    }
