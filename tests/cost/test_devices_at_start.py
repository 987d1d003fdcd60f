"""What devices cost when a scheduler starts: each object little, in whatever order kinds arrive.

All kinds are listed at once, and who has many objects comes last. Pods whose claims have not come
yet are gated meanwhile, and no node, slice or class may be compared with each of them.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from scheduler.dra.ledger import ledger_of
from scheduler.model.objects import KINDS, from_dict
from tests.builders import Json, make_worker
from tests.cost.counting import cost
from tests.dra.devices import DRIVER, claim, device_class, slice_of, using
from tests.pipeline.support import Stage

FEW = 8
SLACK = 400 * FEW
"""Dictionaries that grow, and what is made when something comes for the first time."""
MOST_EACH = 3000
"""Operations of one object from its event until the queue knows of it."""
TAKEN = 3
"""Devices of each node that claims hold already."""
DEVICES = 4

ORDERS = ["".join(order) for order in permutations("NSCP")]


class Change(NamedTuple):
    old: Any
    new: Any


def decoded(kind: str, raw: Json) -> Any:
    return from_dict({"kind": kind, **raw}, KINDS[kind].type)


def with_uid(raw: Json, **more: Any) -> Json:
    name = raw["metadata"]["name"]
    return {**raw, **more, "metadata": {**raw["metadata"], "uid": f"uid-{name}"}}


def held(node: str, number: int) -> Json:
    """A claim that holds a device of a node."""
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": f"gpu-{number}"}
    status = {"allocation": {"devices": {"results": [result]}}}
    return with_uid(claim(f"of-{node}-{number}"), status=status)


def nodes(count: int) -> list[str]:
    return [f"node-{number}" for number in range(count)]


def cluster(count: int) -> dict[str, tuple[str, list[Any]]]:
    """Nodes, slices, claims and waiting pods, all by a letter."""
    names, pods = nodes(count), [f"pod-{number}" for number in range(count)]
    claims = [held(name, number) for name in names for number in range(TAKEN)]
    claims += [with_uid(claim(pod)) for pod in pods]
    raw = {
        "N": ("Node", [make_worker(name).obj() for name in names]),
        "S": ("ResourceSlice", [slice_of(name, DEVICES) for name in names]),
        "C": ("ResourceClaim", claims),
        "P": ("Pod", [using(pod, pod).obj() for pod in pods]),
    }
    return {
        letter: (kind, [decoded(kind, each) for each in of]) for letter, (kind, of) in raw.items()
    }


def arrive(scene: Stage, kind: str, objects: list[Any], old: list[Any] | None = None) -> None:
    before = old or [None] * len(objects)
    changes = [Change(*each) for each in zip(before, objects, strict=True)]
    scene.core.event_handlers.handler(kind)(changes)


def ready() -> Stage:
    """A core that knows a class."""
    scene = Stage()
    arrive(scene, "DeviceClass", [decoded("DeviceClass", device_class())])
    return scene


def start(order: str, count: int) -> tuple[Stage, int]:
    """A core to which all has come, and what that has cost."""
    scene, objects = ready(), cluster(count)

    def work() -> None:
        for letter in order:
            arrive(scene, *objects[letter])

    return scene, cost(work).operations


@pytest.mark.parametrize("order", ORDERS)
def test_a_start_costs_little_for_each_object_in_whatever_order_kinds_come(order: str) -> None:
    scene, few = start(order, FEW)
    assert scene.core.queue.active == FEW
    _, many = start(order, 2 * FEW)
    assert many <= 2 * few + SLACK
    assert many <= MOST_EACH * 2 * FEW * (TAKEN + 4)


def test_what_comes_before_its_claim_wakes_no_pod() -> None:
    scene, objects = ready(), cluster(FEW)
    for letter in "PNS":
        arrive(scene, *objects[letter])
        assert scene.core.queue.active == 0
    arrive(scene, *objects["C"])
    assert scene.core.queue.active == FEW


def newer(each: Any) -> Any:
    """A slice of the next generation of its pool."""
    pool = replace(each.spec.pool, generation=each.spec.pool.generation + 1)
    return replace(each, spec=replace(each.spec, pool=pool))


def without_devices(each: Any) -> Any:
    """A claim that has given back what it held."""
    return replace(each, status=replace(each.status, allocation=None))


def republished(order: str, count: int, work: str) -> int:
    """What it costs that all of something changes after a start."""
    scene, objects = ready(), cluster(count)
    for letter in order:
        arrive(scene, *objects[letter])
    judged(scene)
    slices, claims = objects["S"][1], objects["C"][1][: TAKEN * count]
    kind, old, new = {
        "slices": ("ResourceSlice", slices, [newer(each) for each in slices]),
        "freed": ("ResourceClaim", claims, [without_devices(each) for each in claims]),
        "gone": ("ResourceClaim", claims, [None for _ in claims]),
    }[work]
    return cost(lambda: arrive(scene, kind, new, old)).operations


def judged(scene: Stage) -> None:
    """Have all nodes looked at, as attempts do."""
    ledger = ledger_of(scene.core.state)
    ledger.follow_nodes()
    ledger.index.judge([decoded("ResourceClaim", claim("asked"))], scene.core.state.rows())


@pytest.mark.parametrize(
    ("order", "work"), [("NSCP", "slices"), ("PNS", "slices"), ("NSC", "freed"), ("NSCP", "gone")]
)
def test_a_driver_or_claims_that_change_all_cost_little_for_each(order: str, work: str) -> None:
    few, many = (republished(order, count, work) for count in (FEW, 2 * FEW))
    assert many <= 2 * few + SLACK
