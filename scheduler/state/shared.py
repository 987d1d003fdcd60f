"""Objects that plugins keep for a whole cluster, whatever number of profiles use them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SharedObjects:
    """One object for each type and key. They live as long as the cluster state that owns them."""

    def __init__(self) -> None:
        self._objects: dict[tuple[type[Any], Hashable], Any] = {}

    def get(self, kind: type[T], key: Hashable = None) -> T | None:
        """The object of a type, if some plugin has made it."""
        return self._objects.get((kind, key))

    def get_or_make(self, kind: type[T], make: Callable[[], T], key: Hashable = None) -> T:
        """The object of a type, made by the first caller."""
        found = self.get(kind, key)
        if found is None:
            found = self._objects[kind, key] = make()
        return found

    def all(self, kind: type[T]) -> list[T]:
        """All objects of a type, in the order in which they were made."""
        return [each for (of, _), each in self._objects.items() if of is kind]
