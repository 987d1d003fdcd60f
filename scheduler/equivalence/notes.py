"""What was found out about rows with much effort, noted until the row changes.

For answers that are no verdicts of plugins: who would have to leave a node, and whether a pod fits
beside those that were promised it. They depend on everything that a row is, so any change of the
row makes them void, and any change that belongs to no row makes all of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from scheduler.equivalence.reads import Reads
from scheduler.equivalence.verdicts import Reader
from scheduler.state.aspects import OF_ROWS, Aspect, ChangeLog

T = TypeVar("T")

_EVERYTHING = Reads(rows=OF_ROWS, cluster=frozenset(Aspect) - OF_ROWS)


class Notes(Generic[T]):
    """Notes about rows, for few kinds of pods at a time."""

    def __init__(self, changes: ChangeLog, kinds: int) -> None:
        self._changes = changes
        self._kinds = kinds
        self._notes: dict[Hashable, tuple[Reader, dict[int, T]]] = {}

    def about(self, kind: Hashable) -> dict[int, T]:
        """The notes for one kind of pods that are still true, by row; to be read and added to."""
        known = self._notes.pop(kind, None)
        if known is None:
            known = Reader(self._changes, _EVERYTHING), {}
        self._notes[kind] = known  # last in the dict: most recently used
        if len(self._notes) > self._kinds:
            del self._notes[next(iter(self._notes))]
        reader, notes = known
        touched = reader.news()
        if touched is None:
            notes.clear()
        else:
            for row in touched:
                notes.pop(row, None)
        return notes

    def clear(self) -> None:
        """Forget everything."""
        self._notes.clear()
