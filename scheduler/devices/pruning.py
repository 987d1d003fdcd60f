"""Choices that cannot lead to a solution, found without trying them.

Three arguments, each sound on its own:

- *Too few are left*: a request that needs more devices than its remaining candidates can give, by
  number, by shared counters, or of one value that a constraint asks for, fails.
- *Equal devices*: if a device led nowhere, one that the demand cannot tell from it, in the same
  state, leads nowhere either: a solution with the one is a solution with the other, exchanged.
  Likewise a partition of another board that is in the same condition.
- *Known states*: whether the rest can be served depends on what is left, not on how it came so.

`Distinct` remembers and forgets by the order of attempts, and a selector may fail on a device that
only some orders reach. Then devices are not exchanged, and states are equal only if what is left
is equal in order too. The search does the same as kube-scheduler's there, minus repetition.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence

from scheduler.devices.board import Board, Holdings
from scheduler.devices.budget import WorkBudget
from scheduler.devices.constraints import Match
from scheduler.devices.demand import ERROR, Ask, Demand

Component = tuple[int, str]
"""A set of counters of a view: a board that is partitioned."""


class Pruning:
    """What a search leaves out."""

    def __init__(
        self, demand: Demand, board: Board, held: Holdings, budget: WorkBudget, errors: bool
    ) -> None:
        self._budget = budget
        self._demand = demand
        self._board = board
        self._held = held
        self._errors = errors
        self._literal = demand.literal or errors
        self._admin = any(ask.admin for ask in demand.asks)
        # Who asks for all devices goes by the order of those that are taken, too.
        self._by_place = self._admin or any(ask.every for ask in demand.asks)
        self._failed: set[object] = set()
        self._members: dict[Component, list[int]] | None = None
        # Devices that take of several sets of counters tie boards together: boards are told apart.
        self._tied = any(
            device.consumes and device.counter_set is None for device in set(board.classes)
        )

    # --- Too few are left -------------------------------------------------------------------

    def hopeless(self, ask: Ask, candidates: Sequence[int], at: int, needed: int) -> bool:
        """Whether the candidates from a place on cannot give as many devices as are needed."""
        if len(candidates) - at < needed:
            return not (self._errors and self._may_fail(ask, candidates, at))
        if not self._budget.hard or (self._errors and self._may_fail(ask, candidates, at)):
            return False
        return self.most(ask, candidates[at:]) < needed

    def _may_fail(self, ask: Ask, candidates: Sequence[int], at: int) -> bool:
        classes = self._board.classes
        return any(
            classes[position].fits[ask.number].verdict == ERROR for position in candidates[at:]
        )

    def most(self, ask: Ask, candidates: Sequence[int]) -> int:
        """At most so many of the candidates can be taken together."""
        self._budget.spend(2 * len(candidates))
        groups: dict[object, list[int]] = {}
        constraints = self._held.constraints[ask.claim]
        fixed = [
            (self._demand.constraint(ask.claim, at), constraints[at].required)
            for at in ask.constraints
            if isinstance(constraints[at], Match)
        ]
        for position in candidates:
            if self._held.in_use(ask, position) or not self._held.has_room(ask, position):
                continue
            values = self._board.classes[position].values
            if any(
                values[at] is None or (required is not None and values[at] != required)
                for at, required in fixed
            ):
                continue
            groups.setdefault(tuple(values[at] for at, _ in fixed), []).append(position)
        return max((self._most_by_counters(group) for group in groups.values()), default=0)

    def _most_by_counters(self, positions: Sequence[int]) -> int:
        total = 0
        by_component: dict[Component, list[int]] = {}
        for position in positions:
            device = self._board.classes[position]
            if device.counter_set is None or device.shareable:
                total += 1
            else:
                key = (self._board.views[position], device.counter_set)
                by_component.setdefault(key, []).append(position)
        for (view, _), members in by_component.items():
            total += self._most_of(view, members)
        return total

    def _most_of(self, view: int, members: Sequence[int]) -> int:
        if self._board.overdrawn[view]:
            return 0
        most = len(members)
        consumption = [dict(self._board.classes[position].consumes) for position in members]
        for counter in consumption[0]:
            amounts = sorted(each.get(counter, 0) for each in consumption)
            left, fit = self._held.left(view, counter), 0
            for amount in amounts:
                left -= amount
                if left < 0:
                    break
                fit += 1
            most = min(most, fit)
        return most

    # --- Equal devices ----------------------------------------------------------------------

    def alike(self, position: int) -> object:
        """Equal for devices of which only one need be tried; None: none equals it."""
        if self._literal:
            return None
        device = self._board.classes[position]
        state = (self._board.states[position], self._share_state(position))
        if not device.consumes:
            return device.number, state
        view = self._board.views[position]
        if self._tied or not self._budget.hard or device.counter_set is None:
            return device.number, state, view
        return device.profile, state, self._component_state((view, device.counter_set))

    def _share_state(self, position: int) -> object:
        shares = self._held.shares.get(position)
        if not shares:
            return None
        totals: Tally[str] = Tally()
        for share in shares:
            for name, amount in share.items():
                totals[name] += amount.nanos
        return len(shares), tuple(sorted(totals.items()))

    def _component_state(self, component: Component) -> object:
        """What is left of a board: counters, and partitions by profile."""
        view, counter_set = component
        board = self._board
        left = tuple(
            sorted(
                (counter, self._held.left(view, (name, counter)))
                for name, counter in board.available[view]
                if name == counter_set
            )
        )
        positions = self._of(component)
        self._budget.spend(2 * len(positions))
        members = Tally(self._device_state(position) for position in positions)
        return board.overdrawn[view], left, frozenset(members.items())

    def _device_state(self, position: int) -> object:
        held = self._held
        return (
            self._board.classes[position].profile,
            self._board.states[position],
            held.marks.get(position, 0) if self._admin else position in held.marks,
            self._share_state(position),
        )

    def _of(self, component: Component) -> list[int]:
        if self._members is None:
            self._members = {}
            for position, device in enumerate(self._board.classes):
                if device.number and device.counter_set is not None:
                    key = (self._board.views[position], device.counter_set)
                    self._members.setdefault(key, []).append(position)
        return self._members.get(component, [])

    # --- Known states -----------------------------------------------------------------------

    def memo_key(
        self, ask: Ask, request: int, level: int, candidates: Sequence[int], at: int
    ) -> object:
        """Equal for states from which the rest of the search goes the same way."""
        self._budget.spend(3 * len(self._board.classes))
        here = (ask.number, request, level, len(self._held.results[ask.claim]))
        constraints = tuple(each.state(ask.base) for of in self._held.constraints for each in of)
        behind = frozenset(candidates[:at])
        if self._literal:
            return here, constraints, self._in_order(behind)
        return here, constraints, self._in_any_order(behind)

    def _in_order(self, behind: frozenset[int]) -> object:
        board, held = self._board, self._held
        left = tuple(
            (board.classes[i].number, board.views[i], i in behind, self._device_state(i))
            for i in range(len(board.classes))
            if board.classes[i].number and (self._by_place or i not in held.marks)
        )
        return left, tuple(sorted(each for each in held.consumed.items() if each[1]))

    def _in_any_order(self, behind: frozenset[int]) -> object:
        board, held = self._board, self._held
        loose: Tally[object] = Tally()
        boards: dict[Component, Tally[object]] = {}
        for i, device in enumerate(board.classes):
            if not device.number or (i in held.marks and not self._admin):
                continue
            state = (self._device_state(i), i in behind)
            if not device.consumes:
                loose[state] += 1
            elif device.counter_set is None:
                loose[device.number, board.views[i], state] += 1
            else:
                boards.setdefault((board.views[i], device.counter_set), Tally())[state] += 1
        parts = Tally(
            (
                component if self._tied else None,
                self._counters_left(component),
                frozenset(members.items()),
            )
            for component, members in boards.items()
        )
        rest = tuple(sorted(held.consumed.items())) if self._tied else ()
        return frozenset(loose.items()), frozenset(parts.items()), rest

    def _counters_left(self, component: Component) -> object:
        view, counter_set = component
        return self._board.overdrawn[view], tuple(
            sorted(
                (counter, self._held.left(view, (name, counter)))
                for name, counter in self._board.available[view]
                if name == counter_set
            )
        )

    def known_to_fail(self, key: object) -> bool:
        """Whether a state is known to lead nowhere."""
        return key in self._failed

    def failed(self, key: object) -> None:
        """A state led nowhere."""
        if key is not None:
            self._failed.add(key)
