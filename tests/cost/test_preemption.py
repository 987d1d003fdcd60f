"""However many pods would have to leave a node, no step of the search for victims takes long."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import PodBuilder, make_pod
from tests.cost.counting import Cost, cost
from tests.pipeline.evicting import Arena, make_box

BUDGET = 375_000
"""Operations of one step: about 5 ms."""
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "none"}}}
        ]
    }
}


def search(victims: int, *, distinct: bool = False, **spec: Any) -> Cost:
    """What an attempt costs that looks for victims on a node where each could be one."""
    arena = Arena()
    arena.see(make_box("n", victims))
    for i in range(victims):
        pod = make_pod(f"p{i}").on("n").cpu(1)
        arena.see(pod.label(name=f"p{i}") if distinct else pod)
    arena.see(vip(victims, **spec))
    return cost(arena.attempt)


def vip(cpu: int, **spec: Any) -> PodBuilder:
    return make_pod("vip").priority(100).cpu(cpu).spec(**spec)


CASES = pytest.mark.parametrize(
    "case",
    [{}, {"affinity": APART}, {"affinity": APART, "distinct": True}],
    ids=["in sums", "booked", "booked, all with labels of their own"],
)


@CASES
async def test_no_step_of_a_search_for_victims_exceeds_its_budget(case: dict[str, Any]) -> None:
    few, many = search(150, **case), search(300, **case)
    assert many.longest <= BUDGET
    assert many.operations > 1.8 * few.operations, "each pod is tried out"
    assert many.longest < 0.5 * many.operations


@CASES
async def test_twice_the_victims_cost_at_most_twice_as_much(case: dict[str, Any]) -> None:
    assert search(320, **case).operations <= 2.2 * search(160, **case).operations
