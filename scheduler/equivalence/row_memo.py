"""Costly findings about rows, remembered until the row changes; and which rows have changed.

For findings that are no single plugin's answer: the victims of a preemption on a node, and the
verdict on a node with its nominated pods added. They depend on everything about a row. So any
change of a row makes its findings void, and a change that belongs to no row makes all void.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from scheduler.equivalence.reads import Reads
from scheduler.equivalence.verdicts import ChangeReader
from scheduler.state.aspects import OF_ROWS, Aspect
from scheduler.state.cache import ClusterState

T = TypeVar("T")

_EVERYTHING = Reads(rows=OF_ROWS, cluster=frozenset(Aspect) - OF_ROWS)


class UnseenRows:
    """Rows to be looked at, again when they have changed, for the questions asked last."""

    def __init__(self, state: ClusterState, reads: Reads, questions: int) -> None:
        self._state = state
        self._reads = reads
        self._questions = questions
        self._unseen: dict[Hashable, tuple[ChangeReader, set[int]]] = {}

    def about(self, question: Hashable) -> set[int]:
        """The rows, some perhaps without a node; callers discard what they look at. O(changes)."""
        known = self._unseen.pop(question, None)
        new = known is None
        reader, unseen = known or (ChangeReader(self._state, self._reads), set())
        touched = reader.news()
        unseen.update(self._state.rows().tolist() if new or touched is None else touched)
        self._unseen[question] = reader, unseen  # last in the dict: most recently used
        if len(self._unseen) > self._questions:
            del self._unseen[next(iter(self._unseen))]
        return unseen


class RowMemo(Generic[T]):
    """Findings about rows, for the equivalence classes that were used last."""

    def __init__(self, state: ClusterState, classes: int) -> None:
        self._state = state
        self._classes = classes
        self._found: dict[Hashable, tuple[ChangeReader, dict[int, T]]] = {}

    def about(self, pod_class: Hashable) -> dict[int, T]:
        """The findings for a class that still hold, by row; callers read it and add to it."""
        known = self._found.pop(pod_class, None)
        if known is None:
            known = ChangeReader(self._state, _EVERYTHING), {}
        self._found[pod_class] = known  # last in the dict: most recently used
        if len(self._found) > self._classes:
            del self._found[next(iter(self._found))]
        reader, found = known
        touched = reader.news()
        if touched is None:
            found.clear()
        else:
            for row in touched:
                found.pop(row, None)
        return found
