"""NodeResourceTopologyMatch: only nodes whose kubelet will take the pod, and the best of them.

A kubelet refuses a pod that its Topology Manager cannot align (``TopologyAffinityError``), and such
a pod is dead. So this plugin asks what the kubelet will ask, of what is known of the node's NUMA
cells: as last published, or, with the reserve cache, as it must be at the very least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from scheduler.config.plugin_args import (
    NodeResourceTopologyMatchArgs,
    TopologyCacheArgs,
    TopologyScoringStrategy,
)
from scheduler.equivalence.reads import Key, Reads
from scheduler.framework.cycle import Cycle
from scheduler.framework.interface import MAX_SCORE, Handle
from scheduler.model.events import Action, Event, Hint
from scheduler.model.pinning import Need, Pinning
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, unresolvable, unschedulable
from scheduler.numa import fewest_cells, fitting, wording
from scheduler.numa.board import Board, Published
from scheduler.numa.cells import Kind, View
from scheduler.numa.fingerprint import ALL, WITH_EXCLUSIVE_RESOURCES
from scheduler.numa.fitting import hosts_one
from scheduler.numa.in_transit import InTransit
from scheduler.numa.reserve import KIND, ReserveCache, ReserveSettings
from scheduler.numa.scoring import CellScorer, Requests, requests_of
from scheduler.numa.topology import Policy
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Mask, Rows, Scores, where

NAME = "NodeResourceTopologyMatch"
_FEWEST = "LeastNUMANodes"

# Plain numbers: looking members of an enumeration up takes longer than all else on one row.
_UNKNOWN, _LENIENT, _WITHDRAWN = int(Kind.UNKNOWN), int(Kind.LENIENT), int(Kind.WITHDRAWN)
_SINGLE_CONTAINERS, _SINGLE_PODS = int(Kind.SINGLE_CONTAINERS), int(Kind.SINGLE_PODS)
_RESTRICTED, _RESTRICTED_PODS = int(Kind.RESTRICTED_CONTAINERS), int(Kind.RESTRICTED_PODS)
_ALL_KINDS = tuple(map(int, Kind))

_boards: WeakKeyDictionary[ClusterState, dict[ReserveSettings | None, Board]] = WeakKeyDictionary()
"""One set of books per cluster and settings, whatever number of profiles share them."""


class NodeResourceTopologyMatch:
    """Filters and scores by NUMA cells."""

    name = NAME
    observes = (KIND,)
    row_by_row = True
    absolute = True
    keeps_books = True
    filter_reads: Reads | None = Reads(rows=frozenset({Aspect.TOPOLOGY}))
    score_reads = Reads(rows=frozenset({Aspect.TOPOLOGY}))

    def __init__(self, args: NodeResourceTopologyMatchArgs | None, handle: Handle) -> None:
        args = args or NodeResourceTopologyMatchArgs()
        strategy = args.scoring_strategy or TopologyScoringStrategy("LeastAllocated")
        weights = {each.name: max(1, each.weight) for each in strategy.resources}
        self._scorer = None if strategy.type == _FEWEST else CellScorer(strategy.type, weights)
        self._state = handle.state
        self.board = _board(args, handle)
        if args.compare_after_rejections > 1:
            # Rejections are counted, so each pod has to be judged, however many equal ones wait.
            self.filter_reads = None
        self._transit = InTransit(handle) if args.discard_reserved_nodes else None
        self._missing: dict[int, Status] = {}
        """Verdicts on nodes of whose cells nothing is known, by kind."""
        if args.missing_topology == "Reject":
            self._missing[_UNKNOWN] = unresolvable(wording.MISSING).by(NAME)
        if args.missing_topology != "Pass":
            self._missing[_WITHDRAWN] = unresolvable(wording.WITHDRAWN).by(NAME)

    # Filter

    def filter_key(self, pod: PodInfo) -> Key:
        """What must be aligned; for most pods that is nothing."""
        pinning = pod.pinning
        return pinning if pinning.pins or pinning.fault else None

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes whose kubelet would refuse the pod, or might."""
        pinning, statuses = cycle.pod.pinning, self._state.statuses
        codes: Codes = np.zeros(len(rows), np.int32)
        if pinning.fault:
            codes[:] = statuses.code(unresolvable(pinning.fault).by(NAME))
        if not pinning.pins:
            return codes
        cells = self.board.cells
        cells.follow(rows)
        for kind, among in _by_kind(cells.kind[where(rows)]):
            if kind in self._missing:
                codes[among] = statuses.code(self._missing[kind])
            needs = _needs(pinning, kind)
            if needs:
                codes[among] = self._judge(rows[among], needs)
        if self._transit is not None:
            codes[self._transit.reserved(rows)] = statuses.code(_RESERVED)
        return codes

    def filter_one(self, cycle: Cycle, row: int) -> int:
        """The same for one row; only the plain case is short, which is nearly all there is."""
        pinning, board = cycle.pod.pinning, self.board
        if not pinning.pins and not pinning.fault:
            return 0
        view = board.cells.view_of(row)
        if view is not None and self._transit is None and self._fits_one(view, row, pinning):
            board.judged_one(row, True)
            return 0
        return int(self.filter(cycle, np.array([row], np.intp))[0])

    def _fits_one(self, view: View, row: int, pinning: Pinning) -> bool:
        """Whether one node will do; False also if that takes a closer look."""
        kind = int(self.board.cells.kind[row])
        needs = _needs(pinning, kind)
        if len(needs) != 1 or kind >= _RESTRICTED or not hosts_one(view, needs[0], view.free):
            return not needs
        if not view.unsettled or hosts_one(view, needs[0], view.together):
            return True
        outlook = self.board.outlook(self._state.name(row))
        return outlook is not None and outlook.accepts(needs)

    def accepts(self, pod: PodInfo, rows: Rows) -> Mask:
        """Where ``filter`` would accept the pod, after comparing what there is to compare."""
        accepted = np.ones(len(rows), np.bool_)
        pinning = pod.pinning
        if self.filter_reads is None or not pinning.pins:
            return accepted  # a look must not count as a rejection
        cells = self.board.cells
        cells.follow(rows)
        for kind, among in _by_kind(cells.kind[where(rows)]):
            if kind in self._missing:
                accepted[among] = False
            needs = _needs(pinning, kind)
            if needs:
                accepted[among] = self._fits_compared(rows[among], needs)
        if self._transit is not None:
            accepted &= ~self._transit.reserved(rows)
        return accepted

    def _fits_compared(self, rows: Rows, needs: tuple[Need, ...]) -> Mask:
        """Where the pod fits; nodes that reject it are compared with their objects before."""
        fit = self._fits(rows, needs)
        better = self.board.judged(rows, fit)
        if better:
            again = np.isin(rows, better)
            fit[again] = self._fits(rows[again], needs)
        return fit

    def _judge(self, rows: Rows, needs: tuple[Need, ...]) -> Codes:
        fit = self._fits_compared(rows, needs)
        codes: Codes = np.zeros(len(rows), np.int32)
        failed = np.flatnonzero(~fit)
        if len(failed):
            table, cells = self._state.statuses, self.board.cells
            codes[failed] = wording.verdicts(NAME, table, cells, rows[failed], needs)
        return codes

    def _fits(self, rows: Rows, needs: tuple[Need, ...]) -> Mask:
        """Bounds that columns can tell; where they leave room for doubt, a look at the node."""
        cells = self.board.cells
        if self.board.reserves:
            fit = fitting.may_fit(cells, rows, needs)
            doubtful = fit & cells.unsettled[where(rows)] if len(needs) == 1 else fit.copy()
            if doubtful.any():
                doubtful[doubtful] = ~fitting.must_fit(cells, rows[doubtful], needs)
        else:
            fit = fitting.fits(cells, rows, needs)
            doubtful = np.zeros(len(rows), np.bool_)
        restricted = cells.kind[where(rows)] >= _RESTRICTED
        if restricted.any():
            doubtful |= restricted & ~fitting.narrow(cells, rows, needs)
        for i in np.flatnonzero(doubtful).tolist():
            outlook = self.board.outlook(self._state.name(int(rows[i])))
            fit[i] = outlook is not None and outlook.accepts(needs)
        return fit

    # Score

    def score_key(self, pod: PodInfo) -> Key:
        """What is requested; pods that are not Guaranteed are all the same."""
        return self._requests(pod.pinning, pod) or ""

    @staticmethod
    def _requests(pinning: Pinning, pod: PodInfo) -> Requests | None:
        if not pinning.guaranteed or pod.faults:
            return None
        return requests_of(pod)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """How well the pod would sit in the worst cell, or how few cells it would need."""
        requests = self._requests(cycle.pod.pinning, cycle.pod)
        if requests is None:
            return np.full(len(rows), MAX_SCORE, np.int64)
        cells = self.board.cells
        cells.follow(rows)
        at = where(rows)
        kinds = cells.kind[at]
        scored = kinds > _UNKNOWN
        if self._scorer is not None:
            scored = (kinds == _SINGLE_CONTAINERS) | (kinds == _SINGLE_PODS)
        scores: Scores = np.zeros(len(rows), np.int64)
        score = fewest_cells.score if self._scorer is None else self._scorer.score
        whole_pods = cells.whole_pods[at]
        for whole_pod in (False, True):
            among = scored & (whole_pods == whole_pod)
            if among.all():
                return score(cells, rows, requests, whole_pod=whole_pod)
            if among.any():
                scores[among] = score(cells, rows[among], requests, whole_pod=whole_pod)
        return scores

    def score_one(self, cycle: Cycle, row: int) -> int:
        """The same for one row."""
        view = self.board.cells.view_of(row)
        requests = self._requests(cycle.pod.pinning, cycle.pod)
        if self._scorer is None or requests is None or view is None:
            return int(self.score(cycle, np.array([row], np.intp))[0])
        if view.topology.policy is not Policy.SINGLE:
            return 0
        return self._scorer.score_one(view, requests)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Scores lie within 0..100 already."""
        return scores

    # Waking

    def hints(self) -> Sequence[HintRegistration]:
        """A node can be counted on for more, or there is another one."""
        return (
            HintRegistration(
                KIND,
                Action.ADD | Action.UPDATE | Action.DELETE,
                self._after_news,
                alike(self._after_news, lambda pod: pod.pinning),
            ),
            HintRegistration("Node", Action.ADD | Action.NODE_ALLOCATABLE),
        )

    def _after_news(self, pod: PodInfo, event: Event) -> Hint:
        node = self.board.improved(event.new)
        if node is None and self._transit is not None:
            node = self._transit.released(event.new)
        row = None if node is None else self._state.row(node)
        return Hint.QUEUE if row is not None and self._takes(row, pod.pinning) else Hint.SKIP

    def _takes(self, row: int, pinning: Pinning) -> bool:
        """Whether a node will do now, as far as its cells are concerned."""
        rows, cells = np.array([row], np.intp), self.board.cells
        cells.follow(rows)
        kind = int(cells.kind[row])
        if kind in (_UNKNOWN, _WITHDRAWN):
            return kind not in self._missing
        needs = _needs(pinning, kind)
        return not needs or bool(self._fits(rows, needs).all())


def _by_kind(kinds: NDArray[np.int8]) -> Iterator[tuple[int, Mask | slice]]:
    """The kinds of kubelets among some rows, and the rows of each."""
    first = int(kinds[0]) if len(kinds) else _UNKNOWN
    if (kinds == first).all():
        yield first, slice(None)
        return
    for kind in _ALL_KINDS:
        among = kinds == kind
        if among.any():
            yield kind, among


def _needs(pinning: Pinning, kind: int) -> tuple[Need, ...]:
    """What a kubelet of this kind aligns."""
    if kind in (_UNKNOWN, _LENIENT, _WITHDRAWN):
        return ()
    return pinning.needs(whole_pod=kind in (_SINGLE_PODS, _RESTRICTED_PODS))


_RESERVED = unschedulable(wording.RESERVED).by(NAME)


def _board(args: NodeResourceTopologyMatchArgs, handle: Handle) -> Board:
    """The books that these arguments ask for, shared with all who ask for the same."""
    boards = _boards.setdefault(handle.state, {})
    settings = _settings(args)
    board = boards.get(settings)
    if board is None:
        if settings is None:
            board = Published(handle.state)
        else:
            board = ReserveCache(handle.state, settings, handle.metrics, handle.tell, handle.clock)
        boards[settings] = board
    if isinstance(board, ReserveCache):
        board.profiles.add(handle.profile)
    return board


def _settings(args: NodeResourceTopologyMatchArgs) -> ReserveSettings | None:
    cache = args.cache or TopologyCacheArgs()
    off = args.cache_resync_period_seconds <= 0 or cache.mode == "Off"
    if off or args.discard_reserved_nodes:
        return None
    methods = {"All": ALL, "OnlyExclusiveResources": WITH_EXCLUSIVE_RESOURCES}
    return ReserveSettings(
        compare_after=args.compare_after_rejections,
        method=methods.get(cache.resync_method),
        charge_foreign=cache.foreign_pods_detect != "None",
        rebuild=cache.resync_scope != "OnlyResources",
        grace=args.missing_topology_grace_seconds,
    )
