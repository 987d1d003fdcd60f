"""What plugins remember of pods and nodes beyond one cycle.

A slot of the cycle is gone when its attempt ends. What should last longer is kept here: by pod or
by node, bounded, and dropped when that pod or node goes. So a plugin cannot leak, and never finds
what it noted about a node of the same name that was there before.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeVar

from scheduler.bounded import MEBIBYTE, Recent, Usage
from scheduler.model.events import Event
from scheduler.model.nodes import Node
from scheduler.model.pods import Pod

T = TypeVar("T")

LIMIT = 65_536
MAX_BYTES = 16 * MEBIBYTE


Memory = Recent[str, T]
"""Values by pod uid, or by node name. All operations are O(1), on the loop's thread.

Beyond ``limit`` values or ``MAX_BYTES`` the one that was neither put nor found for longest is
forgotten: a plugin must be able to do without. A value counts with what ``sys.getsizeof`` says of
it, so one that holds others should add their bytes in ``__sizeof__``.
"""


def _size(key: str, value: object) -> int:
    return len(key) + sys.getsizeof(value)


def _memory(limit: int) -> Memory[Any]:
    if limit < 1:
        raise ValueError(f"limit must be greater than 0, not {limit}")
    return Recent(MAX_BYTES, _size, limit)


class KeptByPod(Protocol):
    """What others keep of pods."""

    def drop(self, uid: str, /) -> object:
        """The pod is gone: nothing of it is needed any more."""
        ...


class Memories:
    """All memories of a scheduler, by name: plugins that name the same one share it."""

    def __init__(self) -> None:
        self._of_pods: dict[str, Memory[Any]] = {}
        self._of_nodes: dict[str, Memory[Any]] = {}
        self._adopted: list[KeptByPod] = []

    def of_pods(self, name: str, limit: int = LIMIT) -> Memory[Any]:
        """A memory by pod uid; created at first use, with the limit given then."""
        return self._of_pods.setdefault(name, _memory(limit))

    def of_nodes(self, name: str, limit: int = LIMIT) -> Memory[Any]:
        """A memory by node name; created at first use, with the limit given then."""
        return self._of_nodes.setdefault(name, _memory(limit))

    def adopt(self, kept: KeptByPod) -> None:
        """Drop what others keep by pod uid likewise; they report its bytes themselves."""
        self._adopted.append(kept)

    def on_event(self, event: Event) -> None:
        """Drop what is kept of a pod that was deleted or has finished, or of a deleted node."""
        old, new = event.old, event.new
        if not isinstance(old, Pod | Node):
            return
        replaced = not isinstance(new, Pod | Node) or new.metadata.uid != old.metadata.uid
        if isinstance(old, Node):
            if replaced:
                self.node_gone(old.name)
        elif replaced or (isinstance(new, Pod) and new.finished):
            self.pod_gone(old.metadata.uid)

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted or has finished."""
        for memory in self._of_pods.values():
            memory.drop(uid)
        for kept in self._adopted:
            kept.drop(uid)

    def node_gone(self, name: str) -> None:
        """A node was deleted."""
        for memory in self._of_nodes.values():
            memory.drop(name)

    def usage(self) -> dict[str, Usage]:
        """How much they hold, by name."""
        memories = {**self._of_pods, **self._of_nodes}
        return {f"memory_{name}": memory.usage() for name, memory in memories.items()}
