"""Objects that plugins look up: volumes, claims, classes, services, controllers, budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

Listener = Callable[[str, Any, Any], None]
"""Told of a change: the key, the old version (None: it came) and the new one (None: it went)."""


class ObjectStore:
    """The newest version of every watched object that is neither pod nor node.

    By kind and then by key (``namespace/name``, or the name of a cluster-scoped object).
    ``version`` counts changes per kind, for those who derive something from all objects of one.

    Like a pod, an object may be *assumed* to be what we are about to make of it. It is seen that
    way by all, until the watch tells of a newer version or the assumption is forgotten.
    """

    def __init__(
        self, changed: Callable[[str, str, Any, Any], None] = lambda kind, key, old, new: None
    ) -> None:
        self._changed = changed
        self._kinds: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, int] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self._confirmed: dict[tuple[str, str], Any] = {}
        """What the watch said of objects that are assumed to be different."""

    def all(self, kind: type[T]) -> Mapping[str, T]:
        """All objects of a kind, by key."""
        return self._kinds.setdefault(kind.__name__, {})

    def get(self, kind: type[T], key: str) -> T | None:
        """One object."""
        return self.all(kind).get(key)

    def confirmed(self, kind: type[T], key: str) -> T | None:
        """One object as the API server has it, whatever is assumed of it."""
        known: T | None = self._confirmed.get((kind.__name__, key))
        return known if known is not None else self.get(kind, key)

    def version(self, kind: type) -> int:
        """Grows whenever an object of the kind changes."""
        return self._versions.get(kind.__name__, 0)

    def subscribe(self, kind: type, listener: Listener) -> None:
        """Tell a listener of all later changes of a kind, in order, as soon as they are there."""
        self._listeners.setdefault(kind.__name__, []).append(listener)

    def put(self, kind: str, key: str, new: object | None) -> None:
        """Take over an object's new version, or (None) its end; ends what was assumed of it."""
        self._confirmed.pop((kind, key), None)
        self._set(kind, key, new)

    def assume(self, key: str, new: object) -> None:
        """Have an object be as we are going to make it."""
        kind = type(new).__name__
        self._confirmed.setdefault((kind, key), self._kinds[kind][key])
        self._set(kind, key, new)

    def forget(self, key: str, assumed: object) -> None:
        """Undo ``assume``; an object that has changed since stays as it is."""
        kind = type(assumed).__name__
        if (kind, key) in self._confirmed and self._kinds[kind].get(key) is assumed:
            self._set(kind, key, self._confirmed.pop((kind, key)))

    def _set(self, kind: str, key: str, new: object | None) -> None:
        objects = self._kinds.setdefault(kind, {})
        old = objects.get(key)
        if new is None:
            objects.pop(key, None)
        else:
            objects[key] = new
        self._versions[kind] = self._versions.get(kind, 0) + 1
        self._changed(kind, key, old, new)
        for listener in self._listeners.get(kind, ()):
            listener(key, old, new)
