"""A priority heap whose items can also be found, moved and removed by key."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from scheduler.slices import checkpoint

T = TypeVar("T")

_COMPACT_ABOVE = 64
_SORTED_AT_ONCE = 1000


def smallest(items: Iterable[T], count: int, order: Callable[[T], Any]) -> list[T]:
    """The first ``count`` items, sorted. Reads each item once, and yields to the event loop."""
    pool, best = list(items), list[T]()
    for start in range(0, len(pool), _SORTED_AT_ONCE):
        some = itertools.chain(best, pool[start : start + _SORTED_AT_ONCE])
        best = heapq.nsmallest(count, some, key=order)
        checkpoint()
    return best


class KeyedHeap(Generic[T]):
    """Items by key, smallest ``order(item)`` first, equal ones first come, first served.

    Removal and re-ordering leave a dead entry behind, which is skipped when it reaches the top;
    dead entries never outnumber the live ones for long. So `put` is O(log n), `remove` and `peek`
    are O(1), all amortised, and the heap work itself is done by `heapq` in C.
    """

    def __init__(self, order: Callable[[T], Any]) -> None:
        self._order = order
        self._arrivals = itertools.count()
        self._entries: list[tuple[Any, int, Hashable, T]] = []
        self._live: dict[Hashable, tuple[Any, int, Hashable, T]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[T]:
        """All items, best first; O(n log n)."""
        return (entry[3] for entry in sorted(self._live.values(), key=lambda entry: entry[:2]))

    def first(self, count: int) -> list[T]:
        """The best items, best first; yields to the event loop."""
        return [entry[3] for entry in smallest(self._live.values(), count, lambda each: each[:2])]

    def put(self, key: Hashable, item: T) -> None:
        """Add an item, or replace the one with this key; it keeps its turn if its order does."""
        order = self._order(item)
        before = self._live.get(key)
        if before is not None and before[3] is item and before[0] == order:
            return
        entry = (order, next(self._arrivals), key, item)
        self._live[key] = entry
        heapq.heappush(self._entries, entry)
        self._compact()

    def remove(self, key: Hashable) -> None:
        """Take the item with this key out; nothing happens if there is none."""
        if self._live.pop(key, None) is not None:
            self._compact()

    def peek(self, without: Hashable = None) -> T | None:
        """The best item, which stays where it is; the one with the key ``without`` is left out."""
        top = self._top()
        if top is None or top[2] != without:
            return None if top is None else top[3]
        heapq.heappop(self._entries)
        second = self._top()
        heapq.heappush(self._entries, top)
        return None if second is None else second[3]

    def _top(self) -> tuple[Any, int, Hashable, T] | None:
        while self._entries:
            top = self._entries[0]
            if self._live.get(top[2]) is top:
                return top
            heapq.heappop(self._entries)
        return None

    def _compact(self) -> None:
        if len(self._entries) > max(_COMPACT_ABOVE, 2 * len(self._live)):
            self._entries = list(self._live.values())
            heapq.heapify(self._entries)
