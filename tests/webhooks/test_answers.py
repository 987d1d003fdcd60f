"""What a pod was told about rows, in codes of verdicts."""

from __future__ import annotations

import numpy as np

from scheduler.equivalence.reads import Reads
from scheduler.model.status import unschedulable
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.webhooks.answers import MAX_ROUNDS, RemoteAnswers, RowAnswers
from tests.builders import make_node

SUBJECT = ("plugin", "filter")
READS = Reads(rows=frozenset({Aspect.TAINTS}))


def a_state() -> ClusterState:
    state = ClusterState()
    for i in range(3):
        state.set_node(make_node(f"n{i}").struct())
    return state


def asked(state: ClusterState) -> RowAnswers:
    return RowAnswers(state, state.rows(), READS, np.int32)


def answered(state: ClusterState) -> RowAnswers:
    answers = asked(state)
    answers.fill(np.full(3, state.statuses.code(unschedulable("not here")), np.int32))
    return answers


def unknown_rows(told: RemoteAnswers, state: ClusterState) -> int:
    return int(told.about(SUBJECT, state.rows(), np.zeros(3, np.int32)).sum())


def test_answers_are_void_when_codes_are_given_out_anew() -> None:
    state, told, other = a_state(), RemoteAnswers(), RemoteAnswers()
    answers = answered(state)
    told.record_rows(SUBJECT, answers)
    other.record_rows(SUBJECT, answers)  # equal questions are asked once
    assert unknown_rows(told, state) == 0
    state.statuses.restart()
    assert unknown_rows(told, state) == 3
    assert unknown_rows(other, state) == 3


def test_an_answer_that_comes_after_codes_were_given_out_anew_holds() -> None:
    state, told = a_state(), RemoteAnswers()
    answers = asked(state)
    state.statuses.restart()
    state.set_node(make_node("n1").taint("a", "NoSchedule").struct())
    answers.fill(np.full(3, state.statuses.code(unschedulable("not here")), np.int32))
    told.record_rows(SUBJECT, answers)
    assert unknown_rows(told, state) == 1, "of the node that has changed since the question"


def test_answers_that_are_void_do_not_count_as_rounds() -> None:
    state, told = a_state(), RemoteAnswers()
    for _ in range(MAX_ROUNDS):
        told.record_rows(SUBJECT, answered(state))
    assert told.uses_stale_answers
    assert not told.may_ask(SUBJECT)
    state.statuses.restart()
    assert not told.uses_stale_answers
    assert told.may_ask(SUBJECT)
