"""Whom events may have cured and nobody has woken yet, and who of them is first in the queue.

One event may concern thousands who wait, and the next one the same thousands again. So marks that
an event makes by the thousand are the bits of one great number, and are set and wiped by a few
operations whatever their number; only marks that say more about somebody are objects.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from typing import Any, NamedTuple

from scheduler.queueing.columns import Numbers, bits_of, members
from scheduler.queueing.hints import Requeue


class Mark(NamedTuple):
    """What an event means to somebody."""

    verdict: Requeue
    label: str
    exclude: str = ""
    """The uid of a pod that the event does not concern."""


class Marks:
    """Those who wait, by number, in the order of the queue; and the marks of some of them.

    Joining and leaving is O(log n), and moves some memory.
    """

    def __init__(self) -> None:
        self._order: list[tuple[Any, int]] = []
        """Everybody who waits, by rank."""
        self._ranks: dict[int, Any] = {}
        self._waits = 0
        self._singles: dict[int, Mark] = {}
        self._alike: dict[str, int] = {}
        """By the event's label, who is to be tried after its back-off; nobody is in two."""
        self._count = 0

    def __len__(self) -> int:
        """How many are marked."""
        return self._count + len(self._singles)

    def join(self, number: int, rank: Any) -> None:
        """Somebody waits, at a place in the queue; numbers are small and reused."""
        self._waits |= 1 << number
        self._ranks[number] = rank
        insort(self._order, (rank, number))

    def leave(self, number: int) -> None:
        """Somebody waits no longer."""
        self.pop(number)
        self._waits &= ~(1 << number)
        entry = (self._ranks.pop(number), number)
        place = bisect_left(self._order, entry)
        if place == len(self._order) or self._order[place][1] != number:
            place = self._order.index(entry)  # the sort plugin's keys have no order
        del self._order[place]

    def get(self, number: int) -> Mark | None:
        """The mark of somebody who waits."""
        for label, bits in self._alike.items():
            if bits >> number & 1:
                return Mark(Requeue.AFTER_BACKOFF, label)
        return self._singles.get(number)

    def pop(self, number: int) -> Mark | None:
        """The same; and it is marked no longer."""
        mark = self.get(number)
        if self._singles.pop(number, None) is None and mark is not None:
            self._alike[mark.label] &= ~(1 << number)
            self._count -= 1
        return mark

    def put(self, number: int, mark: Mark) -> None:
        """Mark somebody in place of the mark that it has."""
        self.pop(number)
        self._singles[number] = mark

    def put_all(self, numbers: Numbers, label: str) -> None:
        """Have many tried after their back-off, whatever their marks; some may wait no longer."""
        chosen = bits_of(numbers) & self._waits
        self._wipe(chosen)
        self._alike[label] = self._alike.get(label, 0) | chosen
        self._count += chosen.bit_count()

    def drop(self, numbers: Numbers) -> None:
        """Mark many no longer."""
        self._wipe(bits_of(numbers))

    def first(self, most: int) -> list[int]:
        """Those marked who come first in the order of the queue."""
        bits = 0
        for alike in self._alike.values():
            bits |= alike
        for number in self._singles:
            bits |= 1 << number
        if bits.bit_count() <= most:
            return sorted(members(bits), key=lambda number: (self._ranks[number], number))
        digits = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
        size = 8 * len(digits)
        marked = (n for _, n in self._order if n < size and digits[n >> 3] >> (n & 7) & 1)
        return list(islice(marked, most))

    def _wipe(self, chosen: int) -> None:
        for label, bits in self._alike.items():
            self._alike[label] = bits & ~chosen
            self._count -= (bits & chosen).bit_count()
        for number in [each for each in self._singles if chosen >> each & 1]:
            del self._singles[number]
