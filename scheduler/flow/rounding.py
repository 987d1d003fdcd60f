"""From flows of units to whole pods on nodes that have room for them.

A flow may split a pod between nodes, and what a node takes of one quantity it may lack of another.
So classes are read one after the other, those with the largest pods first, against what is really
free: each node gets the pods that flow to it whole, then nodes with the largest part of a pod get
one, and what is still missing goes to other nodes. Smaller pods that were meant to go there find
room elsewhere, if they have a choice; room that is meant for those who have none is left to them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.flow.problem import UNFIT, Ints, Problem, Reals
from scheduler.flow.scores import Drawn

_ALMOST = 1e-9
MANY_NODES = 0.5
"""The share of all nodes from which on a class has a choice."""


def read(problem: Problem, drawn: Drawn, flows: Ints) -> tuple[Ints, Ints, Ints]:
    """Class, node and number of pods, from the flow on each pair."""
    counts = _Rounding(problem, drawn.pods(flows, problem.shape)).counts()
    of_class, node = np.nonzero(counts)
    return of_class.astype(np.int64), node.astype(np.int64), counts[of_class, node]


class _Rounding:
    """What is left of nodes while classes are read."""

    def __init__(self, problem: Problem, pods: Reals) -> None:
        self._problem = problem
        self._pods = pods
        self._free = problem.free.copy()
        self._slots = problem.slots.copy()
        self._meant = problem.requests.T @ pods
        """[R, M] What flows to each node of classes that were not read yet."""
        choice = (problem.scores != UNFIT).sum(axis=1)
        self._bound = choice < MANY_NODES * problem.shape[1]
        """[E] Whether a class has few nodes to choose from."""
        self._meant_for_bound = problem.requests[self._bound].T @ pods[self._bound]

    def counts(self) -> Ints:
        """[E, M] Whole pods."""
        problem = self._problem
        total = np.maximum(problem.free.sum(axis=1), 1.0)
        size = (problem.requests / total).max(axis=1, initial=0.0)
        counts = np.zeros(problem.shape, np.int64)
        order = np.argsort(-size, kind="stable").tolist()
        for e in order:
            counts[e] = self._read(e)
        wanted = np.rint(self._pods.sum(axis=1)).astype(np.int64)
        for e in reversed(order):
            self._add_elsewhere(e, int(wanted[e]), counts[e])
        return counts

    def _read(self, e: int) -> Ints:
        problem, pods = self._problem, self._pods[e]
        wanted = int(np.rint(pods.sum()))
        mine = problem.requests[e][:, np.newaxis] * pods
        self._meant -= mine
        if self._bound[e]:
            self._meant_for_bound -= mine
        if not wanted:
            return np.zeros(len(pods), np.int64)
        room = self._room(e)
        whole: Ints = np.minimum(np.floor(pods + _ALMOST).astype(np.int64), room)
        missing = wanted - int(whole.sum())
        if missing > 0:
            asked = problem.requests[e][:, np.newaxis]
            may = (whole < room) & self._may_take(e, asked * (whole + 1))
            part = np.where(may, pods - whole, 0.0)
            parts = np.flatnonzero(part > _ALMOST)
            chosen = parts[np.argsort(-part[parts], kind="stable")[:missing]]
            whole[chosen] += 1
        self._take(e, whole)
        self._add_elsewhere(e, wanted, whole)
        return whole

    def _may_take(self, e: int, amount: Reals) -> NDArray[np.bool_]:
        """Where a class may take so much without taking room from those who have no choice.

        A class without choice itself takes none that is meant for anybody. Others find room
        elsewhere.
        """
        if self._problem.by_volume:
            return np.ones(self._free.shape[1], np.bool_)
        meant = self._meant if self._bound[e] else self._meant_for_bound
        free = self._free - np.maximum(meant, 0.0)
        enough: NDArray[np.bool_] = np.all(free >= amount - _ALMOST, axis=0)
        return enough

    def _room(self, e: int) -> Ints:
        """How many more pods of a class each node takes."""
        problem = self._problem
        asked = problem.requests[e] > 0
        room = np.minimum(self._slots, problem.fit[e])
        if asked.any():
            places = self._free[asked] / problem.requests[e][asked][:, np.newaxis]
            room = np.minimum(room, np.floor(places.min(axis=0) + _ALMOST).astype(np.int64))
        fits: Ints = np.where(problem.scores[e] == UNFIT, 0, np.maximum(room, 0))
        return fits

    def _take(self, e: int, pods: Ints) -> None:
        self._free -= self._problem.requests[e][:, np.newaxis] * pods
        self._slots -= pods

    def _in_domains(self, e: int) -> bool:
        """Whether the class is spread over domains, so that not any node will do."""
        return bool(self._problem.domain_of.size and self._problem.domain_of[e].any())

    def _add_elsewhere(self, e: int, wanted: int, have: Ints) -> None:
        """Add missing pods of a class to nodes to which too little of it flows, or nothing.

        The best of those where nobody else is meant to come, then those where the fewest are.
        """
        missing = wanted - int(have.sum())
        problem = self._problem
        asked = problem.requests[e][:, np.newaxis]
        scale = 1.0 / np.maximum(problem.allocatable, 1.0)
        while missing > 0 and not self._in_domains(e):
            fits = (self._room(e) > 0) & (problem.fit[e] > have) & self._may_take(e, asked)
            nodes = np.flatnonzero(fits)
            if not len(nodes):
                return
            spare = self._free[:, nodes] - np.maximum(self._meant[:, nodes], 0.0) - asked
            tight = np.minimum((spare * scale[:, nodes]).min(axis=0), 0.0)
            order = np.lexsort((-problem.scores[e][nodes], -np.round(tight, 6)))
            chosen = nodes[order[:missing]]
            once = np.zeros(len(have), np.int64)
            once[chosen] = 1
            self._take(e, once)
            have += once
            missing -= len(chosen)
