"""What plugins remember of pods and nodes beyond one cycle.

A slot of the cycle is gone when its attempt ends. What should last longer is kept here: by pod or
by node, bounded, and dropped when that pod or node goes. So a plugin cannot leak, and never finds
what it noted about a node of the same name that was there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

LIMIT = 65_536


class Memory(Generic[T]):
    """Values by pod uid, or by node name. All operations are O(1), on the loop's thread.

    Beyond ``limit`` the one that was neither put nor found for longest is forgotten: a plugin must
    be able to do without.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"limit must be greater than 0, not {limit}")
        self._limit = limit
        self._values: dict[str, T] = {}

    def put(self, key: str, value: T) -> None:
        """Remember a value, instead of any that was there."""
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._limit:
            del self._values[next(iter(self._values))]

    def find(self, key: str) -> T | None:
        """The value that is remembered, if any is."""
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value
        return value

    def drop(self, key: str) -> None:
        """Forget a value; nothing happens if there is none."""
        self._values.pop(key, None)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        """The keys, the least recently used first; a copy, so that values may go meanwhile."""
        return iter(list(self._values))


class Memories:
    """All memories of a scheduler, by name: plugins that name the same one share it."""

    def __init__(self) -> None:
        self._of_pods: dict[str, Memory[Any]] = {}
        self._of_nodes: dict[str, Memory[Any]] = {}

    def of_pods(self, name: str, limit: int = LIMIT) -> Memory[Any]:
        """A memory by pod uid; made when first asked for, with the limit given then."""
        return self._of_pods.setdefault(name, Memory(limit))

    def of_nodes(self, name: str, limit: int = LIMIT) -> Memory[Any]:
        """A memory by node name; made when first asked for, with the limit given then."""
        return self._of_nodes.setdefault(name, Memory(limit))

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted or has finished."""
        for memory in self._of_pods.values():
            memory.drop(uid)

    def node_gone(self, name: str) -> None:
        """A node was deleted."""
        for memory in self._of_nodes.values():
            memory.drop(name)
