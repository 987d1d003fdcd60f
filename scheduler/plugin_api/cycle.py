"""What lives as long as one attempt to place one pod."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar, overload

import msgspec
import numpy as np

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status
from scheduler.plugin_api.outlet import StaleReason
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Mask, Rows

T = TypeVar("T")


class Slot(Generic[T]):
    """A typed place in a cycle where a plugin keeps what it computed, for its own later points.

    Created once, at module level; its identity is the key, so two plugins cannot collide.
    A ``lasting`` slot is kept until the binding has ended. All others are dropped when the node is
    reserved: arrays over all nodes add up when many pods are being bound.
    """

    def __init__(self, name: str, *, lasting: bool = False) -> None:
        self.name = name
        self.lasting = lasting


SlotKey = Slot[Any] | str
"""A slot, or a name, for plugins that do not import each other."""
Bookings = Mapping[SlotKey, Any]

STALE: Slot[StaleReason] = Slot("whether the decision still holds", lasting=True)
"""For bind plugins: the last argument of `Outlet.bind`."""


_NOBODY: frozenset[str] = frozenset()


class Cycle:
    """One attempt: the pod, the state it is judged against, and the plugins' slots."""

    __slots__ = ("_slots", "announced", "equivalence_class", "pod", "refusal", "skipped", "state")

    def __init__(self, pod: PodInfo, state: ClusterState) -> None:
        self.pod = pod
        self.state = state
        self.equivalence_class: Hashable | None = None
        """Equal for pods that all filters answer alike; None if that is not known."""
        self.skipped: dict[str, frozenset[str]] = {"filter": _NOBODY, "score": _NOBODY}
        """Plugins that said Skip, by the point that is left out for them."""
        self.announced = False
        """Whether the pod's status names the chosen node (``nominatedNodeName``)."""
        self.refusal: Status | None = None
        """Why the reservation is being undone; None unless it is."""
        self._slots: dict[SlotKey, Any] = {}

    def skip(self, point: str, plugins: frozenset[str]) -> None:
        """Leave plugins out at a point from now on."""
        before = self.skipped[point]
        self.skipped[point] = before | plugins if before else plugins

    @overload
    def put(self, key: Slot[T], value: T) -> None: ...

    @overload
    def put(self, key: str, value: Any) -> None: ...

    def put(self, key: SlotKey, value: Any) -> None:
        """Keep a value for the life of the slot; by name, until the binding has ended."""
        self._slots[key] = value

    @overload
    def get(self, key: Slot[T]) -> T: ...

    @overload
    def get(self, key: str) -> Any: ...

    def get(self, key: SlotKey) -> Any:
        """The value that was put; KeyError if there is none, which is a bug of the plugin."""
        return self._slots[key]

    @overload
    def find(self, key: Slot[T]) -> T | None: ...

    @overload
    def find(self, key: str) -> Any: ...

    def find(self, key: SlotKey) -> Any:
        """The value that was put; None if there is none."""
        return self._slots.get(key)

    def drop(self, key: SlotKey) -> None:
        """Drop a value, if there is one."""
        self._slots.pop(key, None)

    def drop_transient_slots(self) -> None:
        """Drop all slots that do not last; called when a node is reserved."""
        if self._slots:
            lasting = [key for key in self._slots if isinstance(key, str) or key.lasting]
            self._slots = {key: self._slots[key] for key in lasting}

    def bookings(self) -> Bookings | None:
        """The slots, to be kept until the binding is confirmed; None if there are none."""
        return dict(self._slots) or None

    def restore(self, bookings: Bookings | None) -> None:
        """Take over the slots of an earlier attempt at the pod."""
        self._slots.update(bookings or {})

    def reject(self, failed: Mask, status: Status) -> Codes:
        """Codes that give ``status`` to the rows that failed, and pass the others."""
        return np.multiply(failed, self.state.statuses.code(status), dtype=np.int32)


class Diagnosis(msgspec.Struct):
    """Why a pod fits nowhere: a verdict for every node, or one on the pod as a whole."""

    rows: Rows
    codes: Codes
    pre_filter: Status | None = None
    """Set when the pod was rejected as a whole; every node then counts as rejected by it."""
    settled: bool = False
    """Skip PostFilter (preemption)."""
    post_filter: str = ""
    nominated_node: str | None = None
    """The node to nominate the pod to; "" removes the nomination, None leaves it as it is."""
    unschedulable_plugins: set[str] = set()
    pending_plugins: set[str] = set()
    final: bool = False
    """Whether PostFilter has run, and its answer counts for the whole class."""
    message: str = ""
    """The message of the pod's condition, once it is written."""
