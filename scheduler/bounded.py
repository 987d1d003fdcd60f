"""Caches bounded in bytes.

Pod authors decide how large the things are that a cache holds, so a bound on their number bounds
nothing. Every cache, index and queue counts the bytes it holds, or an estimate from above, and
reports them as `Usage`; metrics show all of them (``equipoise_cache_bytes``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MEBIBYTE = 2**20

ENTRY_BYTES = 200
"""What an entry of a dictionary takes besides its key and value, both of some few words."""


class Usage(NamedTuple):
    """How much one cache holds."""

    entries: int
    bytes: int
    evictions: int = 0
    """How many entries were evicted, since the start."""


class Memo(Generic[K, V]):
    """Answers that can be computed again. All are forgotten when they exceed ``limit`` bytes.

    ``size`` estimates the bytes of an entry. All operations are O(1), but forgetting; `get` is
    that of a dictionary.
    """

    __slots__ = ("_evictions", "_held", "_limit", "_size", "_values", "get")

    def __init__(self, limit: int, size: Callable[[K, V], int]) -> None:
        self._limit = limit
        self._size = size
        self._held = 0
        self._evictions = 0
        self._values: dict[K, V] = {}
        self.get: Callable[[K], V | None] = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: K, value: V) -> None:
        """Keep an answer, if it is not longer than all answers may be together."""
        self.discard(key)
        size = ENTRY_BYTES + self._size(key, value)
        if self._held + size > self._limit:
            self._evictions += len(self._values)
            self.clear()
        if size <= self._limit:
            self._values[key] = value
            self._held += size

    def discard(self, key: K) -> None:
        """Forget the answer to this key; fine if there is none."""
        value = self._values.pop(key, None)
        if value is not None:
            self._held -= ENTRY_BYTES + self._size(key, value)

    def clear(self) -> None:
        """Forget all answers, because they may no longer hold."""
        self._values.clear()
        self._held = 0

    def usage(self) -> Usage:
        """How much is kept."""
        return Usage(len(self._values), self._held, self._evictions)


class Recent(Generic[K, V]):
    """The values that were put or found last, within ``limit`` bytes and ``most`` entries.

    ``size`` estimates the bytes of an entry. All operations are O(1), but for what has to go.
    """

    __slots__ = ("_evictions", "_held", "_limit", "_most", "_size", "_values")

    def __init__(self, limit: int, size: Callable[[K, V], int], most: int = 2**31) -> None:
        self._limit = limit
        self._most = most
        self._size = size
        self._held = 0
        self._evictions = 0
        # Unlike a dict it finds its first entry in O(1) always.
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def tables(self) -> tuple[dict[Any, Any], ...]:
        """The table of all entries."""
        return (self._values,)

    def __iter__(self) -> Iterator[K]:
        """The keys, the least recently used first; a copy, so that values may go meanwhile."""
        return iter(list(self._values))

    def put(self, key: K, value: V) -> None:
        """Keep a value, instead of any that was there; unless it is too long all by itself."""
        if key in self._values:
            self.drop(key)
        size = ENTRY_BYTES + self._size(key, value)
        if size > self._limit:
            return
        self._values[key] = value
        self._held += size
        while self._held > self._limit or len(self._values) > self._most:
            self.drop(next(iter(self._values)))
            self._evictions += 1

    def find(self, key: K) -> V | None:
        """A value that is kept, if any is, from now on the last to go."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def peek(self, key: K) -> V | None:
        """A value that is kept, if any is."""
        return self._values.get(key)

    def drop(self, key: K) -> None:
        """Forget a value; nothing happens if there is none."""
        value = self._values.pop(key, None)
        if value is not None:
            self._held -= ENTRY_BYTES + self._size(key, value)

    def usage(self) -> Usage:
        """How much is kept."""
        return Usage(len(self._values), self._held, self._evictions)
