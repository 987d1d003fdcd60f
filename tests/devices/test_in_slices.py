"""Several tasks ask the index while each of them rests at checkpoints, and devices change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import slices
from scheduler.bounded import Recent
from scheduler.cel import limits, selector, state
from scheduler.devices import DeviceIndex
from scheduler.devices.demand import demand_key
from scheduler.model.devices import DeviceClass, ResourceClaim
from scheduler.model.objects import from_dict
from scheduler.slices import in_slices
from tests.devices.support import ask, claim, device, index_of, outcome, slice_of
from tests.devices.test_law import change, check, found, indexed
from tests.devices.worlds import GPU, NIC, World

EXPRESSIONS = (f'device.driver == "{GPU}"', f'device.driver == "{NIC}"', "true", "1/0 == 1")


@pytest.fixture(scope="module", autouse=True)
def _every_checkpoint_stops() -> Iterator[None]:
    with ExitStack() as patches:
        patches.enter_context(patch.object(slices, "SLICE_SECONDS", 0.0))
        for module, name in ((state, "_PACE"), (limits, "_PACE"), (limits, "_NODES_PACE")):
            patches.enter_context(patch.object(module, name, 1))
        patches.enter_context(patch.object(selector, "COUNTED_FROM", -1))
        compiled = Recent[str, object](1, lambda *_: 1)  # what others have compiled does not count
        patches.enter_context(patch.object(selector, "_selectors", compiled))
        yield


def look(index: DeviceIndex, claims: Sequence[ResourceClaim], rows: int) -> None:
    index.judge(claims, range(rows))


def compare(index: DeviceIndex, claims: Sequence[ResourceClaim], driver: str) -> bool:
    """As a hint does when a pool of a driver has changed."""
    shapes = index.shapes_of({(driver, f"n{n}") for n in range(3)})
    return index.touches(claims, demand_key(claims), shapes)


def change_a_class(random: Random, world: World, index: DeviceIndex) -> None:
    name, expression = random.choice(("gpu", "nic", "any")), random.choice(EXPRESSIONS)
    raw = {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    world.classes[name] = from_dict(raw, DeviceClass)
    index.set_class(name, world.classes[name])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_what_tasks_find_at_the_same_time_is_what_each_finds_alone(seed: int) -> None:
    random = Random(seed)
    world = World(random, nodes=4)
    index = indexed(world)
    asked = [world.claims() for _ in range(2)]

    async def changes() -> None:
        for _ in range(4):
            for _ in range(random.randrange(40)):
                await asyncio.sleep(0)
            (change_a_class if random.random() < 0.5 else change)(random, world, index)

    async def later(turns: int, work: Callable[..., object], *args: object) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await in_slices(work, *args)

    async def everything() -> None:
        tasks = [
            later(random.randrange(60), work, index, each, by)
            for each in asked
            for work, by in ((look, 4), (look, 4), (look, 4), (compare, GPU))
        ]
        await asyncio.gather(*tasks, changes())

    asyncio.run(everything())
    for each in asked:
        fresh = indexed(world)
        assert [found(index, each, row) for row in range(4)] == [
            found(fresh, each, row) for row in range(4)
        ]
        check(world, index, each)


def test_a_class_that_changes_while_a_demand_for_it_is_compiled_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first demand is compiled with the class as it was."""
    index = index_of("n0")
    index.set_slice(None, slice_of("n0", [device("d0")]))
    nothing = {"selectors": [{"cel": {"expression": "device.driver == 'other.example.com'"}}]}
    other = from_dict({"metadata": {"name": "gpu"}, "spec": nothing}, DeviceClass)
    changed: list[str] = []

    def pause() -> None:
        if not changed:
            changed.append("gpu")
            index.set_class("gpu", other)

    monkeypatch.setattr(limits, "checkpoint", pause)
    assert not outcome(index, claim(ask())).fits
    assert changed, "it paused"
    assert not outcome(index, claim(ask())).fits
