"""Objects with their history: the part etcd and the watch cache play for a real API server.

One revision counts all writes of all tables, as in etcd. A table holds the current version of each
object and a bounded log of the changes that led there. The log serves three things: watches read it
forward from a revision, paged lists rewind it to the revision of their first page, and what has
fallen out of it is "too old" (410).

Bodies are immutable by convention: a new version is a new dictionary that may share unchanged parts
with the old one, so history costs little. Everything is synchronous and belongs to one event loop.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from sandbox.errors import expired, too_large_resource_version

Body = dict[str, Any]
Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is empty."""

encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


class Version:
    """One object at one revision, with its JSON, which all readers share."""

    __slots__ = ("_encoded", "body", "key", "revision")

    def __init__(self, key: Key, body: Body, revision: int) -> None:
        self.key = key
        self.body = body
        self.revision = revision
        self._encoded = b""

    @property
    def encoded(self) -> bytes:
        """The JSON of the body, made once."""
        if not self._encoded:
            self._encoded = encode(self.body)
        return self._encoded

    def restamped(self, revision: int) -> "Version":
        """The same content under another resourceVersion."""
        return _stamped(self.key, self.body, revision)


def _stamped(key: Key, body: Body, revision: int) -> Version:
    metadata = {**body["metadata"], "resourceVersion": str(revision)}
    return Version(key, {**body, "metadata": metadata}, revision)


class StoreChange:
    """One write: `before` is None for a creation, `after` for a deletion."""

    __slots__ = ("_last", "after", "before", "key", "revision")

    def __init__(
        self, key: Key, revision: int, before: Version | None, after: Version | None
    ) -> None:
        self.key = key
        self.revision = revision
        self.before = before
        self.after = after
        self._last: Version | None = None

    def last(self) -> Version:
        """What a watcher sees for whom the object is gone: the old content under this revision."""
        if self._last is None:
            assert self.before is not None, "a creation removes nothing"
            self._last = self.before.restamped(self.revision)
        return self._last


class ObjectTable:
    """All objects of one resource and the log of their changes."""

    def __init__(self, store: "Store", name: str, history: int) -> None:
        self._store = store
        self._name = name
        self._history = history
        self._log: list[StoreChange] = []
        self._dropped = 0
        self.floor = store.revision
        """Watches and exact lists may start here or later."""
        self.current: dict[Key, Version] = {}
        self.wakers: dict[asyncio.Event, None] = {}
        """Set by every write, in the order in which they came."""
        self.closed = False
        """The resource is gone (its CRD was deleted); watches end."""

    def get(self, key: Key) -> Version | None:
        """The current version, if the object exists."""
        return self.current.get(key)

    def put(self, key: Key, body: Body) -> Version:
        """Write a body as the next revision and notify the watches; stamps its resourceVersion."""
        before = self.current.get(key)
        revision = self._store.advance()
        after = self.current[key] = _stamped(key, body, revision)
        self._record(StoreChange(key, revision, before, after))
        return after

    def remove(self, key: Key) -> Version:
        """Delete the object, which must exist; answers its last version under the new revision."""
        change = StoreChange(key, self._store.advance(), self.current.pop(key), None)
        self._record(change)
        return change.last()

    def list_at(self, revision: int | None = None) -> list[Version]:
        """All objects in key order, now or as they were at a revision; O(n log n)."""
        objects = self.current
        if revision is not None:
            self.check_readable(revision)
            objects = self._rewound(revision)
        return [objects[key] for key in sorted(objects)]

    def check_readable(self, revision: int) -> None:
        """Raise if this revision is compacted or not yet reached."""
        if revision < self.floor:
            raise expired("The resourceVersion for the provided list is too old.")
        if revision > self._store.revision:
            raise too_large_resource_version(revision, self._store.revision)

    def compact(self) -> None:
        """Forget the whole log: only the present can be read from now on."""
        self._dropped += len(self._log)
        self._log.clear()
        self.floor = self._store.revision

    def close(self) -> None:
        """End all watches."""
        self.closed = True
        self._wake()

    # The log, addressed by position: positions only grow and survive trimming.

    @property
    def end(self) -> int:
        return self._dropped + len(self._log)

    def position_after(self, revision: int) -> int:
        """Where a reader that has seen everything up to a revision goes on; O(log n)."""
        if revision < self.floor:
            raise expired(f"too old resource version: {revision} ({self.floor})")
        low, high = 0, len(self._log)
        while low < high:
            middle = (low + high) // 2
            if self._log[middle].revision > revision:
                high = middle
            else:
                low = middle + 1
        return self._dropped + low

    def changes(self, position: int) -> list[StoreChange] | None:
        """The changes from a position on; None if some of them are no longer there."""
        start = position - self._dropped
        return self._log[start:] if start >= 0 else None

    def _record(self, change: StoreChange) -> None:
        self._log.append(change)
        # Trimming in blocks keeps a write O(1) on average.
        if len(self._log) >= 2 * self._history:
            self.floor = self._log[self._history - 1].revision
            self._dropped += self._history
            del self._log[: self._history]
        if self._store.journal is not None:
            self._store.journal.written(self._name, change)
        self._wake()

    def _wake(self) -> None:
        for waker in self.wakers:
            waker.set()

    def _rewound(self, revision: int) -> dict[Key, Version]:
        objects = dict(self.current)
        for change in reversed(self._log):
            if change.revision <= revision:
                break
            if change.before is None:
                objects.pop(change.key, None)
            else:
                objects[change.key] = change.before
        return objects


class WriteJournal(Protocol):
    """Told of every write."""

    def written(self, table: str, change: StoreChange) -> None:
        """A write has taken effect; watches do not know of it yet."""


class Store:
    """Tables by name under one revision counter. `history` bounds each table's log."""

    def __init__(self, history: int = 10_000) -> None:
        self.revision = 1
        self.journal: WriteJournal | None = None
        self._history = history
        self._tables: dict[str, ObjectTable] = {}

    def table(self, name: str) -> ObjectTable:
        """The table of this name, made on first use."""
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = ObjectTable(self, name, self._history)
        return found

    def tables(self) -> Iterator[tuple[str, ObjectTable]]:
        """All tables there are."""
        return iter(list(self._tables.items()))

    def drop(self, name: str) -> None:
        """Delete a table with its objects and end its watches."""
        if table := self._tables.pop(name, None):
            table.close()

    def compact(self) -> None:
        """Make every earlier revision of every table too old."""
        for table in self._tables.values():
            table.compact()

    def advance(self) -> int:
        """Count one write."""
        self.revision += 1
        return self.revision
