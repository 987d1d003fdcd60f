"""Many who ask the same share one answer, and one turn."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from scheduler.serve.recent import KEPT_SECONDS, MOST_BYTES, VIEW_TIMES, RecentAnswers, SharedAnswer
from tests.pipeline.support import FakeClock


class Making:
    """Counts answers; each waits until it may end."""

    def __init__(self, size: int = 1, *, failing: bool = False) -> None:
        self.count = 0
        self.may_end = asyncio.Event()
        self._failing = failing
        self._size = size

    async def __call__(self) -> SharedAnswer:
        self.count += 1
        await self.may_end.wait()
        if self._failing:
            raise RuntimeError("a fault")
        return SharedAnswer(str(self.count).encode() * self._size)


async def test_those_who_ask_at_once_get_one_answer() -> None:
    recent, making = RecentAnswers(FakeClock()), Making()
    asked = [asyncio.ensure_future(recent.get("pod", making)) for _ in range(20)]
    await asyncio.sleep(0)
    making.may_end.set()
    assert len(set(await asyncio.gather(*asked))) == 1
    assert making.count == 1


async def made_in(seconds: float, recent: RecentAnswers, clock: FakeClock, making: Making) -> None:
    """Have an answer made that takes so long."""
    asked = asyncio.ensure_future(recent.get("pod", making))
    await asyncio.sleep(0)
    clock.advance(seconds)
    making.may_end.set()
    await asked


async def test_an_answer_is_used_for_as_long_as_it_took() -> None:
    clock = FakeClock()
    recent, making = RecentAnswers(clock), Making()
    await made_in(0.25, recent, clock, making)
    clock.advance(0.25)
    await recent.get("pod", making)
    assert making.count == 1
    await recent.get("another pod", making)
    assert making.count == 2
    clock.advance(0.125)
    await recent.get("pod", making)
    assert making.count == 3


async def test_a_view_of_the_page_is_made_a_few_times_however_many_ask() -> None:
    clock = FakeClock()
    recent, making = RecentAnswers(clock), Making()
    making.may_end.set()

    async def slowly() -> SharedAnswer:
        clock.advance(0.03125)
        return await making()

    for _ in range(100):
        await recent.get("map", slowly, VIEW_TIMES)
        clock.advance(0.03125)
    assert 2 <= making.count <= 100 / VIEW_TIMES + 1


async def test_no_answer_is_used_for_long() -> None:
    clock = FakeClock()
    recent, making = RecentAnswers(clock), Making()
    await made_in(60.0, recent, clock, making)
    clock.advance(KEPT_SECONDS)
    await recent.get("pod", making)
    assert making.count == 1
    clock.advance(0.125)
    await recent.get("pod", making)
    assert making.count == 2


async def test_it_is_made_without_the_one_who_asked_first() -> None:
    recent, making = RecentAnswers(FakeClock()), Making()
    first = asyncio.ensure_future(recent.get("pod", making))
    second = asyncio.ensure_future(recent.get("pod", making))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    making.may_end.set()
    assert (await second).body == b"1"


async def test_an_answer_that_failed_is_made_again() -> None:
    recent, failing = RecentAnswers(FakeClock()), Making(failing=True)
    failing.may_end.set()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await recent.get("pod", failing)
    assert failing.count == 2


async def test_answers_that_fail_at_once_are_all_dropped() -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    recent, failing = RecentAnswers(FakeClock()), Making(failing=True)
    asked = [asyncio.ensure_future(recent.get(f"pod {number}", failing)) for number in range(3)]
    await asyncio.sleep(0)
    failing.may_end.set()
    await asyncio.gather(*asked, return_exceptions=True)
    assert recent._answers == {}
    assert faults == []


async def test_what_is_kept_is_bounded_in_bytes_and_given_back() -> None:
    clock = FakeClock()
    recent = RecentAnswers(clock)
    for number in range(9):
        making = Making(size=MOST_BYTES // 8)
        asked = asyncio.ensure_future(recent.get(str(number), making))
        await asyncio.sleep(0)
        clock.advance(0.0625)
        making.may_end.set()
        await asked
        done = [each.task for each in recent._answers.values()]
        assert sum(task.result().size for task in done) <= MOST_BYTES
    clock.advance(KEPT_SECONDS + 0.125)
    making.may_end.set()
    await recent.get("new", making)
    assert list(recent._answers) == ["new"]


async def test_the_body_is_compressed_once() -> None:
    answer = SharedAnswer(b"body" * 1000)
    first, second = await asyncio.gather(answer.compressed(), answer.compressed())
    assert first is second
    assert gzip.decompress(first) == answer.body
