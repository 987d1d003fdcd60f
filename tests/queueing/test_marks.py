"""Marks are what a dictionary of marks would be, and thousands of them cost what one costs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queueing.hints import Requeue
from scheduler.queueing.waiters import Mark, Marks

NUMBERS = st.integers(0, 99)
SETS = st.sets(NUMBERS)
STEPS = st.one_of(
    st.tuples(st.just("join"), NUMBERS, st.integers(0, 5)),
    st.tuples(st.just("leave"), NUMBERS),
    st.tuples(st.just("put"), NUMBERS, st.sampled_from(["", "uid"])),
    st.tuples(
        st.just("put_all"),
        SETS,
        st.sampled_from(["NodeAdd", "PodDelete"]),
        st.sampled_from(["", "uid", "other"]),
    ),
    st.tuples(st.just("drop"), SETS),
    st.tuples(st.just("take"), st.integers(0, 5)),
)


class Model:
    """The same in the plainest way."""

    def __init__(self) -> None:
        self.ranks: dict[int, int] = {}
        self.marks: dict[int, Mark] = {}

    def first(self, most: int) -> list[int]:
        return sorted(self.marks, key=lambda number: (self.ranks[number], number))[:most]


def play(marks: Marks, model: Model, step: tuple[Any, ...]) -> None:
    match step:
        case "join", number, rank if number not in model.ranks:
            marks.join(number, rank)
            model.ranks[number] = rank
        case "leave", number if number in model.ranks:
            marks.leave(number)
            del model.ranks[number]
            model.marks.pop(number, None)
        case "put", number, exclude if number in model.ranks:
            mark = Mark(Requeue.AT_ONCE, "Scale", exclude)
            marks.put(number, mark)
            model.marks[number] = mark
        case "put_all", numbers, label, exclude:
            marks.put_all(numbers, label, exclude)
            for number in numbers & model.ranks.keys():
                before = model.marks.get(number)
                excluded = exclude if before is None or before.exclude == exclude else ""
                model.marks[number] = Mark(Requeue.AFTER_BACKOFF, label, excluded)
        case "drop", numbers:
            marks.drop(sum(1 << number for number in numbers))
            for number in numbers:
                model.marks.pop(number, None)
        case "take", most:
            assert marks.first(most) == model.first(most)
            for number in model.first(most):
                assert marks.pop(number) == model.marks.pop(number)


@given(st.lists(STEPS))
def test_marks_are_those_of_a_dictionary(steps: list[tuple[Any, ...]]) -> None:
    marks, model = Marks(), Model()
    for number in range(0, 100, 2):
        play(marks, model, ("join", number, number % 7))
    for step in steps:
        play(marks, model, step)
        assert len(marks) == len(model.marks)
        assert {each: marks.get(each) for each in model.marks} == model.marks
        assert marks.first(100) == model.first(100)
        assert marks.leading() == next(iter(model.first(1)), None)


def lines(work: Any) -> int:
    """How many lines of Python something takes."""
    count = 0

    def trace(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("exclude", ["", "uid"])
@pytest.mark.parametrize("waiting", [100, 10_000])
def test_to_mark_and_to_wipe_all_costs_the_same_however_many_wait(
    waiting: int, exclude: str
) -> None:
    marks, everybody = Marks(), (1 << waiting) - 1
    for number in range(waiting):
        marks.join(number, number)
    marks.put(3, Mark(Requeue.AT_ONCE, "Scale"))

    def events() -> None:
        marks.put_all(everybody, "PodDelete", exclude)
        assert marks.first(1) == [0]
        marks.drop(everybody - 1)

    assert lines(events) < 80
    assert len(marks) == 1


def test_somebody_leaves_though_keys_have_no_order() -> None:
    marks = Marks()
    for number, rank in enumerate([1.0, float("nan"), 0.0, float("nan"), 2.0]):
        marks.join(number, rank)
    for number in range(5):
        marks.leave(number)
    assert marks.first(5) == []


def test_many_events_that_exclude_different_pods_take_little_memory() -> None:
    marks = Marks()
    for number in range(1000):
        marks.join(number, number)
        marks.put_all({number}, "PodDelete", f"uid-{number}")
    assert len(marks._alike) <= 66
    assert len(marks) == 1000
