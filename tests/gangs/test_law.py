"""Whatever happens: no partial gang, nothing left behind, no deadlock."""

from __future__ import annotations

import asyncio

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.equivalence.searching import EXAMPLES, SETTINGS
from tests.gangs.world import GROUPS, World

NUMBERS = st.integers(0, 7)
STEPS = st.one_of(
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
    st.tuples(st.just("attempt")),
    st.tuples(st.just("all attempts")),
    st.tuples(st.just("all attempts")),
    st.tuples(st.just("answer"), NUMBERS, st.booleans()),
    st.tuples(st.just("finish"), NUMBERS, st.sampled_from(("Succeeded", "Failed", "Running"))),
    st.tuples(st.just("see")),
    st.tuples(st.just("time"), st.integers(1, 20)),
)


async def live(steps: list[tuple[object, ...]]) -> None:
    world = World()
    world.add_node(3)
    for group in GROUPS:
        world.set_group(group, 2)
    for step in steps:
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
            case ("attempt",):
                await world.attempt()
            case ("all attempts",):
                while world.stage.core.queue.counts()["active"]:
                    await world.attempt()
            case ("answer", int(which), bool(well)):
                world.answer(which, well)
                await asyncio.sleep(0)
            case ("finish", int(which), str(phase)):
                world.finish(which, phase)
            case ("see",):
                world.see_bindings()
            case ("time", int(seconds)):
                await world.pass_time(float(seconds))
    await world.settle()
    world.check()
    await world.stage.core.bindings.stop()


@settings(
    SETTINGS,
    max_examples=8 * EXAMPLES,
)
@given(st.lists(STEPS, max_size=60))
@example([("group", "g", 4), ("several", "g", 4), ("attempt",), ("node", 4)])
def test_the_law(steps: list[tuple[object, ...]]) -> None:
    asyncio.run(live(steps))
