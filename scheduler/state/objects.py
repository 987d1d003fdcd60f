"""Objects that plugins look up: volumes, claims, classes, services, controllers, budgets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from scheduler.state.aspects import ChangeLog, object_aspects

T = TypeVar("T")

Listener = Callable[[str, Any, Any], None]
"""Called with the key, the old version (None: added) and the new one (None: deleted)."""


class ObjectStore:
    """The newest version of every watched object that is neither pod nor node.

    By kind and then by key (``namespace/name``, or the name of a cluster-scoped object).

    Like a pod, an object may be *assumed* to have the version that the scheduler is about to write.
    All readers see that version until the watch delivers a newer one or it is forgotten.
    """

    def __init__(self, rows: Mapping[str, int], changes: ChangeLog) -> None:
        self._rows = rows
        """The row of each node: the state's own mapping, which grows and shrinks with it."""
        self._changes = changes
        self._kinds: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._listeners: dict[str, list[Listener]] = {}
        self._confirmed: dict[tuple[str, str], Any] = {}
        """The watched version of each object of which another is assumed."""

    def all(self, kind: type[T]) -> Mapping[str, T]:
        """All objects of a kind, by key."""
        return self._kinds[kind.__name__]

    def get(self, kind: type[T], key: str) -> T | None:
        """One object."""
        return self._kinds[kind.__name__].get(key)

    def confirmed(self, kind: type[T], key: str) -> T | None:
        """The watched version of an object, whatever is assumed."""
        known: T | None = self._confirmed.get((kind.__name__, key))
        return known if known is not None else self.get(kind, key)

    def subscribe(self, kind: type, listener: Listener) -> None:
        """Call a listener on every later change of a kind, in order, after it is applied."""
        self._listeners.setdefault(kind.__name__, []).append(listener)

    def put(self, kind: str, key: str, new: object | None) -> None:
        """Apply a watched version, or (None) a deletion; drops the assumed version."""
        self._confirmed.pop((kind, key), None)
        self._set(kind, key, new)

    def assume(self, key: str, new: object) -> None:
        """Show the version that the scheduler is about to write."""
        kind = type(new).__name__
        self._confirmed.setdefault((kind, key), self._kinds[kind][key])
        self._set(kind, key, new)

    def forget(self, key: str, assumed: object) -> None:
        """Undo ``assume``, unless the object has changed since."""
        kind = type(assumed).__name__
        if (kind, key) in self._confirmed and self._kinds[kind].get(key) is assumed:
            self._set(kind, key, self._confirmed.pop((kind, key)))

    def _set(self, kind: str, key: str, new: object | None) -> None:
        objects = self._kinds[kind]
        old = objects.get(key)
        if new is None:
            objects.pop(key, None)
        else:
            objects[key] = new
        self._log(kind, key, old, new)
        for listener in self._listeners.get(kind, ()):
            listener(key, old, new)

    def _log(self, kind: str, key: str, old: object | None, new: object | None) -> None:
        aspects = object_aspects(kind, old, new)
        if kind != "CSINode":
            self._changes.touch_all(aspects)
        elif (row := self._rows.get(key)) is not None:
            self._changes.touch(row, aspects)
