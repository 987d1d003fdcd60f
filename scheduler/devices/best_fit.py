"""Best fit: the device that leaves the least stranded.

Of the devices that a request may have, the smallest one that suffices; of equal ones that on the
board, or the shared device, that has the least left afterwards; whole boards, and sets of devices
with the same locality, are broken last and the smallest sufficient set first. All in whole numbers
and in order of place at the end, so the same board always gives the same order.

Whether a node fits is not decided here: kube-scheduler's order decides that.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping, Sequence

from scheduler.devices.board import Board
from scheduler.devices.capacity import Amount
from scheduler.devices.demand import Ask
from scheduler.devices.search import Pick

LOCALITY = ("resource.kubernetes.io/pcieRoot", "numaNode", "numa")
"""Attributes of devices that are near each other; a bare name is one of any driver's own."""

WHOLE = 1000
"""Shares of a device or a board are counted in thousandths."""

Group = tuple[int, object]
"""Devices of a view that are near each other."""


class BestFit:
    """The order in which candidates are tried, and how good a choice is."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._free = Tally(
            self._group(position)
            for position in range(len(board.classes))
            if self._is_free(position)
        )
        self._all = Tally(self._group(position) for position in range(len(board.classes)))

    def order(self, ask: Ask, candidates: Sequence[int]) -> list[int]:
        """The candidates, the best one first."""
        largest = self._largest(candidates)

        def cost(position: int) -> tuple[int, int, int, bool, int, str, int]:
            group = self._group(position)
            free = self._free[group]
            return (
                self._size(ask, position, largest),
                self._untouched(position),
                self._left(ask, position),
                free < ask.count,  # a set that suffices, and of those the smallest
                free if free >= ask.count else -free,
                repr(group),
                position,
            )

        return sorted(candidates, key=cost)

    def score(self, picks: Sequence[Sequence[Pick]]) -> int:
        """0 to 100: small devices that are used up are best, whole ones that are broken worst."""
        taken = [pick for claim in picks for pick in claim]
        if not taken:
            return 100
        used = Tally(self._group(pick.position) for pick in taken)
        total = 0
        for pick in taken:
            size = self._size(pick.ask, pick.position, {})
            total += 2 * size + self._left_behind(pick, used)
        return 100 - 100 * total // (3 * WHOLE * len(taken))

    # --- One device -------------------------------------------------------------------------

    def _group(self, position: int) -> Group:
        return self._board.views[position], self._board.classes[position].locality

    def _is_free(self, position: int) -> bool:
        state = self._board.states[position]
        return not (state.exclusive or state.elsewhere or state.taken)

    def _largest(self, candidates: Sequence[int]) -> dict[str, int]:
        largest: dict[str, int] = {}
        for position in candidates:
            for name, nanos in self._board.classes[position].capacity.items():
                largest[name] = max(nanos, largest.get(name, 0))
        return largest

    def _size(self, ask: Ask, position: int, largest: dict[str, int]) -> int:
        """How much a request would take: of the board, of the shared device, or of the largest."""
        device = self._board.classes[position]
        if device.consumes:
            totals = self._board.totals[self._board.views[position]]
            return max(_share(amount, totals.get(key, 0)) for key, amount in device.consumes)
        if device.shareable:
            amounts = device.fits[ask.number].taken
            return max((_share(a.nanos, device.capacity[n]) for n, a in amounts.items()), default=0)
        if largest:
            return max((_share(n, largest[name]) for name, n in device.capacity.items()), default=0)
        return WHOLE

    def _untouched(self, position: int) -> int:
        """1 if taking the device breaks something that is whole."""
        device, view = self._board.classes[position], self._board.views[position]
        if device.consumes:
            totals, left = self._board.totals[view], self._board.available[view]
            return int(all(left[key] == totals[key] for key, _ in device.consumes))
        if device.shareable:
            return int(self._board.states[position].taken is None)
        group = self._group(position)
        return int(self._free[group] == self._all[group])

    def _left(self, ask: Ask, position: int) -> int:
        """What is left of the board or of the shared device afterwards."""
        device, view = self._board.classes[position], self._board.views[position]
        if device.consumes:
            totals, left = self._board.totals[view], self._board.available[view]
            return max(_share(left[key] - amount, totals[key]) for key, amount in device.consumes)
        if device.shareable:
            return self._left_of_share(position, device.fits[ask.number].taken)
        return 0

    def _left_of_share(self, position: int, amounts: Mapping[str, Amount]) -> int:
        capacity = self._board.classes[position].capacity
        before = dict(self._board.states[position].taken or ())
        return max(
            (
                _share(capacity[name] - before.get(name, 0) - amount.nanos, capacity[name])
                for name, amount in amounts.items()
            ),
            default=0,
        )

    def _left_behind(self, pick: Pick, used: Tally[Group]) -> int:
        device = self._board.classes[pick.position]
        if device.consumes or device.shareable:
            return self._left(pick.ask, pick.position)
        group = self._group(pick.position)
        return _share(self._free[group] - used[group], self._all[group])


def _share(part: int, whole: int) -> int:
    """A part in thousandths, rounded up and within bounds."""
    return WHOLE if whole <= 0 else max(0, min(WHOLE, -(-part * WHOLE // whole)))
