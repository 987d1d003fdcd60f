"""Sets of taints, features and conditions that no node has any more are given up."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.bounded import Usage
from scheduler.state.cache import ClusterState
from scheduler.state.interning import InternedAnswers, Interner
from scheduler.state.row_values import RowValues
from tests.builders import make_node


def test_sets_that_no_node_has_any_more_are_given_up() -> None:
    state = ClusterState()
    state.set_node(make_node("still").status(declaredFeatures=["kept"]).struct())
    for number in range(1000):
        condition = {"type": f"Type{number}", "status": "True"}
        features = [f"feature-{number}"]
        node = make_node("n").status(conditions=[condition], declaredFeatures=features)
        state.set_node(node.taint(f"key-{number}").struct())
    columns = state.columns
    for values in (columns.taints, columns.features, columns.conditions):
        assert values.usage().bytes <= 2 * RowValues.SPARE
        assert len(values.interner) < 200
    row, still = state.row("n"), state.row("still")
    assert row is not None
    assert still is not None
    assert columns.features.of(row) == ("feature-999",)
    assert columns.features.of(still) == ("kept",)
    assert columns.conditions.of(row) == frozenset({("Type999", "True")})


def test_values_are_dropped_by_their_bytes() -> None:
    """Two long values take as much as many short ones."""
    values: RowValues[str] = RowValues("", 4, len)
    values.set(0, "kept")
    values.set(1, "x" * 2 * RowValues.SPARE)
    generation = values.interner.generation
    values.set(1, "y")
    assert values.interner.generation == generation + 1
    assert values.interner.values == ["", "kept", "y"]
    assert [values.of(row) for row in range(4)] == ["kept", "y", "", ""]
    assert values.usage() == Usage(3, 2 * 400 + len("kept" + "y"))


def test_a_value_that_most_rows_have_stays() -> None:
    values: RowValues[str] = RowValues("", 4, len)
    long = "x" * 4 * RowValues.SPARE
    values.set(0, long)
    values.set(1, "y" * 2 * RowValues.SPARE)
    values.clear(1)
    assert len(values.interner) == 3, "half of what is in use may be unused"
    values.clear(0)
    assert values.interner.values == [""]
    assert values.usage() == Usage(1, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["", "a", "b" * 9, "c" * 99]))))
def test_every_row_has_the_value_that_was_set_last(changes: list[tuple[int, str]]) -> None:
    values, known = SmallSpare("", 2, len), dict.fromkeys(range(6), "")
    values.grow(6)
    for row, value in changes:
        values.set(row, value)
        known[row] = value
        assert {row: values.of(row) for row in known} == known
        used = sum(400 + len(each) for each in {*known.values()} - {""})
        assert used <= values.usage().bytes <= 2 * used + SmallSpare.SPARE + 499


class SmallSpare(RowValues[str]):
    SPARE = 100


def test_answers_are_bounded_in_bytes() -> None:
    values: Interner[int] = Interner(*range(10_000))
    answers: InternedAnswers[int, int] = InternedAnswers(values, np.int64, lambda question: 1)
    for question in range(500):
        answers.ask(question, lambda value: value)
    usage = answers.usage()
    assert usage.bytes <= InternedAnswers.BYTES
    assert usage.entries == InternedAnswers.BYTES // (80_000 + 400)
    assert usage.evictions == 500 - usage.entries
    values.restart(1, 2)
    answers.ask(0, lambda value: value)
    assert answers.usage()[:2] == (1, 400 + 16)


def test_a_question_asked_again_counts_once() -> None:
    values: Interner[int] = Interner(1)
    answers: InternedAnswers[str, int] = InternedAnswers(values, np.bool_, len)
    for _ in range(3):
        answers.ask("ab", bool)
        values.intern(len(values) + 1)
    assert answers.usage()[:2] == (1, 600 + 3)
