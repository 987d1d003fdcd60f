"""The rows with the highest total, kept while one row after the other changes.

A pod that is placed changes the total of one row. To find the rows with the highest total again, a
pass over all rows compares them, and another one gathers the hashes of their names, which break the
tie. In a run of equal pods the row that was chosen merely leaves those rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.state.columns import Rows, Scores

NameHashes = NDArray[np.uint64]


class Best(NamedTuple):
    """Rows with the highest total, the hashes of their names, and that total.

    In no particular order; views that are valid until a total changes.
    """

    rows: Rows
    names: NameHashes
    total: int


def best_of(totals: Scores, names: NameHashes) -> Best:
    """The best rows by a pass over all of them."""
    top = totals.item(totals.argmax())  # less than half of what `max` takes
    (rows,) = (totals == top).nonzero()
    return Best(rows, names.take(rows), top)


class TopRows:
    """The best rows of a column of totals that change one by one."""

    __slots__ = ("_hashes", "_names", "_number", "_places", "_rows", "_top")

    def __init__(self, totals: Scores, names: NameHashes) -> None:
        self._names = names
        self._rows, self._hashes, self._top = best_of(totals, names)
        self._number = len(self._rows)
        self._places = np.full(len(totals), -1, np.int32)
        """Where each row is among the best; -1: it is not."""
        self._places[self._rows] = np.arange(self._number)

    def best(self) -> Best:
        """The rows that are the best now."""
        number = self._number
        return Best(self._rows[:number], self._hashes[:number], self._top)

    def change(self, row: int, total: int) -> bool:
        """A row has another total; False if all rows must be looked at again."""
        place = self._places.item(row)
        if place < 0:
            return total < self._top or self._enter(row, total)
        if total == self._top:
            return True
        # Give up its place: the last one moves there.
        rows, hashes, places = self._rows, self._hashes, self._places
        self._number = last = self._number - 1
        moved = rows.item(last)
        rows[place], hashes[place], places[moved], places[row] = moved, hashes[last], place, -1
        return last > 0 if total < self._top else self._enter(row, total)

    def _enter(self, row: int, total: int) -> bool:
        """Take a row in whose total is as high as the highest, or higher."""
        if total > self._top:
            self._top, self._number = total, 0
            self._places.fill(-1)
        place = self._number
        if place == len(self._rows):
            return False
        self._rows[place] = row
        self._hashes[place] = self._names[row]
        self._places[row] = place
        self._number = place + 1
        return True
