"""In which cell a pod must be, from what two objects of its node say.

What is gone from the cells between two objects is what the pods took that came between them, less
what those gave back that went. Often there is just one way in which that can add up.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.model.pinning import Pinning, Role, is_memory
from scheduler.numa.prospects import Vector

LIMIT = 2048
"""How many arrangements are tried at most."""


def follows(pinning: Pinning) -> bool:
    """Whether what init containers held beyond the rest is where the rest is.

    It is if a lasting container after them takes over some of each resource, other than memory.
    """
    names = [name for name, _ in pinning.hidden if not is_memory(name)]
    for name in names:
        roles = [need.role for need in pinning.containers if name in dict(need.amounts)]
        if roles[-1] is Role.INIT:
            return False
    return bool(names)


class _TooMany(Exception):
    """There are more arrangements than are worth the time."""


class Puzzle:
    """Cells whose amounts changed, and the pods that must have done it."""

    def __init__(
        self, names: Sequence[str], before: Sequence[Vector], after: Sequence[Vector]
    ) -> None:
        self._names = names
        self._gap = [
            [was - now for was, now in zip(old, new, strict=True)]
            for old, new in zip(before, after, strict=True)
        ]
        """What pods took of each cell."""
        self._tries = 0

    def homes(
        self, came: Sequence[Pinning], went: Sequence[Pinning], *, whole_pod: bool
    ) -> list[int | None]:
        """The cell of each pod that came; None if it may be one of several, or none in full."""
        parts: list[tuple[int, Vector]] = []
        for pinning in went:
            parts += [(-1, _minus(part)) for part in self._parts(pinning, whole_pod)]
        for number, pinning in enumerate(came):
            parts += [(number, part) for part in self._parts(pinning, whole_pod)]
        found: list[set[int]] = [set() for _ in came]
        try:
            self._solve(parts, 0, [set() for _ in came], found)
        except _TooMany:
            return [None] * len(came)
        return [
            next(iter(cells)) if len(cells) == 1 and -1 not in cells else None for cells in found
        ]

    def _parts(self, pinning: Pinning, whole_pod: bool) -> list[Vector]:
        """What is in one cell for sure: the pod, or each of its lasting containers."""
        if whole_pod:
            listed = [dict(pinning.shown)]
        else:
            lasting = (need for need in pinning.containers if need.role is not Role.INIT)
            listed = [dict(need.amounts) for need in lasting]
        vectors = [tuple(amounts.get(name, 0) for name in self._names) for amounts in listed]
        return [vector for vector in vectors if any(vector)]

    def _solve(
        self,
        parts: Sequence[tuple[int, Vector]],
        at: int,
        chosen: list[set[int]],
        found: list[set[int]],
    ) -> None:
        self._tries += 1
        if self._tries > LIMIT:
            raise _TooMany
        if at == len(parts):
            if not any(map(any, self._gap)):
                for cells, mine in zip(found, chosen, strict=True):
                    # -1 stands for a pod that is in more than one cell.
                    cells.add(next(iter(mine)) if len(mine) == 1 else -1)
            return
        pod, part = parts[at]
        for cell, gap in enumerate(self._gap):
            left = [have - take for have, take in zip(gap, part, strict=True)]
            if pod < 0 or min(left) >= 0:
                self._gap[cell] = left
                fresh = pod >= 0 and cell not in chosen[pod]
                if fresh:
                    chosen[pod].add(cell)
                self._solve(parts, at + 1, chosen, found)
                if fresh:
                    chosen[pod].discard(cell)
                self._gap[cell] = gap


def _minus(vector: Vector) -> Vector:
    return tuple(-amount for amount in vector)
