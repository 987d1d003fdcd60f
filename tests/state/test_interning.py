"""Numbers for values, and memory that stays bounded whatever pods ask."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.nodes import Node
from scheduler.model.selectors import Requirement, equals
from scheduler.model.status import SUCCESS, unschedulable
from scheduler.state.cache import ClusterState
from scheduler.state.interning import InternedAnswers, Interner, StatusTable, distinct_codes
from scheduler.state.labels import LabelColumns
from scheduler.state.row_values import RowValues
from tests.builders import make_node


def test_equal_values_share_a_number() -> None:
    interner = Interner("a")
    assert [interner.intern(value) for value in "abab"] == [0, 1, 0, 1]
    assert interner.find("b") == 1
    assert interner.find("c") is None


def test_code_zero_lets_pass_and_others_name_a_status() -> None:
    table = StatusTable()
    status = unschedulable("no")
    assert table.status(0) == SUCCESS
    assert table.status(table.code(status)) == status
    assert table.code(unschedulable("no")) == table.code(status) != 0


def test_the_table_says_when_it_is_too_large_and_starts_anew() -> None:
    table = StatusTable()
    table.code(unschedulable("first"))
    assert not table.overfull
    for i in range(StatusTable.LIMIT):
        table.code(unschedulable(f"reason {i}"))
    assert table.overfull
    generation = table.generation
    table.restart()
    assert table.generation > generation
    assert not table.overfull
    assert table.status(0) == SUCCESS
    assert table.code(unschedulable("another")) == 1


def test_each_value_is_asked_about_once() -> None:
    interner, asked = Interner("a", "bb"), []

    def length(value: str) -> int:
        asked.append(value)
        return len(value)

    answers: InternedAnswers[str, str] = InternedAnswers(interner, np.int64, len)
    assert answers.ask("length", length).tolist() == [1, 2]
    interner.intern("ccc")
    assert answers.ask("length", length).tolist() == [1, 2, 3]
    assert asked == ["a", "bb", "ccc"]
    interner.restart("dddd")
    assert answers.ask("length", length).tolist() == [4]


def test_the_least_recent_question_is_dropped() -> None:
    asked = []

    def note(question: str) -> int:
        def answer(_value: str) -> int:
            asked.append(question)
            return 0

        answers.ask(question, answer)
        return len(asked)

    answers: InternedAnswers[str, str] = InternedAnswers(Interner("x"), np.int64, len, limit=2)
    for question in ("a", "b", "a", "c", "a", "b"):
        note(question)
    assert asked == ["a", "b", "c", "b"]  # b went when c came, because a had been asked since


def test_a_long_question_is_answered_and_not_kept() -> None:
    answers: InternedAnswers[str, str] = InternedAnswers(Interner("x"), np.int64, len)
    for question in ("a" * 32, "a" * 33):
        assert answers.ask(question, len).tolist() == [1]
    assert list(answers._known) == ["a" * 32]


def test_long_reasons_fill_the_table_sooner() -> None:
    table = StatusTable()
    table.TEXT = 100
    for _ in range(3):
        table.code(unschedulable("a" * 60))
    assert not table.overfull
    table.code(unschedulable("b" * 60))
    assert table.overfull
    table.restart()
    assert not table.overfull


def test_label_columns_follow_many_changing_values() -> None:
    """Values of nodes that are gone are dropped, and answers stay right throughout."""
    nodes: list[Node | None] = [None] * 4
    columns = LabelColumns(nodes)
    rows = np.arange(4)
    for i in range(500):
        row = i % 4
        nodes[row] = make_node("n").label(host=f"h{i}").struct()
        columns.set(row, nodes[row])
        assert columns.satisfy([equals("host", f"h{i}")], rows).tolist() == [
            other == row for other in range(4)
        ]
        assert len(columns.column("host").values) <= 2 * 4 + 64 + 1


def test_label_columns_of_many_keys_are_bounded_and_right() -> None:
    nodes: list[Node | None] = [make_node("n").label(k1="v").struct()]
    columns = LabelColumns(nodes)
    rows = np.arange(1)
    for i in range(2000):
        assert columns.satisfy([Requirement(f"k{i}", "Exists")], rows).tolist() == [i == 1]
    assert columns.bytes == columns.column("k1").bytes


def test_taint_sets_that_no_node_has_any_more_are_dropped() -> None:
    state = ClusterState()
    for i in range(1000):
        state.set_node(make_node("steady").taint("zone", "a").struct())
        state.set_node(make_node("changing").taint("since", str(i)).struct())
    assert state.columns.taints.usage().bytes <= 2 * RowValues.SPARE
    assert state.describe("steady")["taints"][0]["key"] == "zone"
    assert state.describe("changing")["taints"][0]["value"] == "999"


@given(st.lists(st.integers(0, 70_000)))
def test_the_codes_that_occur_are_told_once_and_in_order(codes: list[int]) -> None:
    assert distinct_codes(np.array(codes, np.int32)) == sorted(set(codes))
