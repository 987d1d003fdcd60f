"""From a problem to its solution: draw the network, solve it, read the placements."""

from __future__ import annotations

import time

from scheduler.flow import cpu_memory, scores
from scheduler.flow.gangs import whole_gangs
from scheduler.flow.problem import Problem, Solution
from scheduler.flow.rounding import read
from scheduler.flow.scores import Drawn
from scheduler.flow.solver import solve

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
    started = time.process_time()
    drawn = scores.draw(problem)
    built = time.process_time()
    flows, cost = solve(drawn.network)
    for _ in range(_corrections(drawn)):
        room = scores.corrected(problem, drawn, flows)
        if room is None:
            break
        drawn = scores.draw(problem, room)
        flows, cost = solve(drawn.network)
    ended = time.process_time()
    of_class, node, pods = read(problem, drawn, flows)
    read_seconds = time.process_time() - ended
    return Solution(
        of_class=of_class,
        node=node,
        pods=pods,
        arcs=drawn.network.arcs,
        build_seconds=built - started,
        solve_seconds=ended - built,
        read_seconds=read_seconds,
        cost=cost,
    )


def _corrections(drawn: Drawn) -> int:
    return CORRECTIONS if drawn.network.arcs <= LARGE_NETWORK else 1
