"""Which cells can take what a pod needs, for many nodes at once.

A resource that no cell of a node lists is not the Topology Manager's business there: a device
without topology, or memory where the memory manager does not pin. Exclusive CPUs always are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.model.pinning import Need, Role, is_memory
from scheduler.model.resources import CPU, MAX_AMOUNT
from scheduler.numa.cells import CellColumns, View
from scheduler.state.columns import Mask, Rows, Scores, where


def hosts(cells: CellColumns, rows: Rows, need: Need, free: Scores) -> Mask:
    """(cell, row): the cells that have all of what is needed, of the amounts given."""
    at = where(rows)
    fit = cells.exists[:, at]
    for name, amount in need.amounts:
        index = cells.resources.find(name)
        if index is not None:  # else no node lists it
            fit = fit & ((free[index][:, at] >= amount) | cells.ignores[index, at])
    return fit


def hosts_one(view: View, need: Need, free: Mapping[str, Sequence[int]]) -> bool:
    """Whether some cell of one node has all of what is needed, of the amounts given."""
    wanted = []
    for name, amount in need.amounts:
        cells = free.get(name)
        if cells is not None:
            wanted.append((cells, amount))
        elif name == CPU:
            return False
    return any(
        all(cells[c] >= amount for cells, amount in wanted) for c in range(len(view.topology.cells))
    )


def any_cell(mask: Mask) -> Mask:
    """The rows in which some cell is marked."""
    return np.logical_or.reduce(mask, axis=0)  # type: ignore[no-any-return]  # numpy says Any


def fits(cells: CellColumns, rows: Rows, needs: tuple[Need, ...]) -> Mask:
    """Whether the kubelet takes a pod if ``free`` is what there is.

    It gives each container in turn the first cell that has room, and never goes back.
    """
    if len(needs) == 1:
        return any_cell(hosts(cells, rows, needs[0], cells.free))
    turn = _Admission(cells, rows, needs)
    fit = np.ones(len(rows), np.bool_)
    for need in needs:
        fit &= turn.admit(need)
    return fit


def may_fit(cells: CellColumns, rows: Rows, needs: tuple[Need, ...]) -> Mask:
    """Rows that are not out of the question: each need alone has a cell."""
    fit = np.ones(len(rows), np.bool_)
    for need in needs:
        fit &= any_cell(hosts(cells, rows, need, cells.free))
    return fit


def must_fit(cells: CellColumns, rows: Rows, needs: tuple[Need, ...]) -> Mask:
    """Rows that are beyond doubt: one cell has room for all needs and all unsettled pods together.

    Whatever the kubelet does then, and in whatever order, that cell is there for everyone. But not
    for those whose init containers may tie them to another one.
    """
    if len(needs) > 1 and any(need.role is Role.INIT for need in needs):
        return np.zeros(len(rows), np.bool_)
    return any_cell(hosts(cells, rows, _total(needs), cells.together))


def narrow(cells: CellColumns, rows: Rows, needs: Iterable[Need]) -> Mask:
    """Whether single cells are large enough, had they nothing else to do.

    ``restricted`` then insists on single cells, just like ``single-numa-node``.
    """
    fit = np.ones(len(rows), np.bool_)
    for need in needs:
        memory = Need(need.role, tuple(pair for pair in need.amounts if is_memory(pair[0])))
        fit &= any_cell(hosts(cells, rows, memory, cells.allocatable))
        for pair in need.amounts:
            if not is_memory(pair[0]):
                one = Need(need.role, (pair,))
                fit &= any_cell(hosts(cells, rows, one, cells.capacity))
    return fit


def _total(needs: tuple[Need, ...]) -> Need:
    if len(needs) == 1:
        return needs[0]
    total: dict[str, int] = {}
    for need in needs:
        for name, amount in need.amounts:
            total[name] = min(total.get(name, 0) + amount, MAX_AMOUNT)
    return Need(Role.POD, tuple(total.items()))


class _Admission:
    """One pod after the other half of it: what is left in the cells while containers are put."""

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
        self._inherited: dict[str, Scores] = {}

    def admit(self, need: Need) -> Mask:
        """Put a container into the first cell with room, in all rows at once."""
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
        inherited = self._inherited.get(name)
        if inherited is None:
            room = self._free[name] >= amount
        else:
            room = self._free[name] + inherited >= amount
            if not is_memory(name):
                # CPUs and devices of init containers must be taken over, so they bind to a cell.
                room &= (inherited > 0) | ~(inherited > 0).any(axis=0)
        return room | self._ignored[name]

    def _take(self, name: str, amounts: Scores, first: Rows, passes_on: bool) -> None:
        if passes_on and name not in self._inherited:
            self._inherited[name] = np.zeros_like(self._free[name])
        inherited = self._inherited.get(name)
        if inherited is None:
            self._free[name][first, self._at] -= amounts
            return
        old = inherited[first, self._at]
        self._free[name][first, self._at] -= np.maximum(0, amounts - old)
        left = np.maximum(old, amounts) if passes_on else np.maximum(0, old - amounts)
        inherited[first, self._at] = left
