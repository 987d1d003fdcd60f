"""Answers of one plugin for one key, kept per row: a column.

There is one array for each (plugin, key), shared by all classes that have that key: a map from
node, plugin and class to a verdict would hold the same answer many times.

A kept answer holds until something changes that it depends on, or until the codes of verdicts are
given out anew. `ChangeReader` reports both to everything that caches answers per row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scheduler.equivalence.reads import Reads
from scheduler.state.aspects import EVERYWHERE, Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows, where

Answers = NDArray[Any]
Evaluate = Callable[[Rows], Answers]


class ChangeReader:
    """How far a holder of answers has read the logs of the aspects that its answers depend on.

    Answers may be codes of verdicts, so a reader also stores the generation of codes in which they
    were written. When the table of statuses has begun another one, all answers are void.
    """

    __slots__ = (
        *("_changes", "_cluster", "_generation", "_rows", "_statuses", "_version"),
        *("changed", "columns"),
    )

    def __init__(self, state: ClusterState, reads: Reads) -> None:
        changes = state.changes
        self._changes = changes
        self._statuses = state.statuses
        self._generation = state.statuses.generation
        self.columns: list[AnswerColumn] = []
        """Columns that have read as far: made together, and depending on the same."""
        self.changed: Collection[Aspect] = ()
        """The aspects of the rows that `news` returned last, and perhaps others."""
        self._rows = reads.rows | {Aspect.NODE}
        self._cluster = reads.cluster
        self._version = changes.version

    def news(self) -> list[int] | None:
        """The rows that changed since the last call, perhaps repeatedly; None: any may have.

        In a run of pods there is a call for each column and pod, and mostly there was one change.
        """
        changes, version, generation = self._changes, self._version, self._statuses.generation
        if generation != self._generation:
            self._generation, self._version = generation, changes.version
            return None
        if changes.version == version:
            return _NO_NEWS
        self._version = changes.version
        if changes.version == version + 1:
            row, aspects = changes.last
            if not self._cluster.isdisjoint(aspects):
                return None
            if self._rows.isdisjoint(aspects):
                return _NO_NEWS
            self.changed = aspects
            return None if row == EVERYWHERE else [row]
        return self._read(version)

    def _read(self, version: int) -> list[int] | None:
        """The rows that were logged after a version."""
        changes = self._changes
        at = changes.changed_at
        for aspect in self._cluster:
            if at[aspect] > version:
                return None
        self.changed = changed = []
        touched: list[int] = _NO_NEWS
        for aspect in self._rows:
            if at[aspect] > version:
                rows = changes.since(aspect, version)
                if rows is None:
                    return None
                touched = touched + rows if touched else rows
                changed.append(aspect)
        return touched

    def rewritten(self) -> None:
        """All answers have just been written in the codes of today."""
        self._generation = self._statuses.generation


_NO_NEWS: list[int] = []
_MANY = 32
"""Rows for which an array is worth its making."""


class CacheStatistics:
    """What the cache has saved so far; for metrics."""

    __slots__ = ("evaluated", "hits", "misses")

    def __init__(self) -> None:
        self.hits = 0
        """Rows whose answer was known."""
        self.misses = 0
        """Rows whose answer was not: never computed, or something has changed since."""
        self.evaluated = 0
        """Calls of plugins."""


OVERHEAD = 768
"""What a column takes besides its arrays, measured."""


class AnswerColumn:
    """One plugin's answers for one key. ``known`` marks the rows that have a valid one."""

    __slots__ = (
        *("_reader", "changes", "key", "known", "plugin", "reads", "statistics", "users"),
        "values",
    )

    def __init__(
        self,
        plugin: str,
        key: Hashable,
        reads: Reads,
        reader: ChangeReader,
        capacity: int,
        dtype: DTypeLike,
        statistics: CacheStatistics,
    ) -> None:
        self.plugin = plugin
        self.key = key
        self.reads = reads
        self.values: Answers = np.zeros(capacity, dtype)
        self.known: Mask = np.zeros(capacity, np.bool_)
        self.changes = 0
        """How often answers were forgotten."""
        self.users = 0
        """How many classes share it."""
        self.statistics = statistics
        self._reader = reader
        reader.columns.append(self)

    def leave(self) -> None:
        """Stop reading: no class uses the column any more."""
        self._reader.columns.remove(self)

    @property
    def nbytes(self) -> int:
        """The memory it occupies."""
        return OVERHEAD + self.values.nbytes + self.known.nbytes

    def ask(self, rows: Rows, evaluate: Evaluate) -> Answers:
        """An answer per row; those that do not hold are computed.

        May be a view of the cache, valid until the next read: not to be changed.
        """
        self.sync(int(rows[-1]) if len(rows) else 0)
        at = where(rows)
        known = self.known[at]
        if np.count_nonzero(known) == len(rows):  # several times as fast as `all`
            self.statistics.hits += len(rows)
            return self.values[at]
        missing, there = rows, at
        if not isinstance(at, slice) or known.any():
            missing = there = rows[~known]
        self.values[there] = evaluate(missing)
        self.known[there] = True
        self.statistics.misses += len(missing)
        self.statistics.hits += len(rows) - len(missing)
        self.statistics.evaluated += 1
        return self.values[at]

    def ask_one(self, row: int, evaluate: Callable[[str, int], int]) -> int:
        """The answer for one row: all that is read between two pods of one class.

        The column has the row: it has been widened to all that there are.
        """
        self.synced()
        if self.known[row]:
            self.statistics.hits += 1
            return int(self.values[row])
        answer = evaluate(self.plugin, row)
        self.values[row] = answer
        self.known[row] = True
        self.statistics.misses += 1
        self.statistics.evaluated += 1
        return answer

    def synced(self) -> int:
        """Forget the answers that something has changed since; returns `changes`."""
        touched = self._reader.news()
        if touched is not _NO_NEWS:
            for column in self._reader.columns:
                column._forget(touched)
        return self.changes

    def sync(self, last: int) -> None:
        """Forget the answers that something has changed since; grow up to a row."""
        self.synced()
        if last >= len(self.known):
            self.widen(max(last + 1, 2 * len(self.known)))

    def _forget(self, touched: list[int] | None) -> None:
        self.changes += 1
        if touched is None:
            self.known[:] = False
            return
        known = self.known
        size = len(known)
        if len(touched) > _MANY:
            rows = np.array(touched, np.intp)
            known[rows[rows < size]] = False
            return
        for row in touched:
            if row < size:
                known[row] = False

    def widen(self, capacity: int) -> None:
        """Grow to so many rows."""
        extra = capacity - len(self.known)
        if extra > 0:
            self.values = np.pad(self.values, (0, extra))
            self.known = np.pad(self.known, (0, extra))
