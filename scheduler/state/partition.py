"""Rows put into parts, such as the nodes of each zone, and sums over them."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
Counts = NDArray[np.int64]

_KEPT = 2


class Partition:
    """Which part each of some rows is in; rows that are not among them are in none.

    It never changes: when nodes do, there is a new one.
    """

    __slots__ = ("__weakref__", "_part_of", "number", "parts", "rows")

    def __init__(self, rows: Rows, part_of: NDArray[np.int32], number: int) -> None:
        self.rows = rows
        self.parts: NDArray[np.int32] = part_of[rows]
        """The part of each of the rows."""
        self.number = number
        self._part_of: NDArray[np.int32] = np.full(len(part_of), -1, np.int32)
        self._part_of[rows] = self.parts

    def part_of(self, row: int) -> int:
        """The part of one row; -1 if it is in none."""
        return int(self._part_of[row]) if row < len(self._part_of) else -1

    def sums_of(self, rows: Rows, counts: Counts) -> Counts:
        """The same for what was counted on some rows."""
        parts = self._part_of[rows]
        within = parts >= 0
        sums = np.bincount(parts[within], weights=counts[within], minlength=self.number)
        return sums.astype(np.int64)

    def sums(self, counts: Counts) -> Counts:
        """What was counted on rows, added up for each part."""
        sums = np.bincount(self.parts, weights=counts.take(self.rows), minlength=self.number)
        return sums.astype(np.int64)


class KeptSums:
    """Sums of something that is counted by row, kept current for the partitions last used.

    A partition counts for as long as something refers to it.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: tuple[tuple[ref[Partition], Counts], ...] = ()

    def add(self, row: int, number: int) -> None:
        """So many more were counted on a row."""
        for known, sums in self._kept:
            partition = known()
            if partition is not None and (part := partition.part_of(row)) >= 0:
                sums[part] += number

    def over(self, partition: Partition, count: Callable[[Partition], Counts]) -> Counts:
        """The sum for each part, counted if it is not known; a live array, not to be changed."""
        for known, sums in self._kept:
            if known() is partition:
                return sums
        sums = count(partition)
        self._kept = ((ref(partition), sums), *self._kept[: _KEPT - 1])
        return sums
