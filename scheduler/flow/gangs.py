"""Gangs in a network: each gets the nodes for all pods that it needs, or none.

A network cannot say that. So gangs that come out incomplete are dropped, the half that got the
least at a time, and the rest is solved again until all are whole; then those that were dropped are
tried again, one after the other, in what is left.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.flow.problem import Ints, Problem, Solution

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
