"""What a pod costs, at its bounds: its own attempts, and those of others. In operations.

Tracing a pod at its bounds takes long. Cost is linear in each field (`tests/cost/test_law.py`), so
it is measured for few entries and for twice as many, and the difference extrapolated to the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import pytest

from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from tests.builders import PodBuilder, make_pod, make_worker
from tests.cost.counting import Cost
from tests.cost.fields import Field
from tests.cost.test_law import KUBE, Written, _Ready
from tests.pipeline.support import Stage
from tests.security.pod_fields import bound, pod_fields, written

FEW = 16
"""More than selectors compare one by one (`selectors.py: _FEW`): beyond, costs are linear again."""
NODES = 4
KEYS = {f"key-{number}": f"value-{number}" for number in range(2 * FEW)}
"""Labels that entries name, so that none of them can be passed over."""
OWN = 200
"""An attempt for a pod at a bound costs at most so many ordinary attempts."""
OTHERS = 2
"""An ordinary pod costs at most so many times what it costs without the pod at its bound."""


def stage() -> Stage:
    """Nodes and a scheduler that has placed some pods."""
    scene = Stage(config=(KUBE,))
    for number in range(NODES):
        host = {"kubernetes.io/hostname": f"node-{number}"}
        scene.see(make_worker(f"node-{number}").label(**host, **KEYS))
    for number in range(3):
        scene.see(_ordinary(f"warm-{number}"))
        scene.attempt()
    return scene


def _ordinary(name: str) -> PodBuilder:
    return make_pod(name, "others").label(app=name).cpu("10m")


def ordinary(scene: Stage) -> int:
    """What an ordinary pod of another namespace costs, from its coming to its placement.

    It is the second after whatever came before: what is found out once is not its to pay.
    """
    scene.see(_ordinary("app-0"))
    scene.attempt()
    pod = _ordinary("app-1")
    return placed(scene, pod.struct(), Written("Pod", pod.obj()))


def placed(scene: Stage, struct: Pod, pod: Written) -> int:
    taken = Cost()
    taken.of(partial(scene.see, _Ready(pod, struct)))
    taken.of(scene.attempt)
    return taken.operations


def read(field: Field, number: int, role: str) -> tuple[Pod, Written]:
    raw = written(field, number, role)
    return from_dict(raw, Pod), Written("Pod", raw)


def own(field: Field, number: int) -> int:
    return placed(stage(), *read(field, number, "ours"))


def others(field: Field, number: int, role: str) -> int:
    """What an ordinary pod costs after one with so many entries was judged, or runs."""
    scene = stage()
    struct, pod = read(field, number, role)
    scene.see(_Ready(pod, struct))
    if role == "ours":
        scene.attempt()
    return ordinary(scene)


def at_bound(field: Field, cost: Callable[[int], int]) -> float:
    few, twice = cost(FEW), cost(2 * FEW)
    number, _ = bound(field)
    return twice + max(twice - few, 0) / FEW * max(number - 2 * FEW, 0)


@cache
def usual() -> int:
    return ordinary(stage())


@pytest.mark.parametrize("field", pod_fields(), ids=str)
async def test_an_attempt_at_a_bound_costs_at_most_so_many_ordinary_ones(field: Field) -> None:
    assert at_bound(field, partial(own, field)) <= OWN * usual()


@pytest.mark.parametrize("role", ["ours", "running"])
@pytest.mark.parametrize("field", pod_fields(), ids=str)
async def test_others_pay_at_most_twice(field: Field, role: str) -> None:
    assert at_bound(field, partial(others, field, role=role)) <= OTHERS * usual()
