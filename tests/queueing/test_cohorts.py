"""Equal pods that no node takes: looked at as one, tried one after the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, unschedulable
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.queued_pod import QueuedPod

from .support import (
    BLUE,
    GROUP_ADD,
    NODE_ADD,
    POD_DELETE,
    PROFILE,
    Bench,
    make_pod,
    out,
    park,
    parked,
    reject,
)

# Waking.


def test_an_event_is_held_against_equal_pods_once_and_sends_one() -> None:
    asked: list[str] = []

    def curious(info: PodInfo, _event: Event) -> Hint:
        asked.append(info.key)
        return Hint.QUEUE

    bench = Bench({"Fit": [HintRegistration("Node", Action.ADD, curious)]})
    for number in range(10_000):
        reject(bench, bench.popped(make_pod(f"p{number}")))
    bench.queue.on_event(NODE_ADD)
    assert asked == ["default/p0"]
    assert bench.queue.view.counts() == {
        "active": 0,
        "backoff": 1,
        "error-backoff": 0,
        "unschedulable": 9_999,
        "gated": 0,
        "in-flight": 0,
    }
    assert bench.sample("scheduler_pending_pods", queue="unschedulable") == 9_999
    assert bench.sample("scheduler_unschedulable_pods", plugin="Fit", profile=PROFILE) == 10_000


def test_the_first_by_rank_goes_ahead() -> None:
    bench = parked("abc")
    bench.queue.on_event(NODE_ADD)
    assert out(bench) == {"a"}


def test_the_rest_stays_when_the_scout_is_rejected_again() -> None:
    bench = parked("abc")
    bench.queue.on_event(NODE_ADD)
    reject(bench, bench.pop())
    assert out(bench) == set()
    assert bench.queue.pop() is None


def test_a_rejected_scout_keeps_its_turn() -> None:
    bench = parked("abc")
    for _ in range(3):
        bench.queue.on_event(NODE_ADD)
        bench.clock.advance(60)
        bench.queue.flush()
        scout = bench.pop()
        assert scout.key == "default/a"
        reject(bench, scout)


def test_events_while_a_scout_is_out_send_no_second_one() -> None:
    bench = parked("abc")
    bench.queue.on_event(NODE_ADD)
    bench.queue.on_event(POD_DELETE)
    assert out(bench) == {"a"}


def test_pods_of_other_keys_profiles_or_priorities_are_not_equal() -> None:
    bench = Bench()
    park(bench, "ab")
    park(bench, "cd", cohort="red")
    park(bench, "ef", priority=5)
    bench.queue.on_event(NODE_ADD)
    assert out(bench) == {"a", "c", "e"}
    bench.clock.advance(60)
    bench.queue.flush()
    assert bench.pop().key == "default/e"


def test_a_pod_without_a_key_stands_alone() -> None:
    bench = Bench()
    bench.rejected(make_pod("a"), "Fit")
    bench.rejected(make_pod("b"), "Fit")
    bench.queue.on_event(NODE_ADD)
    assert out(bench) == {"a", "b"}


def test_an_excluded_pod_does_not_speak_for_its_equals() -> None:
    bench = parked("ab")
    bench.queue.on_event(replace(POD_DELETE, exclude="uid-a"))
    assert out(bench) == {"b"}


def test_an_event_that_does_not_concern_a_priority_sends_nobody() -> None:
    bench = Bench()
    park(bench, "ab", priority=5)
    bench.queue.on_event(replace(POD_DELETE, max_priority=4))
    assert out(bench) == set()
    bench.queue.on_event(replace(POD_DELETE, max_priority=5))
    assert out(bench) == {"a"}


# The next one's turn.


def change_and_reject(bench: Bench, scout: QueuedPod) -> None:
    bench.queue.update(scout.info, make_pod("a", labels={"x": "y"}))
    reject(bench, scout)


def replace_and_reject(bench: Bench, scout: QueuedPod) -> None:
    bench.queue.add(make_pod("a", uid="second", priority=-1))
    reject(bench, scout)


SETTLED: dict[str, Callable[[Bench, QueuedPod], object]] = {
    "it found a node": lambda bench, scout: bench.queue.placed(scout.info.uid),
    "it was bound": lambda bench, scout: bench.queue.done(scout.info.uid),
    "it was deleted, or bound by others": lambda bench, scout: bench.queue.delete(scout.info),
    "it failed by a fault": lambda bench, scout: bench.queue.requeue_error(scout, "boom"),
    "it is no longer like the others": lambda bench, scout: reject(bench, scout, cohort="red"),
    "it was rejected on its own account": lambda bench, scout: reject(bench, scout, cohort=None),
    "it changed": change_and_reject,
    "a namesake took its place": replace_and_reject,
}


@pytest.mark.parametrize("settle", SETTLED.values(), ids=SETTLED.keys())
def test_the_next_goes_out_when(settle: Callable[[Bench, QueuedPod], object]) -> None:
    bench = parked("abc")
    bench.queue.on_event(NODE_ADD)
    settle(bench, bench.pop())
    assert "b" in out(bench)
    assert bench.tiers()["c"] == "unschedulable"


WAITING: dict[str, Callable[[Bench], object]] = {
    "it is deleted": lambda bench: bench.queue.delete(make_pod("a")),
    "it changes": lambda bench: bench.queue.update(make_pod("a"), make_pod("a", labels={"x": "y"})),
    "a namesake takes its place": lambda bench: bench.queue.add(make_pod("a", uid="second")),
}


@pytest.mark.parametrize("change", WAITING.values(), ids=WAITING.keys())
def test_the_next_goes_out_while_the_scout_waits_and(change: Callable[[Bench], object]) -> None:
    bench = parked("abc")
    bench.queue.on_event(NODE_ADD)
    change(bench)
    assert "b" in out(bench)
    assert bench.tiers()["c"] == "unschedulable"


def test_all_go_one_after_the_other_as_long_as_they_find_nodes() -> None:
    bench = parked("abcd")
    bench.queue.on_event(NODE_ADD)
    tried = []
    for _ in range(3):
        scout = bench.pop()
        tried.append(scout.key)
        bench.queue.placed(scout.info.uid)
        bench.queue.done(scout.info.uid)
    assert tried == ["default/a", "default/b", "default/c"]
    reject(bench, bench.pop())
    assert bench.tiers() == {"d": "unschedulable"}


def test_a_pod_that_found_a_node_and_lost_it_again_is_on_its_own() -> None:
    bench = parked("abc")
    bench.queue.on_event(NODE_ADD)
    scout = bench.pop()
    bench.queue.placed(scout.info.uid)
    bench.queue.requeue_error(scout, "conflict")
    assert bench.tiers() == {"a": "error-backoff", "b": "active", "c": "unschedulable"}


def test_the_next_respects_its_own_backoff() -> None:
    bench = Bench()
    park(bench, "ab")
    bench.queue.on_event(NODE_ADD)
    assert bench.tiers() == {"a": "backoff", "b": "unschedulable"}
    bench.queue.done(bench.pop().info.uid)
    assert bench.tiers() == {"b": "backoff"}


def test_the_next_is_spared_its_backoff_if_the_scout_was() -> None:
    bench = Bench()
    for name in "ab":
        queued = bench.popped(make_pod(name))
        bench.queue.requeue_rejected(queued, ("Fit",), ("Gang",), "no", BLUE)
    bench.queue.on_event(GROUP_ADD)
    assert bench.tiers() == {"a": "active", "b": "unschedulable"}
    bench.queue.done(bench.pop().info.uid)
    assert bench.tiers() == {"b": "active"}


def test_a_gate_that_stops_the_scout_lets_the_next_try() -> None:
    closed: set[str] = set()

    def gate(info: PodInfo) -> Status:
        return unschedulable("closed").by("Gate") if info.key in closed else SUCCESS

    bench = Bench(pre_enqueue=gate)
    park(bench, "abc")
    closed |= {"default/a", "default/b"}
    bench.queue.on_event(NODE_ADD)
    assert bench.tiers() == {"a": "gated", "b": "gated", "c": "backoff"}
    messages = {entry.pod: (entry.message, entry.plugins) for entry in bench.queue.view.snapshot()}
    assert messages["default/a"] == ("closed", ("Fit", "Gate"))
    assert messages["default/c"] == ("no", ("Fit",))
