"""What lives as long as one attempt to place one pod."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar, overload

import msgspec
import numpy as np

from scheduler.framework.outlet import Stale
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Mask, Rows

T = TypeVar("T")


class Slot(Generic[T]):
    """A typed place in a cycle where a plugin keeps what it computed, for its own later points.

    Created once, at module level; its identity is the key, so two plugins cannot collide.
    What is in a ``lasting`` slot is there until the binding has ended. Everything else goes when
    the pod is handed over to binding: arrays over all nodes add up when many pods are being bound.
    """

    def __init__(self, name: str, *, lasting: bool = False) -> None:
        self.name = name
        self.lasting = lasting


Key = Slot[Any] | str
"""A slot, or a name that plugins share which do not import each other."""
Bookings = Mapping[Key, Any]

STALE: Slot[Stale] = Slot("whether the decision still holds", lasting=True)
"""For plugins that bind: to be handed to `Outlet.bind`."""


class Cycle:
    """One attempt: the pod, the state it is judged against, and the plugins' slots."""

    __slots__ = ("_slots", "announced", "equivalence_class", "pod", "refusal", "skipped", "state")

    def __init__(self, pod: PodInfo, state: ClusterState) -> None:
        self.pod = pod
        self.state = state
        self.equivalence_class: Hashable | None = None
        """The same for pods that all filters answer alike; None if that cannot be told."""
        self.skipped: dict[str, set[str]] = {"filter": set(), "score": set()}
        """Plugins that said Skip: by the point that is left out for them."""
        self.announced = False
        """Whether the pod's status says that it will go to the node that was chosen."""
        self.refusal: Status | None = None
        """Why what was reserved is being undone; None unless it is."""
        self._slots: dict[Key, Any] = {}

    @overload
    def put(self, key: Slot[T], value: T) -> None: ...

    @overload
    def put(self, key: str, value: Any) -> None: ...

    def put(self, key: Key, value: Any) -> None:
        """Keep a value, for as long as the slot says; by name, until the binding has ended."""
        self._slots[key] = value

    @overload
    def get(self, key: Slot[T]) -> T: ...

    @overload
    def get(self, key: str) -> Any: ...

    def get(self, key: Key) -> Any:
        """The value that was put; KeyError if none was, which is a bug of the plugin."""
        return self._slots[key]

    @overload
    def find(self, key: Slot[T]) -> T | None: ...

    @overload
    def find(self, key: str) -> Any: ...

    def find(self, key: Key) -> Any:
        """The value that was put, if any was."""
        return self._slots.get(key)

    def drop(self, key: Key) -> None:
        """Let go of a value; fine if there is none."""
        self._slots.pop(key, None)

    def drop_brief(self) -> None:
        """A node was chosen and reserved: let go of all that does not last."""
        self._slots = {
            key: value for key, value in self._slots.items() if isinstance(key, str) or key.lasting
        }

    def bookings(self) -> Bookings | None:
        """What plugins keep until the binding is confirmed, to undo it; None if nothing."""
        return dict(self._slots) or None

    def restore(self, bookings: Bookings | None) -> None:
        """Have the bookings of an earlier attempt at the pod."""
        self._slots.update(bookings or {})

    def reject(self, failed: Mask, status: Status) -> Codes:
        """Codes that give ``status`` to the rows that failed, and pass the others."""
        return np.multiply(failed, self.state.statuses.code(status), dtype=np.int32)


class Diagnosis(msgspec.Struct):
    """Why a pod fits nowhere: a verdict for every node, or one before any node was looked at."""

    rows: Rows
    codes: Codes
    pre_filter: Status | None = None
    """Set when the pod was rejected as a whole; every node then counts as rejected by it."""
    settled: bool = False
    """Whether nobody is to look for a way to make room all the same."""
    post_filter: str = ""
    nominated_node: str | None = None
    """The node to promise to the pod; "" takes a promise back, None leaves it as it is."""
    unschedulable_plugins: set[str] = set()
    pending_plugins: set[str] = set()
    final: bool = False
    """Whether plugins have been asked to make room, and their answer counts for the whole class."""
    message: str = ""
    """All this in words, once somebody has asked for them."""
