"""From a problem to its solution: draw the network, solve it, read the placements."""

from __future__ import annotations

import time
from itertools import count

import msgspec
import numpy as np

from scheduler.flow import cpu_memory, scores
from scheduler.flow.gangs import whole_gangs
from scheduler.flow.problem import Problem, Solution
from scheduler.flow.rounding import read
from scheduler.flow.solver import solve
from scheduler.flow.units import Units

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
    """How many pods have nodes, or how much they ask for."""
    if not problem.by_volume:
        return float(solution.pods.sum())
    total = np.maximum(problem.free.sum(axis=1), 1.0)
    size = (problem.requests / total).max(axis=1, initial=0.0)
    return float(size[solution.of_class] @ solution.pods)
