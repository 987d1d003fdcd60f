"""NodeResourceTopologyMatch: filters nodes whose kubelet would refuse the pod, and scores the rest.

A kubelet refuses a pod that its Topology Manager cannot align (``TopologyAffinityError``),
and the pod stays Failed. So this plugin checks what the kubelet will check, against the node's NUMA
cells: as last published or, with the reserve cache, as they are at least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.config.plugin_args import (
    NodeResourceTopologyMatchArgs,
    TopologyCacheArgs,
    TopologyScoringStrategy,
)
from scheduler.equivalence.reads import Key, Reads
from scheduler.equivalence.row_memo import UnseenRows
from scheduler.model.events import Action, Event, Hint
from scheduler.model.pinning import Need, Pinning
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, unresolvable, unschedulable
from scheduler.numa import filtering
from scheduler.numa.cell_cache import (
    KIND,
    CellCache,
    NodesBeingBound,
    PublishedCells,
    ReserveCache,
    ReserveSettings,
)
from scheduler.numa.cell_facts import Failure, facts_of, facts_of_cluster, failures_of
from scheduler.numa.cells import KubeletKind, NodeCells
from scheduler.numa.filtering import has_room
from scheduler.numa.fingerprint import ALL, WITH_EXCLUSIVE_RESOURCES
from scheduler.numa.scoring import CellScorer, Requests, least_numa_nodes, requests_of
from scheduler.numa.topology import ManagerPolicy
from scheduler.plugin_api import MAX_SCORE, Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact
from scheduler.plugin_api.traits import PluginTraits
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration
from scheduler.slices import checkpoint
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Mask, NodeColumns, Rows, Scores, where

NAME = "NodeResourceTopologyMatch"
_FEWEST = "LeastNUMANodes"
_LOOKED_AHEAD = Reads(rows=frozenset({Aspect.TOPOLOGY, Aspect.REQUESTED, Aspect.ALLOCATABLE}))
_LOOKED_AT = 64
"""How many nodes are looked at together, by columns, before each is asked."""

# Plain numbers: looking members of an enumeration up takes longer than all else on one row.
_UNKNOWN, _WITHDRAWN = int(KubeletKind.UNKNOWN), int(KubeletKind.WITHDRAWN)
_NOT_ENFORCED = int(KubeletKind.NOT_ENFORCED)
_SINGLE_CONTAINERS, _SINGLE_PODS = int(KubeletKind.SINGLE_CONTAINERS), int(KubeletKind.SINGLE_PODS)
_RESTRICTED = int(KubeletKind.RESTRICTED_CONTAINERS)
_RESTRICTED_PODS = int(KubeletKind.RESTRICTED_PODS)
_ALL_KINDS = tuple(map(int, KubeletKind))


class NodeResourceTopologyMatch:
    """Filters and scores by NUMA cells."""

    name = NAME
    observes = (KIND,)
    traits = PluginTraits(row_by_row=True, absolute=True, own_accounting=True)
    filter_reads: Reads | None = Reads(rows=frozenset({Aspect.TOPOLOGY}), claims=False)
    score_reads = Reads(rows=frozenset({Aspect.TOPOLOGY}), claims=False)

    def __init__(self, args: NodeResourceTopologyMatchArgs | None, handle: Handle) -> None:
        args = args or NodeResourceTopologyMatchArgs()
        strategy = args.scoring_strategy or TopologyScoringStrategy("LeastAllocated")
        weights = {each.name: max(1, each.weight) for each in strategy.resources}
        self._scorer = None if strategy.type == _FEWEST else CellScorer(strategy.type, weights)
        self._state = handle.state
        self.cache = _cell_cache(args, handle)
        if args.compare_after_rejections > 1:
            # Rejections are counted, so verdicts must not be reused for equal pods.
            self.filter_reads = None
        self._being_bound = _being_bound(handle) if args.discard_reserved_nodes else None
        self._not_asked = UnseenRows(handle.state, _LOOKED_AHEAD, questions=16)
        """The nodes to be asked about pods of several containers before their attempt."""
        self._missing: dict[int, Status] = {}
        """Verdicts on nodes whose cells are not known, by kind of kubelet."""
        if args.missing_topology == "Reject":
            self._missing[_UNKNOWN] = unresolvable(filtering.MISSING).by(NAME)
        if args.missing_topology != "Pass":
            self._missing[_WITHDRAWN] = unresolvable(filtering.WITHDRAWN).by(NAME)

    # Filter

    def look_ahead(self, pod: PodInfo) -> None:
        """Ask about a pod of several containers node by node, where it has room otherwise.

        Its containers may come into cells in many ways, and going through them may take a
        millisecond and more for one node. The node's view of its capacity keeps the answer.
        """
        pinning = pod.pinning
        several = pinning.pins and not pinning.fault and len(pinning.needs(whole_pod=False)) > 1
        if not several or not self.cache.charges_pods:
            return
        not_asked = self._not_asked.about(pinning)
        rows = sorted(not_asked)
        for first in range(0, len(rows), _LOOKED_AT):
            these = rows[first : first + _LOOKED_AT]
            not_asked.difference_update(these)
            some = np.array(these, np.intp)
            self._look_at(pod, some[self._state.columns.live[some]])
            checkpoint()

    def _look_at(self, pod: PodInfo, rows: Rows) -> None:
        rows = rows[_has_room_in_sums(pod, self._state.columns, rows)]
        if not len(rows):
            return
        cells = self.cache.cells
        cells.follow(rows)
        asked = []
        for kind, among in _by_kind(cells.kind[where(rows)]):
            needs = _needs(pod.pinning, kind)
            if len(needs) > 1:
                some = rows[among]
                _, doubtful = self._fits_in_columns(some, needs)
                asked += [(self._state.name(row), needs) for row in some[doubtful].tolist()]
        for node, needs in asked:
            checkpoint()
            if (view := self.cache.capacity_view(node)) is not None:
                view.admits(needs)

    def filter_key(self, pod: PodInfo) -> Key:
        """What the kubelet must align; nothing for most pods."""
        pinning = pod.pinning
        return pinning if pinning.pins or pinning.fault else None

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes whose kubelet would or might refuse the pod."""
        pinning, statuses = cycle.pod.pinning, self._state.statuses
        codes: Codes = np.zeros(len(rows), np.int32)
        if pinning.fault:
            codes[:] = statuses.code(unresolvable(pinning.fault).by(NAME))
        if not pinning.pins:
            return codes
        cells = self.cache.cells
        cells.follow(rows)
        for kind, among in _by_kind(cells.kind[where(rows)]):
            if kind in self._missing:
                codes[among] = statuses.code(self._missing[kind])
            needs = _needs(pinning, kind)
            if needs:
                codes[among] = self._verdicts(rows[among], needs)
        if self._being_bound is not None:
            codes[self._being_bound.reserved(rows)] = statuses.code(_RESERVED)
        return codes

    def filter_one(self, cycle: Cycle, row: int) -> int:
        """The same for one row, with a short path for pods of one container."""
        pinning, cache = cycle.pod.pinning, self.cache
        if not pinning.pins and not pinning.fault:
            return 0
        known = cache.cells.of_row(row)
        if known is not None and self._being_bound is None and self._fits_one(known, row, pinning):
            cache.record_verdict(row, True)
            return 0
        return int(self.filter(cycle, np.array([row], np.intp))[0])

    def _fits_one(self, known: NodeCells, row: int, pinning: Pinning) -> bool:
        """Whether one node certainly fits; False also if only ``filter`` can decide."""
        kind = int(self.cache.cells.kind[row])
        needs = _needs(pinning, kind)
        if len(needs) != 1 or kind >= _RESTRICTED or not has_room(known, needs[0], known.free):
            return not needs
        if not known.unconfirmed or has_room(known, needs[0], known.worst):
            return True
        view = self.cache.capacity_view(self._state.name(row))
        return view is not None and view.admits(needs)

    def accepts(self, pod: PodInfo, rows: Rows) -> Mask:
        """Where ``filter`` would accept the pod, dirty nodes being compared as there."""
        accepted = np.ones(len(rows), np.bool_)
        pinning = pod.pinning
        if self.filter_reads is None or not pinning.pins:
            return accepted  # this must not count as a rejection
        cells = self.cache.cells
        cells.follow(rows)
        for kind, among in _by_kind(cells.kind[where(rows)]):
            if kind in self._missing:
                accepted[among] = False
            needs = _needs(pinning, kind)
            if needs:
                accepted[among] = self._fits_after_comparing(rows[among], needs)
        if self._being_bound is not None:
            accepted &= ~self._being_bound.reserved(rows)
        return accepted

    def _fits_after_comparing(self, rows: Rows, needs: tuple[Need, ...]) -> Mask:
        """Where the pod fits, after rejecting nodes were compared with their newest objects."""
        fit = self._fits(rows, needs)
        better = self.cache.record_verdicts(rows, fit)
        if better:
            again = np.isin(rows, better)
            fit[again] = self._fits(rows[again], needs)
        return fit

    def _verdicts(self, rows: Rows, needs: tuple[Need, ...]) -> Codes:
        fit = self._fits_after_comparing(rows, needs)
        codes: Codes = np.zeros(len(rows), np.int32)
        failed = np.flatnonzero(~fit)
        if len(failed):
            table, cells = self._state.statuses, self.cache.cells
            codes[failed] = filtering.rejections(NAME, table, cells, rows[failed], needs)
        return codes

    def _fits(self, rows: Rows, needs: tuple[Need, ...]) -> Mask:
        """Where the pod fits: by the bounds in columns, and node by node where these differ."""
        fit, doubtful = self._fits_in_columns(rows, needs)
        for i in np.flatnonzero(doubtful).tolist():
            view = self.cache.capacity_view(self._state.name(int(rows[i])))
            fit[i] = view is not None and view.admits(needs)
        return fit

    def _fits_in_columns(self, rows: Rows, needs: tuple[Need, ...]) -> tuple[Mask, Mask]:
        """Where the pod fits by the bounds in columns, and where each node has to be asked."""
        cells = self.cache.cells
        if self.cache.charges_pods:
            fit = filtering.may_fit(cells, rows, needs)
            doubtful = fit & cells.unconfirmed[where(rows)] if len(needs) == 1 else fit.copy()
            if doubtful.any():
                doubtful[doubtful] = ~filtering.must_fit(cells, rows[doubtful], needs)
        else:
            fit = filtering.first_fit(cells, rows, needs)
            doubtful = np.zeros(len(rows), np.bool_)
        restricted = cells.kind[where(rows)] >= _RESTRICTED
        if restricted.any():
            doubtful |= restricted & ~filtering.fits_single_empty_cells(cells, rows, needs)
        return fit, doubtful

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Failure]:
        """What each row's cells have of what they lack."""
        cells = self.cache.cells
        cells.follow(rows)
        return failures_of(cells, cycle.pod.pinning, rows)

    def facts(self, pod: PodInfo, failure: Failure) -> Iterator[Fact]:
        """The same in words, cell by cell."""
        return facts_of(pod.pinning, failure)

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterator[Fact]:
        """What is free in the cell that has most."""
        return facts_of_cluster(self._state, self.cache.cells, cycle.pod.pinning, rows)

    # Score

    def score_key(self, pod: PodInfo) -> Key:
        """What is requested; all pods that are not Guaranteed share one key."""
        return self._requests(pod.pinning, pod) or ""

    @staticmethod
    def _requests(pinning: Pinning, pod: PodInfo) -> Requests | None:
        if not pinning.guaranteed or pod.faults:
            return None
        return requests_of(pod)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """By the strategy: allocation of the worst cell, or the number of cells needed."""
        requests = self._requests(cycle.pod.pinning, cycle.pod)
        if requests is None:
            return np.full(len(rows), MAX_SCORE, np.int64)
        cells = self.cache.cells
        cells.follow(rows)
        at = where(rows)
        kinds = cells.kind[at]
        scored = kinds > _UNKNOWN
        if self._scorer is not None:
            scored = (kinds == _SINGLE_CONTAINERS) | (kinds == _SINGLE_PODS)
        scores: Scores = np.zeros(len(rows), np.int64)
        score = least_numa_nodes if self._scorer is None else self._scorer.score
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
        known = self.cache.cells.of_row(row)
        requests = self._requests(cycle.pod.pinning, cycle.pod)
        if self._scorer is None or requests is None or known is None:
            return int(self.score(cycle, np.array([row], np.intp))[0])
        if known.topology.policy is not ManagerPolicy.SINGLE:
            return 0
        return self._scorer.score_one(known, requests)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Scores lie within 0..100 already."""
        return scores

    # Waking

    def hints(self) -> Sequence[HintRegistration]:
        """The cells of a node have more room, or a node was added or has more allocatable."""
        return (
            HintRegistration(
                KIND,
                Action.ADD | Action.UPDATE | Action.DELETE,
                self._after_object,
                alike(self._after_object, lambda pod: pod.pinning),
            ),
            HintRegistration("Node", Action.ADD | Action.NODE_ALLOCATABLE),
        )

    def _after_object(self, pod: PodInfo, event: Event) -> Hint:
        row = self._state.row(event.node)
        return Hint.QUEUE if row is not None and self._fits_row(row, pod.pinning) else Hint.SKIP

    def _fits_row(self, row: int, pinning: Pinning) -> bool:
        """Whether a node's cells fit a pod now."""
        rows, cells = np.array([row], np.intp), self.cache.cells
        cells.follow(rows)
        kind = int(cells.kind[row])
        if kind in (_UNKNOWN, _WITHDRAWN):
            return kind not in self._missing
        needs = _needs(pinning, kind)
        return not needs or bool(self._fits(rows, needs).all())


def _has_room_in_sums(pod: PodInfo, columns: NodeColumns, rows: Rows) -> Mask:
    """Where what a pod requests is left, cells apart: other filters reject the rest."""
    room = np.ones(len(rows), np.bool_)
    for resource, amount in pod.requests.items():
        index = columns.resources.find(resource)
        if index is not None:
            left = columns.allocatable[index][rows] - columns.requested[index][rows]
            room &= left >= amount
    return room


def _by_kind(kinds: NDArray[np.int8]) -> Iterator[tuple[int, Mask | slice]]:
    """The kinds of kubelets in some rows, and which rows those are."""
    first = int(kinds[0]) if len(kinds) else _UNKNOWN
    if (kinds == first).all():
        yield first, slice(None)
        return
    for kind in _ALL_KINDS:
        among = kinds == kind
        if among.any():
            yield kind, among


def _needs(pinning: Pinning, kind: int) -> tuple[Need, ...]:
    """What a kubelet of this kind aligns, one after the other."""
    if kind in (_UNKNOWN, _NOT_ENFORCED, _WITHDRAWN):
        return ()
    return pinning.needs(whole_pod=kind in (_SINGLE_PODS, _RESTRICTED_PODS))


_RESERVED = unschedulable(filtering.RESERVED).by(NAME)


def _cell_cache(args: NodeResourceTopologyMatchArgs, handle: Handle) -> CellCache:
    """The cache for these arguments, shared by all profiles with the same."""
    state, settings = handle.state, _settings(args)
    if settings is None:
        published = state.shared.get_or_make(PublishedCells, lambda: PublishedCells(state))
        _follow(published, handle, "published")
        return published
    cache = state.shared.get_or_make(
        ReserveCache,
        lambda: ReserveCache(state, settings, handle.metrics, handle.queue.tell, handle.run.clock),
        settings,
    )
    cache.profiles.add(handle.profile)
    _follow(cache, handle, repr(settings))
    return cache


def _follow(cache: CellCache, handle: Handle, which: str) -> None:
    handle.metrics.caches.follow(f"{NAME}/{which}", lambda: {"numa_cells": cache.cells.usage()})


def _being_bound(handle: Handle) -> NodesBeingBound:
    """The nodes being bound of a cluster, shared by all profiles."""
    return handle.state.shared.get_or_make(NodesBeingBound, lambda: NodesBeingBound(handle))


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
        other_machine_at_once=cache.resync_scope != "OnlyResources",
        grace=args.missing_topology_grace_seconds,
    )
