"""The pod index keeps a bounded number of questions, and answers them all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.affinity import PodSet
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Requirement, Selector, equals
from scheduler.state import podindex
from scheduler.state.aspects import ChangeLog
from scheduler.state.labels import LabelColumn
from scheduler.state.podindex import PodIndex, TermCounter
from tests.builders import make_pod, pod_term


def app(name: str) -> PodSet:
    return PodSet(frozenset(("default",)), Selector((equals("app", name),)))


def test_the_question_that_was_not_asked_for_longest_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(podindex, "_KEPT_COUNTERS", 2)
    index = PodIndex({}, capacity=4, changes=ChangeLog())
    x, y = index.counter(app("x")), index.counter(app("y"))
    assert index.counter(app("x")) is x
    index.counter(app("z"))
    index.add(1, make_pod("p").label(app="y").info())
    assert y.total == 0, "nobody counts for a question that was given up"
    assert index.counter(app("x")) is x
    assert index.counter(app("y")).counts.tolist() == [0, 1, 0, 0]


def test_groups_are_remembered_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podindex, "_MEMO_BYTES", 500)
    index = PodIndex({}, capacity=1, changes=ChangeLog())
    counters = [index.counter(app(name)) for name in "xy"]
    for name in "xyx":
        index.add(0, make_pod("p").label(app=name).info())
    assert [counter.total for counter in counters] == [2, 1]


def test_a_new_question_is_asked_of_groups_that_were_there_before() -> None:
    index = PodIndex({}, capacity=1, changes=ChangeLog())
    pod = make_pod("p").label(app="x").info()
    index.add(0, pod)
    by_label, any_pod = index.counter(app("x")), index.counter(everything())
    assert (by_label.total, any_pod.total) == (1, 1)
    index.add(0, pod)
    assert (by_label.total, any_pod.total) == (2, 2)


def everything() -> PodSet:
    return PodSet(frozenset(("default",)), Selector())


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, 2, -1])), max_size=20))
def test_sums_over_domains_are_kept_true(changes: list[tuple[int, int]]) -> None:
    column = LabelColumn(["a", "b", None, "a", "b", "c"])
    (stated,) = make_pod("p").near(pod_term("zone", {})).info().affinity.required
    term = TermCounter("required", stated)
    zones = column.partition
    assert zones is not None
    for row, number in [(0, 3), *changes]:
        term.add(row, number)
        assert term.sums(zones).tolist() == zones.sums_of(term.rows, term.counts).tolist()
    column.set(2, "d")
    moved = column.partition
    assert moved is not None
    assert moved is not zones
    assert term.sums(moved).tolist() == moved.sums_of(term.rows, term.counts).tolist()


def test_counting_ahead_ends_when_the_counter_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    index = PodIndex({}, capacity=4, changes=ChangeLog())
    for number in range(4):
        index.add(number, make_pod(f"p{number}").label(app="x", number=str(number)).info())
    teams = Selector((Requirement("team", "In", frozenset("a")),))
    anywhere = PodSet(frozenset(("default",)), Selector(), teams)

    def drop_and_grow() -> None:
        index.namespace_changed({}, {"team": "a"})
        index.grow(8)
        index.add(7, make_pod("q").label(app="x", number="3").info())

    monkeypatch.setattr(podindex, "checkpoint", drop_and_grow)
    index.count_ahead(anywhere)
    assert index.counter(anywhere).total >= 4


def test_a_pod_whose_group_came_back_while_others_were_counted_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is expected while its group has no pods, and still waits to be counted."""
    index = PodIndex({}, capacity=4, changes=ChangeLog())
    first, *others = [make_pod(f"p{n}").label(app=f"x{n}").info() for n in range(3)]
    for pod in (first, *others):
        index.add(0, pod)
    gone: list[PodInfo] = []

    def pause() -> None:
        if not gone:
            gone.append(first)
            index.remove(0, first)
            index.expect(first)

    monkeypatch.setattr(podindex, "checkpoint", pause)
    index.count_ahead(everything())
    index.add(1, first)
    assert index.counter(everything()).counts.tolist() == [2, 1, 0, 0]
