"""From a problem to its solution: draw the network, solve it, read the placements."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.flow import cpu_memory, scores
from scheduler.flow.problem import UNFIT, Ints, Problem, Reals, Solution
from scheduler.flow.scores import ScoreNetwork
from scheduler.flow.solver import solve
from scheduler.flow.units import Units

# Gangs in a network: each gets the nodes for all pods that it needs, or none.
#
# A network cannot say that. So gangs that come out incomplete are dropped, the half that got the
# least at a time, and the rest is solved again until all are whole; then those that were dropped
# are tried again, one after the other, in what is left.


Truths = NDArray[np.bool_]

MOST_RETRIES = 12
"""Gangs that are tried again; each costs a solution."""


def whole_gangs(problem: Problem, solve: Callable[[Problem], Solution]) -> Solution:
    """The best solution found in which no gang is incomplete."""
    taking_part = np.ones(len(problem.gang_needs), np.bool_)
    solution = solve(problem)
    solutions = [solution]
    dropped: list[int] = []
    while len(short := _incomplete(problem, solution, taking_part)):
        share = _members(problem, solution)[short] / problem.gang_needs[short]
        worst = short[np.argsort(share, kind="stable")[: (len(short) + 1) // 2]]
        taking_part[worst] = False
        dropped += worst.tolist()
        solution = solve(_without(problem, taking_part))
        solutions.append(solution)
    # Those that were dropped last came closest.
    for gang in dropped[::-1][:MOST_RETRIES]:
        taking_part[gang] = True
        again = solve(_without(problem, taking_part))
        solutions.append(again)
        if len(_incomplete(problem, again, taking_part)):
            taking_part[gang] = False
        else:
            solution = again
    return msgspec.structs.replace(
        solution,
        build_seconds=sum(each.build_seconds for each in solutions),
        solve_seconds=sum(each.solve_seconds for each in solutions),
        read_seconds=sum(each.read_seconds for each in solutions),
    )


def _members(problem: Problem, solution: Solution) -> Ints:
    """How many pods of each gang have nodes."""
    gang = problem.gang[solution.of_class]
    members = np.zeros(len(problem.gang_needs), np.int64)
    np.add.at(members, gang[gang >= 0], solution.pods[gang >= 0])
    return members


def _incomplete(problem: Problem, solution: Solution, taking_part: Truths) -> Ints:
    short = _members(problem, solution) < problem.gang_needs
    return np.flatnonzero(short & taking_part)


def _without(problem: Problem, taking_part: Truths) -> Problem:
    """The problem without the pods of gangs that take no part."""
    there = (problem.gang < 0) | taking_part[problem.gang]
    leaving = problem.leaving
    pods = np.where(there[leaving.of_class], leaving.pods, 0)
    return msgspec.structs.replace(
        problem,
        supplies=np.where(there, problem.supplies, 0),
        leaving=msgspec.structs.replace(leaving, pods=pods),
    )


# From flows of units to whole pods on nodes that have room for them.
#
# A flow may split a pod between nodes, and what a node takes of one quantity it may lack of
# another. So classes are read one after the other, those with the largest pods first, against what
# is really free: each node gets the pods that flow to it whole, then nodes with the largest part of
# a pod get one, and what is still missing goes to other nodes. Smaller pods that were meant to go
# there find room elsewhere, if they have a choice; room that is meant for those who have none is
# left to them.


_ALMOST = 1e-9
MANY_NODES = 0.5
"""The share of all nodes from which on a class has a choice."""


def read(problem: Problem, drawn: ScoreNetwork, flows: Ints) -> tuple[Ints, Ints, Ints]:
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
        """Where a class may take so much without taking capacity from classes without a choice.

        A class without a choice takes none that is meant for any class. Others find nodes
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
        """Whether the class is spread over domains, so that not every node is allowed."""
        return bool(self._problem.domain_of.size and self._problem.domain_of[e].any())

    def _add_elsewhere(self, e: int, wanted: int, have: Ints) -> None:
        """Add missing pods of a class to nodes to which too little of it flows, or nothing.

        First the best of those that no other class flows to, then those that the fewest do.
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


CORRECTIONS = 2
"""How often a network is drawn again because nodes were sent more than they have."""
LARGE_NETWORK = 50_000
"""Arcs beyond which that is done once only."""


def solved(problem: Problem) -> Solution:
    """The best placements by the problem's cost model. Blocks; holds the interpreter."""
    by_model = cpu_memory.solved if problem.model == "CpuMemory" else _by_scores
    if problem.gang.size:
        return whole_gangs(problem, by_model)
    return by_model(problem)


def _by_scores(problem: Problem) -> Solution:
    """The best of a few networks, each drawn by what the one before has sent to nodes."""
    best: Solution | None = None
    units: Units | None = None
    spent = [0.0, 0.0, 0.0]
    for number in count():
        started = time.process_time()
        drawn = scores.draw(problem, units)
        built = time.process_time()
        flows, cost = solve(drawn.network)
        ended = time.process_time()
        last = number >= (CORRECTIONS if drawn.network.arcs <= LARGE_NETWORK else 1)
        units = None if last else scores.corrected(problem, drawn, flows)
        # A large network is read once: what it says at last is not far from the best.
        if units is None or drawn.network.arcs <= LARGE_NETWORK:
            of_class, node, pods = read(problem, drawn, flows)
            found = Solution(
                of_class=of_class, node=node, pods=pods, arcs=drawn.network.arcs, cost=cost
            )
            if best is None or _placed(problem, found) >= _placed(problem, best):
                best = found
        times = (built - started, ended - built, time.process_time() - ended)
        spent = [so_far + more for so_far, more in zip(spent, times, strict=True)]
        if units is None:
            break
    assert best is not None, "the last network is always read"
    build, solve_, read_ = spent
    return msgspec.structs.replace(
        best, build_seconds=build, solve_seconds=solve_, read_seconds=read_
    )


def _placed(problem: Problem, solution: Solution) -> float:
    """How many pods have nodes, or how much they request."""
    if not problem.by_volume:
        return float(solution.pods.sum())
    total = np.maximum(problem.free.sum(axis=1), 1.0)
    size = (problem.requests / total).max(axis=1, initial=0.0)
    return float(size[solution.of_class] @ solution.pods)
