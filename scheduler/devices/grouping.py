"""Nodes whose devices are the same, found with a few array operations and kept.

For each facet (`shapes`) that some demand reads: per row the number of its *pattern*, what its
devices are in order, as far as the facet tells them apart, and what of them is in use. Rows that
changed are compared again; all demands that read the same share the patterns.

Many rows are compared by a hash of their pieces of a column, and the pieces of each group are then
compared with those of its first row, so a collision of hashes costs time and no truth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.bounded import ENTRY_BYTES, MEBIBYTE
from scheduler.devices.inventory import Inventory
from scheduler.devices.segments import NodeSegment
from scheduler.devices.shapes import Facet

_MULTIPLIER = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

_STATE_BITS = 32
_STATE = (1 << _STATE_BITS) - 1

_FEW = 16
"""So few rows are compared one by one."""

_MANY = 65536
PATTERN_BYTES = 32 * MEBIBYTE

Ints = NDArray[np.int64]


class DevicePattern(NamedTuple):
    """What rows have in common."""

    layout: int
    left: int
    """Number of what is left of counters."""
    cells: bytes
    """Per device the value of the facet, and the state below it."""

    @property
    def values(self) -> Ints:
        """Per device the value of the facet."""
        return np.frombuffer(self.cells, dtype=np.int64) >> _STATE_BITS

    @property
    def states(self) -> Ints:
        """Per device the number of its state."""
        return np.frombuffer(self.cells, dtype=np.int64) & _STATE


class RowPatterns:
    """The patterns of rows, by one facet."""

    def __init__(self, facet: Facet, inventory: Inventory) -> None:
        self.facet = facet
        self._inventory = inventory
        self.patterns: list[DevicePattern] = []
        self.bytes = 0
        """About what the patterns take."""
        self._numbers: dict[DevicePattern, int] = {}
        self._of_row: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._seen: Ints = np.zeros(0, dtype=np.int64)

    @property
    def full(self) -> bool:
        """Whether to start again."""
        return len(self.patterns) > _MANY or self.bytes > PATTERN_BYTES

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.int32]:
        """Per row the number of its pattern; the segments of all rows are known."""
        changed = self._inventory.columns.changed
        self._make_room(len(changed))
        stale = rows[changed[rows] != self._seen[rows]]
        if len(stale):
            self._compare(stale)
            self._seen[stale] = changed[stale]
        return self._of_row[rows]

    def of_one(self, row: int) -> int:
        """The same for one row."""
        changed = self._inventory.columns.changed
        self._make_room(len(changed))
        if changed[row] != self._seen[row]:
            self._of_row[row] = self._number(self._inventory.segment(row))
            self._seen[row] = changed[row]
        return self._of_row.item(row)

    def _make_room(self, rows: int) -> None:
        if len(self._seen) < rows:
            more = rows - len(self._seen)
            self._seen = np.concatenate((self._seen, np.full(more, -1, dtype=np.int64)))
            self._of_row = np.concatenate((self._of_row, np.zeros(more, dtype=np.int32)))

    def _compare(self, rows: NDArray[np.intp]) -> None:
        if len(rows) <= _FEW:
            for row in rows.tolist():
                self._of_row[row] = self._number(self._inventory.segment(row))
            return
        arena, columns = self._inventory.arena, self._inventory.columns
        cells = self._cells(slice(0, arena.stop))
        first, codes = group(
            cells, columns.start[rows], columns.length[rows], columns.layout[rows],
            columns.left[rows],
        )  # fmt: skip
        numbers = [self._number(self._inventory.segment(row)) for row in rows[first].tolist()]
        self._of_row[rows] = np.array(numbers, dtype=np.int32)[codes]

    def _number(self, segment: NodeSegment) -> int:
        cells = self._cells(slice(segment.start, segment.stop)).tobytes()
        pattern = DevicePattern(segment.layout, segment.availability, cells)
        number = self._numbers.get(pattern)
        if number is None:
            number = self._numbers[pattern] = len(self.patterns)
            self.patterns.append(pattern)
            self.bytes += 2 * ENTRY_BYTES + len(cells)
        return number

    def _cells(self, here: slice) -> Ints:
        arena = self._inventory.arena
        values = self.facet.numbers[arena.shape[here]].astype(np.int64)
        return (values << _STATE_BITS) | arena.state[here]


def group(
    column: Ints, start: Ints, length: Ints, layout: Ints, left: Ints
) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """One row of each group of equal rows, and per row its group.

    A row is a piece of the column, from ``start`` on and ``length`` long, and two numbers.
    """
    codes = np.zeros(len(start), dtype=np.int32)
    firsts: list[NDArray[np.intp]] = []
    count = 0
    for size in np.unique(length).tolist():
        members = np.flatnonzero(length == size)
        pieces = column[start[members, None] + np.arange(size)]
        first, inverse = _equal_rows(np.column_stack((layout[members], left[members], pieces)))
        codes[members] = inverse + count
        firsts.append(members[first])
        count += len(first)
    return (np.concatenate(firsts) if firsts else np.zeros(0, dtype=np.intp)), codes


def _equal_rows(rows: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    _, first, inverse = np.unique(_hashes(rows), return_index=True, return_inverse=True)
    if (rows == rows[first[inverse]]).all():
        return first, inverse
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


def _hashes(rows: Ints) -> NDArray[np.uint64]:
    factors = np.array(
        [pow(_MULTIPLIER, power + 1, 1 << 64) for power in range(rows.shape[1])], dtype=np.uint64
    )
    mixed = rows.astype(np.uint64) * np.uint64(_MULTIPLIER & _MASK)
    mixed ^= mixed >> np.uint64(29)
    sums: NDArray[np.uint64] = (mixed * factors).sum(axis=1, dtype=np.uint64)
    return sums
