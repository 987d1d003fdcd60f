"""Whatever happens: no partial gang, nothing left behind, no deadlock."""

from __future__ import annotations

import asyncio
from functools import partial
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler import slices
from tests.equivalence.searching import EXAMPLES, SETTINGS
from tests.gangs.world import GROUPS, World

NUMBERS = st.integers(0, 7)
EVENTS = st.one_of(
    st.tuples(st.just("node"), st.integers(1, 4)),
    st.tuples(st.just("no node"), NUMBERS),
    st.tuples(st.just("group"), st.sampled_from(GROUPS), st.integers(1, 4)),
    st.tuples(st.just("no group"), st.sampled_from(GROUPS)),
    st.tuples(st.just("pod"), st.sampled_from(("", *GROUPS, *GROUPS)), st.integers(1, 2), NUMBERS),
    st.tuples(st.just("several"), st.sampled_from(GROUPS), st.integers(2, 4)),
    st.tuples(st.just("moody pod"), st.sampled_from(GROUPS)),
    st.tuples(st.just("others bind"), NUMBERS),
    st.tuples(st.just("relabel"), NUMBERS, st.sampled_from(GROUPS)),
    st.tuples(st.just("no pod"), NUMBERS),
    st.tuples(st.just("answer"), NUMBERS, st.booleans()),
    st.tuples(st.just("finish"), NUMBERS, st.sampled_from(("Succeeded", "Failed", "Running"))),
    st.tuples(st.just("see")),
)
"""What comes from outside; also in the middle of a pass."""
STEPS = st.one_of(
    EVENTS,
    EVENTS,
    EVENTS,
    st.tuples(st.just("attempt")),
    st.tuples(st.just("all attempts")),
    st.tuples(st.just("all attempts")),
    st.tuples(st.just("in slices"), st.lists(EVENTS, max_size=6).map(tuple)),
    st.tuples(st.just("time"), st.integers(1, 20)),
)
Step = tuple[object, ...]


def happen(world: World, step: Step) -> None:
    match step:
        case ("node", int(cpus)):
            world.add_node(cpus)
        case ("no node", int(which)):
            world.remove_node(which)
        case ("group", str(group), int(minimum)):
            world.set_group(group, minimum)
        case ("no group", str(group)):
            world.remove_group(group)
        case ("pod", str(group), int(cpus), int(priority)):
            world.add_pod(group, cpus, priority)
        case ("several", str(group), int(count)):
            for _ in range(count):
                world.add_pod(group, 1)
        case ("moody pod", str(group)):
            world.add_moody_pod(group)
        case ("others bind", int(which)):
            world.bind_by_others(which)
        case ("relabel", int(which), str(group)):
            world.relabel(which, group)
        case ("no pod", int(which)):
            world.remove_pod(which)
        case ("answer", int(which), bool(well)):
            world.answer(which, well)
        case ("finish", int(which), str(phase)):
            world.finish(which, phase)
        case ("see",):
            world.see_bindings()
        case _:
            raise AssertionError(f"unknown step: {step}")


async def live(steps: list[Step]) -> None:
    world = World()
    world.add_node(3)
    for group in GROUPS:
        world.set_group(group, 2)
    for step in steps:
        match step:
            case ("attempt",):
                await world.attempt()
            case ("all attempts",):
                while world.stage.core.queue.view.counts()["active"]:
                    await world.attempt()
            case ("in slices", tuple(events)):
                meanwhile = iter([partial(happen, world, event) for event in events])
                while world.stage.core.queue.view.counts()["active"]:
                    await world.attempt_in_slices(meanwhile)
            case ("time", int(seconds)):
                await world.pass_time(float(seconds))
            case _:
                happen(world, step)
                await asyncio.sleep(0)
    await world.settle()
    world.check()
    await world.stage.core.bindings.stop()


@settings(
    SETTINGS,
    max_examples=8 * EXAMPLES,
)
@given(st.lists(STEPS, max_size=60))
@example([("group", "g", 4), ("several", "g", 4), ("attempt",), ("node", 4)])
@example([("several", "g", 4), ("in slices", (("no pod", 0), ("no node", 0)))])
@example([("several", "g", 3), ("in slices", (("node", 4), ("no node", 0), ("group", "g", 4)))])
def test_the_law(steps: list[Step]) -> None:
    with mock.patch.object(slices, "SLICE_SECONDS", 0.0):
        asyncio.run(live(steps))
