"""The cheapest flow, by OR-Tools. The only module that imports the library.

It holds the interpreter for as long as it computes, so it is only ever called in the solver's own
process (`worker`). The same network always gives the same flow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.flow.network import Network
from scheduler.flow.problem import Ints


class SolverMissing(Exception):
    """The library is not installed: it comes with the extra ``flow``."""


class Unsolvable(Exception):
    """There is no optimal flow, which every network of ours has: a bug, or costs too big."""


def library() -> Any:
    """The solver's module; raises SolverMissing if it is not there."""
    try:
        from ortools.graph.python import min_cost_flow
    except ImportError as fault:
        raise SolverMissing(str(fault)) from fault
    return min_cost_flow


def solve(network: Network) -> tuple[Ints, int]:
    """The flow on each arc of the cheapest flow that carries all supplies, and its cost."""
    problem: Any = library().SimpleMinCostFlow()
    arcs = problem.add_arcs_with_capacity_and_unit_cost(
        network.tail.astype(np.int32), network.head.astype(np.int32), network.capacity, network.cost
    )
    problem.set_nodes_supplies(np.arange(len(network.supply), dtype=np.int32), network.supply)
    status = problem.solve()
    if status != problem.OPTIMAL:
        raise Unsolvable(f"the solver says {status}")
    flows: Ints = np.asarray(problem.flows(arcs), np.int64)
    return flows, int(problem.optimal_cost())
