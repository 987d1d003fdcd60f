"""Which nodes' cells can take what a pod needs, for many nodes at once, and why others cannot.

The Topology Manager does not align a resource that no cell of its node lists: a device without
topology, or memory where the memory manager does not pin. Exclusive CPUs are always aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.model.pinning import Need, Role, is_memory
from scheduler.model.resources import CPU, MAX_AMOUNT
from scheduler.model.status import Code, Status
from scheduler.numa.cells import CellColumns, NodeCells
from scheduler.state.columns import Codes, Mask, Rows, Scores, where
from scheduler.state.interning import StatusTable

MISSING = "no topology is known of the node"
WITHDRAWN = "the node no longer publishes its topology"
RESERVED = "invalid node topology data"
"""scheduler-plugins' words for a node to which a pod is being bound."""

_REPORTED_CELLS = 16
"""How many cells of a node a message names at most."""


def cells_with_room(cells: CellColumns, rows: Rows, need: Need, free: Scores) -> Mask:
    """(cell, row): the cells whose ``free`` amounts cover the need."""
    at = where(rows)
    fit = cells.exists[:, at]
    for name, amount in need.amounts:
        index = cells.resources.find(name)
        if index is not None:  # else no node lists it
            fit = fit & ((free[index][:, at] >= amount) | cells.ignores[index, at])
    return fit


def has_room(node: NodeCells, need: Need, free: Mapping[str, Sequence[int]]) -> bool:
    """Whether the ``free`` amounts of some cell of one node cover the need."""
    wanted = []
    for name, amount in need.amounts:
        cells = free.get(name)
        if cells is not None:
            wanted.append((cells, amount))
        elif name == CPU:
            return False
    return any(
        all(cells[c] >= amount for cells, amount in wanted) for c in range(len(node.topology.cells))
    )


def any_cell(mask: Mask) -> Mask:
    """The rows in which some cell is marked."""
    return np.logical_or.reduce(mask, axis=0)  # type: ignore[no-any-return]  # numpy says Any


def first_fit(cells: CellColumns, rows: Rows, needs: tuple[Need, ...]) -> Mask:
    """Rows whose kubelet admits a pod if ``free`` is available.

    It gives each container in turn the first cell that has room, and does not reconsider.
    """
    if len(needs) == 1:
        return any_cell(cells_with_room(cells, rows, needs[0], cells.free))
    admission = _FirstFit(cells, rows, needs)
    fit = np.ones(len(rows), np.bool_)
    for need in needs:
        fit &= admission.admit(need)
    return fit


def may_fit(cells: CellColumns, rows: Rows, needs: tuple[Need, ...]) -> Mask:
    """Rows where each need alone has a cell. All others reject the pod."""
    fit = np.ones(len(rows), np.bool_)
    for need in needs:
        fit &= any_cell(cells_with_room(cells, rows, need, cells.free))
    return fit


def must_fit(cells: CellColumns, rows: Rows, needs: tuple[Need, ...]) -> Mask:
    """Rows where one cell has room for all needs and all unconfirmed pods together.

    That cell then has room for each of them, whatever the kubelet does and in whatever order. Init
    containers may tie a pod to another cell, so pods that have them are never certain here.
    """
    if len(needs) > 1 and any(need.role is Role.INIT for need in needs):
        return np.zeros(len(rows), np.bool_)
    return any_cell(cells_with_room(cells, rows, _total(needs), cells.worst))


def fits_single_empty_cells(cells: CellColumns, rows: Rows, needs: Iterable[Need]) -> Mask:
    """Rows where each need would fit one cell if that were empty.

    ``restricted`` then insists on single cells, just like ``single-numa-node``.
    """
    fit = np.ones(len(rows), np.bool_)
    for need in needs:
        memory = Need(need.role, tuple(pair for pair in need.amounts if is_memory(pair[0])))
        fit &= any_cell(cells_with_room(cells, rows, memory, cells.allocatable))
        for pair in need.amounts:
            if not is_memory(pair[0]):
                one = Need(need.role, (pair,))
                fit &= any_cell(cells_with_room(cells, rows, one, cells.capacity))
    return fit


def _total(needs: tuple[Need, ...]) -> Need:
    if len(needs) == 1:
        return needs[0]
    total: dict[str, int] = {}
    for need in needs:
        for name, amount in need.amounts:
            total[name] = min(total.get(name, 0) + amount, MAX_AMOUNT)
    return Need(Role.POD, tuple(total.items()))


class _FirstFit:
    """What is left in the cells while the containers of one pod are placed one by one."""

    def __init__(self, cells: CellColumns, rows: Rows, needs: tuple[Need, ...]) -> None:
        at = where(rows)
        self._exists = cells.exists[:, at]
        self._at = np.arange(len(rows))
        names = dict.fromkeys(name for need in needs for name, _ in need.amounts)
        indexes = {name: cells.resources.find(name) for name in names}
        self._free: dict[str, Scores] = {
            name: cells.free[index][:, at].copy()
            for name, index in indexes.items()
            if index is not None
        }
        self._ignored: dict[str, Mask] = {
            name: cells.ignores[index, at] for name, index in indexes.items() if index is not None
        }
        self._reusable: dict[str, Scores] = {}

    def admit(self, need: Need) -> Mask:
        """Place a container in the first cell with room, in all rows at once."""
        fit = self._exists
        for name, amount in need.amounts:
            if name in self._free:
                fit = fit & self._has_room(name, amount)
        first = fit.argmax(axis=0)
        found: Mask = fit[first, self._at]
        for name, amount in need.amounts:
            if name in self._free:
                self._take(name, np.where(found, amount, 0), first, need.role is Role.INIT)
        return found

    def _has_room(self, name: str, amount: int) -> Mask:
        reusable = self._reusable.get(name)
        if reusable is None:
            room = self._free[name] >= amount
        else:
            room = self._free[name] + reusable >= amount
            if not is_memory(name):
                # CPUs and devices of init containers must be reused, so they tie the pod to a cell.
                room &= (reusable > 0) | ~(reusable > 0).any(axis=0)
        return room | self._ignored[name]

    def _take(self, name: str, amounts: Scores, first: Rows, is_init: bool) -> None:
        if is_init and name not in self._reusable:
            self._reusable[name] = np.zeros_like(self._free[name])
        reusable = self._reusable.get(name)
        if reusable is None:
            self._free[name][first, self._at] -= amounts
            return
        old = reusable[first, self._at]
        self._free[name][first, self._at] -= np.maximum(0, amounts - old)
        left = np.maximum(old, amounts) if is_init else np.maximum(0, old - amounts)
        reusable[first, self._at] = left


# Why not


class Shortfalls(msgspec.Struct, frozen=True):
    """Why cells cannot take one need."""

    need: Need
    names: tuple[str, ...]
    lacking: Mask
    """(resource, cell, row): there is too little, wherever unconfirmed pods are."""
    doubtful: Mask
    """(cell, row): unconfirmed pods may have taken it."""
    too_large: Mask
    """Rows where the pod fits no cell even if it were empty."""


def rejections(
    plugin: str, statuses: StatusTable, cells: CellColumns, rows: Rows, needs: tuple[Need, ...]
) -> Codes:
    """The status codes of rows that reject these needs."""
    codes: Codes = np.zeros(len(rows), np.int32)
    remaining = np.ones(len(rows), np.bool_)
    for number, need in enumerate(needs):
        failed = remaining & ~any_cell(cells_with_room(cells, rows, need, cells.sure))
        if number == len(needs) - 1:
            failed = remaining  # each would fit alone, but not all together
        at = np.flatnonzero(failed)
        remaining &= ~failed
        if len(at):
            codes[at] = _codes(
                plugin, statuses, cells, rows[at], _shortfalls(cells, rows[at], need)
            )
    return codes


def _shortfalls(cells: CellColumns, rows: Rows, need: Need) -> Shortfalls:
    named = min(_REPORTED_CELLS, cells.exists.shape[0])
    exists = cells.exists[:named, rows]
    names, lacking, doubtful = [], [], np.zeros_like(exists)
    for name, amount in need.amounts:
        index = cells.resources.find(name)
        if index is None:
            continue
        concerned = exists & ~cells.ignores[index, rows]
        names.append(name)
        lacking.append(concerned & (cells.free[index][:named, rows] < amount))
        doubtful |= concerned & (cells.sure[index][:named, rows] < amount)
    short = np.array(lacking, np.bool_).reshape(len(names), named, len(rows))
    too_large = ~any_cell(cells_with_room(cells, rows, need, cells.allocatable))
    return Shortfalls(need, tuple(names), short, doubtful & ~short.any(axis=0), too_large)


def _codes(
    plugin: str, statuses: StatusTable, cells: CellColumns, rows: Rows, why: Shortfalls
) -> Codes:
    named = why.doubtful.shape[0]
    bits = np.concatenate(
        (why.lacking.reshape(-1, len(rows)), why.doubtful, why.too_large[np.newaxis])
    )
    # Nodes fail in few different ways: each is one value, and is written out once.
    packed = np.packbits(bits, axis=0)
    ids = cells.ids.numbers[rows].astype(np.int32).view(np.uint8).reshape(len(rows), -1)
    kinds = np.ascontiguousarray(np.concatenate((packed.T, ids), axis=1))
    _, first, which = np.unique(
        kinds.view(np.dtype((np.void, kinds.shape[1]))), return_index=True, return_inverse=True
    )
    codes = [
        statuses.code(_status(plugin, why, cells.ids.of(rows[at]), at, named))
        for at in first.tolist()
    ]
    return np.array(codes, np.int32)[which.reshape(-1)]


def _status(plugin: str, why: Shortfalls, ids: tuple[int, ...], at: int, named: int) -> Status:
    reasons = [f"cannot align {why.need.role.value}"]
    if not ids:
        reasons.append("node(s) without NUMA cells")
    for i, name in enumerate(why.names):
        reasons += [
            f"Insufficient {name} in NUMA cell node-{ids[c]}"
            for c in range(min(named, len(ids)))
            if why.lacking[i, c, at]
        ]
    reasons += [
        f"NUMA cell node-{ids[c]} may be taken by pods not settled yet"
        for c in range(min(named, len(ids)))
        if why.doubtful[c, at]
    ]
    if len(reasons) == 1:
        reasons.append("NUMA cells may be taken by pods not settled yet")
    code = Code.UNRESOLVABLE if why.too_large[at] else Code.UNSCHEDULABLE
    return Status(code, tuple(reasons), plugin)
