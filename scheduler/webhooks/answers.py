"""Answers of remote plugins, needed in the middle of an attempt.

A cycle never awaits. A plugin that lacks an answer raises `AnswerNeeded`; the attempt ends, the
question is asked in a task of its own, and when the answer is there the attempt is made again from
the start. The answers so far are in the pod's `RemoteAnswers`, in a slot of each new cycle::

    attempt ─► filter: no answer ─► AnswerNeeded ─► (other pods) ─► record ─► attempt again

An answer about rows is true as of the moment of the question. Rows that have since changed in what
the answer depends on are asked about again, a few times; then the stale answer is used.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from contextvars import ContextVar
from typing import Any

import msgspec
import numpy as np

from scheduler.equivalence.reads import Reads
from scheduler.equivalence.verdicts import AnswerColumn, Answers, CacheStatistics, ChangeReader
from scheduler.plugin_api.cycle import Slot
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows

MAX_ROUNDS = 4
"""How many times an attempt asks one plugin at one point.

Rounds 1 to 3 ask about the rows whose answers are missing or stale. Round 4 drops what is kept for
the class and asks about all rows without an answer. After that, stale answers are used, and nodes
that are new are left out.
"""

EXPLAINING: ContextVar[bool] = ContextVar("explaining", default=False)
"""Whether a question is asked for an explanation, not for scheduling."""

WHOLE_BYTES = 4096
"""About what an answer on the pod as a whole takes."""

_NOTHING = Reads()


Subject = tuple[str, ...]
"""Plugin, point, and perhaps a node."""


class Failed(msgspec.Struct, frozen=True):
    """There is no answer; the message says why."""

    message: str


class RowAnswers:
    """Answers about rows, as of now: made with the question, filled by the answer."""

    def __init__(self, state: ClusterState, rows: Rows, reads: Reads, dtype: Any) -> None:
        self.rows = rows
        self._statuses = state.statuses
        self._generation = state.statuses.generation
        self._readers = [ChangeReader(state, _NOTHING)]
        capacity = state.columns.capacity
        uncounted = CacheStatistics()
        self._answered = AnswerColumn(
            "", None, _NOTHING, self._readers[0], capacity, dtype, uncounted
        )
        self._fresh = self._answered
        """As ``_answered``, without the rows that have changed since in what the answer reads.
        ``_answered`` drops only rows that hold another node now.

        One array for both, if the answer depends on nothing else: waiting pods have many.
        """
        if reads != _NOTHING:
            self._readers.append(ChangeReader(state, reads))
            self._fresh = AnswerColumn(
                "", None, reads, self._readers[1], capacity, dtype, uncounted
            )
        for column in (self._fresh, self._answered):
            column.sync(int(rows.max(initial=0)))
            column.known[rows] = True

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        columns = {id(each): each for each in (self._fresh, self._answered)}.values()
        return sum(each.values.nbytes + each.known.nbytes for each in columns)

    def fill(self, values: Answers) -> None:
        """Record the answer, one value per row."""
        self._fresh.values[self.rows] = values
        self._answered.values[self.rows] = values
        self._generation = self._statuses.generation
        for reader in self._readers:
            reader.rewritten()

    @property
    def outdated(self) -> bool:
        """Whether codes of verdicts were given out anew since the answer came."""
        return self._generation != self._statuses.generation

    def take(self, rows: Rows, into: Answers, *, old: bool) -> Mask:
        """Put the answers for rows into an array; returns which rows have one."""
        column = self._answered if old else self._fresh
        column.sync(int(rows.max(initial=0)))
        known: Mask = column.known[rows]
        into[known] = column.values[rows[known]]
        return known


class RemoteAnswers:
    """What remote plugins have answered about one pod in one attempt."""

    def __init__(self, *, insists: bool = False) -> None:
        self.insists = insists
        """Ask even in a trial, as for an explanation."""
        self._failed = False
        self._whole: dict[Subject, Any] = {}
        self._rows: dict[Subject, list[RowAnswers]] = {}

    @property
    def bytes(self) -> int:
        """About how much memory the answers take."""
        rows = sum(answers.bytes for several in self._rows.values() for answers in several)
        return rows + WHOLE_BYTES * len(self._whole)

    @property
    def uses_stale_answers(self) -> bool:
        """Result must not be cached: it depends on stale answers, or on missing ones."""
        if not self._rows:  # the common case: no remote plugin judges the pod
            return self._failed
        return self._failed or any(map(self._may_be_stale, self._rows))

    def may_ask(self, subject: Subject) -> bool:
        """Whether another question on a subject is allowed."""
        return len(self._row_answers(subject)) < MAX_ROUNDS

    def _may_be_stale(self, subject: Subject) -> bool:
        return len(self._row_answers(subject)) >= MAX_ROUNDS - 1

    def _row_answers(self, subject: Subject) -> list[RowAnswers]:
        """The answers about rows whose codes still mean what they said; one for each round."""
        answers = self._rows.get(subject, [])
        if any(each.outdated for each in answers):
            answers[:] = [each for each in answers if not each.outdated]
        return answers

    def find(self, subject: Subject) -> Any:
        """The answer on a subject; None if there is none."""
        return self._whole.get(subject)

    def times(self, plugin: str, point: str) -> int:
        """How many answers on the pod as a whole a plugin has given at a point."""
        return sum(subject[:2] == (plugin, point) for subject in self._whole)

    def record(self, subject: Subject, answer: Any) -> None:
        """Keep an answer on the pod as a whole, or that there is none (`Failed`)."""
        self._whole[subject] = answer
        self._failed |= isinstance(answer, Failed)

    def record_rows(self, subject: Subject, answers: RowAnswers) -> None:
        """Remember an answer about rows."""
        self._rows.setdefault(subject, []).append(answers)

    def about(self, subject: Subject, rows: Rows, values: Answers) -> Mask:
        """Put the answers about rows into an array; returns the rows without answer."""
        missing = np.ones(len(rows), np.bool_)
        old = self._may_be_stale(subject)
        for answers in self._row_answers(subject):
            missing &= ~answers.take(rows, values, old=old)
        return missing

    def restart(self) -> None:
        """Forget everything: the pod is no longer the one that was asked about."""
        self._rows.clear()
        self._whole.clear()
        self._failed = False


REMOTE_ANSWERS: Slot[RemoteAnswers] = Slot("remote answers")


class Question(msgspec.Struct, frozen=True):
    """A question to a remote plugin, and how to record the answer."""

    plugin: str
    key: Hashable
    """Equal for questions that have the same answer, which are then asked once."""
    ask: Callable[[], Coroutine[Any, Any, Any]]
    """Never raises: without an answer it returns `Failed`."""
    record: Callable[[RemoteAnswers, Any], None]
    """Put the answer into those of a pod."""
    bytes: int = WHOLE_BYTES
    """About how much memory the answer will take."""


class AnswerNeeded(BaseException):
    """The attempt cannot go on without an answer. Not an Exception: it must not be contained."""

    def __init__(self, question: Question) -> None:
        super().__init__(f"{question.plugin} has to be asked")
        self.question = question


def names_of(rows: Rows, state: ClusterState) -> list[str]:
    """The names of the nodes in rows, in their order."""
    names = state.columns.names
    return [names[row] for row in rows.tolist()]
