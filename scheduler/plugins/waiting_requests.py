"""The requests of all waiting pods, as a table: which pods fit on a node now?

A row per resource, a column per waiter. Resources that few pods request must not make the table
large: when more than ``MOST_RESOURCES`` are requested at once, pods that request further ones are
compared by what the table has, and then checked one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from scheduler.model.events import Event
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import PODS, Amounts
from scheduler.queueing.columns import Answer
from scheduler.state.cache import ClusterState, allocatable_of
from scheduler.state.columns import Mask

MOST_RESOURCES = 32
_FIRST_CAPACITY = 64


class _Entry(NamedTuple):
    """One waiter, and the resources of which the table has its request."""

    uid: str
    resources: tuple[str, ...]


class WaitingRequests:
    """The requests of all waiting pods. An event costs an operation for each resource."""

    def __init__(self, state: ClusterState, wanted: Callable[[PodInfo], Amounts]) -> None:
        self._state = state
        self._wanted = wanted
        self._amounts: dict[str, np.ndarray] = {}
        self._users: Counter[str] = Counter()
        self._of: dict[int, _Entry] = {}
        self._incomplete: set[int] = set()
        """Pods that request a resource that is not in the table."""
        self._live: Mask = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._numbers: dict[str, set[int]] = {}
        """Waiters by the uid of their pod; one that left a cohort may stand for it yet."""

    def add(self, waiter: int, pod: PodInfo) -> None:
        """Enter what a pod requests."""
        if waiter >= len(self._live):
            self._grow(waiter)
        kept = []
        for resource, amount in self._wanted(pod).items():
            column = self._amounts.get(resource)
            if column is None:
                if len(self._amounts) >= MOST_RESOURCES:
                    self._incomplete.add(waiter)
                    continue
                column = self._amounts[resource] = np.zeros(len(self._live), np.int64)
            column[waiter] = amount
            self._users[resource] += 1
            kept.append(resource)
        self._of[waiter] = _Entry(pod.uid, tuple(kept))
        self._numbers.setdefault(pod.uid, set()).add(waiter)
        self._live[waiter] = True

    def remove(self, waiter: int) -> None:
        """Delete it again; a resource that no pod requests leaves the table."""
        self._live[waiter] = False
        self._incomplete.discard(waiter)
        entry = self._of.pop(waiter)
        self._numbers[entry.uid].remove(waiter)
        if not self._numbers[entry.uid]:
            del self._numbers[entry.uid]
        for resource in entry.resources:
            self._amounts[resource][waiter] = 0
            self._users[resource] -= 1
            if not self._users[resource]:
                del self._users[resource], self._amounts[resource]

    def hopeless(self) -> int:
        """Pods that request more of a resource than any node has free.

        Nominated pods are left out: their victims may be terminating.
        """
        columns, rows = self._state.columns, self._state.rows()
        most: dict[str, int] = {}
        for resource in self._amounts:
            index = columns.resources.find(resource)
            if index is not None and len(rows):
                free = columns.allocatable[index].take(rows) - columns.requested[index].take(rows)
                most[resource] = int(free.max())
        hopeless = self._live & ~self._within(most)
        for uid in self._state.nominations.uids():
            for waiter in self._numbers.get(uid, ()):
                hopeless[waiter] = False
        return _bits(hopeless)

    def answer(self, event: Event) -> Answer:
        """Pods that fit on the node of a deleted or smaller pod, or on a new or larger node."""
        if isinstance(event.new, Node):
            return self._split(self._offered(event.old, event.new))
        row = self._state.row(event.old.node_name) if isinstance(event.old, PodInfo) else None
        return Answer() if row is None else self._split(self._fitting(row))

    def _fitting(self, row: int) -> Mask | None:
        columns = self._state.columns
        if columns.pod_count[row] >= columns.pod_limit[row]:
            return None
        free = {
            resource: int(columns.allocatable[index, row] - columns.requested[index, row])
            for resource in self._amounts
            if (index := columns.resources.find(resource)) is not None
        }
        return self._within(free)

    def _offered(self, old: object, new: Node) -> Mask | None:
        """Pods that fit on the empty node, and request a resource that it has more of."""
        offered = allocatable_of(new)
        if not offered.get(PODS):
            return None
        fitting = self._within(offered)
        before = allocatable_of(old) if isinstance(old, Node) else {}
        if offered[PODS] > before.get(PODS, 0):
            return fitting
        grown = np.zeros(len(self._live), np.bool_)
        for resource, column in self._amounts.items():
            if offered.get(resource, 0) > before.get(resource, 0):
                grown |= column > 0
        for waiter in self._incomplete:
            grown[waiter] = True
        return fitting & grown

    def _within(self, amounts: Mapping[str, int]) -> Mask:
        fitting = self._live.copy()
        for resource, column in self._amounts.items():
            # A node may be over-committed; pods that request nothing of a resource still fit.
            left = max(amounts.get(resource, 0), 0)
            np.logical_and(fitting, column <= left, out=fitting)
        return fitting

    def _split(self, fitting: Mask | None) -> Answer:
        if fitting is None:
            return Answer()
        unsure = [waiter for waiter in self._incomplete if fitting[waiter]]
        fitting[unsure] = False
        return Answer(_bits(fitting), unsure)

    def _grow(self, waiter: int) -> None:
        extra = max(len(self._live), waiter + 1 - len(self._live))
        self._live = np.pad(self._live, (0, extra))
        for resource, column in self._amounts.items():
            self._amounts[resource] = np.pad(column, (0, extra))


def _bits(chosen: Mask) -> int:
    return int.from_bytes(np.packbits(chosen, bitorder="little").tobytes(), "little")
