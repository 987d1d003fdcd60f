"""What one node can be counted on for: its cells, less the pods of which it has not told yet."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from scheduler.model.pinning import Need, Role, is_memory
from scheduler.model.resources import CPU, Amounts
from scheduler.numa.acceptance import Acceptance, Charged
from scheduler.numa.cells import View
from scheduler.numa.prospects import Room, Rooms, Search, Step, Steps, Vector
from scheduler.numa.topology import Cell, Policy, Topology

Needs = tuple[Need, ...]
Held = tuple[tuple[str, int], ...]
"""Amounts by resource name."""
Columns = list[list[int]]
"""Amounts by resource and then by cell."""

REMEMBERED = 64
"""How many answers are kept until something changes."""

_NOTHING: frozenset[str] = frozenset()


class Frame:
    """A believed object in the form of vectors: what does not change with every pod."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        cells = topology.cells
        self.names = list(dict.fromkeys(name for cell in cells for name in cell.available))
        self.search = Search([not is_memory(name) for name in self.names])
        self.available = [self.vector(cell.available) for cell in cells]
        self.allocatable = [self.vector(cell.allocatable) for cell in cells]
        self.columns = _columns(self.available, len(self.names))

    def less(self, kept: Iterable[tuple[int, Held]]) -> Frame:
        """The same with amounts taken from cells of which the object does not tell."""
        frame = copy.copy(self)
        frame.available = list(self.available)
        for cell, held in kept:
            left = map(int.__sub__, frame.available[cell], self.vector(dict(held)))
            frame.available[cell] = tuple(max(0, amount) for amount in left)
        frame.columns = _columns(frame.available, len(self.names))
        return frame

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Amounts of this node's resources, in their order."""
        return tuple(amounts.get(name, 0) for name in self.names)

    def used(self) -> list[Vector]:
        """What pods hold of each cell, as far as the object tells."""
        pairs = zip(self.allocatable, self.available, strict=True)
        return [tuple(map(int.__sub__, all_, left)) for all_, left in pairs]


class Charge(msgspec.Struct, frozen=True):
    """A pod that holds, or will hold, something in cells that nobody can name."""

    needs: Needs
    arrived: bool
    """The kubelet has admitted it: where it is may be unknown, that it is there is certain."""


class Outlook:
    """A node at one moment. Built anew whenever something is learnt about the node."""

    def __init__(
        self,
        frame: Frame,
        charges: Iterable[Charge] = (),
        freed: Mapping[str, int] | None = None,
        settled: Sequence[Held] = (),
        *,
        unpinned: frozenset[str] = _NOTHING,
        grouped: bool = False,
        limit: Outlook | None = None,
    ) -> None:
        """``freed`` went with pods that were settled; nobody can say in which cell. ``settled`` is
        what each of those that are there would free if it went.

        ``unpinned`` resources are not charged, since the kubelet does not pin them. ``grouped``:
        some pod's memory is spread over cells, which other pods then cannot use. ``limit`` is
        another outlook on the same cells that must accept a pod as well.
        """
        self._frame = frame
        self._unpinned = unpinned
        self._grouped = grouped
        self._limit = limit
        self._freed = freed or {}
        self._settled = settled
        self._charged: list[Charged] = [
            (steps, charge.arrived)
            for charge in charges
            if (steps := self._steps(charge.needs, unpinned))
        ]
        self._accepted: dict[Needs, bool] = {}

    @property
    def unsettled(self) -> bool:
        """Whether there are charges, so that the amounts in columns do not tell it all."""
        limited = self._limit is not None and self._limit.unsettled
        return bool(self._charged) or self._grouped or limited

    # Will it be taken?

    def accepts(self, needs: Needs) -> bool:
        """Whether a pod is certain to be taken, and endangers none of those on their way."""
        known = self._accepted.get(needs)
        if known is None:
            if len(self._accepted) >= REMEMBERED:
                self._accepted.clear()
            known = self._accepted[needs] = self._accept(needs) and (
                self._limit is None or self._limit.accepts(needs)
            )
        return known

    def _accept(self, needs: Needs) -> bool:
        if CPU not in self._frame.names and any(CPU in dict(need.amounts) for need in needs):
            return False
        steps = self._steps(needs, _NOTHING)
        if not all(step.span for step in steps):
            return False
        several = len(needs) > 1 or any(need.role is Role.POD for need in needs)
        if self._spreads_memory(steps) and (several or self._memory_in_use()):
            return False
        return self._acceptance.accepts(steps)

    def _spreads_memory(self, steps: Steps) -> bool:
        """Whether memory goes to a group of cells.

        The memory manager proposes cells for a group that somebody uses alone, the pod's other
        containers included, and then refuses them. So a group is only certain where no memory is
        in use, and for one container.
        """
        return any(step.span > 1 and any(step.amounts[i] for i in self._memory) for step in steps)

    def _memory_in_use(self) -> bool:
        held = self._frame.used()
        held += [step.amounts for charged, _ in self._charged for step in charged]
        return any(amounts[i] for amounts in held for i in self._memory)

    @cached_property
    def _memory(self) -> list[int]:
        return [i for i, name in enumerate(self._frame.names) if is_memory(name)]

    @cached_property
    def _acceptance(self) -> Acceptance:
        frame = self._frame
        return Acceptance(
            frame.search,
            self._ungrouped() if self._grouped else self._rooms,
            frame.used(),
            self._charged,
            (frame.vector(dict(held)) for held in self._settled),
            exact=not self._charged and not self._freed,
        )

    @cached_property
    def _rooms(self) -> Rooms:
        frame = self._frame
        if not self._freed:
            return tuple(Room(sure, sure) for sure in frame.available)
        back = frame.vector(self._freed)
        return tuple(
            Room(sure, tuple(map(max, sure, map(min, map(int.__add__, sure, back), most))))
            for sure, most in zip(frame.available, frame.allocatable, strict=True)
        )

    def _ungrouped(self) -> Rooms:
        """The cells whose memory nobody uses: groups cannot be seen, but they use memory."""
        frame = self._frame
        none: Vector = (-1,) * len(frame.names)
        return tuple(
            Room(none, room.most) if any(room.sure[i] < most[i] for i in self._memory) else room
            for most, room in zip(frame.allocatable, self._rooms, strict=True)
        )

    def _steps(self, needs: Needs, skipped: frozenset[str]) -> Steps:
        """The admission of a pod, as far as it concerns resources that cells list."""
        steps = []
        for need in needs:
            wanted = {name: amount for name, amount in need.amounts if name not in skipped}
            amounts = self._frame.vector(wanted)
            if any(amounts):
                steps.append(Step(amounts, need.role is Role.INIT, self._span(need)))
        return tuple(steps)

    def _span(self, need: Need) -> int:
        topology = self._frame.topology
        single = topology.policy is not Policy.RESTRICTED
        return 1 if single else span_of(need.amounts, topology)

    # For columns

    def view(self) -> View:
        """The node in the form in which many are judged at once."""
        view = self._own_view()
        return view if self._limit is None else _worse(view, self._limit.view())

    def _own_view(self) -> View:
        columns = self._frame.columns
        if not self.unsettled:
            return self._view(columns, columns, columns, columns)
        free, sure, together = (list(map(list, columns)) for _ in range(3))
        cells = range(len(self._frame.available))
        tied = self._grouped
        for steps, arrived in self._charged:
            tied |= not arrived and len(steps) > 1 and any(step.passes_on for step in steps)
            for step in steps:
                wanted = [(i, amount) for i, amount in enumerate(step.amounts) if amount]
                possible = [c for c in cells if step.span != 1 or self._could(c, wanted)]
                if len(possible) == 1 and step.span == 1:
                    _take(free, possible, wanted)
                _take(sure, possible or cells, wanted)
                _take(together, cells, wanted)
        if tied:
            # An init container may be put where no room is left for the rest, or a cell be grouped.
            together = [[0] * len(cells) for _ in columns]
        return self._view(free, sure, _unpromising(sure), together)

    def _view(self, free: Columns, sure: Columns, expected: Columns, together: Columns) -> View:
        names = self._frame.names
        return View(
            self._frame.topology,
            dict(zip(names, free, strict=True)),
            dict(zip(names, sure, strict=True)),
            dict(zip(names, expected, strict=True)),
            dict(zip(names, together, strict=True)),
            self.unsettled,
        )

    def _could(self, cell: int, wanted: Sequence[tuple[int, int]]) -> bool:
        most = self._rooms[cell].most
        return all(most[i] >= amount for i, amount in wanted)


def _worse(one: View, other: View) -> View:
    """The smaller of two amounts, cell by cell; both list the same resources."""

    def least(
        some: Mapping[str, Sequence[int]], others: Mapping[str, Sequence[int]]
    ) -> dict[str, list[int]]:
        return {name: list(map(min, amounts, others[name])) for name, amounts in some.items()}

    return View(
        one.topology,
        least(one.free, other.free),
        least(one.sure, other.sure),
        least(one.expected, other.expected),
        least(one.together, other.together),
        one.unsettled or other.unsettled,
    )


def _columns(cells: Sequence[Vector], resources: int) -> Columns:
    return [[cell[i] for cell in cells] for i in range(resources)]


def _take(columns: Columns, cells: Iterable[int], wanted: Sequence[tuple[int, int]]) -> None:
    for i, amount in wanted:
        column = columns[i]
        for c in cells:
            column[c] -= amount


def _unpromising(sure: Columns) -> Columns:
    """What scores see of an unsettled node: half of what is sure to be free.

    Every further pod makes more doubt there, and none where all is known; so others come first.
    """
    return [[max(0, amount) // 2 for amount in column] for column in sure]


def span_of(amounts: Iterable[tuple[str, int]], topology: Topology) -> int:
    """Over how many cells ``restricted`` spreads a request; 0: the kubelet always refuses it.

    That many cells must be the fewest that could ever hold it, for every resource the same number:
    of all CPUs and devices there are, and of allocatable memory.
    """
    cells = topology.cells
    listed: Amounts = {n: a for n, a in amounts if any(n in cell.available for cell in cells)}
    memory = {name: amount for name, amount in listed.items() if is_memory(name)}
    spans = {
        _fewest(cells, {name: amount}, lambda cell: cell.capacity)
        for name, amount in listed.items()
        if name not in memory
    }
    if memory:
        spans.add(_fewest(cells, memory, lambda cell: cell.allocatable))
    return spans.pop() if len(spans) == 1 else 1 if not spans else 0


def _fewest(
    cells: Sequence[Cell], wanted: Amounts, offer: Callable[[Cell], Mapping[str, int]]
) -> int:
    """The smallest number of cells that have enough of everything together; 0: all have not.

    With several kinds of memory the largest cells may differ; then the most demanding counts,
    which is never too many.
    """
    fewest = 0
    for name, amount in wanted.items():
        sizes = sorted((offer(cell).get(name, 0) for cell in cells), reverse=True)
        total = needed = 0
        while total < amount and needed < len(sizes):
            total += sizes[needed]
            needed += 1
        if total < amount:
            return 0
        fewest = max(fewest, needed)
    return fewest
