"""Answers that somebody outside has to give, asked for in the middle of an attempt.

A cycle never awaits. A plugin that lacks an answer raises `AnswerNeeded`; the attempt is given up,
the question is asked in a task of its own, and when the answer is there the attempt is made again
from the start. What the pod was told so far is in its `Told`, in a slot of each new cycle::

    attempt ─► filter: not told ─► AnswerNeeded ─► (others are scheduled) ─► told ─► attempt again

An answer about rows holds as of the moment of the question. Rows of which something has changed
since that the answer depends on are asked about again, a few times; then the old answer will do.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from contextvars import ContextVar
from typing import Any

import msgspec
import numpy as np

from scheduler.equivalence.reads import Reads
from scheduler.equivalence.verdicts import AnswerColumn, Answers, CacheStatistics, ChangeReader
from scheduler.framework.cycle import Slot
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows

MAX_ROUNDS = 4
"""So often an attempt asks one plugin at one point; what is new since then is left out.

Before the last time it lets go of what is kept for its class, and asks about all rows that it was
told nothing of: from then on, old answers will do.
"""

EXPLAINING: ContextVar[bool] = ContextVar("explaining", default=False)
"""Whether a question is asked to explain something, and not to schedule anybody."""

WHOLE_BYTES = 4096
"""About what an answer that is not about rows takes."""

_UNCOUNTED = CacheStatistics()
_NOTHING = Reads()


Subject = tuple[str, ...]
"""Plugin, point, and perhaps a node."""


class Failed(msgspec.Struct, frozen=True):
    """No answer came; the text says why."""

    message: str


class RowAnswers:
    """What somebody says about rows, as of now: made with the question, filled by the answer."""

    def __init__(self, state: ClusterState, rows: Rows, reads: Reads, dtype: Any) -> None:
        self.rows = rows
        self._statuses = state.statuses
        self._generation = state.statuses.generation
        self._readers = [ChangeReader(state, _NOTHING)]
        capacity = state.columns.capacity
        self._heard = AnswerColumn(
            "", None, _NOTHING, self._readers[0], capacity, dtype, _UNCOUNTED
        )
        self._fresh = self._heard
        """The same, but of what was heard only a row that holds another node now is forgotten.

        One array for both, if the answer depends on nothing else: pods that wait have many.
        """
        if reads != _NOTHING:
            self._readers.append(ChangeReader(state, reads))
            self._fresh = AnswerColumn(
                "", None, reads, self._readers[1], capacity, dtype, _UNCOUNTED
            )
        for column in (self._fresh, self._heard):
            column.sync(int(rows.max(initial=0)))
            column.known[rows] = True

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        columns = {id(each): each for each in (self._fresh, self._heard)}.values()
        return sum(each.values.nbytes + each.known.nbytes for each in columns)

    def fill(self, values: Answers) -> None:
        """The answer is here, one value per row."""
        self._fresh.values[self.rows] = values
        self._heard.values[self.rows] = values
        self._generation = self._statuses.generation
        for reader in self._readers:
            reader.rewritten()

    @property
    def outdated(self) -> bool:
        """Whether codes of verdicts were given out anew since the answer came."""
        return self._generation != self._statuses.generation

    def take(self, rows: Rows, into: Answers, *, old: bool) -> Mask:
        """Put what holds for rows into an array; returns which of them that are."""
        column = self._heard if old else self._fresh
        column.sync(int(rows.max(initial=0)))
        known: Mask = column.known[rows]
        into[known] = column.values[rows[known]]
        return known


class Told:
    """What one pod was told in one attempt."""

    def __init__(self, *, insists: bool = False) -> None:
        self.insists = insists
        """Ask even while the state is being changed on trial, as for an explanation."""
        self._failed = False
        self._whole: dict[Subject, Any] = {}
        self._rows: dict[Subject, list[RowAnswers]] = {}

    @property
    def bytes(self) -> int:
        """About how much memory the answers take."""
        rows = sum(answers.bytes for several in self._rows.values() for answers in several)
        return rows + WHOLE_BYTES * len(self._whole)

    @property
    def weary(self) -> bool:
        """Whether old answers, or none, have to do; what comes of that must not be kept."""
        if not self._rows:  # as always, if nobody outside is asked
            return self._failed
        return self._failed or any(map(self._old_will_do, self._rows))

    def may_ask(self, subject: Subject) -> bool:
        """Whether another question on a subject is worth it."""
        return len(self._row_answers(subject)) < MAX_ROUNDS

    def _old_will_do(self, subject: Subject) -> bool:
        return len(self._row_answers(subject)) >= MAX_ROUNDS - 1

    def _row_answers(self, subject: Subject) -> list[RowAnswers]:
        """The answers about rows whose codes still mean what they said; one for each round."""
        answers = self._rows.get(subject, [])
        if any(each.outdated for each in answers):
            answers[:] = [each for each in answers if not each.outdated]
        return answers

    def find(self, subject: Subject) -> Any:
        """What was said on a subject; None if nothing was."""
        return self._whole.get(subject)

    def times(self, plugin: str, point: str) -> int:
        """How many answers of a plugin at a point there are that are not about rows."""
        return sum(subject[:2] == (plugin, point) for subject in self._whole)

    def hear(self, subject: Subject, answer: Any) -> None:
        """Remember an answer that is not about rows, or that there is none (`Failed`)."""
        self._whole[subject] = answer
        self._failed |= isinstance(answer, Failed)

    def hear_rows(self, subject: Subject, answers: RowAnswers) -> None:
        """Remember an answer about rows."""
        self._rows.setdefault(subject, []).append(answers)

    def about(self, subject: Subject, rows: Rows, values: Answers) -> Mask:
        """Put what was said about rows into an array; returns of which of them nothing was."""
        missing = np.ones(len(rows), np.bool_)
        old = self._old_will_do(subject)
        for answers in self._row_answers(subject):
            missing &= ~answers.take(rows, values, old=old)
        return missing

    def restart(self) -> None:
        """Forget everything: the pod is no longer the one that was asked about."""
        self._rows.clear()
        self._whole.clear()
        self._failed = False


TOLD: Slot[Told] = Slot("told")


class Question(msgspec.Struct, frozen=True):
    """Something to be asked outside, and what to do with the answer."""

    plugin: str
    key: Hashable
    """Equal for questions that have the same answer, which are then asked once."""
    ask: Callable[[], Coroutine[Any, Any, Any]]
    """Never raises: without an answer it returns `Failed`."""
    hear: Callable[[Told, Any], None]
    """Put the answer into what a pod was told."""
    bytes: int = WHOLE_BYTES
    """About how much memory the answer will take."""


class AnswerNeeded(BaseException):
    """The attempt cannot go on without an answer. Not a fault, so nobody may contain it."""

    def __init__(self, question: Question) -> None:
        super().__init__(f"{question.plugin} has to be asked")
        self.question = question


def names_of(rows: Rows, state: ClusterState) -> list[str]:
    """The names of the nodes in rows, in their order."""
    names = state.columns.names
    return [names[row] for row in rows.tolist()]
