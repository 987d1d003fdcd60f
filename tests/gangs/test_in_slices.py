"""A pass that gives the event loop back between members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scheduler import slices
from tests.builders import make_node, make_pod
from tests.gangs.support import bound, gang_stage, make_group, member
from tests.pipeline.support import Stage, turns


@pytest.fixture(autouse=True)
def _slices_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)


def gang(stage: Stage, members: int, minimum: int | None = None) -> None:
    stage.see(make_group("g", minimum or members), *(member(f"m{i}") for i in range(members)))


async def attempt(stage: Stage, *meanwhile: Callable[[], None]) -> int:
    """One attempt; something happens at each of its first checkpoints. Returns its slices."""
    loop, happenings, count = stage.core.scheduler, iter(meanwhile), 1
    task = asyncio.create_task(loop.in_turn(loop.schedule_one))
    await asyncio.sleep(0)
    while not task.done():
        count += 1
        next(happenings, lambda: None)()
        await asyncio.sleep(0)
    await task
    await turns()
    return count


@pytest.mark.parametrize("members", [8, 16])
@pytest.mark.parametrize("fits", [True, False])
async def test_the_loop_is_given_back_for_each_member(members: int, fits: bool) -> None:
    stage = gang_stage()
    stage.see(make_node("n").cpu(str(members if fits else members - 1)))
    gang(stage, members)
    assert await attempt(stage) >= members
    assert len(bound(stage)) == (members if fits else 0)
    assert stage.core.state.assumed_count == len(bound(stage))


async def test_others_wait_for_a_member_that_is_deleted_when_it_held_a_node() -> None:
    stage = gang_stage()
    stage.see(make_node("n").cpu("8"))
    gang(stage, 3)
    await attempt(stage, lambda: None, lambda: stage.lose(member("m0")))
    assert bound(stage) == []
    assert stage.core.state.assumed_count == 2
    stage.see(member("instead"))
    await stage.run()
    assert bound(stage) == ["instead", "m1", "m2"]


async def test_members_find_other_nodes_when_theirs_goes_away() -> None:
    stage = gang_stage()
    stage.see(make_node("n").cpu("8"))
    gang(stage, 3)
    other = make_node("other").cpu("8")

    def swap() -> None:
        stage.lose(make_node("n"))
        stage.see(other)

    await attempt(stage, lambda: None, lambda: None, swap)
    assert bound(stage) == ["m0", "m1", "m2"]
    assert {node for _, node in stage.outlet.bound} == {"other"}


async def test_a_group_that_is_deleted_meanwhile_is_not_bound() -> None:
    stage = gang_stage()
    stage.see(make_node("n").cpu("8"))
    gang(stage, 3)
    await attempt(stage, lambda: None, lambda: stage.lose(make_group("g", 3)))
    assert bound(stage) == []
    assert stage.core.state.assumed_count == 0


async def test_a_member_that_nobody_needs_any_more_is_scheduled_alone() -> None:
    stage = gang_stage()
    stage.see(make_node("n").cpu("3"))
    gang(stage, 5, minimum=4)
    await attempt(stage, lambda: None, lambda: stage.see(make_group("g", 2)))
    await stage.later(30.0)
    assert len(bound(stage)) == 3
    assert set(stage.tiers().values()) == {"unschedulable"}


async def test_an_event_during_a_pass_counts_for_others_as_if_it_came_after_it() -> None:
    """While members hold what is freed, no hint may skip a pod because of that."""
    stage = gang_stage()
    running = make_pod("running").cpu("1").on("n")
    stage.see(make_node("n").cpu("2"), running)
    stage.see(make_pod("large").cpu("2").priority(5))
    await stage.run()
    assert stage.tiers() == {"large": "unschedulable"}
    gang(stage, 3)
    await attempt(stage, lambda: None, lambda: stage.lose(running))
    assert stage.tiers()["large"] in ("active", "backoff")


async def test_a_pass_that_is_stopped_holds_nothing_and_binds_nobody() -> None:
    stage = gang_stage()
    stage.see(make_node("n").cpu("8"))
    gang(stage, 4)
    await attempt(stage, lambda: None, stage.core.scheduler.stop)
    assert bound(stage) == []
    assert stage.core.state.assumed_count == 0


async def test_no_other_attempt_is_made_during_a_pass() -> None:
    stage = gang_stage()
    stage.see(make_node("n").cpu("8"))
    gang(stage, 4)
    loop, order = stage.core.scheduler, []

    async def other() -> None:
        await loop.in_turn(lambda: order.append(stage.core.state.assumed_count))

    await asyncio.gather(loop.in_turn(loop.schedule_one), other())
    assert order == [4]
    await stage.idle()


async def test_a_gang_whose_members_are_all_deleted_meanwhile_leaves_nothing_behind() -> None:
    stage = gang_stage()
    stage.see(make_node("n").cpu("2"))
    gang(stage, 3)
    await attempt(stage, lambda: stage.lose(*(member(f"m{i}") for i in range(3))))
    assert bound(stage) == []
    assert stage.core.state.assumed_count == 0
    assert stage.core.queue.view.counts()["in-flight"] == 0
    assert stage.sample("equipoise_gang_passes_total", result="error") == 0
