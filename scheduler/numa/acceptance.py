"""Whether one more pod on a node is certain to be taken, and endangers none on their way there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduler.numa.prospects import Room, Rooms, Search, Steps, Vector, has

Charged = tuple[Steps, bool]
"""The admission of a pod that is not settled, and whether it has taken place."""


class Acceptance:
    """A node's cells at one moment, and who is there or on the way.

    A pod and all those that have not arrived must be taken in whatever order they come, since
    kubelets admit pods in an order of their own.

    All that must hold even if a pod that is there goes in the meantime. Its room can be a trap: an
    init container put there ties the pod to a cell too small for the rest, or a pod that could go
    nowhere else takes the memory or devices there that another one counts on. One pod at a time is
    assumed to go; pods are on their way for fractions of a second.
    """

    def __init__(
        self,
        search: Search,
        rooms: Rooms,
        used: Sequence[Vector],
        charged: Sequence[Charged],
        settled: Iterable[Vector],
        *,
        exact: bool,
    ) -> None:
        """``used`` of each cell by pods, the ``settled`` ones among them holding so much each.

        ``exact``: nothing is unknown, so that the kubelet's habits tell what it will do.
        """
        self._search = search
        self._rooms = rooms
        self._used = used
        self._arrived = [steps for steps, arrived in charged if arrived]
        self._settled = list(dict.fromkeys(settled))
        self._exact = exact
        self._kept: list[set[Rooms] | None] = []
        self._coming = [steps for steps, arrived in charged if not arrived]

    def accepts(self, newcomer: Steps) -> bool:
        """Whether a pod may be sent here."""
        if not self._accepts(self._rooms, newcomer):
            return False
        if not self._coming and len(newcomer) == 1:
            return True  # more room never hurts a pod that is alone
        return all(self._accepts(rooms, newcomer) for rooms in self._departures(newcomer))

    def _accepts(self, rooms: Rooms, newcomer: Steps) -> bool:
        states = self._states(rooms)
        if states is None:
            return False
        if self._search.never_refused(states, [*self._coming, newcomer]):
            return True
        return self._exact and self._search.habitually(rooms, newcomer)

    def _states(self, rooms: Rooms) -> set[Rooms] | None:
        """The states with all unsettled pods in place that have arrived."""
        if rooms is not self._rooms:
            return self._search.outcomes([rooms], self._arrived)
        if not self._kept:
            self._kept.append(self._search.outcomes([rooms], self._arrived))
        return self._kept[0]

    def _departures(self, newcomer: Steps) -> Iterator[Rooms]:
        """The cells after one of the settled pods has gone, where that may open one to somebody.

        To somebody who wants what is freed, if the cell has not enough of it for everybody.
        """
        movable = [step.amounts for steps in (newcomer, *self._coming) for step in steps]
        if not movable:
            return
        there = [step.amounts for steps in self._arrived for step in steps]
        wanted = [sum(amounts) for amounts in zip(*movable, *there, strict=True)]
        for held in self._settled:
            for c, room in enumerate(self._rooms):
                if has(self._used[c], held):
                    more = Room(_plus(room.sure, held), _plus(room.most, held))
                    scarce = [
                        r for r, freed in enumerate(held) if freed and room.most[r] < wanted[r]
                    ]
                    if any(has(more.most, step) and _wants(step, scarce) for step in movable):
                        yield (*self._rooms[:c], more, *self._rooms[c + 1 :])


def _wants(step: Vector, resources: Iterable[int]) -> bool:
    return any(step[resource] for resource in resources)


def _plus(vector: Vector, amounts: Vector) -> Vector:
    return tuple(have + more for have, more in zip(vector, amounts, strict=True))
