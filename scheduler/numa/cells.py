"""NUMA cells as columns: (resource, cell, row), the rows being those of the cluster state.

Cells are numbered by their rank among the node's cells, so sparse and unordered ids take no space.
Columns are as wide as the node with the most cells.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from scheduler.bounded import ENTRY_BYTES, Usage
from scheduler.model.resources import CPU, MEMORY
from scheduler.numa.topology import ManagerPolicy, ManagerScope, Topology
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows, Scores, where
from scheduler.state.interning import Interner
from scheduler.state.row_values import RowValues

MAX_RESOURCES = 64
"""How many resource names objects may add to the columns; no machine has as many kinds."""


class KubeletKind(enum.IntEnum):
    """How a row's kubelet aligns pods: its Topology Manager's policy and scope."""

    WITHDRAWN = -1
    """The node has published its cells once, and no longer does."""
    UNKNOWN = 0
    """The node has never published its cells."""
    NOT_ENFORCED = 1
    """The kubelet refuses no pod: policy ``none`` or ``best-effort``."""
    SINGLE_CONTAINERS = 2
    SINGLE_PODS = 3
    RESTRICTED_CONTAINERS = 4
    RESTRICTED_PODS = 5


_KINDS = {
    (ManagerPolicy.SINGLE, ManagerScope.CONTAINER): KubeletKind.SINGLE_CONTAINERS,
    (ManagerPolicy.SINGLE, ManagerScope.POD): KubeletKind.SINGLE_PODS,
    (ManagerPolicy.RESTRICTED, ManagerScope.CONTAINER): KubeletKind.RESTRICTED_CONTAINERS,
    (ManagerPolicy.RESTRICTED, ManagerScope.POD): KubeletKind.RESTRICTED_PODS,
}

_CPU = 0
_FEWEST_CELLS = 2
_SPARE_RESOURCES = 8
"""So many resources that no node has in cells any more keep their columns."""
_ID_BYTES = 40
Distances = tuple[tuple[int, ...], ...]
UNKNOWN_DISTANCE = 255


class NodeCells(msgspec.Struct, frozen=True):
    """Bounds on what is available in one node's cells, by resource and then by cell."""

    topology: Topology
    free: Mapping[str, Sequence[int]]
    """At most this is available in a cell."""
    sure: Mapping[str, Sequence[int]]
    """At least this is available in a cell if each unconfirmed pod is in one that could hold it."""
    expected: Mapping[str, Sequence[int]]
    """What scores count as available."""
    worst: Mapping[str, Sequence[int]]
    """At least this is available in a cell even if all unconfirmed pods are there."""
    unconfirmed: bool = False
    """Some pods are not confirmed, so that the bounds differ (see ``NodeCapacityView``)."""


def published_cells(topology: Topology) -> NodeCells:
    """The cells as an object describes them."""
    names = dict.fromkeys(name for cell in topology.cells for name in cell.available)
    available = {name: [cell.available.get(name, 0) for cell in topology.cells] for name in names}
    return NodeCells(topology, available, available, available, available)


class CellColumns:
    """The cells of all nodes that publish theirs."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.resources: Interner[str] = Interner(CPU, MEMORY)
        self._nodes: dict[str, NodeCells] = {}
        self._withdrawn: set[str] = set()
        self._needed = _Needed()
        self._changes = 0
        """Since resources that no node has any more were looked for."""
        self._rows = state.columns.capacity
        self._width = _FEWEST_CELLS
        self._allot(self._rows, self._width)

    def _allot(self, rows: int, width: int) -> None:
        """Make arrays of a size; the caller fills in every row."""
        self._rows, self._width = rows, width
        shape = (len(self.resources), width, rows)
        self.free: Scores = np.zeros(shape, np.int64)
        self.sure: Scores = np.zeros(shape, np.int64)
        self.worst: Scores = np.zeros(shape, np.int64)
        self.expected: Scores = np.zeros(shape, np.int64)
        self.allocatable: Scores = np.zeros(shape, np.int64)
        self.capacity: Scores = np.zeros(shape, np.int64)
        self.lists: Mask = np.zeros(shape, np.bool_)
        """Which cells list a resource at all."""
        self.ignores: Mask = np.ones((len(self.resources), rows), np.bool_)
        """Rows where no cell lists a resource, so that it is not aligned. CPUs always are."""
        self.exists: Mask = np.zeros((width, rows), np.bool_)
        self.kind: NDArray[np.int8] = np.zeros(rows, np.int8)
        self.whole_pods: Mask = np.zeros(rows, np.bool_)
        """Rows of the pod scope, whatever the policy."""
        self.unconfirmed: Mask = np.zeros(rows, np.bool_)
        self.max_cells: Scores = np.ones(rows, np.int64)
        self.distances: RowValues[Distances] = RowValues((), rows, _distance_bytes)
        self.ids: RowValues[tuple[int, ...]] = RowValues((), rows, _id_bytes)
        self._of: NDArray[np.uint64] = np.zeros(rows, np.uint64)
        """Hashes of the names of the nodes whose cells are in the rows."""

    def __len__(self) -> int:
        """How many nodes publish their cells."""
        return len(self._nodes)

    def of_node(self, node: str) -> NodeCells | None:
        """The cells of a node, if it publishes them."""
        return self._nodes.get(node)

    def usage(self) -> Usage:
        """How much the columns take."""
        columns = (self.free, self.sure, self.worst, self.expected, self.allocatable, self.capacity)
        held = sum(column.nbytes for column in columns) + self.lists.nbytes + self.exists.nbytes
        values = self.distances.usage().bytes + self.ids.usage().bytes
        return Usage(len(self._nodes), held + self.ignores.nbytes + values)

    def set(self, node: str, known: NodeCells | None) -> None:
        """Take over the cells of a node, or (None) that nothing is known of them."""
        before = self._nodes.pop(node, None)
        if known is not None:
            self._nodes[node] = known
            self._withdrawn.discard(node)
        self._needed.replace(before, known)
        row = self._state.row(node)
        if row is None:
            # A node of that name that is added again may get the same row; fill it again then.
            hashed = np.uint64(xxhash.xxh64_intdigest(node.encode()))
            for left in np.flatnonzero(self._of == hashed).tolist():
                self._clear(left)
                self._of[left] = 0
            self._shrink()
            return
        if known is not None and before is not None and before.topology is known.topology:
            self.follow(np.array([row]))
            self._fill_amounts(row, known)
        else:
            self._fit(known)
            self._fill(row, known)
            if before is not None:
                self._shrink()

    def withdraw(self, node: str) -> None:
        """The object of a node was deleted, and its cells are no longer known."""
        self._withdrawn.add(node)
        self.set(node, None)

    def forget(self, node: str) -> None:
        """Treat a node as one that never published its cells."""
        self._withdrawn.discard(node)
        self.set(node, None)

    def follow(self, rows: Rows) -> None:
        """Fill rows again that now hold other nodes."""
        if self._rows < self._state.columns.capacity:
            self._fit(None)
        at = where(rows)
        moved = self._of[at] != self._state.columns.name_hash[at]
        if moved.any():
            for row in rows[moved].tolist():
                known = self._nodes.get(self._state.name(row))
                self._fit(known)
                self._fill(row, known)

    def of_row(self, row: int) -> NodeCells | None:
        """The cells of the node in a row, if it publishes them."""
        columns = self._state.columns
        if row >= self._rows or self._of[row] != columns.name_hash[row]:
            self.follow(np.array([row], np.intp))
        return self._nodes.get(columns.names[row])

    def _fit(self, known: NodeCells | None) -> None:
        """Make all columns large enough for the state's rows and for one more node."""
        before = len(self.resources), self._width, self._rows
        width = self._width if known is None else max(self._width, len(known.topology.cells))
        for name in () if known is None else known.free:
            if len(self.resources) < MAX_RESOURCES:
                self.resources.intern(name)
        rows = self._state.columns.capacity
        if (len(self.resources), width, rows) != before:
            self._allot(rows, width)
            for row, other in self._placed():
                self._fill(row, other)

    def _shrink(self) -> None:
        """Make columns smaller that have become much too large for the nodes that are left."""
        width = max(_FEWEST_CELLS, self._needed.width())
        names = self._names_in_use()
        if 2 * width < self._width or len(self.resources) - len(names) > _SPARE_RESOURCES:
            self.resources.restart(*dict.fromkeys((CPU, MEMORY, *names)))
            self._allot(self._rows, width)
            for row, known in self._placed():
                self._fill(row, known)

    def _names_in_use(self) -> list[str]:
        """The resources that have columns, without those that are known to be in no cell any more.

        All nodes are looked at once for as many changes as there are nodes.
        """
        self._changes += 1
        if len(self.resources) <= _SPARE_RESOURCES or self._changes < len(self._nodes):
            return self.resources.values
        self._changes = 0
        there: set[str] = set().union(*(known.free for known in self._nodes.values()))
        if there.issuperset(self.resources.values):
            return self.resources.values
        return [name for name in self.resources.values if name in there]

    def _fill(self, row: int, known: NodeCells | None) -> None:
        self._of[row] = self._state.columns.name_hash[row]
        self._clear(row)
        if known is None:
            if self._state.columns.names[row] in self._withdrawn:
                self.kind[row] = KubeletKind.WITHDRAWN
            return
        topology = known.topology
        cells = topology.cells
        count = len(cells)
        self.exists[:count, row] = True
        self.kind[row] = _KINDS.get((topology.policy, topology.scope), KubeletKind.NOT_ENFORCED)
        self.whole_pods[row] = topology.scope is ManagerScope.POD
        self.max_cells[row] = topology.max_cells
        self.distances.set(row, _matrix(topology))
        self.ids.set(row, _ids(topology))
        for name in known.free:
            index = self.resources.find(name)
            if index is not None:
                self.allocatable[index, :count, row] = [c.allocatable.get(name, 0) for c in cells]
                self.capacity[index, :count, row] = [c.capacity.get(name, 0) for c in cells]
                self.lists[index, :count, row] = [name in c.available for c in cells]
                self.ignores[index, row] = False
        self._fill_amounts(row, known)

    def _fill_amounts(self, row: int, known: NodeCells) -> None:
        """Fill in what changes with every pod."""
        count = len(known.topology.cells)
        self.unconfirmed[row] = known.unconfirmed
        for name, free in known.free.items():
            index = self.resources.find(name)
            if index is not None:
                self.free[index, :count, row] = free
                self.sure[index, :count, row] = known.sure[name]
                self.worst[index, :count, row] = known.worst[name]
                self.expected[index, :count, row] = known.expected[name]

    def _clear(self, row: int) -> None:
        for column in (self.free, self.sure, self.worst, self.expected):
            column[:, :, row] = 0
        self.allocatable[:, :, row] = self.capacity[:, :, row] = 0
        self.lists[:, :, row] = False
        self.exists[:, row] = False
        self.ignores[:, row] = True
        self.ignores[_CPU, row] = False
        self.unconfirmed[row] = self.whole_pods[row] = False
        self.kind[row] = KubeletKind.UNKNOWN
        self.distances.clear(row)
        self.ids.clear(row)

    def _placed(self) -> Iterator[tuple[int, NodeCells]]:
        for name, known in self._nodes.items():
            row = self._state.row(name)
            if row is not None:
                yield row, known


class _Needed:
    """How wide columns must be for all nodes that publish their cells."""

    def __init__(self) -> None:
        self._widths: Counter[int] = Counter()
        """How many nodes have so many cells."""

    def width(self) -> int:
        """The cells of the node that has the most."""
        return max(self._widths, default=0)

    def replace(self, old: NodeCells | None, new: NodeCells | None) -> None:
        """The cells of a node, or (None) nothing, instead of others."""
        if new is not None:
            self._widths[len(new.topology.cells)] += 1
        if old is not None:
            cells = len(old.topology.cells)
            self._widths[cells] -= 1
            if not self._widths[cells]:
                del self._widths[cells]


def _distance_bytes(distances: Distances) -> int:
    return sum(ENTRY_BYTES + 8 * len(row) for row in distances)


def _id_bytes(ids: tuple[int, ...]) -> int:
    return _ID_BYTES * len(ids)


def _matrix(topology: Topology) -> Distances:
    return tuple(
        tuple(cell.costs.get(other.id, UNKNOWN_DISTANCE) for other in topology.cells)
        for cell in topology.cells
    )


def _ids(topology: Topology) -> tuple[int, ...]:
    return tuple(cell.id for cell in topology.cells)
