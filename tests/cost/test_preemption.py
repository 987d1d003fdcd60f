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


def search(victims: int, **spec: Any) -> Cost:
    """What an attempt costs that looks for victims on a node where each could be one."""
    arena = Arena()
    arena.see(make_box("n", victims))
    arena.see(*(make_pod(f"p{i}").on("n").cpu(1) for i in range(victims)))
    arena.see(vip(victims, **spec))
    return cost(arena.attempt)


def vip(cpu: int, **spec: Any) -> PodBuilder:
    return make_pod("vip").priority(100).cpu(cpu).spec(**spec)


@pytest.mark.parametrize("spec", [{}, {"affinity": APART}], ids=["in sums", "booked"])
async def test_no_step_of_a_search_for_victims_exceeds_its_budget(spec: dict[str, Any]) -> None:
    few, many = search(100, **spec), search(300, **spec)
    assert many.longest <= BUDGET
    assert many.operations > 2 * few.operations, "each pod is tried out"
    assert many.longest < 0.5 * many.operations
