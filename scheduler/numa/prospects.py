"""What must be true of a node, whatever its kubelet did with the pods of which nobody knows yet.

A pod that was sent to a node sits in one of the cells that could take it, and no scheduler can
know in which until the node has told. It may not even have arrived: the kubelet admits pods in an
order of its own. So a node is a set of *prospects*: every arrangement of the unsettled pods that
the cells allow. A pod is certain to be taken if it fits in all of them.

Each cell has two faces. *sure* is free whatever happens; *most* is what could be free at best, if
pods that went have freed their share here. Where pods may go is a question to *most*, whether one
surely fits a question to *sure*.

The search is exact for the handful of pods that are usually unsettled on a node, and gives up
(nothing is certain then) when there are too many arrangements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import NamedTuple

Vector = tuple[int, ...]
"""An amount of each resource of a node, in one order."""

LIMIT = 256
"""How many arrangements are followed up at most."""
_MOST_SETS = 4096
"""How many sets of cells are looked at for a pod that is spread over several."""


class Step(NamedTuple):
    """The admission of one container, or of a whole pod."""

    amounts: Vector
    passes_on: bool = False
    """A plain init container: those after it take over what it holds."""
    span: int = 1
    """How many cells it is spread over; more than one only where a policy allows that."""


class Room(NamedTuple):
    """A cell."""

    sure: Vector
    most: Vector


Rooms = tuple[Room, ...]
Steps = tuple[Step, ...]
"""The admission of one pod: its containers, in order."""
Inherited = tuple[tuple[int, int, int], ...]
"""What init containers of a pod leave to those after them: cell, resource, amount."""
_Left = tuple[int, ...]
"""How many pods of each kind have yet to be admitted."""
_Half = tuple[Rooms, Inherited]
"""A node in the middle of a pod's admission."""


class Search:
    """Answers about nodes with the same resources.

    ``bound`` tells which resources tie a container to the cell of what it takes over: CPUs and
    devices do, memory does not.
    """

    def __init__(self, bound: Sequence[bool], limit: int = LIMIT) -> None:
        self._bound = bound
        self._limit = limit

    def outcomes(self, states: Iterable[Rooms], pods: Iterable[Steps]) -> set[Rooms] | None:
        """Every state a node may be in once these pods are admitted; None: too many to tell."""
        reached: set[Rooms] | None = set(states)
        for steps in pods:
            if reached is not None:
                reached = self._admitted(reached, steps)
        return reached

    def never_refused(self, states: Iterable[Rooms], pods: Iterable[Steps]) -> bool:
        """Whether all these pods are taken, in whatever order and in whatever cells.

        It is not enough that each is taken after all others: one that comes before another may
        get the only cell that is large enough for that one.
        """
        kinds = Counter(pods)
        level: dict[_Left, set[Rooms]] = {tuple(kinds.values()): set(states)}
        for _ in range(kinds.total()):
            after: dict[_Left, set[Rooms]] = {}
            for left, reached in level.items():
                for kind, steps in enumerate(kinds):
                    if not left[kind]:
                        continue
                    if not self.certain(reached, steps):
                        return False
                    rest = (*left[:kind], left[kind] - 1, *left[kind + 1 :])
                    admitted = self._admitted(reached, steps) if any(rest) else set()
                    if admitted is None:
                        return False
                    after.setdefault(rest, set()).update(admitted)
            if sum(map(len, after.values())) > self._limit:
                return False
            level = after
        return True

    def certain(self, states: Iterable[Rooms], steps: Steps) -> bool:
        """Whether a pod is taken in each of these states, whatever cells the kubelet chooses."""
        halfway: set[_Half] | None = {(rooms, ()) for rooms in states}
        for number, step in enumerate(steps, 1):
            if halfway is None or not all(self._sure(half, step) for half in halfway):
                return False
            if number < len(steps):
                halfway = self._advance(halfway, step)
        return True

    def habitually(self, rooms: Rooms, steps: Steps) -> bool:
        """Whether a pod is taken by a kubelet that gives each container the first cell with room.

        That is what kubelets do; but it tells something only of rooms that are known exactly.
        """
        half: _Half = (rooms, ())
        for step in steps:
            half_or_none = self._first(half, step)
            if half_or_none is None:
                return False
            half = half_or_none
        return True

    def _first(self, half: _Half, step: Step) -> _Half | None:
        rooms, inherited = half
        for cell, room in enumerate(rooms) if step.span == 1 else ():
            if self._fits(room.sure, step, cell, inherited):
                return self._take(rooms, step, cell, inherited)
        return None

    def _admitted(self, states: set[Rooms], steps: Steps) -> set[Rooms] | None:
        halfway: set[_Half] | None = {(rooms, ()) for rooms in states}
        for step in steps:
            if halfway is not None:
                halfway = self._advance(halfway, step)
        # Which cell is which does not matter to anybody, and there are fewer states that way.
        return None if halfway is None else {tuple(sorted(rooms)) for rooms, _ in halfway}

    def _advance(self, halfway: set[_Half], step: Step) -> set[_Half] | None:
        after: set[_Half] = set()
        for half in halfway:
            after.update(self._ways(half, step))
            if len(after) > self._limit:
                return None
        return after

    def _ways(self, half: _Half, step: Step) -> Iterator[_Half]:
        rooms, inherited = half
        found = False
        for cell, room in enumerate(rooms) if step.span == 1 else ():
            if self._fits(room.most, step, cell, inherited):
                found = True
                yield self._take(rooms, step, cell, inherited)
        if not found:
            # It is spread over cells, or is there against all we know: none of it is sure to be
            # free in any cell.
            yield tuple(Room(_minus(r.sure, step.amounts), r.most) for r in rooms), inherited

    def _sure(self, half: _Half, step: Step) -> bool:
        rooms, inherited = half
        if step.span > 1:
            return spreads(rooms, step)
        return any(self._fits(room.sure, step, cell, inherited) for cell, room in enumerate(rooms))

    def _fits(self, free: Vector, step: Step, cell: int, inherited: Inherited) -> bool:
        if not inherited:
            return has(free, step.amounts)
        own = {resource: amount for home, resource, amount in inherited if home == cell}
        tied = {resource for home, resource, _ in inherited if home != cell}
        return all(
            max(0, free[resource]) + own.get(resource, 0) >= want
            and not (self._bound[resource] and resource in tied)
            for resource, want in enumerate(step.amounts)
            if want
        )

    @staticmethod
    def _take(rooms: Rooms, step: Step, cell: int, inherited: Inherited) -> _Half:
        taken = step.amounts
        if inherited or step.passes_on:
            own = {resource: amount for home, resource, amount in inherited if home == cell}
            pairs = [(want, own.get(r, 0)) for r, want in enumerate(step.amounts)]
            taken = tuple(max(0, want - old) for want, old in pairs)
            left = [max(want, old) if step.passes_on else max(0, old - want) for want, old in pairs]
            inherited = (
                *(each for each in inherited if each[0] != cell),
                *((cell, resource, amount) for resource, amount in enumerate(left) if amount),
            )
        return (*rooms[:cell], _less(rooms[cell], taken), *rooms[cell + 1 :]), inherited


def has(free: Sequence[int], amounts: Vector) -> bool:
    """Whether there is enough of everything that is wanted."""
    return all(have >= want for have, want in zip(free, amounts, strict=True) if want)


def spreads(rooms: Rooms, step: Step) -> bool:
    """Whether some set of as many cells as the step spans surely has enough together."""
    return any(
        all(
            sum(room.sure[resource] for room in chosen) >= want
            for resource, want in enumerate(step.amounts)
        )
        for chosen in islice(combinations(rooms, step.span), _MOST_SETS)
    )


def _less(room: Room, amounts: Vector) -> Room:
    sure = _minus(room.sure, amounts)
    return Room(sure, sure if room.sure is room.most else _minus(room.most, amounts))


def _minus(vector: Vector, amounts: Vector) -> Vector:
    return tuple(have - want for have, want in zip(vector, amounts, strict=True))
