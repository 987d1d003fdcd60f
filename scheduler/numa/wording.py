"""Why a node's cells will not do, said once for all nodes that fail in the same way."""

from __future__ import annotations

import msgspec
import numpy as np

from scheduler.model.pinning import Need
from scheduler.model.status import Code, Status
from scheduler.numa.cells import CellColumns
from scheduler.numa.fitting import any_cell, hosts
from scheduler.state.columns import Codes, Mask, Rows
from scheduler.state.interning import StatusTable

MISSING = "no topology is known of the node"
WITHDRAWN = "the node no longer publishes its topology"
RESERVED = "invalid node topology data"
"""scheduler-plugins' words for a node on which a reservation is under way."""

_TOLD_CELLS = 16
"""How many cells of a node are told about; people will not read more."""


class Ways(msgspec.Struct, frozen=True):
    """What nodes lack for one need: (resource, cell, row), and the cells that might be taken."""

    need: Need
    names: tuple[str, ...]
    lacking: Mask
    doubtful: Mask
    hopeless: Mask


def verdicts(
    plugin: str, statuses: StatusTable, cells: CellColumns, rows: Rows, needs: tuple[Need, ...]
) -> Codes:
    """A code for each of some rows that cannot take these needs."""
    codes: Codes = np.zeros(len(rows), np.int32)
    remaining = np.ones(len(rows), np.bool_)
    for number, need in enumerate(needs):
        failed = remaining & ~any_cell(hosts(cells, rows, need, cells.sure))
        if number == len(needs) - 1:
            failed = remaining  # each for itself would fit, but not all of them
        at = np.flatnonzero(failed)
        remaining &= ~failed
        if len(at):
            codes[at] = _codes(plugin, statuses, cells, rows[at], _ways(cells, rows[at], need))
    return codes


def _ways(cells: CellColumns, rows: Rows, need: Need) -> Ways:
    told = min(_TOLD_CELLS, cells.exists.shape[0])
    exists = cells.exists[:told, rows]
    names, lacking, doubtful = [], [], np.zeros_like(exists)
    for name, amount in need.amounts:
        index = cells.resources.find(name)
        if index is None:
            continue
        concerned = exists & ~cells.ignores[index, rows]
        names.append(name)
        lacking.append(concerned & (cells.free[index][:told, rows] < amount))
        doubtful |= concerned & (cells.sure[index][:told, rows] < amount)
    short = np.array(lacking, np.bool_).reshape(len(names), told, len(rows))
    hopeless = ~any_cell(hosts(cells, rows, need, cells.allocatable))
    return Ways(need, tuple(names), short, doubtful & ~short.any(axis=0), hopeless)


def _codes(plugin: str, statuses: StatusTable, cells: CellColumns, rows: Rows, ways: Ways) -> Codes:
    told = ways.doubtful.shape[0]
    bits = np.concatenate(
        (ways.lacking.reshape(-1, len(rows)), ways.doubtful, ways.hopeless[np.newaxis])
    )
    # Nodes fail in few different ways: each is one value, and is put into words once.
    packed = np.packbits(bits, axis=0)
    ids = cells.id_set[rows].astype(np.int32).view(np.uint8).reshape(len(rows), -1)
    kinds = np.ascontiguousarray(np.concatenate((packed.T, ids), axis=1))
    _, first, which = np.unique(
        kinds.view(np.dtype((np.void, kinds.shape[1]))), return_index=True, return_inverse=True
    )
    spelt = [
        statuses.code(_status(plugin, ways, cells.id_sets.values[cells.id_set[rows[at]]], at, told))
        for at in first.tolist()
    ]
    return np.array(spelt, np.int32)[which.reshape(-1)]


def _status(plugin: str, ways: Ways, ids: tuple[int, ...], at: int, told: int) -> Status:
    reasons = [f"cannot align {ways.need.role.value}"]
    if not ids:
        reasons.append("node(s) without NUMA cells")
    for i, name in enumerate(ways.names):
        reasons += [
            f"Insufficient {name} in NUMA cell node-{ids[c]}"
            for c in range(min(told, len(ids)))
            if ways.lacking[i, c, at]
        ]
    reasons += [
        f"NUMA cell node-{ids[c]} may be taken by pods not settled yet"
        for c in range(min(told, len(ids)))
        if ways.doubtful[c, at]
    ]
    if len(reasons) == 1:
        reasons.append("NUMA cells may be taken by pods not settled yet")
    code = Code.UNRESOLVABLE if ways.hopeless[at] else Code.UNSCHEDULABLE
    return Status(code, tuple(reasons), plugin)
