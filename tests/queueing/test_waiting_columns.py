"""Waiting pods as rows of columns: what an event costs, and that it wakes all that it may."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import slices
from scheduler.model.events import Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Requirement, Selector
from scheduler.queueing import scheduling_queue, waiters
from scheduler.queueing.columns import Alike, Answer, Indexed, label_tokens, required_tokens
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.queued_pod import QueuedPod
from tests.cost.counting import cost
from tests.queueing.support import (
    GATES,
    NODE_ADD,
    NODE_TAINT,
    POD_DELETE,
    Bench,
    make_pod,
    park,
    reject,
)

ANYTHING = NODE_ADD.action | NODE_TAINT.action
A_BIT = 10
"""Operations for a waiter that is one of the bits of a number."""


class Calls:
    """A hint that counts how often it is asked, and cures pods with a label."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, pod: PodInfo, event: Event) -> Hint:
        self.count += 1
        return Hint.QUEUE if "cured" in pod.pod.metadata.labels else Hint.SKIP


class Everybody:
    """A column that returns the given answer."""

    def __init__(self) -> None:
        self.waiters: dict[int, str] = {}
        self.answers = 0
        self.doomed: set[str] = set()

    def add(self, waiter: int, pod: PodInfo) -> None:
        self.waiters[waiter] = pod.pod.metadata.name

    def remove(self, waiter: int) -> None:
        del self.waiters[waiter]

    def hopeless(self) -> Collection[int]:
        return [number for number, name in self.waiters.items() if name in self.doomed]

    def answer(self, event: Event) -> Answer:
        self.answers += 1
        return Answer(list(self.waiters))


class Broken(Everybody):
    """A column that fails."""

    def add(self, waiter: int, pod: PodInfo) -> None:
        if pod.pod.metadata.name == "odd":
            raise RuntimeError("cannot take it")
        super().add(waiter, pod)

    def answer(self, event: Event) -> Answer:
        raise RuntimeError("cannot say")


def kinds(bench: Bench, names: Collection[str], plugin: str = "P", **labels: str) -> None:
    """Have pods rejected that are all of different kinds, and let their back-off end."""
    for name in names:
        queued = bench.popped(make_pod(name, labels=labels))
        bench.queue.requeue_rejected(queued, [plugin], (), "no", name)
    bench.clock.advance(60)


def numbered(count: int) -> list[str]:
    return [f"p{number:03}" for number in range(count)]


@pytest.mark.parametrize("count", [1, 50, 100])
def test_an_event_asks_a_column_once_however_many_wait(count: int) -> None:
    hint, column = Calls(), Everybody()
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, hint, lambda: column)]})
    kinds(bench, numbered(count))
    bench.queue.on_event(NODE_ADD)
    assert (column.answers, hint.count) == (1, 0)
    assert bench.queue.active == count


@pytest.mark.parametrize("count", [1, 50, 100])
def test_hints_that_read_little_are_asked_once_for_all_who_are_alike(count: int) -> None:
    hint = Calls()
    registration = HintRegistration("Node", ANYTHING, hint, lambda: Alike(hint, lambda pod: None))
    bench = Bench({"P": [registration]})
    kinds(bench, numbered(count))
    bench.queue.on_event(NODE_ADD)
    assert hint.count == 1


def test_hints_without_a_column_are_called_some_at_once_and_the_others_later() -> None:
    hint = Calls()
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, hint)]})
    kinds(bench, numbered(500))
    kinds(bench, ["last"], cured="yes")
    bench.queue.on_event(NODE_ADD)
    assert hint.count == waiters.ASKED_AT_ONCE
    assert bench.pop().key == "default/last"
    assert hint.count == 501


def test_whoever_waits_no_longer_is_not_asked_later() -> None:
    hint = Calls()
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, hint)]})
    kinds(bench, numbered(200))
    bench.queue.on_event(NODE_ADD)
    for name in numbered(200):
        bench.queue.delete(make_pod(name))
    assert bench.queue.pop() is None
    assert hint.count == waiters.ASKED_AT_ONCE


def test_beyond_a_bound_pods_count_as_cured_and_that_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiters, "MOST_PUT_OFF", 100)
    hint = Calls()
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, hint)]})
    kinds(bench, numbered(150))
    bench.queue.on_event(NODE_ADD)
    bench.queue.on_event(NODE_TAINT)
    assert hint.count == waiters.ASKED_AT_ONCE
    assert bench.sample("equipoise_queueing_hints_skipped_total", plugin="P") == 150
    assert bench.queue.active == 150


def test_many_are_woken_in_the_order_of_the_queue_and_those_without_room_stay() -> None:
    column, room = Everybody(), [3]

    def no_room(queued: QueuedPod) -> bool:
        return room[0] <= 0

    registration = HintRegistration("Node", ANYTHING, Calls(), lambda: column)
    bench = Bench({"P": [registration]}, still_rejected=no_room)
    kinds(bench, numbered(200))
    bench.queue.on_event(NODE_ADD)
    bench.queue.add(make_pod("new"))
    placed = []
    while (queued := bench.queue.pop()) is not None:
        placed.append(queued.key)
        bench.queue.done(queued.info.uid)
        room[0] -= 1
    assert placed == ["default/p000", "default/p001", "default/p002", "default/new"]
    assert bench.queue.view.counts()["unschedulable"] == 197
    assert bench.sample("equipoise_attempts_spared_total") == 197


def test_a_pod_of_higher_priority_goes_first_though_many_were_marked_before_it() -> None:
    registration = HintRegistration("Node", ANYTHING, Calls(), Everybody)
    other = HintRegistration("Node", NODE_TAINT.action, Calls(), Everybody)
    bench = Bench({"P": [registration], "Q": [other]})
    queued = bench.popped(make_pod("urgent", priority=5))
    bench.queue.requeue_rejected(queued, ["Q"], (), "no", "urgent")
    kinds(bench, numbered(200))
    bench.queue.on_event(NODE_ADD)
    assert bench.pop().key == "default/p000"
    bench.queue.on_event(NODE_TAINT)
    assert bench.pop().key == "default/urgent"


async def test_events_that_come_while_pods_are_woken_wake_no_more_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, Calls(), Everybody)]})
    kinds(bench, numbered(900))

    async def events() -> None:
        while True:
            bench.queue.on_event(NODE_ADD)
            await asyncio.sleep(0)

    coming = asyncio.create_task(events())
    await asyncio.sleep(0)
    for name in numbered(100):
        queued = await slices.in_slices(bench.queue.pop)
        assert queued is not None
        assert queued.key == f"default/{name}"
        assert bench.queue.view.counts()["active"] < scheduling_queue.MOST_WOKEN
    coming.cancel()


def test_whoever_comes_after_active_pods_is_not_woken_before_them() -> None:
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, Calls(), Everybody)]})
    kinds(bench, numbered(100))
    for name in ("urgent", "pressing"):
        bench.queue.add(make_pod(name, priority=5))
    bench.queue.on_event(NODE_ADD)
    assert [bench.pop().key, bench.pop().key] == ["default/urgent", "default/pressing"]
    assert bench.queue.view.counts()["unschedulable"] == 100
    assert bench.pop().key == "default/p000"


def test_a_pod_that_changes_before_it_is_woken_is_woken_all_the_same() -> None:
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, Calls(), Everybody)]})
    kinds(bench, numbered(100))
    bench.queue.on_event(NODE_ADD)
    bench.queue.update(make_pod("p099"), make_pod("p099", labels={"new": "label"}))
    assert bench.tiers()["p099"] == "active"


def test_a_pod_that_changes_before_it_is_asked_about_is_woken() -> None:
    hint = Calls()
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, hint)]})
    kinds(bench, numbered(100))
    bench.queue.on_event(NODE_ADD)
    bench.queue.update(make_pod("p099"), make_pod("p099", labels={"new": "label"}))
    assert bench.tiers()["p099"] == "active"


def test_a_column_that_names_strangers_wakes_only_those_who_wait() -> None:
    class Strange(Everybody):
        def answer(self, event: Event) -> Answer:
            return Answer([0, *range(7, 200)], [0, 8])

        def remove(self, waiter: int) -> None:
            raise RuntimeError("cannot forget")

    bench = Bench({"P": [HintRegistration("Node", ANYTHING, Calls(), Strange)]})
    kinds(bench, ["a"])
    bench.queue.on_event(NODE_ADD)
    assert bench.pop().key == "default/a"
    assert bench.queue.pop() is None


def test_whom_a_plugin_rejects_everywhere_is_not_woken() -> None:
    column = Everybody()
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, Calls(), lambda: column)]})
    kinds(bench, numbered(200))
    bench.queue.on_event(NODE_ADD)
    column.doomed = set(numbered(199))
    assert bench.pop().key == "default/p199"
    assert bench.queue.pop() is None


def test_a_woken_pod_that_goes_back_keeps_its_place_and_hears_the_next_event() -> None:
    refused = [True]
    registration = HintRegistration("Node", ANYTHING, Calls(), Everybody)
    bench = Bench({"P": [registration]}, still_rejected=lambda queued: refused[0])
    kinds(bench, ["a", "b"])
    bench.queue.on_event(NODE_ADD)
    assert bench.queue.pop() is None
    assert bench.tiers() == {"a": "unschedulable", "b": "unschedulable"}
    refused[0] = False
    bench.queue.on_event(NODE_ADD)
    assert [bench.pop().key, bench.pop().key] == ["default/a", "default/b"]


def test_a_pod_that_backs_off_since_its_first_attempt_goes_back_among_others() -> None:
    hints = {
        "P": [HintRegistration("Node", ANYTHING)],
        "Q": [HintRegistration("PodGroup", ANYTHING)],
    }
    refused = [False]
    bench = Bench(hints, still_rejected=lambda queued: refused[0])
    bench.rejected(make_pod("a"), "Q")
    early = bench.popped(make_pod("b"))
    bench.queue.on_event(NODE_ADD)
    bench.queue.requeue_rejected(early, ["P"], (), "no")
    assert bench.tiers() == {"a": "unschedulable", "b": "backoff"}, "b has never waited for events"
    refused[0] = True
    assert bench.queue.pop() is None
    assert bench.tiers() == {"a": "unschedulable", "b": "unschedulable"}


@pytest.mark.parametrize("changed_in_flight", [False, True], ids=["while parked", "in flight"])
def test_a_pod_that_was_changed_does_not_go_back_to_its_former_equals(
    changed_in_flight: bool,
) -> None:
    refused = [False]
    bench = Bench(still_rejected=lambda queued: refused[0])
    park(bench, "ab", "Taints")
    changed = make_pod("a", tolerations=1)
    if changed_in_flight:
        bench.clock.advance(60)
        bench.queue.on_event(NODE_TAINT)
        scout = bench.pop()
        bench.queue.update(make_pod("a"), changed)
        reject(bench, scout, "Taints")
    else:
        bench.queue.update(make_pod("a"), changed)
    assert bench.tiers()["a"] == "backoff"
    refused[0] = True
    if changed_in_flight:
        reject(bench, bench.pop(), "Taints")  # the next scout, b
    assert bench.queue.pop() is None
    assert bench.tiers() == {"a": "unschedulable", "b": "unschedulable"}
    refused[0] = False
    bench.clock.advance(60)
    bench.queue.on_event(NODE_TAINT)
    assert {bench.pop().key, bench.pop().key} == {"default/a", "default/b"}, "each on its own"


def test_a_new_pod_is_tried_even_if_it_would_be_rejected() -> None:
    bench = Bench(still_rejected=lambda queued: True)
    assert bench.popped(make_pod("new")).attempts == 1


def test_a_column_that_fails_cures_everybody_and_whom_it_cannot_take_is_asked() -> None:
    hint = Calls()
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, hint, Broken)]})
    kinds(bench, ["even", "odd"])
    bench.queue.on_event(NODE_ADD)
    assert bench.tiers() == {"even": "active", "odd": "active"}


def test_pods_that_were_parked_for_too_long_are_tried_some_in_a_second() -> None:
    bench = Bench({"P": [HintRegistration("Node", ANYTHING)]})
    kinds(bench, numbered(200))
    bench.clock.advance(300)
    bench.queue.flush()
    assert bench.queue.view.counts()["active"] == scheduling_queue.EXPIRED_PER_SECOND
    assert bench.queue.next_deadline() == bench.clock() + 1.0
    bench.clock.advance(1.0)
    bench.queue.flush()
    assert bench.queue.view.counts()["active"] == 2 * scheduling_queue.EXPIRED_PER_SECOND


def test_what_nobody_listens_to_asks_nobody() -> None:
    hint = Calls()
    bench = Bench({"P": [HintRegistration("Node", ANYTHING, hint)]})
    kinds(bench, numbered(10))
    bench.queue.on_event(POD_DELETE)
    assert hint.count == 0


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
REQUIREMENTS = st.builds(
    Requirement,
    KEYS,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.frozensets(VALUES, min_size=1),
)


@given(
    selectors=st.lists(st.lists(REQUIREMENTS, max_size=3), max_size=6),
    labels=st.dictionaries(KEYS, VALUES),
    gone=st.sets(st.integers(0, 5)),
)
def test_an_index_finds_everybody_whose_selector_matches(
    selectors: list[list[Requirement]], labels: dict[str, str], gone: set[int]
) -> None:
    index = Indexed(
        lambda pod: [required_tokens(selectors[int(pod.uid)])], lambda event: label_tokens(labels)
    )
    for number in range(len(selectors)):
        index.add(number, make_pod("p", uid=str(number)))
    left = [number for number in range(len(selectors)) if number not in gone]
    for number in gone & set(range(len(selectors))):
        index.remove(number)
    matching = {n for n in left if Selector(tuple(selectors[n])).matches(labels)}
    found = set(index.answer(NODE_ADD).unsure)
    assert matching <= found <= set(left)


def test_an_index_finds_the_few_whom_an_event_concerns() -> None:
    both = [Requirement("app", "In", frozenset(["web"]))]
    index = Indexed(
        lambda pod: [required_tokens([*both, Requirement("id", "In", frozenset([pod.uid]))])],
        lambda event: label_tokens({"app": "web", "id": "7"}),
    )
    for number in range(1000):
        index.add(number, make_pod("p", uid=str(number)))
    assert len(index.answer(NODE_ADD).unsure) <= 2


class AllAtOnce(Everybody):
    """The same, as the bits of one number that was made before."""

    bits = 0

    def answer(self, event: Event) -> Answer:
        return Answer(self.bits)


def test_one_gated_pod_does_not_make_an_event_dearer_for_all_who_wait() -> None:
    def marking(count: int) -> int:
        column = AllAtOnce()
        bench = Bench({GATES: [HintRegistration("Node", ANYTHING, Calls(), lambda: column)]})
        kinds(bench, numbered(count), GATES)
        bench.queue.add(make_pod("gated", gates=["g"]))
        column.bits = sum(1 << number for number in column.waiters)
        taken = cost(lambda: bench.queue.on_event(NODE_ADD)).operations
        assert bench.queue.active == count + 1
        return taken

    assert marking(400) <= marking(100) + 300 * A_BIT
