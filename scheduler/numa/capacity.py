"""The capacity of one node's cells: what its object says, less the pods it does not count yet."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from scheduler.model.pinning import Need, Role, is_memory
from scheduler.model.resources import CPU, Amounts
from scheduler.numa.admission import (
    AdmissionCheck,
    AdmissionSearch,
    AdmissionStep,
    Arrangement,
    CellBounds,
    ChargedPod,
    PodAdmission,
)
from scheduler.numa.cells import NodeCells
from scheduler.numa.node_pods import HeldAmounts, Vector
from scheduler.numa.topology import Cell, ManagerPolicy, Topology

Needs = tuple[Need, ...]
CellLists = list[list[int]]
"""Amounts by resource and then by cell."""

MAX_KEPT_ANSWERS = 64
"""How many answers are kept until something changes."""

_NOTHING: frozenset[str] = frozenset()


class TopologyVectors:
    """The object in use in the form of vectors: what does not change with every pod."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        cells = topology.cells
        self.names = list(dict.fromkeys(name for cell in cells for name in cell.available))
        self.search = AdmissionSearch([not is_memory(name) for name in self.names])
        self.available = [self.vector(cell.available) for cell in cells]
        self.allocatable = [self.vector(cell.allocatable) for cell in cells]
        self.by_resource = _by_resource(self.available, len(self.names))

    def less(self, held: Iterable[tuple[int, HeldAmounts]]) -> TopologyVectors:
        """The same, with amounts taken from cells that pods hold and the object does not count."""
        vectors = copy.copy(self)
        vectors.available = list(self.available)
        for cell, amounts in held:
            left = map(int.__sub__, vectors.available[cell], self.vector(dict(amounts)))
            vectors.available[cell] = tuple(max(0, amount) for amount in left)
        vectors.by_resource = _by_resource(vectors.available, len(self.names))
        return vectors

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Amounts of this node's resources, in their order."""
        return tuple(amounts.get(name, 0) for name in self.names)

    def used(self) -> list[Vector]:
        """What pods hold of each cell, as the object counts it."""
        pairs = zip(self.allocatable, self.available, strict=True)
        return [tuple(map(int.__sub__, all_, left)) for all_, left in pairs]


class Charge(msgspec.Struct, frozen=True):
    """A pod that holds, or will hold, something in cells that are not known."""

    needs: Needs
    arrived: bool
    """The kubelet has admitted it: its cells may be unknown, but it is certainly there."""


class NodeCapacityView:
    """The capacity of a node at one moment. Built anew whenever the ledger changes."""

    def __init__(
        self,
        vectors: TopologyVectors,
        charges: Iterable[Charge] = (),
        released: Mapping[str, int] | None = None,
        confirmed: Sequence[HeldAmounts] = (),
        *,
        unpinned: frozenset[str] = _NOTHING,
        grouped: bool = False,
        limit: NodeCapacityView | None = None,
    ) -> None:
        """``released`` pods held so much in unknown cells. ``confirmed`` is what each pod holds
        that the object counts, and would release if it were removed.

        ``unpinned`` resources are not charged, since the kubelet does not pin them. ``grouped``:
        some pod's memory may span several cells, which other pods then cannot use. ``limit`` is
        another view of the same cells that must admit a pod as well.
        """
        self._vectors = vectors
        self._grouped = grouped
        self._limit = limit
        self._released = released or {}
        self._confirmed = confirmed
        self._charged: list[ChargedPod] = [
            (steps, charge.arrived)
            for charge in charges
            if (steps := self._steps(charge.needs, unpinned))
        ]
        self._answers: dict[Needs, bool] = {}

    @property
    def unconfirmed(self) -> bool:
        """Whether there are charges, so that the amounts in columns are only bounds."""
        limited = self._limit is not None and self._limit.unconfirmed
        return bool(self._charged) or self._grouped or limited

    # Will a pod be admitted?

    def admits(self, needs: Needs) -> bool:
        """Whether a pod is certain to be admitted, and endangers none of those on their way."""
        answer = self._answers.get(needs)
        if answer is None:
            if len(self._answers) >= MAX_KEPT_ANSWERS:
                self._answers.clear()
            answer = self._answers[needs] = self._admits(needs) and (
                self._limit is None or self._limit.admits(needs)
            )
        return answer

    def _admits(self, needs: Needs) -> bool:
        if CPU not in self._vectors.names and any(CPU in dict(need.amounts) for need in needs):
            return False
        steps = self._steps(needs, _NOTHING)
        if not all(step.span for step in steps):
            return False
        several = len(needs) > 1 or any(need.role is Role.POD for need in needs)
        if self._spreads_memory(steps) and (several or self._memory_in_use()):
            return False
        return self._check.admits(steps)

    def _spreads_memory(self, steps: PodAdmission) -> bool:
        """Whether memory goes to a group of cells.

        The memory manager proposes cells for a group that other containers use as single cells,
        those of the same pod included, and then refuses them. So a group is only certain where no
        memory is in use, and for one container.
        """
        return any(step.span > 1 and any(step.amounts[i] for i in self._memory) for step in steps)

    def _memory_in_use(self) -> bool:
        held = self._vectors.used()
        held += [step.amounts for charged, _ in self._charged for step in charged]
        return any(amounts[i] for amounts in held for i in self._memory)

    @cached_property
    def _memory(self) -> list[int]:
        return [i for i, name in enumerate(self._vectors.names) if is_memory(name)]

    @cached_property
    def _check(self) -> AdmissionCheck:
        vectors = self._vectors
        return AdmissionCheck(
            vectors.search,
            self._ungrouped() if self._grouped else self._bounds,
            vectors.used(),
            self._charged,
            (vectors.vector(dict(held)) for held in self._confirmed),
            exact=not self._charged and not self._released,
        )

    @cached_property
    def _bounds(self) -> Arrangement:
        vectors = self._vectors
        if not self._released:
            return tuple(CellBounds(sure, sure) for sure in vectors.available)
        back = vectors.vector(self._released)
        return tuple(
            CellBounds(sure, tuple(map(max, sure, map(min, map(int.__add__, sure, back), most))))
            for sure, most in zip(vectors.available, vectors.allocatable, strict=True)
        )

    def _ungrouped(self) -> Arrangement:
        """Only cells whose memory is unused: objects do not show groups, but groups use memory."""
        vectors = self._vectors
        none: Vector = (-1,) * len(vectors.names)
        return tuple(
            CellBounds(none, cell.most)
            if any(cell.sure[i] < most[i] for i in self._memory)
            else cell
            for most, cell in zip(vectors.allocatable, self._bounds, strict=True)
        )

    def _steps(self, needs: Needs, skipped: frozenset[str]) -> PodAdmission:
        """The admission of a pod, as far as it concerns resources that cells list."""
        steps = []
        for need in needs:
            wanted = {name: amount for name, amount in need.amounts if name not in skipped}
            amounts = self._vectors.vector(wanted)
            if any(amounts):
                steps.append(AdmissionStep(amounts, need.role is Role.INIT, self._span(need)))
        return tuple(steps)

    def _span(self, need: Need) -> int:
        topology = self._vectors.topology
        single = topology.policy is not ManagerPolicy.RESTRICTED
        return 1 if single else span_of(need.amounts, topology)

    # For columns

    def cells(self) -> NodeCells:
        """The bounds by which many nodes are filtered at once."""
        cells = self._own_cells()
        return cells if self._limit is None else _worse(cells, self._limit.cells())

    def _own_cells(self) -> NodeCells:
        amounts = self._vectors.by_resource
        if not self.unconfirmed:
            return self._node_cells(amounts, amounts, amounts, amounts)
        free, sure, worst = (list(map(list, amounts)) for _ in range(3))
        cells = range(len(self._vectors.available))
        tied = self._grouped
        for steps, arrived in self._charged:
            tied |= not arrived and len(steps) > 1 and any(step.reusable for step in steps)
            for step in steps:
                wanted = [(i, amount) for i, amount in enumerate(step.amounts) if amount]
                possible = [c for c in cells if step.span != 1 or self._could(c, wanted)]
                if len(possible) == 1 and step.span == 1:
                    _take(free, possible, wanted)
                _take(sure, possible or cells, wanted)
                _take(worst, cells, wanted)
        if tied:
            # An init container may be put where no room is left for the rest, or a cell be grouped.
            worst = [[0] * len(cells) for _ in amounts]
        return self._node_cells(free, sure, _expected(sure), worst)

    def _node_cells(
        self, free: CellLists, sure: CellLists, expected: CellLists, worst: CellLists
    ) -> NodeCells:
        names = self._vectors.names
        return NodeCells(
            self._vectors.topology,
            dict(zip(names, free, strict=True)),
            dict(zip(names, sure, strict=True)),
            dict(zip(names, expected, strict=True)),
            dict(zip(names, worst, strict=True)),
            self.unconfirmed,
        )

    def _could(self, cell: int, wanted: Sequence[tuple[int, int]]) -> bool:
        most = self._bounds[cell].most
        return all(most[i] >= amount for i, amount in wanted)


def _worse(one: NodeCells, other: NodeCells) -> NodeCells:
    """The smaller of two amounts, cell by cell; both list the same resources."""

    def least(
        some: Mapping[str, Sequence[int]], others: Mapping[str, Sequence[int]]
    ) -> dict[str, list[int]]:
        return {name: list(map(min, amounts, others[name])) for name, amounts in some.items()}

    return NodeCells(
        one.topology,
        least(one.free, other.free),
        least(one.sure, other.sure),
        least(one.expected, other.expected),
        least(one.worst, other.worst),
        one.unconfirmed or other.unconfirmed,
    )


def _by_resource(cells: Sequence[Vector], resources: int) -> CellLists:
    return [[cell[i] for cell in cells] for i in range(resources)]


def _take(columns: CellLists, cells: Iterable[int], wanted: Sequence[tuple[int, int]]) -> None:
    for i, amount in wanted:
        column = columns[i]
        for c in cells:
            column[c] -= amount


def _expected(sure: CellLists) -> CellLists:
    """What scores see of an unconfirmed node: half of what is sure to be free.

    Every further pod makes the node less certain, so nodes that are known exactly come first.
    """
    return [[max(0, amount) // 2 for amount in column] for column in sure]


def span_of(amounts: Iterable[tuple[str, int]], topology: Topology) -> int:
    """Over how many cells ``restricted`` spreads a request; 0: the kubelet always refuses it.

    That is the smallest number of cells that could hold the request if they were empty, and must be
    the same for every resource. It counts all CPUs and devices, and allocatable memory.
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
    """The smallest number of cells that have enough together; 0: all cells have too little.

    With several kinds of memory the largest cells may differ; then the kind that needs the most
    cells counts, which is never too many.
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
