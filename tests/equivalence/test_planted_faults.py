"""A cache that ignores some aspect breaks the law, and the checks of the law find it.

For each aspect there is one change that only matters to somebody who hears of it. Heard of, it
breaks nothing; left out of the log, what was kept before is held to be true and is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from scheduler.config.defaults import SCHEDULER_NAME
from scheduler.state.aspects import Aspect
from tests.equivalence import law
from tests.equivalence.searching import SETTINGS
from tests.equivalence.templates import PACKED, waiting
from tests.equivalence.test_law import CacheLaw
from tests.equivalence.world import World


def plant(world: World, missing: Aspect) -> None:
    """From now on changes of an aspect are not logged."""
    changes = world.core.state.changes
    touch, touch_all = changes.touch, changes.touch_all

    def heard(aspects: Iterable[Aspect]) -> list[Aspect]:
        return [aspect for aspect in aspects if aspect is not missing]

    def touch_heard(row: int, aspects: Iterable[Aspect]) -> None:
        if left := heard(aspects):
            touch(row, left)

    def touch_all_heard(aspects: Iterable[Aspect]) -> None:
        if left := heard(aspects):
            touch_all(left)

    changes.touch = touch_heard  # type: ignore[method-assign]  # that is the fault
    changes.touch_all = touch_all_heard  # type: ignore[method-assign]  # that is the fault


class Case(NamedTuple):
    """A pod that is looked at before and after a change."""

    pod: str
    change: Callable[[World], None]
    before: Callable[[World], None] = lambda world: None
    profile: str = SCHEDULER_NAME
    tried: bool = False
    """Whether one of its class is tried, which leaves a verdict on the class if it fits nowhere."""


def changed(kind: str, name: str, **traits: int) -> Callable[[World], None]:
    return lambda world: world.change(kind, name, **traits)


def several(*steps: Callable[[World], None]) -> Callable[[World], None]:
    def all_of_them(world: World) -> None:
        for step in steps:
            step(world)

    return all_of_them


def another_node_in_its_row(world: World) -> None:
    world.remove("Node", "n0")
    world.change("Node", "n3", cpu=1)


def nominated_to_another(world: World) -> None:
    world.see(waiting("port", "other").priority(1).status(nominatedNodeName="n0").obj())


bound = several(
    changed("PersistentVolume", "v0", zone=1), changed("PersistentVolumeClaim", "c0", volume=1)
)
provisioned = several(
    changed("PersistentVolumeClaim", "c1"), changed("PersistentVolumeClaim", "c2")
)
measured = several(provisioned, changed("CSIDriver", "csi.example.com", capacity=1))

equipped = several(
    changed("DeviceClass", "gpu"),
    changed("ResourceClaim", "x", count=1),
    *(changed("ResourceSlice", f"n{i}") for i in range(3)),
)

CASES: dict[Aspect, Case] = {
    Aspect.NODE: Case("important", another_node_in_its_row),
    Aspect.ALLOCATABLE: Case("important", changed("Node", "n0", cpu=1)),
    Aspect.LABELS: Case("selective", changed("Node", "n0", zone=1)),
    Aspect.ZONE_LABELS: Case("claim", changed("Node", "n0", zone=2), bound),
    Aspect.TAINTS: Case("cpu", changed("Node", "n0", taint=1)),
    Aspect.UNSCHEDULABLE: Case("cpu", changed("Node", "n0", cordon=1)),
    Aspect.CONDITIONS: Case("cpu", changed("Node", "n0", DiskPressure=1)),
    Aspect.FEATURES: Case("featured", changed("Node", "n0", feature=1)),
    Aspect.IMAGES: Case("pictured", changed("Node", "n0", image=1)),
    Aspect.REQUESTED: Case("important", changed("Pod", "x0", cpu=2)),
    Aspect.PODS: Case(
        "company", changed("Pod", "x0", app=2), changed("Pod", "x0", app=1), tried=True
    ),
    Aspect.PORTS: Case("port", changed("Pod", "x0", port=1)),
    Aspect.DISKS: Case("disk", changed("Pod", "x0", disk=2)),
    Aspect.CLAIM_USE: Case(
        "claim",
        changed("Pod", "x0", claim=1),
        several(bound, changed("PersistentVolumeClaim", "c0", mode=1)),
    ),
    Aspect.ATTACHED: Case(
        "claim",
        changed("VolumeAttachment", "t0", node=0, volume=1),
        several(bound, changed("PersistentVolume", "v1"), changed("CSINode", "n0", limit=2)),
    ),
    Aspect.TERMS: Case("labelled", changed("Pod", "x0", apart=1)),
    Aspect.TOPOLOGY: Case(
        "pinned",
        changed("NodeResourceTopology", "n0", first=2, second=2),
        changed("NodeResourceTopology", "n0"),
        profile=PACKED,
    ),
    Aspect.NOMINATED_PODS: Case("hungry", nominated_to_another, tried=True),
    Aspect.NAMESPACES: Case(
        "labelled", changed("Namespace", "default", team=1), changed("Pod", "x4", near=2)
    ),
    Aspect.SERVICES: Case("labelled", changed("Service", "s0", selector=1)),
    Aspect.CONTROLLERS: Case("replica", changed("ReplicaSet", "r", selector=1)),
    Aspect.VOLUMES: Case("claim", changed("PersistentVolume", "v0", source=2), bound),
    Aspect.CLAIMS: Case("claims", changed("PersistentVolumeClaim", "c1", selected=1), provisioned),
    Aspect.STORAGE_CLASSES: Case(
        "claims", changed("StorageClass", "late", topology=2), provisioned
    ),
    Aspect.DRIVERS: Case(
        "claims", changed("CSIDriver", "csi.example.com", capacity=1), provisioned
    ),
    Aspect.NODE_DRIVERS: Case(
        "claim",
        changed("CSINode", "n0", migrated=1),
        several(bound, changed("PersistentVolume", "v0", source=1)),
    ),
    Aspect.STORAGE_CAPACITIES: Case(
        "claims", changed("CSIStorageCapacity", "k0", size=1), measured
    ),
    Aspect.DEVICES: Case("devices", changed("ResourceSlice", "n0", taint=1), equipped),
    Aspect.DEVICE_CLASSES: Case("devices", changed("DeviceClass", "gpu", model=1), equipped),
}

MADE_ANEW = {
    Aspect.VOLUMES,
    Aspect.CLAIMS,
    Aspect.STORAGE_CLASSES,
    Aspect.DRIVERS,
    Aspect.STORAGE_CAPACITIES,
}
"""What only keys of pods with claims are derived from, which are made for each pod."""
HEARD_OF = [aspect for aspect in CASES if aspect not in MADE_ANEW]

ZONED = ("claim", "claims", "company")

UNTOLD: dict[Aspect, str] = {
    Aspect.GROUPS: "no plugin reads it yet",
    Aspect.RESOURCE_CLAIMS: "keys that are made of claims are made anew for each pod",
    Aspect.BUDGETS: "they decide whom a preemption spares, never whether a verdict holds",
}
"""Aspects whose absence has no effect, and why."""


def look(world: World, pod: str, name: str = "probe", profile: str = SCHEDULER_NAME) -> list[str]:
    """All that the law says about one pod."""
    probe = waiting(pod, name, profile).struct()
    rebuilt = world.rebuilt()
    return [
        *law.violations(world, [probe]),
        *law.placed_alike(world, rebuilt, probe),
        *law.results_alike(world, probe),
    ]


async def after(case: Case, missing: Aspect | None) -> list[str]:
    """What breaks when a change happens that is, or is not, logged in full."""
    world = World()
    for i in range(3):
        world.change("Node", f"n{i}", rack=1, zone=1 if case.pod in ZONED else 0)
        world.change("CSINode", f"n{i}")
    world.change("StorageClass", "late")
    case.before(world)
    if case.tried:
        world.see(waiting(case.pod, "w").obj())
        await world.attempt()
    assert look(world, case.pod, profile=case.profile) == []
    if missing is not None:
        plant(world, missing)
    case.change(world)
    try:
        return look(world, case.pod, profile=case.profile)
    finally:
        await world.close()


@pytest.mark.parametrize("aspect", CASES, ids=lambda aspect: aspect.name)
async def test_a_change_that_is_heard_of_breaks_nothing(aspect: Aspect) -> None:
    assert await after(CASES[aspect], None) == []


@pytest.mark.parametrize("aspect", HEARD_OF, ids=lambda aspect: aspect.name)
async def test_a_change_that_is_not_heard_of_is_found(aspect: Aspect) -> None:
    assert await after(CASES[aspect], aspect) != []


@pytest.mark.parametrize("aspect", sorted(MADE_ANEW), ids=lambda aspect: aspect.name)
async def test_keys_that_are_made_for_each_pod_need_not_hear_of_a_change(aspect: Aspect) -> None:
    assert await after(CASES[aspect], aspect) == []


def test_every_aspect_has_its_case_or_its_reason() -> None:
    assert CASES.keys() | UNTOLD.keys() == set(Aspect)
    assert not CASES.keys() & UNTOLD.keys()


def without_generations(world: World) -> None:
    """Have the table of statuses give codes out anew without a word."""
    statuses = world.core.state.statuses
    restart = statuses.restart

    def in_secret() -> None:
        restart()
        statuses.generation -= 1

    statuses.restart = in_secret  # type: ignore[method-assign]  # the fault to be found


@pytest.mark.parametrize("secret", [False, True], ids=["told", "in secret"])
@pytest.mark.parametrize("kept", ["answers", "memo of nominated rows"])
def test_codes_of_an_earlier_generation_are_found(kept: str, secret: bool) -> None:
    world = World()
    world.change("Node", "n0")
    if kept == "answers":
        world.change("Pod", "x0", port=1)
    else:
        nominated_to_another(world)
    assert look(world, "port", profile=PACKED) == []
    if secret:
        without_generations(world)
    law.restart_codes(world, others=2)
    assert bool(look(world, "port", profile=PACKED)) == secret


def test_random_histories_find_codes_of_an_earlier_generation() -> None:
    class Faulty(CacheLaw):
        def __init__(self) -> None:
            super().__init__()
            without_generations(self.world)

    with pytest.raises((AssertionError, IndexError)):
        run_state_machine_as_test(
            Faulty,
            settings=settings(SETTINGS, max_examples=200, derandomize=True, database=None),
        )


@pytest.mark.parametrize(
    "aspect",
    [Aspect.NODE, Aspect.REQUESTED],
    ids=lambda aspect: aspect.name,
)
def test_random_histories_find_it_as_well(aspect: Aspect) -> None:
    class Faulty(CacheLaw):
        def __init__(self) -> None:
            super().__init__()
            plant(self.world, aspect)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Faulty,
            settings=settings(SETTINGS, max_examples=200, derandomize=True, database=None),
        )
