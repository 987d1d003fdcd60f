"""However many pods are nominated, after many preemptions at once, others cost little more."""

from __future__ import annotations

from tests.builders import make_pod, make_worker, pod_term
from tests.cost.counting import Cost, cost
from tests.pipeline.evicting import Arena

PER_ROW = 25
"""Operations of an attempt for each node that pods are nominated to."""
PER_ROW_OF_NEW_CLASS = 300


def full(nominated: int) -> Cost:
    """What a pod costs whose verdicts depend on pods of other nodes, if the nodes are full."""
    scene = Arena()
    scene.see(make_worker("free"))
    apart = pod_term("zone", {"app": "none"})
    for number in range(nominated):
        scene.see(make_worker(f"n-{number}").cpu(4))
        scene.see(make_pod(f"leaving-{number}").cpu(4).on(f"n-{number}").deleting())
        important = make_pod(f"p-{number}").priority(10).cpu(4).label(number=str(number))
        scene.core.state.nominations.set(important.info(), f"n-{number}")
    scene.see(make_pod("first").cpu("10m").apart(apart))
    scene.attempt()
    scene.see(make_pod("second").cpu("10m").apart(apart))
    return cost(scene.attempt)


async def test_nodes_that_are_full_cost_pods_with_affinity_little() -> None:
    few, many = full(50), full(100)
    assert many.operations - few.operations <= 50 * PER_ROW_OF_NEW_CLASS


def attempts(nominated: int) -> tuple[Cost, Cost]:
    """What a pod of a known class costs, and one that is unlike all before."""
    scene = Arena()
    for number in range(nominated):
        scene.see(make_worker(f"n-{number}"))
    for number in range(nominated):
        important = make_pod(f"p-{number}").priority(10).cpu("10m").label(number=str(number))
        scene.core.state.nominations.set(important.info(), f"n-{number}")
    for name in ("first", "second"):
        scene.see(make_pod(name).cpu("10m"))
        scene.attempt()
    scene.see(make_pod("third").cpu("10m"))
    known = cost(scene.attempt)
    scene.see(make_pod("other").cpu("11m"))
    return known, cost(scene.attempt)


async def test_pods_that_are_nominated_cost_others_little() -> None:
    (few, few_new), (many, many_new) = attempts(100), attempts(200)
    assert many.operations - few.operations <= 100 * PER_ROW
    assert many_new.operations - few_new.operations <= 100 * PER_ROW_OF_NEW_CLASS
