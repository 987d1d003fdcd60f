"""Small integers for big values, so that columns can hold and compare them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scheduler.bounded import ENTRY_BYTES, MEBIBYTE, Usage
from scheduler.model.status import SUCCESS, Code, Status

V = TypeVar("V", bound=Hashable)
Q = TypeVar("Q", bound=Hashable)


class Interner(Generic[V]):
    """Gives each distinct value the next number; numbers hold until all are reset."""

    def __init__(self, *values: V) -> None:
        self.values: list[V] = []
        self.generation = 0
        """Grows when all numbers are reset."""
        self._ids: dict[V, int] = {}
        self.find: Callable[[V], int | None] = self._ids.get
        """The number of a value that was seen, else None."""
        for value in values:
            self.intern(value)

    def __len__(self) -> int:
        return len(self.values)

    def intern(self, value: V) -> int:
        """The number of a value, a new one if it was never seen."""
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self.values)
            self.values.append(value)
        return number

    def intern_all(self, values: Sequence[V]) -> NDArray[np.int32]:
        """The numbers of many values, few of them distinct: faster than one by one."""
        for value in dict.fromkeys(values):
            self.intern(value)
        return np.fromiter(map(self._ids.__getitem__, values), np.int32, len(values))

    def restart(self, *values: V) -> None:
        """Take all numbers back: those of an earlier generation mean nothing."""
        self.values.clear()
        self._ids.clear()
        self.generation += 1
        for value in values:
            self.intern(value)


def distinct_codes(codes: NDArray[np.int32]) -> list[int]:
    """The codes that occur, in order; O(codes + the largest), and never sorted."""
    found: list[int] = np.bincount(codes).nonzero()[0].tolist()
    return found


class StatusTable:
    """Verdicts as codes: 0 lets the pod pass, any other number names a ``Status``."""

    # Reasons quote what pod authors write, so their number needs a bound, and so does their length.
    LIMIT = 65_536
    TEXT = 4 * 1024 * 1024

    def __init__(self) -> None:
        self._statuses: Interner[Status] = Interner(SUCCESS)
        self._text = 0
        self.faults: list[int] = []
        """Codes that are no verdicts: a filter failed on a node, and with it the attempt."""
        self.generation = 0
        """Grows when codes are given out anew: codes of an earlier generation mean nothing."""

    def __len__(self) -> int:
        """How many codes are given out."""
        return len(self._statuses)

    def code(self, status: Status) -> int:
        """The code of a verdict."""
        code = self._statuses.find(status)
        if code is None:
            code = self._statuses.intern(status)
            self._text += sum(map(len, status.reasons))
            if status.code is Code.ERROR:
                self.faults.append(code)
        return code

    def status(self, code: int) -> Status:
        """The verdict behind a code."""
        return self._statuses.values[code]

    @property
    def overfull(self) -> bool:
        """Whether it is time to give codes out anew."""
        return len(self._statuses) > self.LIMIT or self._text > self.TEXT

    def usage(self) -> Usage:
        """How much the verdicts take."""
        return Usage(len(self._statuses), 2 * ENTRY_BYTES * len(self._statuses) + self._text)

    def restart(self) -> None:
        """Give codes out anew.

        What keeps codes remembers the generation it got them in, and drops them when it is read
        next. Only a running attempt does not: call this between attempts.
        """
        self._statuses.restart(SUCCESS)
        self._text = 0
        self.faults.clear()
        self.generation += 1


class InternedAnswers(Generic[Q, V]):
    """The answers of predicates for each interned value, kept until a predicate falls out of use.

    A predicate is evaluated once per distinct value, not once per node; a column of answers is
    then a gather. Pod authors write the predicates. So their number and bytes are bounded, and long
    ones are not kept.
    """

    LONG = 32
    BYTES = 8 * MEBIBYTE

    def __init__(
        self,
        interner: Interner[V],
        dtype: DTypeLike,
        length: Callable[[Q], int],
        limit: int = 1024,
    ) -> None:
        self._interner = interner
        self._generation = interner.generation
        self._dtype = dtype
        self._length = length
        self._limit = limit
        self._known: dict[Q, NDArray[Any]] = {}
        self._bytes = 0
        self._evictions = 0

    def ask(self, question: Q, answer: Callable[[V], Any]) -> NDArray[Any]:
        """One answer per value, in the order of their numbers."""
        if self._generation != self._interner.generation:
            self._generation = self._interner.generation
            self._known.clear()
            self._bytes = 0
        values = self._interner.values
        known = self._known.pop(question, None)
        if known is not None:
            self._bytes -= self._size(question, known)
        count = 0 if known is None else len(known)
        if known is None or count < len(values):
            fresh = np.array([answer(value) for value in values[count:]], dtype=self._dtype)
            known = fresh if known is None else np.concatenate((known, fresh))
        if self._length(question) <= self.LONG:
            self._known[question] = known  # last in the dict: most recently used
            self._bytes += self._size(question, known)
            while len(self._known) > self._limit or self._bytes > self.BYTES:
                oldest = next(iter(self._known))
                self._bytes -= self._size(oldest, self._known.pop(oldest))
                self._evictions += 1
        return known

    def usage(self) -> Usage:
        """How much is kept."""
        return Usage(len(self._known), self._bytes, self._evictions)

    def _size(self, question: Q, known: NDArray[Any]) -> int:
        return ENTRY_BYTES * (1 + self._length(question)) + known.nbytes
