"""One big value per row, as a number: rows with equal values have equal numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.bounded import ENTRY_BYTES, Usage
from scheduler.state.interning import Interner

V = TypeVar("V", bound=Hashable)


class RowValues(Generic[V]):
    """The value of each row, interned; number 0 is that of rows which have none.

    Those who write nodes decide how many values there are and how large. So values that no row has
    any more are dropped as soon as they take more bytes than the others, and a little. Numbers are
    then given out anew (``interner.generation``). ``size`` estimates the bytes of a value.
    """

    SPARE = 64 * 1024

    def __init__(self, none: V, rows: int, size: Callable[[V], int]) -> None:
        self.interner: Interner[V] = Interner(none)
        self.numbers: NDArray[np.int32] = np.zeros(rows, np.int32)
        self._none = none
        self._size = size
        self._rows: list[int] = [0]
        """How many rows have each value."""
        self._bytes: list[int] = [0]
        self._used = self._unused = 0

    def grow(self, rows: int) -> None:
        """Have so many rows; the new ones have no value."""
        self.numbers = np.pad(self.numbers, (0, rows - len(self.numbers)))

    def set(self, row: int, value: V) -> None:
        """Replace the value of a row."""
        before, number = self.numbers.item(row), self._number(value)
        if before == number:
            return
        self.numbers[row] = number
        if number:
            self._take(number)
        if before:
            self._give_back(before)

    def clear(self, row: int) -> None:
        """The row has no value any more."""
        self.set(row, self._none)

    def of(self, row: int) -> V:
        """The value of a row."""
        return self.interner.values[self.numbers.item(row)]

    def usage(self) -> Usage:
        """How much the values take."""
        return Usage(len(self.interner), self._used + self._unused)

    def _number(self, value: V) -> int:
        number = self.interner.intern(value)
        if number == len(self._rows):
            self._rows.append(0)
            self._bytes.append(2 * ENTRY_BYTES + self._size(value))
            self._unused += self._bytes[number]
        return number

    def _take(self, number: int) -> None:
        if not self._rows[number]:
            self._used += self._bytes[number]
            self._unused -= self._bytes[number]
        self._rows[number] += 1

    def _give_back(self, number: int) -> None:
        self._rows[number] -= 1
        if not self._rows[number]:
            self._used -= self._bytes[number]
            self._unused += self._bytes[number]
            if self._unused > self._used + self.SPARE:
                self._drop_unused()

    def _drop_unused(self) -> None:
        """Give numbers out anew. Costs less than it took to make what is dropped."""
        kept = [0, *(number for number, rows in enumerate(self._rows) if rows)]
        renumbered = np.zeros(len(self._rows), np.int32)
        renumbered[kept] = np.arange(len(kept))
        self.numbers = renumbered[self.numbers]
        self.interner.restart(*[self.interner.values[number] for number in kept])
        self._rows = [self._rows[number] for number in kept]
        self._bytes = [self._bytes[number] for number in kept]
        self._unused = 0
