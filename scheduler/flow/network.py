"""A flow network in bulk arrays: no object per arc, so a million of them are a few operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.flow.problem import Ints


class Network(NamedTuple):
    """Arcs as parallel arrays, and what each node supplies (negative: takes). Supplies sum to 0."""

    tail: Ints
    head: Ints
    capacity: Ints
    cost: Ints
    supply: Ints

    @property
    def arcs(self) -> int:
        """How many arcs there are."""
        return len(self.tail)


class Arcs:
    """Collects arcs group by group; the numbers of a group's arcs are its slice."""

    def __init__(self) -> None:
        self._groups: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._count = 0

    def add(self, tail: Ints | int, head: Ints | int, capacity: Ints, cost: Ints | int) -> slice:
        """Add arcs; tail, head and cost may be the same for all of them."""
        size = len(capacity)
        group = (
            np.broadcast_to(np.asarray(tail, np.int64), size),
            np.broadcast_to(np.asarray(head, np.int64), size),
            np.asarray(capacity, np.int64),
            np.broadcast_to(np.asarray(cost, np.int64), size),
        )
        self._groups.append(group)
        self._count += size
        return slice(self._count - size, self._count)

    def network(self, supply: Ints) -> Network:
        """All arcs, in the order in which they were added."""
        parts = zip(*self._groups, strict=True)
        tail, head, capacity, cost = (np.concatenate(part) for part in parts)
        return Network(tail, head, capacity, cost, supply)
