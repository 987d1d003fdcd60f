"""Arrays over node rows, and the shapes that cross the plugin boundary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.ma
from numpy.typing import NDArray

from scheduler.bounded import Usage
from scheduler.model.meta import Condition
from scheduler.model.nodes import Node, Taint
from scheduler.model.resources import CPU, EPHEMERAL_STORAGE, MAX_AMOUNT, MEMORY, Amounts
from scheduler.state.interning import Interner
from scheduler.state.labels import LabelColumns

Rows = NDArray[np.intp]
"""Row numbers, in ascending order."""
Codes = NDArray[np.int32]
"""A verdict per row: 0 fits, else a code of the ``StatusTable``."""
Scores = NDArray[np.int64]
"""A score per row."""
Mask = NDArray[np.bool_]
"""Yes or no per row."""
Where = Rows | slice
"""Rows as an index of columns."""

_BASIC_RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE)
_SPARE_RESOURCES = 16
"""So many columns of resources that no node offers any more are kept: nodes may be added again."""
_FIRST_CAPACITY = 64
_MANY = 256
"""Fewer rows are copied in less time than it takes to look at them."""


def where(rows: Rows) -> Where:
    """Many rows that follow each other as a slice: columns then give a view and copy nothing.

    Rows in another order stay as they are, whatever the first and the last of them are.
    """
    number = len(rows)
    if number >= _MANY:
        first, last = rows.item(0), rows.item(-1)
        if last - first + 1 == number and bool((rows[1:] > rows[:-1]).all()):
            return slice(first, last + 1)
    return rows


class NodeColumns:
    """One row per node; rows of removed nodes are used again.

    Resource columns are laid out (resource, row), because filters and scores read one resource of
    many nodes at a time.
    """

    def __init__(self) -> None:
        self.resources: Interner[str] = Interner(*_BASIC_RESOURCES)
        """The index of each resource that has a column. Another generation: other indexes."""
        self.taint_sets: Interner[tuple[Taint, ...]] = Interner(())
        self.feature_sets: Interner[tuple[str, ...]] = Interner(())
        self.condition_sets: Interner[frozenset[tuple[str, str]]] = Interner(frozenset())
        """Types and statuses of node conditions."""
        self.capacity = _FIRST_CAPACITY
        self.names: list[str] = [""] * self.capacity
        self.nodes: list[Node | None] = [None] * self.capacity
        self.live: Mask = np.zeros(self.capacity, np.bool_)
        self.allocatable: Scores = np.zeros((len(self.resources), self.capacity), np.int64)
        self.requested: Scores = np.zeros((len(self.resources), self.capacity), np.int64)
        self._offering: Scores = np.zeros(len(self.resources), np.int64)
        """How many rows have any of each resource."""
        self.nonzero: Scores = np.zeros((2, self.capacity), np.int64)
        self.pod_limit: Scores = np.zeros(self.capacity, np.int64)
        self.pod_count: Scores = np.zeros(self.capacity, np.int64)
        self.unschedulable: Mask = np.zeros(self.capacity, np.bool_)
        self.taint_set: Codes = np.zeros(self.capacity, np.int32)
        self.feature_set: Codes = np.zeros(self.capacity, np.int32)
        self.condition_set: Codes = np.zeros(self.capacity, np.int32)
        self.name_hash: NDArray[np.uint64] = np.zeros(self.capacity, np.uint64)
        self.labels = LabelColumns(self.nodes)

    def grow(self) -> None:
        """Double the number of rows."""
        extra = self.capacity
        self.capacity += extra
        self.names += [""] * extra
        self.nodes += [None] * extra
        self.live = _wider(self.live, extra)
        self.allocatable = _wider(self.allocatable, extra)
        self.requested = _wider(self.requested, extra)
        self.nonzero = _wider(self.nonzero, extra)
        self.pod_limit = _wider(self.pod_limit, extra)
        self.pod_count = _wider(self.pod_count, extra)
        self.unschedulable = _wider(self.unschedulable, extra)
        self.taint_set = _wider(self.taint_set, extra)
        self.feature_set = _wider(self.feature_set, extra)
        self.condition_set = _wider(self.condition_set, extra)
        self.name_hash = _wider(self.name_hash, extra)
        self.labels.grow(extra)

    def add_resources(self, names: Sequence[str]) -> None:
        """New resources, with columns of zeros."""
        zeros = np.zeros((len(names), self.capacity), np.int64)
        self.allocatable = np.concatenate((self.allocatable, zeros))
        self.requested = np.concatenate((self.requested, zeros))
        self._offering = np.concatenate((self._offering, np.zeros(len(names), np.int64)))
        for name in names:
            self.resources.intern(name)

    def set_allocatable(self, row: int, amounts: Amounts) -> None:
        """Replace what a row offers; a resource that has no column is left out. O(resources)."""
        offered = self.allocatable[:, row]
        self._offering -= offered != 0
        offered[:] = 0
        for resource, amount in amounts.items():
            index = self.resources.find(resource)
            if index is not None:
                # One below the cap: a request at the cap fits nowhere.
                offered[index] = min(amount, MAX_AMOUNT - 1)
        self._offering += offered != 0
        if self._offering.size > len(_BASIC_RESOURCES) + _SPARE_RESOURCES:
            self._drop_unoffered()

    def _drop_unoffered(self) -> None:
        """Give the columns of resources back that no row has any of, once there are many.

        To filters, a resource without a column is one of which every row has nothing.
        """
        kept = self._offering != 0
        kept[: len(_BASIC_RESOURCES)] = True
        if len(kept) - np.count_nonzero(kept) <= _SPARE_RESOURCES:
            return
        names = [name for name, keep in zip(self.resources.values, kept, strict=True) if keep]
        self.allocatable = self.allocatable[kept]
        self.requested = self.requested[kept]
        self._offering = self._offering[kept]
        self.resources.restart(*names)

    def resource_usage(self) -> Usage:
        """How much the columns of resources take."""
        return Usage(len(self.resources), self.allocatable.nbytes + self.requested.nbytes)

    def set_taints(self, row: int, taints: tuple[Taint, ...]) -> None:
        """Take over a node's taints; its ``nodes`` entry must be set already.

        Some taints carry timestamps, so sets that no row has any more are dropped now and then.
        """
        if len(self.taint_sets) > 2 * self.capacity + 64:
            self.taint_sets.restart(())
            for other, node in enumerate(self.nodes):
                if node is not None:
                    self.taint_set[other] = self.taint_sets.intern(node.spec.taints)
        self.taint_set[row] = self.taint_sets.intern(taints)

    def set_features(self, row: int, features: tuple[str, ...]) -> None:
        """Take over a node's declared features, likewise."""
        if len(self.feature_sets) > 2 * self.capacity + 64:
            self.feature_sets.restart(())
            for other, node in enumerate(self.nodes):
                if node is not None:
                    declared = node.status.declared_features
                    self.feature_set[other] = self.feature_sets.intern(declared)
        self.feature_set[row] = self.feature_sets.intern(features)

    def set_conditions(self, row: int, conditions: Iterable[Condition]) -> None:
        """Take over types and statuses of a node's conditions, likewise."""
        if len(self.condition_sets) > 2 * self.capacity + 64:
            self.condition_sets.restart(frozenset())
            for other, node in enumerate(self.nodes):
                if node is not None:
                    known = _states(node.status.conditions)
                    self.condition_set[other] = self.condition_sets.intern(known)
        self.condition_set[row] = self.condition_sets.intern(_states(conditions))

    def erase(self, row: int) -> None:
        """Make a row as if it had never been used."""
        self.labels.set(row, None)
        self.names[row] = ""
        self.nodes[row] = None
        self.live[row] = self.unschedulable[row] = False
        self.requested[:, row] = self.nonzero[:, row] = 0
        self.set_allocatable(row, {})
        self.pod_limit[row] = self.pod_count[row] = 0
        self.taint_set[row] = self.feature_set[row] = self.condition_set[row] = 0


def _states(conditions: Iterable[Condition]) -> frozenset[tuple[str, str]]:
    return frozenset((condition.type, condition.status) for condition in conditions)


def _wider(array: NDArray[np.generic], extra: int) -> NDArray:  # type: ignore[type-arg]  # any dtype
    """The same array with ``extra`` zero rows at its end."""
    padding = [(0, 0)] * (array.ndim - 1) + [(0, extra)]
    return np.pad(array, padding)
