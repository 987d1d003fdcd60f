"""NUMA cells as columns: (resource, cell, row), the rows being those of the cluster state.

A cell's place in its row is its rank among the node's cells, so sparse and unordered ids need no
room. Columns are as wide as the node with the most cells.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from scheduler.model.resources import CPU, MEMORY
from scheduler.numa.topology import Policy, Scope, Topology
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows, Scores, where
from scheduler.state.interning import Interner

MAX_RESOURCES = 64
"""Names that objects may add to the columns; no machine has as many kinds of devices."""


class Kind(enum.IntEnum):
    """How a row's kubelet aligns pods, as far as it matters to filters."""

    WITHDRAWN = -1
    """It has published its cells once, and no longer does."""
    UNKNOWN = 0
    """It has never published its cells."""
    LENIENT = 1
    """It refuses nobody."""
    SINGLE_CONTAINERS = 2
    SINGLE_PODS = 3
    RESTRICTED_CONTAINERS = 4
    RESTRICTED_PODS = 5


_KINDS = {
    (Policy.SINGLE, Scope.CONTAINER): Kind.SINGLE_CONTAINERS,
    (Policy.SINGLE, Scope.POD): Kind.SINGLE_PODS,
    (Policy.RESTRICTED, Scope.CONTAINER): Kind.RESTRICTED_CONTAINERS,
    (Policy.RESTRICTED, Scope.POD): Kind.RESTRICTED_PODS,
}

_CPU = 0
Distances = tuple[tuple[int, ...], ...]
UNKNOWN_DISTANCE = 255


class View(msgspec.Struct, frozen=True):
    """What is believed of one node's cells, by resource and then by cell."""

    topology: Topology
    free: Mapping[str, Sequence[int]]
    """No more than this can be had in a cell."""
    sure: Mapping[str, Sequence[int]]
    """This much can be had in a cell, wherever unsettled pods are."""
    expected: Mapping[str, Sequence[int]]
    """What is probably left, for scores."""
    together: Mapping[str, Sequence[int]]
    """What is left in a cell even if all unsettled pods are there."""
    unsettled: bool = False
    """``free`` and ``sure`` may differ: only a look at the node itself can tell."""


def plain_view(topology: Topology) -> View:
    """The view that believes an object as it is."""
    names = dict.fromkeys(name for cell in topology.cells for name in cell.available)
    available = {name: [cell.available.get(name, 0) for cell in topology.cells] for name in names}
    return View(topology, available, available, available, available)


class CellColumns:
    """The cells of all nodes that have told about theirs."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.resources: Interner[str] = Interner(CPU, MEMORY)
        self._views: dict[str, View] = {}
        self._withdrawn: set[str] = set()
        self._rows = 0
        self._width = 0
        self._distances: Interner[Distances] = Interner(())
        self.id_sets: Interner[tuple[int, ...]] = Interner(())
        self._allot(state.columns.capacity, 2)

    def _allot(self, rows: int, width: int) -> None:
        """Make arrays of a size; every row has to be filled in afterwards."""
        self._rows, self._width = rows, width
        shape = (len(self.resources), width, rows)
        self.free: Scores = np.zeros(shape, np.int64)
        self.sure: Scores = np.zeros(shape, np.int64)
        self.together: Scores = np.zeros(shape, np.int64)
        self.expected: Scores = np.zeros(shape, np.int64)
        self.allocatable: Scores = np.zeros(shape, np.int64)
        self.capacity: Scores = np.zeros(shape, np.int64)
        self.lists: Mask = np.zeros(shape, np.bool_)
        """Which cells list a resource at all."""
        self.ignores: Mask = np.ones((len(self.resources), rows), np.bool_)
        """Rows where a resource is of no concern: no cell lists it. CPUs always are."""
        self.exists: Mask = np.zeros((width, rows), np.bool_)
        self.kind: NDArray[np.int8] = np.zeros(rows, np.int8)
        self.whole_pods: Mask = np.zeros(rows, np.bool_)
        """Rows of the pod scope, whatever the policy."""
        self.unsettled: Mask = np.zeros(rows, np.bool_)
        self.max_cells: Scores = np.ones(rows, np.int64)
        self.distance_set: NDArray[np.int32] = np.zeros(rows, np.int32)
        self.id_set: NDArray[np.int32] = np.zeros(rows, np.int32)
        self._of: NDArray[np.uint64] = np.zeros(rows, np.uint64)
        """Hashes of the names of the nodes whose cells are in the rows."""

    def __len__(self) -> int:
        """How many nodes have told about their cells."""
        return len(self._views)

    def view(self, node: str) -> View | None:
        """What is believed of a node, if it has cells."""
        return self._views.get(node)

    def distances(self, number: int) -> Distances:
        """The matrix behind a number of ``distance_set``."""
        return self._distances.values[number]

    def set(self, node: str, view: View | None) -> None:
        """Take over what is believed of a node now, or (None) that nothing is known of it."""
        before = self._views.pop(node, None)
        if view is not None:
            self._views[node] = view
            self._withdrawn.discard(node)
        row = self._state.row(node)
        if row is None:
            # Should the node come back to the row it had, that row is to be filled again.
            self._of[self._of == np.uint64(xxhash.xxh64_intdigest(node.encode()))] = 0
            return
        if view is not None and before is not None and before.topology is view.topology:
            self.follow(np.array([row]))
            self._fill_amounts(row, view)
        else:
            self._fit(view)
            self._fill(row, view)

    def withdraw(self, node: str) -> None:
        """A node no longer publishes its cells, and nothing is believed of them any more."""
        self._withdrawn.add(node)
        self.set(node, None)

    def forget(self, node: str) -> None:
        """A node is as if it had never published its cells."""
        self._withdrawn.discard(node)
        self.set(node, None)

    def follow(self, rows: Rows) -> None:
        """Bring rows up to date into which other nodes have been put."""
        if self._rows < self._state.columns.capacity:
            self._fit(None)
        at = where(rows)
        moved = self._of[at] != self._state.columns.name_hash[at]
        if moved.any():
            for row in rows[moved].tolist():
                view = self._views.get(self._state.name(row))
                self._fit(view)
                self._fill(row, view)

    def view_of(self, row: int) -> View | None:
        """What is believed of the node in a row, if it has cells."""
        columns = self._state.columns
        if row >= self._rows or self._of[row] != columns.name_hash[row]:
            self.follow(np.array([row], np.intp))
        return self._views.get(columns.names[row])

    def _fit(self, view: View | None) -> None:
        """Make all columns large enough for the state's rows and for a view."""
        before = len(self.resources), self._width, self._rows
        width = self._width if view is None else max(self._width, len(view.topology.cells))
        for name in () if view is None else view.free:
            if len(self.resources) < MAX_RESOURCES:
                self.resources.intern(name)
        rows = self._state.columns.capacity
        if (len(self.resources), width, rows) != before:
            self._allot(rows, width)
            for row, other in self._placed():
                self._fill(row, other)

    def _fill(self, row: int, view: View | None) -> None:
        self._of[row] = self._state.columns.name_hash[row]
        self._clear(row)
        if view is None:
            if self._state.columns.names[row] in self._withdrawn:
                self.kind[row] = Kind.WITHDRAWN
            return
        topology = view.topology
        cells = topology.cells
        count = len(cells)
        self.exists[:count, row] = True
        self.kind[row] = _KINDS.get((topology.policy, topology.scope), Kind.LENIENT)
        self.whole_pods[row] = topology.scope is Scope.POD
        self.max_cells[row] = topology.max_cells
        self.distance_set[row] = self._distance_set(topology)
        self.id_set[row] = self._id_set(topology)
        for name in view.free:
            index = self.resources.find(name)
            if index is not None:
                self.allocatable[index, :count, row] = [c.allocatable.get(name, 0) for c in cells]
                self.capacity[index, :count, row] = [c.capacity.get(name, 0) for c in cells]
                self.lists[index, :count, row] = [name in c.available for c in cells]
                self.ignores[index, row] = False
        self._fill_amounts(row, view)

    def _fill_amounts(self, row: int, view: View) -> None:
        """What changes with every pod."""
        count = len(view.topology.cells)
        self.unsettled[row] = view.unsettled
        for name, free in view.free.items():
            index = self.resources.find(name)
            if index is not None:
                self.free[index, :count, row] = free
                self.sure[index, :count, row] = view.sure[name]
                self.together[index, :count, row] = view.together[name]
                self.expected[index, :count, row] = view.expected[name]

    def _clear(self, row: int) -> None:
        for column in (self.free, self.sure, self.together, self.expected):
            column[:, :, row] = 0
        self.allocatable[:, :, row] = self.capacity[:, :, row] = 0
        self.lists[:, :, row] = False
        self.exists[:, row] = False
        self.ignores[:, row] = True
        self.ignores[_CPU, row] = False
        self.unsettled[row] = self.whole_pods[row] = False
        self.kind[row] = Kind.UNKNOWN

    def _distance_set(self, topology: Topology) -> int:
        if len(self._distances) > 2 * self._rows + 64:
            self._distances.restart(())
            for row, view in self._placed():
                self.distance_set[row] = self._distances.intern(_matrix(view.topology))
        return self._distances.intern(_matrix(topology))

    def _id_set(self, topology: Topology) -> int:
        if len(self.id_sets) > 2 * self._rows + 64:
            self.id_sets.restart(())
            for row, view in self._placed():
                self.id_set[row] = self.id_sets.intern(_ids(view.topology))
        return self.id_sets.intern(_ids(topology))

    def _placed(self) -> Iterator[tuple[int, View]]:
        for name, view in self._views.items():
            row = self._state.row(name)
            if row is not None:
                yield row, view


def _matrix(topology: Topology) -> Distances:
    return tuple(
        tuple(cell.costs.get(other.id, UNKNOWN_DISTANCE) for other in topology.cells)
        for cell in topology.cells
    )


def _ids(topology: Topology) -> tuple[int, ...]:
    return tuple(cell.id for cell in topology.cells)
