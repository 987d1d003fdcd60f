"""A priority heap whose items can also be found, moved and removed by key."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

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


def in_order(items: Iterable[T], order: Callable[[T], Any]) -> Iterator[T]:
    """All items, sorted; yields to the event loop, and to the caller as it goes."""
    pool, runs = list(items), list[list[T]]()
    for start in range(0, len(pool), _SORTED_AT_ONCE):
        runs.append(sorted(pool[start : start + _SORTED_AT_ONCE], key=order))
        checkpoint()
    return heapq.merge(*runs, key=order)


class _HeapEntry(msgspec.Struct, Generic[T], order=True):
    """The order of an item, its arrival, and the item; compared in this order, in C.

    One small object for each item: there may be a hundred thousand.
    """

    order: Any
    arrival: int
    """No two entries have the same, so that nothing beyond is compared."""
    key: Hashable
    item: T | None
    """None once the entry is dead: it must not keep the item."""


class KeyedHeap(Generic[T]):
    """Items by key, smallest ``order(item)`` first, equal ones first come, first served.

    Removal and re-ordering leave a dead entry behind, which is skipped when it reaches the top;
    dead entries hold no item, and never outnumber the live ones for long. So `put` is O(log n),
    `remove` and `peek` are O(1), all amortised, and the heap work itself is done by `heapq` in C.
    """

    def __init__(self, order: Callable[[T], Any]) -> None:
        self._order = order
        self._arrivals = itertools.count()
        self._entries: list[_HeapEntry[T]] = []
        self._live: dict[Hashable, _HeapEntry[T]] = {}

    def tables(self) -> tuple[dict[Any, Any], ...]:
        """The tables whose length is that of the heap."""
        return (self._live,)

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[T]:
        """All items, best first; O(n log n)."""
        return self._items(sorted(self._live.values()))

    def unsorted(self) -> list[T]:
        """All items, in any order; O(n)."""
        return [entry.item for entry in self._live.values() if entry.item is not None]

    def in_order(self) -> Iterator[T]:
        """All items as they are now, best first, but for those that go; yields to the loop."""
        return self._items(in_order(self._live.values(), _itself))

    def first(self, count: int) -> list[T]:
        """The best items, best first; yields to the event loop."""
        return list(self._items(smallest(self._live.values(), count, _itself)))

    def _items(self, entries: Iterable[_HeapEntry[T]]) -> Iterator[T]:
        for entry in entries:
            item = entry.item
            if item is None and (now := self._live.get(entry.key)) is not None:
                item = now.item  # it got another turn while the loop ran
            if item is not None:
                yield item

    def put(self, key: Hashable, item: T) -> None:
        """Add an item, or replace the one with this key; it keeps its turn if its order does."""
        order = self._order(item)
        before = self._live.get(key)
        if before is not None:
            if before.item is item and before.order == order:
                return
            before.item = None
        entry = _HeapEntry(order, next(self._arrivals), key, item)
        self._live[key] = entry
        heapq.heappush(self._entries, entry)
        self._compact()

    def remove(self, key: Hashable) -> None:
        """Take the item with this key out; nothing happens if there is none."""
        entry = self._live.pop(key, None)
        if entry is not None:
            entry.item = None
            self._compact()

    def peek(self, without: Hashable = None) -> T | None:
        """The best item, which stays where it is; the one with the key ``without`` is left out."""
        top = self._top()
        if top is None or top.key != without:
            return None if top is None else top.item
        heapq.heappop(self._entries)
        second = self._top()
        heapq.heappush(self._entries, top)
        return None if second is None else second.item

    def _top(self) -> _HeapEntry[T] | None:
        while self._entries:
            entry = self._entries[0]
            if entry.item is not None:
                return entry
            heapq.heappop(self._entries)
        return None

    def _compact(self) -> None:
        if len(self._entries) > max(_COMPACT_ABOVE, 2 * len(self._live)):
            self._entries = list(self._live.values())
            heapq.heapify(self._entries)


def _itself(entry: _HeapEntry[T]) -> _HeapEntry[T]:
    """What sorts entries: they compare in C."""
    return entry
