"""Answers about rows: what filters and scores of webhooks and extenders have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.equivalence.reads import Reads
from scheduler.equivalence.verdicts import Answers
from scheduler.model.status import Status
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import MAX_SCORE
from scheduler.state.columns import Codes, Mask, Rows, Scores
from scheduler.state.interning import StatusTable
from scheduler.webhooks.answers import (
    REMOTE_ANSWERS,
    AnswerNeeded,
    Failed,
    Question,
    RemoteAnswers,
    RowAnswers,
    names_of,
)

FILTER, SCORE = "filter", "score"
_DTYPES: dict[str, Any] = {FILTER: np.int32, SCORE: np.int64}
_NOTHING = Reads()

AskRows = Callable[[str, Sequence[str]], Coroutine[Any, Any, Any]]
"""Asks about nodes at a point; returns an answer, or `Failed`."""
ReadRows = Callable[[Any, Sequence[str]], Answers]
"""A value per node from an answer."""


class WebhookError(Exception):
    """There is no answer, and the policy is to fail the attempt."""


def listening(cycle: Cycle, plugin: str) -> RemoteAnswers | None:
    """The answers about the pod; None in a trial, where nothing is asked.

    Callers that cannot wait for answers must leave out such pods (``RemotePoints.concerns``): to go
    on without them would place the pods, and keep that result for equal ones.
    """
    answers = cycle.find(REMOTE_ANSWERS)
    if answers is None and not cycle.state.changes.on_trial:
        raise WebhookError(f"{plugin} cannot be asked here")
    return answers


class RowQuestions:
    """Looks up the answers about rows, and has the rest asked."""

    def __init__(self, plugin: str, reads: Reads = _NOTHING) -> None:
        self._plugin = plugin
        self._reads = reads

    def lookup(
        self,
        cycle: Cycle,
        point: str,
        rows: Rows,
        key: Hashable,
        ask: AskRows,
        read: ReadRows,
    ) -> tuple[Answers, Mask, Failed | None]:
        """A value per row, the rows without one, and why, if asking has failed.

        Raises AnswerNeeded if asking might help. While the state is being changed on trial nothing
        is asked.
        """
        values: Answers = np.zeros(len(rows), _DTYPES[point])
        answers = listening(cycle, self._plugin)
        if answers is None:
            return values, np.ones(len(rows), np.bool_), None
        subject = (self._plugin, point)
        missing = answers.about(subject, rows, values)
        if not missing.any():
            return values, missing, None
        failed = answers.find(subject)
        if failed is not None:
            return values, missing, failed
        if (cycle.state.changes.on_trial and not answers.insists) or not answers.may_ask(subject):
            return values, missing, None
        raise AnswerNeeded(self._question(cycle, point, rows[missing], key, ask, read))

    def _question(
        self,
        cycle: Cycle,
        point: str,
        rows: Rows,
        key: Hashable,
        ask: AskRows,
        read: ReadRows,
    ) -> Question:
        state, subject = cycle.state, (self._plugin, point)
        names = names_of(rows, state)
        answers = RowAnswers(state, rows, self._reads, _DTYPES[point])

        async def asked() -> RowAnswers | Failed:
            answer = await ask(point, names)
            if isinstance(answer, Failed):
                return answer
            answers.fill(read(answer, names))
            return answers

        def record(pod: RemoteAnswers, answer: RowAnswers | Failed) -> None:
            if isinstance(answer, Failed):
                pod.record(subject, answer)
            else:
                pod.record_rows(subject, answer)

        profile = cycle.pod.pod.spec.scheduler_name
        together = (profile, *subject, key, rows.tobytes())
        return Question(self._plugin, together, asked, record, answers.bytes)


def codes_of(verdicts: Mapping[str, Status], names: Sequence[str], statuses: StatusTable) -> Codes:
    """Codes of nodes, of which those without a verdict fit."""
    codes: Codes = np.zeros(len(names), np.int32)
    if verdicts:
        for position, name in enumerate(names):
            if (status := verdicts.get(name)) is not None:
                codes[position] = statuses.code(status)
    return codes


def scores_of(scores: Mapping[str, int], names: Sequence[str], limit: int = MAX_SCORE) -> Scores:
    """Scores of nodes, of which those that are not named get 0; none beyond the limit."""
    if not scores:
        return np.zeros(len(names), np.int64)
    return np.array([min(max(scores.get(name, 0), -limit), limit) for name in names], np.int64)


def codes_or_pass(values: Answers, missing: Mask, left_out: int) -> Codes:
    """Codes, with ``left_out`` for the rows without answer."""
    codes: Codes = values.astype(np.int32, copy=False)
    codes[missing] = left_out
    return codes


def no_scores(rows: Rows) -> Scores:
    """Zero for all rows."""
    return np.zeros(len(rows), np.int64)
