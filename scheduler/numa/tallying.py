"""What pods hold together, and what an object says they do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from scheduler.model.pinning import Pinning, is_memory
from scheduler.model.resources import Amounts
from scheduler.numa.topology import Cell, Topology


def total(parts: Iterable[Iterable[tuple[str, int]]]) -> Amounts:
    """Amounts added up by resource."""
    summed: Amounts = {}
    for part in parts:
        for name, amount in part:
            summed[name] = summed.get(name, 0) + amount
    return summed


def used(topology: Topology) -> Amounts:
    """What pods hold in all cells together, as an object counts it."""
    held: Amounts = {}
    for cell in topology.cells:
        available = cell.available
        for name, amount in cell.allocatable.items():
            held[name] = held.get(name, 0) + amount - available[name]
    return held


def hides(topology: Topology, pods: Sequence[Pinning]) -> bool:
    """Whether an object leaves out what these pods keep of their init containers."""
    shown = total(pinning.shown for pinning in pods)
    counted = used(topology)
    return any(
        counted.get(name) != shown.get(name, 0) + amount
        for name, amount in total(pinning.hidden for pinning in pods).items()
        if not is_memory(name)
    )


def counts_more(topology: Topology, pods: Iterable[Pinning], than: Iterable[Pinning]) -> bool:
    """Whether an object counts something of these pods, besides all that others hold."""
    shown = total(pinning.shown for pinning in than)
    counted = used(topology)
    return any(
        counted.get(name, 0) > shown.get(name, 0) for pinning in pods for name, _ in pinning.shown
    )


def without(topology: Topology, pods: Iterable[Pinning]) -> Topology:
    """The same machine without these pods, wherever they are.

    What an object counts in a cell beyond all that they could hold there stays taken: somebody
    else has it.
    """
    held = total(part for pinning in pods for part in (pinning.shown, pinning.hidden))
    return msgspec.structs.replace(
        topology, cells=tuple(_without(cell, held) for cell in topology.cells)
    )


def _without(cell: Cell, held: Amounts) -> Cell:
    available = {
        name: min(amount, cell.available.get(name, 0) + held.get(name, 0))
        for name, amount in cell.allocatable.items()
    }
    return msgspec.structs.replace(cell, available=available)
