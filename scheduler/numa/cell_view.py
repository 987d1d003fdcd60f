"""The NUMA cells of nodes for people: what is reserved against what the node reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduler.numa.cell_cache import CellCache, PublishedCells, ReserveCache
from scheduler.numa.cells import NodeCells
from scheduler.numa.topology import Topology
from scheduler.state.cache import ClusterState

MAX_PODS = 200
"""How many pods of a node are named that its cells do not count, or still do."""

CellAmounts = list[int]
"""Of one cell and one resource: allocatable, reported as taken, reserved."""


def describe_cells(state: ClusterState, node: str) -> dict[str, Any] | None:
    """The cells of a node; None if it publishes none, or no profile looks at cells."""
    for cache in _caches(state):
        known = cache.cells.of_node(node)
        if known is not None:
            return _described(cache, node, known)
    return None


def cells_of_nodes(
    state: ClusterState, nodes: Sequence[str], resource: str
) -> list[list[CellAmounts] | None] | None:
    """The amounts of one resource in the cells of nodes; None where a node publishes none.

    None altogether if no node does. O(cells).
    """
    for cache in _caches(state):
        if len(cache.cells):
            return [_amounts(cache, node, resource) for node in nodes]
    return None


def _caches(state: ClusterState) -> Iterator[CellCache]:
    yield from state.shared.all(ReserveCache)
    yield from state.shared.all(PublishedCells)


def _amounts(cache: CellCache, node: str, resource: str) -> list[CellAmounts] | None:
    known = cache.cells.of_node(node)
    if known is None or resource not in known.sure:
        return None
    reported = _reported(_newest(cache, node) or known.topology, resource)
    return [
        [
            allocatable := cell.allocatable.get(resource, 0),
            reported.get(cell.id, 0),
            _taken(allocatable, sure),
        ]
        for cell, sure in zip(known.topology.cells, known.sure[resource], strict=True)
    ]


def _described(cache: CellCache, node: str, known: NodeCells) -> dict[str, Any]:
    topology, newest = known.topology, _newest(cache, node) or known.topology
    reported = {name: _reported(newest, name) for name in known.sure}
    ledger = cache.ledger(node) if isinstance(cache, ReserveCache) else None
    unsettled, released = ledger.pods()[1:] if ledger is not None else ([], [])
    return {
        "policy": topology.policy.value,
        "scope": topology.scope.value,
        "state": ledger.state.value if ledger is not None else "published",
        "unsettled": ["/".join(name) for name in unsettled[:MAX_PODS]],
        "released": ["/".join(name) for name in released[:MAX_PODS]],
        "cells": [
            {
                "name": cell.name,
                "resources": {
                    name: _resource(
                        cell.capacity.get(name, 0),
                        cell.allocatable.get(name, 0),
                        reported[name].get(cell.id, 0),
                        known.free[name][i],
                        known.sure[name][i],
                    )
                    for name in known.sure
                    if name in cell.allocatable
                },
            }
            for i, cell in enumerate(topology.cells)
        ],
    }


def _resource(
    capacity: int, allocatable: int, reported: int, free: int, sure: int
) -> dict[str, int]:
    return {
        "capacity": capacity,
        "allocatable": allocatable,
        "reported": reported,
        "reserved": _taken(allocatable, sure),
        "reservedAtLeast": _taken(allocatable, free),
    }


def _newest(cache: CellCache, node: str) -> Topology | None:
    """The object that the node published last, whether or not it is in use."""
    ledger = cache.ledger(node) if isinstance(cache, ReserveCache) else None
    return ledger.newest if ledger is not None else None


def _reported(topology: Topology, resource: str) -> Mapping[int, int]:
    """What each cell says is taken of a resource, by the cell's id."""
    return {
        cell.id: _taken(cell.allocatable.get(resource, 0), cell.available.get(resource, 0))
        for cell in topology.cells
    }


def _taken(allocatable: int, left: int) -> int:
    return max(0, allocatable - left)
