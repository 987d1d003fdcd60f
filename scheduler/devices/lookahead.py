"""What later requests need, asked before earlier ones are tried in all ways.

Each question leaves conditions out, so a no is certain: do the remaining requests find enough
different devices, each enough of its own, enough in the counters together, and enough different
values where a constraint wants them different? Has every list of alternatives one that its own
devices can still serve, and who asks for all devices all of them?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from scheduler.devices.board import Board, Holdings
from scheduler.devices.constraints import Distinct
from scheduler.devices.demand import Ask, Demand

Most = Callable[[Ask, Sequence[int]], int]
"""At most so many of some candidates can be taken for a request now."""


class Lookahead:
    """Whether what is left can serve what is still to come."""

    def __init__(
        self,
        demand: Demand,
        board: Board,
        held: Holdings,
        candidates_of: Callable[[Ask], Sequence[int]],
        every: Mapping[int, Sequence[int]],
    ) -> None:
        self._demand = demand
        self._board = board
        self._held = held
        self._candidates_of = candidates_of
        self._every = every
        self._to_come = _to_come(demand)
        self._choices = _choices(demand)

    def hopeless(self, claim: int, request: int, most: Most) -> bool:
        """Whether the requests from one on cannot all be served."""
        asks = self._to_come.get((claim, request), ())
        if any(most(ask, self._candidates_of(ask)) < ask.count for ask in asks):
            return True
        if not self._enough_counters(asks) or not self._enough_values(asks):
            return True
        choices = self._choices.get((claim, request), ())
        return any(all(self._lost(ask, most) for ask in choice) for choice in choices)

    def all_lost(self, claim: int, request: int) -> bool:
        """Whether a request after one wants all devices, and some of them are out of reach."""
        return any(
            all(ask.every and self._unreachable(ask) for ask in choice)
            for choice in self._choices.get((claim, request), ())
        )

    def _lost(self, ask: Ask, most: Most) -> bool:
        """Whether one alternative, or a request for all devices, cannot be served any more."""
        if ask.every:
            return self._unreachable(ask)
        return most(ask, self._candidates_of(ask)) < ask.count

    def _unreachable(self, ask: Ask) -> bool:
        every = self._every[ask.number]
        return not every or any(self._held.out_of_reach(ask, position) for position in every)

    def cost(self, claim: int, request: int) -> int:
        """How much work the question is."""
        asks = self._to_come.get((claim, request), ())
        return sum(len(self._candidates_of(ask)) for ask in asks) + self.cost_of_all(claim, request)

    def cost_of_all(self, claim: int, request: int) -> int:
        """How much work the question about all devices is."""
        choices = self._choices.get((claim, request), ())
        every = (self._every.get(ask.number, ()) for choice in choices for ask in choice)
        return sum(map(len, every))

    # --- Different devices ------------------------------------------------------------------

    def enough_devices(self) -> bool:
        """Whether all requests together find different devices, before anything is taken."""
        wants: list[tuple[list[int], int]] = []
        for ask in self._to_come.get(min(self._to_come, default=(0, 0)), ()):
            if ask.admin:
                continue
            whole = []
            needed = ask.count
            for position in self._candidates_of(ask):
                if self._board.classes[position].shareable:
                    needed -= 1  # others may share it
                else:
                    whole.append(position)
            wants.extend([(whole, needed)] if needed > 0 else [])
        return _assignable(wants)

    # --- Different values -------------------------------------------------------------------

    def _enough_values(self, asks: Sequence[Ask]) -> bool:
        by_constraint: dict[tuple[int, int], list[Ask]] = {}
        for ask in asks:
            if ask.count == 1:
                for at in ask.constraints:
                    by_constraint.setdefault((ask.claim, at), []).append(ask)
        return all(
            self._enough_values_for(claim, at, members)
            for (claim, at), members in by_constraint.items()
        )

    def _enough_values_for(self, claim: int, at: int, asks: Sequence[Ask]) -> bool:
        constraint = self._held.constraints[claim][at]
        if not isinstance(constraint, Distinct):
            return True
        column = self._demand.constraint(claim, at)
        numbers: dict[object, int] = {}
        wants = []
        for ask in asks:
            values = {
                self._board.classes[position].values[column]
                for position in self._candidates_of(ask)
                if not self._held.in_use(ask, position)
            }
            free = [value for value in values if value is not None and constraint.allows(value)]
            wants.append(([numbers.setdefault(value, len(numbers)) for value in free], 1))
        return _assignable(wants)

    # --- Counters ---------------------------------------------------------------------------

    def _enough_counters(self, asks: Sequence[Ask]) -> bool:
        needed: dict[str, int] = {}
        for ask in asks:
            for counter, least in self._least_of(ask).items():
                needed[counter] = needed.get(counter, 0) + least * ask.count
        if not needed:
            return True
        left = dict.fromkeys(needed, 0)
        for view, available in enumerate(self._board.available):
            for name, counter in available:
                if counter in left:
                    left[counter] += max(0, self._held.left(view, (name, counter)))
        return all(left[counter] >= amount for counter, amount in needed.items())

    def _least_of(self, ask: Ask) -> Mapping[str, int]:
        """What any device for a request takes at least of counters of a name, in all sets."""
        least: dict[str, int] | None = None
        for number in {self._board.classes[p].number for p in self._candidates_of(ask)}:
            device = self._demand.classes[number]
            if device.shareable:
                return {}
            takes: dict[str, int] = {}
            for (_, counter), amount in device.consumes:
                takes[counter] = takes.get(counter, 0) + amount
            if least is None:
                least = takes
            else:
                least = {name: min(least[name], takes[name]) for name in least.keys() & takes}
        return least or {}


def _to_come(demand: Demand) -> dict[tuple[int, int], tuple[Ask, ...]]:
    """Per request the plain ones from it on, of its claim and of those after it."""
    result: dict[tuple[int, int], tuple[Ask, ...]] = {}
    asks: tuple[Ask, ...] = ()
    for claim in range(len(demand.plans) - 1, -1, -1):
        requests = demand.plans[claim].requests
        for request in range(len(requests) - 1, -1, -1):
            first = requests[request][0]
            if not first.parent and not first.every:
                asks = (first, *asks)
            result[claim, request] = asks
    return result


def _choices(demand: Demand) -> dict[tuple[int, int], tuple[Sequence[Ask], ...]]:
    """Per request the others after it: those with alternatives, and those for all devices."""
    result: dict[tuple[int, int], tuple[Sequence[Ask], ...]] = {}
    choices: tuple[Sequence[Ask], ...] = ()
    for claim in range(len(demand.plans) - 1, -1, -1):
        requests = demand.plans[claim].requests
        for request in range(len(requests) - 1, -1, -1):
            result[claim, request] = choices
            first = requests[request][0]
            if first.parent or first.every:
                choices = (requests[request], *choices)
    return result


def _assignable(wants: Sequence[tuple[Sequence[int], int]]) -> bool:
    """Whether everybody gets as many different things as they want, each thing going once."""
    owner: dict[int, int] = {}
    for number, (_, needed) in enumerate(wants):
        for _ in range(needed):
            if not _assign(number, wants, owner):
                return False
    return True


def _assign(number: int, wants: Sequence[tuple[Sequence[int], int]], owner: dict[int, int]) -> bool:
    """Assign one more, moving others (an augmenting path)."""
    came_from: dict[int, tuple[int, int | None]] = {}
    queue: list[tuple[int, int | None]] = [(number, None)]
    for who, through in queue:
        for thing in wants[who][0]:
            if thing in came_from:
                continue
            came_from[thing] = (who, through)
            if thing not in owner:
                _pass_on(thing, came_from, owner)
                return True
            if owner[thing] != who:
                queue.append((owner[thing], thing))
    return False


def _pass_on(
    thing: int, came_from: Mapping[int, tuple[int, int | None]], owner: dict[int, int]
) -> None:
    at: int | None = thing
    while at is not None:
        who, through = came_from[at]
        owner[at] = who
        at = through
