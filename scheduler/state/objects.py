"""Objects that plugins look up: volumes, claims, classes, services, controllers, budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class ObjectStore:
    """The newest version of every watched object that is neither pod nor node.

    By kind and then by key (``namespace/name``, or the name of a cluster-scoped object).
    ``version`` counts changes per kind, for those who derive something from all objects of one.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, int] = {}

    def all(self, kind: type[T]) -> Mapping[str, T]:
        """All objects of a kind, by key."""
        return self._kinds.setdefault(kind.__name__, {})

    def get(self, kind: type[T], key: str) -> T | None:
        """One object."""
        return self.all(kind).get(key)

    def version(self, kind: type) -> int:
        """Grows whenever an object of the kind changes."""
        return self._versions.get(kind.__name__, 0)

    def put(self, kind: str, key: str, new: object | None) -> None:
        """Take over an object's new version, or (None) its end."""
        objects = self._kinds.setdefault(kind, {})
        if new is None:
            objects.pop(key, None)
        else:
            objects[key] = new
        self._versions[kind] = self._versions.get(kind, 0) + 1
