"""Both ways of placing a band, tried on the state as it is, judged, and taken back.

::

    one by one: each pod in queue order takes its best node ─────────────► figures ─┐
        (all taken back)                                                            ├─► better?
    at once: placements that filters confirm, then the rest in queue order ► figures ┘
        (all taken back)

Pods are really assumed, as members of a gang are, so that all filters and scores see them; nothing
is reserved by plugins, and nobody is bound. No other attempt is made meanwhile, and events wake
waiting pods only when it is over. The loop is given back between pods: whatever happens in the
cluster meanwhile is seen by whoever comes later, and filters confirm every placement once more when
it is taken. A trial of one by one costs what one by one costs without binding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from scheduler.flow.objective import Figures, better, points
from scheduler.flow.problem import Ints, Solution
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, MEMORY, PODS, Amounts
from scheduler.pipeline.batch_gangs import Gangs
from scheduler.pipeline.batch_members import Enrolment
from scheduler.pipeline.batch_problem import Posed
from scheduler.pipeline.batch_taking import proposals, verified
from scheduler.queueing.tiers import QueuedPod
from scheduler.queueing.together import GroupQueue
from scheduler.slices import checkpoint, slices_ended, unbroken
from scheduler.state.cache import ClusterState

Nodes = dict[str, str]
"""The node of each pod that has one, by uid."""


class Seeking(Protocol):
    """The normal cycle, as far as trials need it."""

    def obsolete(self, queued: QueuedPod) -> bool:
        """Whether there is nothing to do for a pod any more."""
        ...

    def seek(self, queued: QueuedPod, proposed: str = "", *, together: bool = False) -> str | None:
        """The node that an attempt would choose now; takes nothing and tells nobody."""
        ...


class Overtaken(Exception):
    """A pod has come that goes first."""


class Trials:
    """Tries and judges both ways."""

    def __init__(
        self,
        state: ClusterState,
        queue: GroupQueue,
        seeking: Seeking,
        enrolment: Enrolment,
        gangs: Gangs,
    ) -> None:
        self._state = state
        self._queue = queue
        self._seeking = seeking
        self._enrolment = enrolment
        self._gangs = gangs

    def at_once_is_better(
        self,
        band: Mapping[int, QueuedPod],
        posed: Posed,
        solution: Solution,
        overtaken: Callable[[], bool],
    ) -> bool:
        """Whether a solution is better than one by one, for all pods of a band, by their places.

        Raises `Overtaken` as soon as ``overtaken`` says so, with nothing left behind.
        """
        pods = list(band.values())
        measure = _Measure(self._state, (each.info for each in self._gangs.everybody(pods)))
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
    def _trial(self, overtaken: Callable[[], bool]) -> Iterator[_Trial]:
        trial = _Trial(self._state, overtaken)
        try:
            yield trial
        finally:
            trial.undo()

    def _place(self, band: Sequence[QueuedPod], trial: _Trial) -> None:
        """Each pod takes its best node, in queue order."""
        for queued in band:
            trial.pause()
            if self._gangs.leads(queued):
                self._place_gang(queued, trial, {})
            elif not self._seeking.obsolete(queued):
                trial.take(queued.info, self._seeking.seek(queued))

    def _place_gang(self, first: QueuedPod, trial: _Trial, nodes: Mapping[str, str]) -> None:
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
            if self._seeking.obsolete(member):
                continue
            proposed = nodes.get(member.info.uid, "")
            node = self._seeking.seek(member, proposed, together=True)
            if node is not None:
                trial.take(member.info, node)
                taken.append(member.info.uid)
        if len(taken) < needed:
            for uid in reversed(taken):
                trial.give_back(uid)

    def _propose(
        self, band: Mapping[int, QueuedPod], posed: Posed, solution: Solution, trial: _Trial
    ) -> None:
        """What the solution says, as far as filters confirm it."""
        for member, nodes in self._gangs.chosen(posed, solution):
            first = band[member.place]
            self._place_gang(first, trial, nodes)
            trial.tried.add(first.info.uid)
        for proposal in proposals(posed, solution):
            while proposal.left:
                trial.pause()
                with unbroken():
                    self._enrolment.look_again()
                    for member, placement in verified(
                        proposal, self._state, self._enrolment.prepared
                    ):
                        if not self._seeking.obsolete(member.queued):
                            trial.take(member.queued.info, placement.node)
                            trial.tried.add(member.queued.info.uid)


class _Trial:
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

    def take(self, pod: PodInfo, node: str | None) -> None:
        """Have a pod on a node, if there is one for it."""
        if node is not None:
            self._state.assume(pod, node)
            self.nodes[pod.uid] = node

    def give_back(self, uid: str) -> None:
        """Have a pod gone from its node, if it is still only assumed there."""
        del self.nodes[uid]
        self._state.forget(uid, tried=True)

    def undo(self) -> None:
        """Give everything back, the last first."""
        for uid in reversed(list(self.nodes)):
            checkpoint()
            self.give_back(uid)


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

    def figures(self, nodes: Nodes, posed: Posed) -> Figures:
        """What placements come to."""
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
    columns, rows = state.columns, state.rows()
    found = {}
    for index, name in enumerate(columns.resources.values):
        checkpoint()
        if name != PODS:
            there = columns.allocatable[index, rows] - columns.requested[index, rows]
            found[name] = int(np.maximum(there, 0).sum())
    return {name: amount for name, amount in found.items() if amount > 0}


def _counts(nodes: Nodes, posed: Posed) -> Ints:
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
