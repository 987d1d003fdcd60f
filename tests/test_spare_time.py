"""Work that may wait takes a small share of the loop while pods are to be placed."""

from __future__ import annotations

import asyncio

from scheduler import slices
from scheduler.slices import SLICE_SECONDS, in_slices, resting
from scheduler.spare_time import SHARE, SpareTime
from tests.pipeline.support import FakeClock


def test_an_idle_loop_is_not_waited_for() -> None:
    spare = SpareTime(lambda: False, FakeClock())
    assert [spare.pause() for _ in range(3)] == [0.0] * 3


def test_all_who_rest_share_one_share() -> None:
    clock = FakeClock()
    spare = SpareTime(lambda: True, clock)
    turn = SLICE_SECONDS / SHARE
    pauses = [spare.pause() for _ in range(3)]
    assert [round(each, 6) for each in pauses] == [round(turn * n, 6) for n in (1, 2, 3)]
    clock.advance(10 * turn)
    assert round(spare.pause(), 6) == round(turn, 6)


async def test_work_in_slices_rests_where_it_is_told_to() -> None:
    rests = 0

    async def rest() -> None:
        nonlocal rests
        rests += 1
        await asyncio.sleep(0)

    def work() -> int:
        ended = slices.slices_ended()
        while slices.slices_ended() < ended + 3:
            slices.checkpoint()
        return 7

    with resting(rest):
        task = asyncio.ensure_future(in_slices(work))
    assert await task == 7
    assert rests == 3
    assert await in_slices(work) == 7
    assert rests == 3
