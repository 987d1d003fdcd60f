"""A pod of several containers, on nodes with NUMA cells: no step grows by a search for cells.

Its containers may come into cells in many ways; each node is asked by itself before the attempt.
"""

from __future__ import annotations

import pytest

from tests.builders import PodBuilder
from tests.cost.counting import Cost, cost
from tests.numa.support import Numa, make_topology, pinned, with_container

PER_NODE = 1500
"""Operations that the longest step may grow by with one more node: for looking its answer up."""
SEARCH = 10_000
"""What going through the ways on one node takes at least."""


def of_containers(name: str, number: int, cpu: int) -> PodBuilder:
    pod = pinned(name, cpu)
    for _ in range(number - 1):
        pod = with_container(pod, {"cpu": cpu, "memory": "1Gi"})
    return pod


def attempt(nodes: int, beside: int) -> Cost:
    """What an attempt costs where as many pods run as no object counts yet."""
    names = [f"n{number}" for number in range(nodes)]
    numa = Numa().nodes(*names)
    for number, name in enumerate(names):
        topology = make_topology(name)
        for cell in range(6):
            topology = topology.cell(12 + number + cell, "64Gi")
        numa.publish(topology.knows())
        for each in range(beside):
            numa.runs(of_containers(f"on-{name}-{each}", 2, 2), node=name)
    numa.see(of_containers("asks", 4, 7))
    return cost(numa.stage.attempt)


@pytest.mark.parametrize("beside", [0, 1])
async def test_no_step_grows_by_a_search(beside: int) -> None:
    few, many = attempt(4, beside), attempt(12, beside)
    assert many.longest - few.longest <= 8 * PER_NODE, (few.longest, many.longest)
    if beside:
        assert many.operations - few.operations >= 8 * SEARCH, (few.operations, many.operations)
    else:  # where all is known, only the kubelet's own way counts
        assert many.operations - few.operations < 8 * SEARCH


async def one_more(nodes: int) -> Cost:
    """What a further attempt costs at a pod of two containers, when the first ones have nodes."""
    names = [f"n{number}" for number in range(nodes)]
    numa = Numa().nodes(*names)
    for name in names:
        numa.publish(make_topology(name).cell(64, "64Gi").cell(64, "64Gi").knows())
    for number in range(3):
        numa.see(of_containers(f"before-{number}", 2, 2))
        numa.stage.attempt()
        await numa.stage.idle()
    numa.see(of_containers("asks", 2, 2))
    return cost(numa.stage.attempt)


async def test_one_more_pod_asks_only_nodes_that_have_changed() -> None:
    few, many = await one_more(20), await one_more(60)
    assert many.operations - few.operations < 40, (few.operations, many.operations)
