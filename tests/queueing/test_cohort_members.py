"""What holds for the pods of a cohort: one verdict, one timeout, and ways to leave."""

from __future__ import annotations

import pytest

from scheduler.model.events import Action, Event

from .support import (
    GROUP_ADD,
    NODE_ADD,
    NODE_TAINT,
    POD_DELETE,
    PROFILE,
    Bench,
    make_pod,
    out,
    park,
    parked,
    reject,
)

# One verdict for all.


def test_the_newest_verdict_counts_for_all() -> None:
    bench = parked("abc", "Fit")
    bench.queue.on_event(NODE_ADD)
    reject(bench, bench.pop(), "Taints")
    assert {entry.plugins for entry in bench.queue.view.snapshot()} == {("Taints",)}
    assert bench.sample("scheduler_unschedulable_pods", plugin="Fit", profile=PROFILE) == 0
    assert bench.sample("scheduler_unschedulable_pods", plugin="Taints", profile=PROFILE) == 3
    bench.clock.advance(60)
    bench.queue.on_event(POD_DELETE)
    assert out(bench) == set()
    bench.queue.on_event(NODE_TAINT)
    assert out(bench) == {"a"}


def test_a_verdict_that_was_begun_earlier_does_not_overrule_a_later_one() -> None:
    bench = Bench()
    first, second = make_pod("a"), make_pod("b")
    bench.queue.add(first)
    bench.queue.add(second)
    slow = bench.pop()
    bench.queue.on_event(GROUP_ADD)
    reject(bench, bench.pop(), "Fit")
    reject(bench, slow, "Taints")
    assert {entry.plugins for entry in bench.queue.view.snapshot()} == {("Fit",)}
    assert bench.sample("scheduler_unschedulable_pods", plugin="Fit", profile=PROFILE) == 2
    assert bench.sample("scheduler_unschedulable_pods", plugin="Taints", profile=PROFILE) == 0
    bench.clock.advance(60)
    bench.queue.on_event(POD_DELETE)
    assert len(out(bench)) == 1


def test_what_a_scout_missed_in_flight_may_have_cured_all() -> None:
    bench = parked("ab")
    bench.queue.on_event(NODE_ADD)
    scout = bench.pop()
    bench.queue.on_event(POD_DELETE)
    reject(bench, scout)
    assert bench.tiers() == {"a": "backoff", "b": "unschedulable"}
    bench.queue.done(bench.pop().info.uid)
    assert bench.tiers() == {"b": "active"}


def test_what_a_newcomer_missed_in_flight_may_have_cured_all() -> None:
    bench = parked("ab", "Taints")
    newcomer = bench.popped(make_pod("c"))
    bench.queue.on_event(POD_DELETE)
    reject(bench, newcomer, "Fit")
    assert out(bench) == {"a"}


# Leaving.


def test_a_pod_whose_own_change_cures_it_leaves_the_others_behind() -> None:
    bench = parked("abc", "Taints")
    bench.queue.update(make_pod("b"), make_pod("b", tolerations=1))
    assert bench.tiers() == {"a": "unschedulable", "b": "active", "c": "unschedulable"}


def test_a_pod_that_changes_behind_a_scout_is_tried_too() -> None:
    bench = parked("abc")
    bench.queue.on_event(NODE_ADD)
    bench.queue.update(make_pod("b"), make_pod("b", labels={"x": "y"}))
    assert out(bench) == {"a", "b"}


def test_a_changed_pod_is_no_longer_like_the_others() -> None:
    bench = parked("abc")
    bench.queue.update(make_pod("a"), make_pod("a", labels={"x": "y"}))
    assert out(bench) == set()
    bench.queue.on_event(NODE_ADD)
    assert out(bench) == {"a", "b"}


def test_a_new_condition_changes_nothing() -> None:
    bench = parked("abc")
    told = make_pod("b", message="0/1 nodes are available")
    bench.queue.update(make_pod("b"), told)
    bench.queue.on_event(NODE_ADD)
    assert out(bench) == {"a"}
    bench.queue.done(bench.pop().info.uid)
    assert bench.pop().info is told


def test_a_new_condition_in_flight_changes_nothing() -> None:
    bench = Bench()
    park(bench, "a")
    queued = bench.popped(make_pod("b"))
    bench.queue.update(queued.info, make_pod("b", message="0/1 nodes are available"))
    reject(bench, queued)
    bench.queue.on_event(NODE_ADD)
    assert out(bench) == {"a"}


def test_an_activated_pod_goes_without_its_equals() -> None:
    bench = parked("abc")
    bench.queue.activate(["default/b"])
    assert out(bench) == {"b"}
    bench.queue.done(bench.pop().info.uid)
    assert out(bench) == set()


def test_a_pod_activated_in_flight_is_tried_again_whatever_its_equals_do() -> None:
    bench = parked("ab")
    queued = bench.popped(make_pod("c"))
    bench.queue.activate(["default/c"])
    reject(bench, queued)
    assert bench.tiers() == {"a": "unschedulable", "b": "unschedulable", "c": "backoff"}


# Time.


def test_the_timeout_sends_one() -> None:
    bench = Bench()
    park(bench, "abc")
    assert bench.queue.next_deadline() == pytest.approx(1300.502)
    bench.clock.advance(300)
    bench.queue.flush()
    assert out(bench) == {"a"}
    scout = bench.pop()
    assert scout.was_flushed
    reject(bench, scout)
    assert bench.queue.next_deadline() == bench.clock.now + 300
    bench.queue.flush()
    assert out(bench) == set()


def test_the_timeout_counts_from_the_last_verdict() -> None:
    bench = Bench()
    park(bench, "a")
    bench.clock.advance(200)
    park(bench, "b")
    bench.clock.advance(200)
    bench.queue.flush()
    assert out(bench) == set()


# What people see.


def test_the_listing_shows_who_waits_behind_whom() -> None:
    bench = Bench()
    park(bench, "abc")
    bench.rejected(make_pod("alone"), "Fit")

    def behind() -> dict[str, tuple[str, bool]]:
        return {
            entry.pod: (entry.behind, entry.retry_seconds is not None)
            for entry in bench.queue.view.snapshot()
        }

    assert behind() == {
        "default/a": ("", True),
        "default/b": ("default/a", False),
        "default/c": ("default/a", False),
        "default/alone": ("", True),
    }
    bench.queue.on_event(Event("PodGroup", Action.ADD))
    bench.queue.on_event(NODE_ADD)
    bench.queue.delete(make_pod("alone"))
    assert bench.pop().key == "default/a"
    assert behind() == {"default/b": ("default/a", False), "default/c": ("default/a", False)}


def test_moves_after_a_scout_are_counted_as_such() -> None:
    bench = parked("ab")
    bench.queue.on_event(NODE_ADD)
    bench.queue.done(bench.pop().info.uid)
    count = bench.sample(
        "scheduler_queue_incoming_pods_total", queue="active", event="ScoutSettled"
    )
    assert count == 1
