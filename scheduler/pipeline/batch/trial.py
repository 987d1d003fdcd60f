"""Both ways of placing a band, tried on the real state, compared, and reverted.

::

    one by one: each pod in queue order takes its best node ─────────────► figures ─┐
        (all reverted)                                                              ├─► better?
    at once: placements that filters confirm, then the rest in queue order ► figures ┘
        (all reverted)

Pods are really assumed, as members of a gang are, so that all filters and scores see them; plugins
reserve nothing, and no pod is bound. No other attempt is made meanwhile, and events wake waiting
pods only when it is over. The event loop runs between pods: later pods see what happens in the
cluster meanwhile, and filters verify every placement again before it is reserved. A trial of
one by one costs what one by one costs without binding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from scheduler.flow.objective import Figures, better, points
from scheduler.flow.problem import Ints, Solution
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, MEMORY, PODS, Amounts
from scheduler.pipeline.batch.eligibility import BatchEligibility
from scheduler.pipeline.batch.gangs import BatchGangs
from scheduler.pipeline.batch.problem import BatchProblem
from scheduler.pipeline.batch.verification import proposals, verified
from scheduler.pipeline.placement import NO_PROPOSALS, Proposals
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.slices import checkpoint, slices_ended, unbroken
from scheduler.state.cache import ClusterState

if TYPE_CHECKING:
    from scheduler.pipeline.scheduler import Scheduler

Nodes = dict[str, str]
"""The node of each pod that has one, by uid."""


class Overtaken(Exception):
    """A pod has come that goes first."""


class Trials:
    """Tries and compares both ways."""

    def __init__(
        self,
        scheduler: Scheduler,
        eligibility: BatchEligibility,
        gangs: BatchGangs,
    ) -> None:
        self._scheduler = scheduler
        self._state = scheduler.state
        self._queue = scheduler.queue
        self._eligibility = eligibility
        self._gangs = gangs

    def at_once_is_better(
        self,
        band: Mapping[int, QueuedPod],
        posed: BatchProblem,
        solution: Solution,
        overtaken: Callable[[], bool],
    ) -> bool:
        """Whether a solution is better than one by one, for all pods of a band, by their places.

        Raises `Overtaken` as soon as ``overtaken`` says so, with nothing left behind.
        """
        pods = list(band.values())
        measure = _Measure(self._state, (each.info for each in self._gangs.with_members(pods)))
        with self._queue.events_deferred():
            with self._trial(overtaken) as one:
                self._place(pods, one)
                one_by_one = measure.figures(one.nodes, posed)
            with self._trial(overtaken) as other:
                self._propose(band, posed, solution, other)
                self._place([each for each in pods if each.info.uid not in other.tried], other)
                at_once = measure.figures(other.nodes, posed)
        return better(at_once, one_by_one, by_volume=posed.problem.by_volume)

    @contextmanager
    def _trial(self, overtaken: Callable[[], bool]) -> Iterator[_AssumedPods]:
        trial = _AssumedPods(self._state, overtaken)
        try:
            yield trial
        finally:
            trial.revert()

    def _place(self, band: Sequence[QueuedPod], trial: _AssumedPods) -> None:
        """Each pod takes its best node, in queue order."""
        for queued in band:
            trial.pause()
            if self._gangs.leads(queued):
                self._place_gang(queued, trial, NO_PROPOSALS)
            elif not self._scheduler.skip_pod_schedule(queued):
                trial.assume(queued.info, self._scheduler.preview_node(queued))

    def _place_gang(self, first: QueuedPod, trial: _AssumedPods, proposals: Proposals) -> None:
        """All members that the gang needs, or none."""
        needed = self._gangs.needed(first)
        if needed is None:
            return
        members = (first, *self._gangs.along(first))
        taken: list[str] = []
        for position, member in enumerate(members):
            if len(taken) + len(members) - position < needed:
                break
            trial.pause()
            if self._scheduler.skip_pod_schedule(member):
                continue
            node = self._scheduler.preview_node(member, proposals, in_pass=True)
            if node is not None:
                trial.assume(member.info, node)
                taken.append(member.info.uid)
        if len(taken) < needed:
            for uid in reversed(taken):
                trial.forget(uid)

    def _propose(
        self,
        band: Mapping[int, QueuedPod],
        posed: BatchProblem,
        solution: Solution,
        trial: _AssumedPods,
    ) -> None:
        """What the solution says, as far as filters confirm it."""
        for member, nodes in self._gangs.chosen(posed, solution):
            first = band[member.place]
            self._place_gang(first, trial, Proposals(nodes, posed.problem.model))
            trial.tried.add(first.info.uid)
        for proposal in proposals(posed, solution):
            while proposal.left:
                trial.pause()
                with unbroken():
                    self._eligibility.classes_may_change()
                    for member, placement in verified(proposal, self._state, self._eligibility):
                        if not self._scheduler.skip_pod_schedule(member.queued):
                            trial.assume(member.queued.info, placement.node)
                            trial.tried.add(member.queued.info.uid)


class _AssumedPods:
    """Pods that are assumed for a while."""

    def __init__(self, state: ClusterState, overtaken: Callable[[], bool]) -> None:
        self._state = state
        self._overtaken = overtaken
        self._slices = slices_ended()
        self.nodes: Nodes = {}
        self.tried: set[str] = set()
        """Pods that a solution has placed, and gangs (by their first member) that it has tried."""

    def pause(self) -> None:
        """Give the loop back if the slice is over, and stop if a pod has come that goes first."""
        checkpoint()
        if (slices := slices_ended()) != self._slices:
            self._slices = slices
            if self._overtaken():
                raise Overtaken

    def assume(self, pod: PodInfo, node: str | None) -> None:
        """Assume a pod on its node, if it has one."""
        if node is not None:
            self._state.assume(pod, node)
            self.nodes[pod.uid] = node

    def forget(self, uid: str) -> None:
        """Forget a pod, unless the watch has confirmed it meanwhile."""
        del self.nodes[uid]
        self._state.forget(uid, trial=True)

    def revert(self) -> None:
        """Forget all pods, the last first."""
        for uid in reversed(list(self.nodes)):
            checkpoint()
            self.forget(uid)


class _Measure:
    """What pods of a band count for, by what was free before any of them was placed."""

    def __init__(self, state: ClusterState, pods: Iterator[PodInfo]) -> None:
        self._free = _free(state)
        self._asked: dict[str, Amounts] = {}
        total: dict[str, int] = {}
        for info in pods:
            checkpoint()
            asked = {} if info.excess else info.fit_requests
            self._asked[info.uid] = {n: each for n, each in asked.items() if n in self._free}
            _add(total, self._asked[info.uid])
        self._scarce = [n for n, amount in sorted(total.items()) if amount > self._free[n]]

    def figures(self, nodes: Nodes, posed: BatchProblem) -> Figures:
        """The figures of placements."""
        taken: dict[str, int] = {}
        shares: list[float] = []
        for uid in nodes:
            checkpoint()
            asked = self._asked[uid]
            _add(taken, asked)
            shares.append(max((amount / self._free[n] for n, amount in asked.items()), default=0.0))
        return Figures(
            pods=len(nodes),
            volume=math.fsum(shares),
            used=sum(taken.get(name, 0) / self._free[name] for name in self._scarce),
            devices=tuple(taken.get(n, 0) for n in self._scarce if n not in (CPU, MEMORY)),
            points=points(posed.problem, _counts(nodes, posed)),
        )


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _free(state: ClusterState) -> dict[str, int]:
    """What is free of each resource, in all nodes together; without those of which nothing is."""
    columns = state.columns
    found = {}
    for name in list(columns.resources.values):
        checkpoint()  # after which rows and columns may be others
        index, rows = columns.resources.find(name), state.rows()
        if name != PODS and index is not None:
            there = columns.allocatable[index, rows] - columns.requested[index, rows]
            found[name] = int(np.maximum(there, 0).sum())
    return {name: amount for name, amount in found.items() if amount > 0}


def _counts(nodes: Nodes, posed: BatchProblem) -> Ints:
    """[E, M] How many pods of each class of a problem are on each of its nodes."""
    counts = np.zeros(posed.problem.shape, np.int64)
    position = {name: i for i, name in enumerate(posed.nodes)}
    for e, members in enumerate(posed.groups):
        checkpoint()
        for member in members:
            where = position.get(nodes.get(member.queued.info.uid, ""))
            if where is not None:
                counts[e, where] += 1
    return counts
