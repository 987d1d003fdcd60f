"""Arrays over node rows, and the shapes that cross the plugin boundary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.ma
from numpy.typing import NDArray

from scheduler.bounded import ENTRY_BYTES, Usage
from scheduler.model.meta import Condition
from scheduler.model.nodes import Node, Taint
from scheduler.model.resources import CPU, EPHEMERAL_STORAGE, MAX_AMOUNT, MEMORY, Amounts
from scheduler.state.interning import Interner
from scheduler.state.labels import LabelColumns
from scheduler.state.row_values import RowValues

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
_TEXT_BYTES = 64
"""What a text in a tuple takes besides its characters."""
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
        self.capacity = _FIRST_CAPACITY
        self.taints: RowValues[tuple[Taint, ...]] = RowValues((), self.capacity, _taint_bytes)
        self.features: RowValues[tuple[str, ...]] = RowValues((), self.capacity, _text_bytes)
        self.conditions: RowValues[frozenset[tuple[str, str]]] = RowValues(
            frozenset(), self.capacity, _condition_bytes
        )
        """Types and statuses of node conditions."""
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
        for values in (self.taints, self.features, self.conditions):
            values.grow(self.capacity)
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

    def set_values(self, row: int, node: Node) -> None:
        """Take over a node's taints, declared features, and types and statuses of conditions."""
        self.taints.set(row, node.spec.taints)
        self.features.set(row, node.status.declared_features)
        self.conditions.set(row, _states(node.status.conditions))

    def value_usage(self) -> Usage:
        """How much sets of taints, features and conditions take."""
        each = (self.taints.usage(), self.features.usage(), self.conditions.usage())
        return Usage(*map(sum, zip(*each, strict=True)))

    def erase(self, row: int) -> None:
        """Make a row as if it had never been used."""
        self.labels.set(row, None)
        self.names[row] = ""
        self.nodes[row] = None
        self.live[row] = self.unschedulable[row] = False
        self.requested[:, row] = self.nonzero[:, row] = 0
        self.set_allocatable(row, {})
        self.pod_limit[row] = self.pod_count[row] = 0
        for values in (self.taints, self.features, self.conditions):
            values.clear(row)


def _states(conditions: Iterable[Condition]) -> frozenset[tuple[str, str]]:
    return frozenset((condition.type, condition.status) for condition in conditions)


def _text_bytes(texts: Iterable[str]) -> int:
    return sum(_TEXT_BYTES + len(text) for text in texts)


def _taint_bytes(taints: tuple[Taint, ...]) -> int:
    return sum(
        ENTRY_BYTES + _text_bytes((taint.key, taint.value, taint.effect)) for taint in taints
    )


def _condition_bytes(states: frozenset[tuple[str, str]]) -> int:
    return sum(ENTRY_BYTES + _text_bytes(state) for state in states)


def _wider(array: NDArray[np.generic], extra: int) -> NDArray:  # type: ignore[type-arg]  # any dtype
    """The same array with ``extra`` zero rows at its end."""
    padding = [(0, 0)] * (array.ndim - 1) + [(0, extra)]
    return np.pad(array, padding)
