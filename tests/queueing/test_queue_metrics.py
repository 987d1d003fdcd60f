"""The queue's metrics are correct at every step."""

from __future__ import annotations

from scheduler.model.events import UNSCHEDULABLE_POD

from .support import GATES, NODE_ADD, PROFILE, Bench, make_pod

A = make_pod("a")


def incoming(bench: Bench) -> dict[tuple[str, str], float]:
    (family,) = bench.metrics.queue_incoming_pods.collect()
    return {
        (sample.labels["queue"], sample.labels["event"]): sample.value
        for sample in family.samples
        if sample.name.endswith("_total")
    }


def pending(bench: Bench) -> dict[str, float]:
    (family,) = bench.metrics.pending_pods.collect()
    return {sample.labels["queue"]: sample.value for sample in family.samples if sample.value}


def rejections(bench: Bench, plugin: str) -> float | None:
    return bench.sample("scheduler_unschedulable_pods", plugin=plugin, profile=PROFILE)


def test_all_tiers_are_shown_before_any_pod_comes() -> None:
    (family,) = Bench().metrics.pending_pods.collect()
    assert {sample.labels["queue"]: sample.value for sample in family.samples} == {
        "active": 0,
        "backoff": 0,
        "unschedulable": 0,
        "gated": 0,
    }


def test_arrivals_are_counted_by_tier_and_cause() -> None:
    bench = Bench()
    bench.queue.add(make_pod("gated", gates=["x"]))
    bench.rejected(A, "Fit")
    bench.queue.on_event(NODE_ADD)
    bench.pop()
    bench.queue.update(make_pod("b"), make_pod("b"))
    bench.queue.requeue_error(bench.pop(), "boom")
    bench.queue.activate(["default/b"])
    assert incoming(bench) == {
        ("unschedulable", f"{UNSCHEDULABLE_POD}Add"): 1,
        ("active", f"{UNSCHEDULABLE_POD}Add"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "PopFromBackoffQ"): 1,
        ("active", f"{UNSCHEDULABLE_POD}Update"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("active", "ForceActivate"): 1,
    }


def test_timers_are_causes_too() -> None:
    bench = Bench()
    bench.rejected(A, "Fit")
    bench.queue.requeue_error(bench.popped(make_pod("b")), "boom")
    bench.clock.advance(300)
    bench.queue.flush()
    counted = incoming(bench)
    assert counted["active", "BackoffComplete"] == 1
    assert counted["active", "UnschedulableTimeout"] == 1


def test_pending_pods_follow_the_pods() -> None:
    bench = Bench()
    gated = make_pod("gated", gates=["x"])
    bench.queue.add(gated)
    bench.queue.add(A)
    assert pending(bench) == {"gated": 1, "active": 1}
    bench.queue.requeue_rejected(bench.pop(), {"Fit"}, (), "no")
    assert pending(bench) == {"gated": 1, "unschedulable": 1}
    bench.queue.requeue_error(bench.popped(make_pod("b")), "boom")
    bench.queue.on_event(NODE_ADD)
    assert pending(bench) == {"gated": 1, "backoff": 2}
    bench.queue.delete(gated)
    assert pending(bench) == {"backoff": 2}


def test_rejections_are_counted_from_the_failure_to_the_next_attempt() -> None:
    bench = Bench()
    bench.rejected(A, "Fit", pending=["Gang"])
    bench.rejected(make_pod("b"), "Fit")
    assert (rejections(bench, "Fit"), rejections(bench, "Gang")) == (2, 1)
    bench.queue.on_event(NODE_ADD)
    assert (rejections(bench, "Fit"), rejections(bench, "Gang")) == (2, 1)
    assert bench.pop().info is A
    assert (rejections(bench, "Fit"), rejections(bench, "Gang")) == (1, 0)
    bench.queue.delete(make_pod("b"))
    assert rejections(bench, "Fit") == 0


def test_a_gate_is_counted_once_however_often_it_says_no() -> None:
    bench = Bench()
    gated = make_pod("a", gates=["x", "y"])
    bench.queue.add(gated)
    bench.queue.activate([gated.key])
    assert rejections(bench, GATES) == 1
    assert incoming(bench) == {("unschedulable", f"{UNSCHEDULABLE_POD}Add"): 1}
    bench.queue.update(gated, A)
    bench.pop()
    assert rejections(bench, GATES) == 0
