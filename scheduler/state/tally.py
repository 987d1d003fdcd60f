"""Numbers per row, for things that are on few rows."""

from __future__ import annotations

import numpy as np

from scheduler.state.columns import Rows, Scores

_FIRST_ROOM = 4


class Tally:
    """A number for each row that has any; memory grows with these rows, not with the cluster.

    ``rows`` and ``counts`` are parallel arrays in no particular order: views that are true until
    the next ``add``, and must not be changed.
    """

    __slots__ = ("_counts", "_places", "_rows", "total")

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._rows: Rows = np.zeros(_FIRST_ROOM, np.intp)
        self._counts: Scores = np.zeros(_FIRST_ROOM, np.int64)
        self.total = 0

    @property
    def rows(self) -> Rows:
        """The rows with a number other than zero."""
        return self._rows[: len(self._places)]

    @property
    def counts(self) -> Scores:
        """Their numbers."""
        return self._counts[: len(self._places)]

    def add(self, row: int, number: int) -> None:
        """Change the number of a row."""
        place = self._places.get(row)
        if place is None:
            place = self._new_place(row)
        self._counts[place] += number
        self.total += number
        if not self._counts[place]:
            self._close(row, place)

    def _new_place(self, row: int) -> int:
        place = self._places[row] = len(self._places)
        if place == len(self._rows):
            self._rows = np.pad(self._rows, (0, place))
            self._counts = np.pad(self._counts, (0, place))
        self._rows[place] = row
        return place

    def _close(self, row: int, place: int) -> None:
        """Give up a row's place: the last one moves there."""
        del self._places[row]
        last = len(self._places)
        if place != last:
            moved = int(self._rows[last])
            self._places[moved] = place
            self._rows[place] = moved
            self._counts[place] = self._counts[last]
            self._counts[last] = 0
