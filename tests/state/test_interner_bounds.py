"""Sets of taints, features and conditions that no node has any more are given up."""

from __future__ import annotations

import numpy as np

from scheduler.state.cache import ClusterState
from scheduler.state.interning import InternedAnswers, Interner
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
    most = 2 * columns.capacity + 65
    for sets in (columns.taint_sets, columns.feature_sets, columns.condition_sets):
        assert len(sets) <= most
    row, still = state.row("n"), state.row("still")
    assert row is not None
    assert columns.feature_sets.values[columns.feature_set[row]] == ("feature-999",)
    assert columns.feature_sets.values[columns.feature_set[still]] == ("kept",)
    held = columns.condition_sets.values[columns.condition_set[row]]
    assert held == frozenset({("Type999", "True")})


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
