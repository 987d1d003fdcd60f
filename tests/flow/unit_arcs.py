"""The published network in full, arc by arc: what the network of `CpuMemory` has to equal."""

from __future__ import annotations

import numpy as np

from scheduler.flow.cpu_memory import FINENESS, OMEGA
from scheduler.flow.network import Network
from scheduler.flow.problem import UNFIT, Problem


def unit_cost(problem: Problem, e: int, m: int, i: int) -> int:
    """What the i-th pod more costs on a node: its load then, and what it lacks of preference."""
    load = 0.0
    for r in range(2):
        there = float(problem.allocatable[r, m])
        used = there - float(problem.free[r, m]) + (i + 1) * float(problem.requests[e, r])
        load += used / there / 2
    cost = load * OMEGA
    if problem.preferring.size and problem.preferring[e]:
        cost += OMEGA - int(problem.soft[e, m])
    return round(cost * FINENESS)


def unit_arcs(problem: Problem, leave: int) -> Network:
    """An arc of one pod for every class and every place on every node that it fits on."""
    classes, nodes = problem.shape
    numbers: dict[tuple[object, ...], int] = {("sink",): 0}
    arcs: list[tuple[int, int, int, int]] = []

    def node(*name: object) -> int:
        return numbers.setdefault(name, len(numbers))

    def arc(tail: int, head: int, capacity: int, cost: int) -> None:
        arcs.append((tail, head, capacity, cost))

    for e in range(classes):
        arc(node("class", e), 0, int(problem.supplies[e]), leave)
        for m in range(nodes):
            if problem.scores[e, m] == UNFIT:
                continue
            tail = node("class", e)
            if problem.domain_of.size and problem.domain_of[e, m]:
                tail = node("domain", e, int(problem.domain_of[e, m]))
            for i in range(min(int(problem.fit[e, m]), int(problem.slots[m]))):
                arc(tail, node("place", m, i), 1, unit_cost(problem, e, m, i))
    for place in [name for name in numbers if name[0] == "place"]:
        arc(numbers[place], node("machine", place[1]), 1, 0)
    for m in range(nodes):
        arc(node("machine", m), 0, int(problem.slots[m]), 0)
    quotas = problem.quotas
    for e, domain, pods in zip(quotas.of_class, quotas.domain, quotas.pods, strict=True):
        arc(node("class", int(e)), node("domain", int(e), int(domain)), int(pods), 0)
    supply = np.zeros(len(numbers), np.int64)
    for e in range(classes):
        supply[node("class", e)] = problem.supplies[e]
    supply[0] = -supply.sum()
    columns = np.array(arcs, np.int64).T
    return Network(columns[0], columns[1], columns[2], columns[3], supply)
