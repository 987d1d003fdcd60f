"""The law: for any cluster and claims, verdict and devices are those of the naive reference."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from random import Random
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.devices import DeviceError, DeviceIndex, budget
from scheduler.model.devices import ResourceClaim
from scheduler.model.nodes import Node
from tests.devices.reference import AttemptError, Choice, Cluster, GivenUpError, Reference
from tests.devices.worlds import World

STEPS = 20_000
ERROR = "error"

Verdict = list[Choice] | str | None


def indexed(world: World) -> DeviceIndex:
    index = DeviceIndex()
    for row, node in enumerate(world.nodes):
        index.set_node(row, node)
    for name, each in world.classes.items():
        index.set_class(name, each)
    for each_slice in world.slices:
        index.set_slice(None, each_slice)
    for number, allocation in enumerate(world.allocated):
        index.set_claim(str(number), allocation)
    return index


def expected(cluster: Cluster, claims: Sequence[ResourceClaim], node: Node) -> Verdict:
    try:
        return Reference(cluster, claims, node, STEPS).run()
    except AttemptError:
        return ERROR


def found(index: DeviceIndex, claims: Sequence[ResourceClaim], row: int) -> Verdict:
    try:
        allocations = index.allocate(claims, row)
    except DeviceError:
        return ERROR
    if allocations is None:
        return None
    return [
        (number, result.request, (result.driver, result.pool, result.device))
        for number, allocation in enumerate(allocations)
        for result in allocation.devices.results
    ]


def check(world: World, index: DeviceIndex, claims: Sequence[ResourceClaim]) -> None:
    for row, node in enumerate(world.nodes):
        try:
            wanted = expected(world.cluster, claims, node)
        except GivenUpError:
            continue
        assert found(index, claims, row) == wanted


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_verdicts_and_devices_are_those_of_the_reference(seed: int, thinks_at_once: bool) -> None:
    world = World(Random(seed))
    index = indexed(world)
    # Small worlds are never hard: have the search think as it does in hard ones.
    with patch.object(budget, "_HARD", 0) if thinks_at_once else nullcontext():
        for _ in range(4):
            check(world, index, world.claims())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_all_rows_at_once_are_answered_like_each_alone(seed: int) -> None:
    world = World(Random(seed), devices=3, nodes=24)
    together, alone = indexed(world), indexed(world)
    for _ in range(3):
        claims = world.claims()
        judgement = together.judge(claims, range(24))
        for row in range(24):
            here = judgement.outcomes[judgement.codes[row]]
            single = alone.judge(claims, (row,)).outcomes[0]
            assert together.reason(here, claims, row) == alone.reason(single, claims, row)
            assert (here.fits, here.score) == (single.fits, single.score)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_events_lead_to_the_same_as_a_fresh_index(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    index = indexed(world)
    claims = world.claims()
    check(world, index, claims)
    for _ in range(6):
        change(random, world, index)
        check(world, index, claims)


def change(random: Random, world: World, index: DeviceIndex) -> None:
    choice = random.randrange(4)
    if choice == 0 and world.slices:
        gone = world.slices.pop(random.randrange(len(world.slices)))
        index.set_slice(gone, None)
    elif choice == 1:
        before = {id(each) for each in world.slices}
        node = random.choice(world.nodes).name
        world._pool("gpu.example.com", node, {"nodeName": node})
        names = {each.metadata.name for each in world.slices if id(each) not in before}
        for old in [e for e in world.slices if e.metadata.name in names and id(e) in before]:
            world.slices.remove(old)
        for new in [each for each in world.slices if id(each) not in before]:
            index.set_slice(None, new)
    elif choice == 2:
        world.allocated.append(world._allocated())
        index.set_claim(str(len(world.allocated) - 1), world.allocated[-1])
    elif world.allocated:
        index.set_claim(str(len(world.allocated) - 1), None)
        world.allocated.pop()
