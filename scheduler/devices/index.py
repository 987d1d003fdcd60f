"""The index of devices: slices, classes and claims in, verdicts and allocations per node out.

Nodes are rows, as everywhere. An event touches the pools it concerns; what nodes see of them is
made again when somebody asks. Whether claims fit on a node depends on what the demand can tell
apart among its devices, in order, and on their states: that is the key of an answer. Nodes with
equal keys share it, so 5,000 nodes with eight equal devices each cost one search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from scheduler.bounded import ENTRY_BYTES, MEBIBYTE, Usage
from scheduler.devices.best_fit import LOCALITY, BestFit
from scheduler.devices.board import Board
from scheduler.devices.budget import MOST_WORK
from scheduler.devices.demand import Demand, compile_demand, demand_key
from scheduler.devices.faults import DeviceError, DeviceFault
from scheduler.devices.grouping import DevicePattern, RowPatterns
from scheduler.devices.inventory import Inventory, Touched
from scheduler.devices.pools import PoolKey
from scheduler.devices.results import allocations
from scheduler.devices.search import DeviceSearch, SearchOutcome
from scheduler.devices.segments import NodeSegment
from scheduler.devices.selectors import SelectorTable
from scheduler.devices.shapes import Read, ShapeTable
from scheduler.model.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from scheduler.model.nodes import Node
from scheduler.slices import checkpoint, whole_slice

_AFTER_ONE = 64
"""The part of the work that is spent per node once the search on another was given up."""

_FEW = 16
"""So few rows are answered one by one."""

_ONE_ROW: NDArray[np.int32] = np.zeros(1, dtype=np.int32)

_MANY_ANSWERS = 65536
ANSWER_BYTES = 64 * MEBIBYTE
"""Of the answers of all demands."""
_MANY_DEMANDS = 4096

NOTHING_FITS = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
"""Why a node is refused, in upstream's words."""


class DeviceSelection(Enum):
    """Which of the devices that a claim may have it gets."""

    FIRST_FIT = "FirstFit"
    """The first ones, as kube-scheduler does."""
    BEST_FIT = "BestFit"
    """Those that leave the least stranded."""


@dataclass(eq=False, slots=True)
class Judgement:
    """What a demand finds on some rows."""

    outcomes: list[SearchOutcome]
    """The distinct outcomes."""
    codes: NDArray[np.int32]
    """Per row the number of its outcome."""

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Per row whether all claims get their devices."""
        return np.array([each.fits for each in self.outcomes], dtype=bool)[self.codes]

    @property
    def scores(self) -> NDArray[np.int64]:
        """Per row what the chosen alternatives are worth."""
        return np.array([each.score for each in self.outcomes], dtype=np.int64)[self.codes]

    @property
    def fit_scores(self) -> NDArray[np.int64]:
        """Per row how little the devices would leave stranded, 0 to 100 (best fit only)."""
        return np.array([each.fit for each in self.outcomes], dtype=np.int64)[self.codes]


@dataclass(eq=False, slots=True)
class _Kept:
    """A demand with the answers it has got."""

    demand: Demand
    selection: DeviceSelection
    most_work: int
    generation: int
    answers: dict[object, SearchOutcome] = field(default_factory=dict)
    patterns: RowPatterns | None = None
    by_pattern: dict[int, SearchOutcome] = field(default_factory=dict)
    """The answers again, by number of a pattern."""


class DeviceIndex:
    """Everything known about devices."""

    def __init__(self, most_work: int = MOST_WORK, locality: tuple[str, ...] = LOCALITY) -> None:
        self._most_work = most_work
        self._locality = locality
        self.inventory = Inventory()
        self.selectors = SelectorTable()
        self._classes: dict[str, DeviceClass] = {}
        self._class_changes = 0
        self._demands: dict[tuple[bytes, DeviceSelection, int], _Kept] = {}
        self._patterns: dict[frozenset[Read] | None, RowPatterns] = {}
        self._answer_bytes = 0
        self._evictions = 0
        self.searches = 0

    # --- Events -------------------------------------------------------------------------------

    def set_node(self, row: int, node: Node | None) -> None:
        """A row belongs to a node from now on; None: to none."""
        self.inventory.set_node(row, node)

    def set_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> Touched:
        """A slice is published, changed or withdrawn."""
        return self.inventory.set_slice(old, new)

    def set_claim(self, key: str, allocation: AllocationResult | None) -> Touched:
        """What a claim holds: watched, assumed or in flight; None if it holds nothing."""
        return self.inventory.set_claim(key, allocation)

    def rename_claim(self, key: str, other: str) -> None:
        """What a claim holds is counted for another key, which holds nothing yet. O(1)."""
        self.inventory.rename_claim(key, other)

    def set_class(self, name: str, new: DeviceClass | None) -> None:
        """A class is there, is different, or is gone: demands that name it are compiled again."""
        self.inventory.version += 1
        self._class_changes += 1
        if new is None:
            self._classes.pop(name, None)
        else:
            self._classes[name] = new
        stale = [key for key, each in self._demands.items() if name in each.demand.class_names]
        for key in stale:
            del self._demands[key]

    # --- Demands ------------------------------------------------------------------------------

    def demand(self, claims: Sequence[ResourceClaim]) -> Demand:
        """The demand of claims that have no devices yet, in the order of the pod."""
        return self._kept(claims, DeviceSelection.FIRST_FIT).demand

    def _kept(
        self,
        claims: Sequence[ResourceClaim],
        selection: DeviceSelection,
        most_work: int | None = None,
        key: bytes | None = None,
    ) -> _Kept:
        work = self._most_work if most_work is None else most_work
        place = (demand_key(claims) if key is None else key, selection, work)
        kept = self._demands.get(place)
        if kept is None or kept.generation != self.inventory.shapes.generation:
            if len(self._demands) >= _MANY_DEMANDS:
                self._demands.clear()
            near = self._locality if selection is DeviceSelection.BEST_FIT else ()
            changes = self._class_changes
            demand = compile_demand(claims, self._classes, self.selectors, near)
            kept = _Kept(demand, selection, work, self.inventory.shapes.generation)
            if changes == self._class_changes:  # else at a checkpoint: it has the class before
                self._demands[place] = kept
        return kept

    def shapes_of(self, pools: Iterable[PoolKey]) -> NDArray[np.intp]:
        """The numbers of the shapes of all devices of some pools, of whichever generation."""
        return np.array(sorted(self.inventory.shapes_of(pools)), np.intp)

    def touches(
        self, claims: Sequence[ResourceClaim], key: bytes, shapes: NDArray[np.intp]
    ) -> bool:
        """Whether some request selects a device of some shapes, or asks for all there are.

        ``key`` is that of the claims (`demand_key`): to make it takes longer than all the rest.
        """
        demand = self._kept(claims, DeviceSelection.FIRST_FIT, key=key).demand
        if any(ask.every for ask in demand.asks):
            return True
        facet = self.inventory.shapes.facet(demand.reads)
        classes = np.asarray(demand.classes_of(facet) or (0,), dtype=np.int64)
        return bool(classes[facet.numbers[shapes]].any())

    # --- Verdicts -----------------------------------------------------------------------------

    def judge(
        self,
        claims: Sequence[ResourceClaim],
        rows: Sequence[int] | NDArray[np.intp],
        selection: DeviceSelection = DeviceSelection.FIRST_FIT,
        most_work: int | None = None,
    ) -> Judgement:
        """What the claims find on some rows. Pauses at checkpoints; answers hold for their keys.

        ``most_work`` bounds the search on one node; None: as the index was made.
        """
        where = np.asarray(rows, dtype=np.intp)
        if len(where) == 1:
            outcome = self.judge_one(claims, where.item(), selection, most_work)
            return Judgement([outcome], _ONE_ROW)
        while True:
            if len(where) > _FEW:
                whole_slice()  # comparing all rows is one piece
            self._make_room()
            version = self.inventory.version
            kept = self._kept(claims, selection, most_work)
            patterns = self._patterns_of(kept.demand)
            kept.demand.classes_of(patterns.facet)
            if not self.inventory.look(where) or version != self.inventory.version:
                continue
            numbers = patterns.of(where)
            found, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
            rows_of = list(zip(found.tolist(), where[first].tolist(), strict=True))
            outcomes = self._answers(kept, patterns, rows_of, version)
            if outcomes is not None:
                return Judgement(outcomes, inverse.astype(np.int32))

    def judge_one(
        self,
        claims: Sequence[ResourceClaim],
        row: int,
        selection: DeviceSelection = DeviceSelection.FIRST_FIT,
        most_work: int | None = None,
    ) -> SearchOutcome:
        """The same for one row."""
        return self._judged_one(claims, row, selection, most_work)[1]

    def _judged_one(
        self,
        claims: Sequence[ResourceClaim],
        row: int,
        selection: DeviceSelection,
        most_work: int | None,
    ) -> tuple[Demand, SearchOutcome]:
        """Without arrays, which take several times as long for one row."""
        inventory = self.inventory
        while True:
            self._make_room()
            version = inventory.version
            kept = self._kept(claims, selection, most_work)
            patterns = self._patterns_of(kept.demand)
            kept.demand.classes_of(patterns.facet)
            if not inventory.look_at(row) or version != inventory.version:
                continue
            outcomes = self._answers(kept, patterns, ((patterns.of_one(row), row),), version)
            if outcomes is not None:
                return kept.demand, outcomes[0]

    def _make_room(self) -> None:
        """Forget what was once, if that is most of what is kept."""
        if self.inventory.renumber():
            self._patterns.clear()
        if self._answer_bytes > ANSWER_BYTES:
            self._evictions += sum(len(each.answers) for each in self._demands.values())
            self._demands.clear()
            self._answer_bytes = 0

    def usage(self) -> dict[str, Usage]:
        """How much is kept; may be called from another thread."""
        demands, patterns = list(self._demands.values()), list(self._patterns.values())
        answers = sum(len(each.answers) for each in demands)
        numbers = self.inventory.arena.numbers
        return {
            "device_answers": Usage(answers, self._answer_bytes, self._evictions),
            "device_selector_verdicts": self.selectors.usage(),
            "device_row_patterns": Usage(
                sum(len(each.patterns) for each in patterns), sum(each.bytes for each in patterns)
            ),
            "device_states": Usage(numbers, 2 * ENTRY_BYTES * numbers),
        }

    def _patterns_of(self, demand: Demand) -> RowPatterns:
        facet = self.inventory.shapes.facet(demand.reads)
        patterns = self._patterns.get(demand.reads)
        if patterns is None or patterns.facet is not facet or patterns.full:
            if len(self._patterns) >= ShapeTable.MANY_FACETS:
                self._patterns.clear()
            patterns = self._patterns[demand.reads] = RowPatterns(facet, self.inventory)
        return patterns

    def _answers(
        self,
        kept: _Kept,
        patterns: RowPatterns,
        rows_of: Iterable[tuple[int, int]],
        version: int,
    ) -> list[SearchOutcome] | None:
        """The outcomes of patterns; None if anything changed while some were searched for."""
        if kept.patterns is not patterns or len(kept.answers) > _MANY_ANSWERS:
            kept.patterns, kept.by_pattern = patterns, {}
            kept.answers.clear()
        outcomes = []
        work = kept.most_work
        for number, row in rows_of:
            outcome = kept.by_pattern.get(number)
            if outcome is None:
                key = self._key(kept.demand, patterns, patterns.patterns[number])
                outcome = kept.answers.get(key)
                if outcome is None:
                    outcome = kept.answers[key] = self._search(kept, row, work)
                    # What is dropped otherwise is not subtracted: at worst all go too early.
                    self._answer_bytes += 3 * ENTRY_BYTES + 2 * len(key[2])
                    checkpoint()
                    if version != self.inventory.version:
                        return None
                kept.by_pattern[number] = outcome
            if outcome.fault is not None and outcome.fault.unproven:
                work = kept.most_work // _AFTER_ONE  # the attempt fails anyway
            outcomes.append(outcome)
        return outcomes

    def _key(
        self, demand: Demand, patterns: RowPatterns, pattern: DevicePattern
    ) -> tuple[int, int, bytes, bytes]:
        """What decides about a pattern: the demand tells less apart than the facet does.

        The state of what no request selects does not matter.
        """
        classes = np.asarray(demand.classes_of(patterns.facet) or (0,), dtype=np.int64)
        of_devices = classes[pattern.values]
        states = np.where(of_devices == 0, 0, pattern.states)
        left = pattern.left if demand.uses_counters else -1
        return pattern.layout, left, of_devices.tobytes(), states.tobytes()

    def _search(self, kept: _Kept, row: int, most_work: int) -> SearchOutcome:
        self.searches += 1
        demand = kept.demand
        board = self.board(demand, self.inventory.segment(row))
        outcome = DeviceSearch(demand, board, most_work=most_work).run()
        if kept.selection is DeviceSelection.FIRST_FIT or outcome.picks is None:
            return outcome
        # The verdict is kube-scheduler's; the devices are those of the better order, if it ends.
        best = BestFit(board)
        better = DeviceSearch(demand, board, best.order, most_work).run()
        picks = outcome.picks if better.picks is None else better.picks
        score = outcome.score if better.picks is None else better.score
        return replace(outcome, picks=picks, score=score, fit=best.score(picks))

    def board(self, demand: Demand, segment: NodeSegment) -> Board:
        """A copy of what a search reads of a segment."""
        arena = self.inventory.arena
        here = slice(segment.start, segment.stop)
        facet = self.inventory.shapes.facet(demand.reads)
        of_value = demand.classes_of(facet)
        classes = [of_value[value] for value in facet.numbers[arena.shape[here]].tolist()]
        states = arena.state[here].tolist()
        views = []
        for number, view in enumerate(segment.views):
            views.extend([number] * len(view.devices))
        return Board(
            classes=[demand.classes[number] for number in classes],
            states=[arena.states.states[number] for number in states],
            views=views,
            statuses=[view.status for view in segment.views],
            available=[dict(view.available) for view in segment.views],
            totals=[view.counters for view in segment.views],
        )

    def reason(self, outcome: SearchOutcome, claims: Sequence[ResourceClaim], row: int) -> str:
        """Why a node is refused, or what went wrong on it."""
        if outcome.fault is not None:
            return self._text(outcome.fault, claims, row)
        return INVALID_POOLS if outcome.invalid else NOTHING_FITS

    def _text(self, fault: DeviceFault, claims: Sequence[ResourceClaim], row: int) -> str:
        return fault.text(claims, self.inventory.segment(row), self.inventory.node_name(row))

    # --- Allocations --------------------------------------------------------------------------

    def allocate(
        self,
        claims: Sequence[ResourceClaim],
        row: int,
        selection: DeviceSelection = DeviceSelection.FIRST_FIT,
        most_work: int | None = None,
    ) -> tuple[AllocationResult, ...] | None:
        """What each claim gets on a node; None if the node does not fit. Raises `DeviceError`."""
        demand, outcome = self._judged_one(claims, row, selection, most_work)
        if outcome.fault is not None:
            raise DeviceError(self._text(outcome.fault, claims, row))
        if outcome.picks is None:
            return None
        segment = self.inventory.segment(row)
        node = self.inventory.node_name(row)
        return allocations(demand, outcome.picks, claims, self._classes, segment, node)
