"""Rows put into parts, such as the nodes of each zone, and sums over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.state.columns import Rows

Counts = NDArray[np.int64]


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

    def sums(self, counts: Counts) -> Counts:
        """What was counted on rows, added up for each part."""
        sums = np.bincount(self.parts, weights=counts.take(self.rows), minlength=self.number)
        return sums.astype(np.int64)
