"""The board of a search: the devices of one node in order, and what is taken of them meanwhile.

A board is a copy: while a search pauses at a checkpoint, the columns may change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.devices.capacity import Amount
from scheduler.devices.constraints import Constraint, begin
from scheduler.devices.demand import Ask, Demand, ShapeClass
from scheduler.devices.pools import PoolStatus
from scheduler.devices.segments import DeviceState
from scheduler.devices.shapes import Consumption, Counter


@dataclass(eq=False, slots=True)
class Board:
    """The devices that a node sees."""

    classes: Sequence[ShapeClass]
    """Per position, as all that follow."""
    states: Sequence[DeviceState]
    views: Sequence[int]
    statuses: Sequence[PoolStatus]
    """Per view, as the next."""
    available: Sequence[Mapping[Counter, int]]
    totals: Sequence[Mapping[Counter, int]] = ()

    def __post_init__(self) -> None:
        # A counter below zero, by whatever mistake, refuses every device that takes of any.
        self.overdrawn = [any(left < 0 for left in each.values()) for each in self.available]

    overdrawn: Sequence[bool] = ()


@dataclass(eq=False, slots=True)
class Taken:
    """One device that the search has taken, and what giving it back means."""

    ask: Ask
    position: int
    amounts: Mapping[str, Amount] | None
    """What the share takes; None if the device is taken as a whole."""
    reserved: bool
    """Counters were charged."""


class Holdings:
    """What a search has taken so far, with every step undone in the opposite order."""

    def __init__(self, demand: Demand, board: Board) -> None:
        self._demand = demand
        self.board = board
        self.marks: dict[int, int] = {}
        """Devices taken as a whole: which claims did, as bits."""
        self.shares: dict[int, list[Mapping[str, Amount]]] = {}
        """Devices taken in shares: what each share takes."""
        self.consumed: dict[tuple[int, Counter], int] = {}
        self.constraints: list[list[Constraint]] = [
            [begin(raw) for raw in plan.constraints] for plan in demand.plans
        ]
        self.results: list[list[Taken]] = [[] for _ in demand.plans]

    def in_use(self, ask: Ask, position: int) -> bool:
        """Whether a device is off limits for a request, before anything is said of selectors."""
        mark = self.marks.get(position, 0)
        if ask.admin:
            return bool(mark >> ask.claim & 1)
        return bool(mark) or self.board.states[position].exclusive

    def had_room(self, ask: Ask, position: int) -> bool:
        """Whether the capacities of a device sufficed before this search took anything."""
        return self._suffices(ask, position, None)

    def has_room(self, ask: Ask, position: int) -> bool:
        """Whether the capacities of a device suffice beside what is taken of them."""
        return self._suffices(ask, position, self.shares.get(position))

    def _suffices(
        self, ask: Ask, position: int, shares: Sequence[Mapping[str, Amount]] | None
    ) -> bool:
        device = self.board.classes[position]
        amounts = device.fits[ask.number].taken
        if not amounts:
            return True
        before = self.board.states[position].taken
        if before is None and shares is None:
            return True  # the whole device suffices, or the request would not have selected it
        taken = dict(before or ())
        for name, amount in amounts.items():
            total = taken.get(name, 0) + amount.nanos
            if shares is not None:
                total += sum(share[name].nanos for share in shares)
            if total > device.capacity[name]:
                return False
        return True

    def out_of_reach(self, ask: Ask, position: int) -> bool:
        """Whether a selected device cannot be taken any more, whatever else is taken first."""
        device = self.board.classes[position]
        if self.in_use(ask, position) or not device.fits[ask.number].tolerated:
            return True
        if device.consumes and not device.shareable:  # a share may come to be paid for by others
            view = self.board.views[position]
            if self.board.overdrawn[view] or self._lacks(view, device.consumes):
                return True
        return not self.has_room(ask, position)

    def take(self, ask: Ask, position: int) -> bool | None:
        """Take a device that is selected. False: it cannot be; None: a constraint refuses it."""
        device = self.board.classes[position]
        fit = device.fits[ask.number]
        if self.in_use(ask, position):
            return False
        reserved = False
        if device.consumes and not (device.shareable and self._shared(position)):
            if not self._reserve(position, device.consumes):
                return False
            reserved = True
        if not fit.tolerated:
            self._give_counters_back(position, reserved)
            return False
        if not self._constrain(ask, device):
            self._give_counters_back(position, reserved)
            return None
        if not self.has_room(ask, position):
            self._release(ask)
            self._give_counters_back(position, reserved)
            return False
        amounts = None
        if device.shareable:
            amounts = fit.taken
            self.shares.setdefault(position, []).append(amounts)
        else:
            self.marks[position] = self.marks.get(position, 0) | 1 << ask.claim
        self.results[ask.claim].append(Taken(ask, position, amounts, reserved))
        return True

    def give_back(self, claim: int) -> None:
        """Undo the last device that was taken for a claim."""
        taken = self.results[claim].pop()
        position = taken.position
        if taken.amounts is None:
            mark = self.marks[position] & ~(1 << claim)
            if mark:
                self.marks[position] = mark
            else:
                del self.marks[position]
        else:
            shares = self.shares[position]
            shares.pop()
            if not shares:
                del self.shares[position]
        self._release(taken.ask)
        self._give_counters_back(position, taken.reserved)

    def left(self, view: int, counter: Counter) -> int:
        """What is left of a counter."""
        available: int = self.board.available[view].get(counter, 0)
        return available - self.consumed.get((view, counter), 0)

    def _shared(self, position: int) -> bool:
        """Whether a share with capacities was given away: it has paid for the counters."""
        return self.board.states[position].taken is not None or position in self.shares

    def _reserve(self, position: int, consumes: Consumption) -> bool:
        view = self.board.views[position]
        if self.board.overdrawn[view]:
            return False
        if self._lacks(view, consumes):
            return False
        for counter, amount in consumes:
            key = (view, counter)
            self.consumed[key] = self.consumed.get(key, 0) + amount
        return True

    def _lacks(self, view: int, consumes: Consumption) -> bool:
        return any(amount > self.left(view, counter) for counter, amount in consumes)

    def _give_counters_back(self, position: int, reserved: bool) -> None:
        if reserved:
            view = self.board.views[position]
            for counter, amount in self.board.classes[position].consumes:
                self.consumed[view, counter] -= amount

    def _constrain(self, ask: Ask, device: ShapeClass) -> bool:
        constraints = self.constraints[ask.claim]
        for number, at in enumerate(ask.constraints):
            value = device.values[self._demand.constraint(ask.claim, at)]
            if not constraints[at].add(ask.base, value):
                for undone in reversed(ask.constraints[:number]):
                    constraints[undone].remove(ask.base)
                return False
        return True

    def _release(self, ask: Ask) -> None:
        constraints = self.constraints[ask.claim]
        for at in reversed(ask.constraints):
            constraints[at].remove(ask.base)
