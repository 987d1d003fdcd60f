"""Synchronous work that gives the event loop back."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from scheduler import slices
from scheduler.slices import (
    checkpoint,
    in_slices,
    in_slices_until,
    paced,
    slices_ended,
    unbroken,
    whole_slice,
)


@pytest.fixture(autouse=True)
def _slices_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)


class Clock:
    """Stands still."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


async def test_others_run_at_each_checkpoint() -> None:
    seen: list[str] = []

    def work() -> str:
        for step in range(3):
            seen.append(f"work {step}")
            checkpoint()
        return "done"

    async def other() -> None:
        for step in range(3):
            seen.append(f"other {step}")
            await asyncio.sleep(0)

    result, _ = await asyncio.gather(in_slices(work), other())
    assert result == "done"
    assert seen == ["work 0", "other 0", "work 1", "other 1", "work 2", "other 2"]


async def test_a_slice_that_is_not_over_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 1e9)

    def work() -> int:
        for _ in range(100):
            checkpoint()
        return slices_ended()

    assert await in_slices(work) == 0


@pytest.mark.parametrize(("seconds", "ended"), [(0.0, 0), (0.5, 0), (2.0, 1), (4.0, 1)])
async def test_a_long_piece_begins_with_most_of_a_slice(
    seconds: float, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(slices, "SLICE_SECONDS", 5.0)
    monkeypatch.setattr(slices, "machine", clock)

    def work() -> list[int]:
        clock.now += seconds
        checkpoint()  # the slice is not over
        counts = [slices_ended()]
        with unbroken():
            whole_slice()
        counts.append(slices_ended())
        whole_slice()
        counts.append(slices_ended())
        whole_slice()  # the slice has just begun
        return [*counts, slices_ended()]

    assert await in_slices(work) == [0, 0, ended, ended]


def test_outside_of_slices_a_checkpoint_does_nothing() -> None:
    checkpoint()
    whole_slice()
    with unbroken():
        checkpoint()
    assert slices_ended() == 0


async def test_what_the_work_raises_is_raised_to_the_caller() -> None:
    def work() -> None:
        checkpoint()
        raise ValueError("fault")

    with pytest.raises(ValueError, match="fault"):
        await in_slices(work)


async def test_an_unbroken_section_is_not_interrupted() -> None:
    def work() -> list[int]:
        ended = []
        with unbroken():
            checkpoint()
            ended.append(slices_ended())
        checkpoint()
        ended.append(slices_ended())
        return ended

    assert await in_slices(work) == [0, 1]


async def test_cancelled_work_runs_its_finally_blocks_and_ends() -> None:
    seen: list[str] = []

    def work() -> None:
        try:
            while True:
                checkpoint()
        finally:
            checkpoint()
            seen.append("cleaned up")

    task = asyncio.create_task(in_slices(work))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cleaned up"]


async def test_two_pieces_of_work_take_turns() -> None:
    seen: list[str] = []

    def work(name: str) -> None:
        for step in range(2):
            seen.append(f"{name}{step}")
            checkpoint()

    await asyncio.gather(in_slices(work, "a"), in_slices(work, "b"))
    assert seen == ["a0", "b0", "a1", "b1"]


async def test_all_work_that_is_ready_shares_one_slice_of_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(slices, "SLICE_SECONDS", 5.0)
    monkeypatch.setattr(slices, "machine", clock)

    def work(steps: int) -> None:
        for _ in range(steps):
            clock.now += 1.0
            checkpoint()

    tasks = [asyncio.create_task(in_slices(work, steps)) for steps in (1, 2, 3, 20, 40) * 4]
    turns = []
    while not all(task.done() for task in tasks):
        before = clock.now
        await asyncio.sleep(0)
        turns.append(clock.now - before)
    assert max(turns) <= 5.0
    assert clock.now == 4 * (1 + 2 + 3 + 20 + 40)
    assert len(turns) <= 2 * clock.now / 5.0  # and the loop is not idle meanwhile


async def test_short_work_does_not_wait_for_the_end_of_long_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(slices, "SLICE_SECONDS", 5.0)
    monkeypatch.setattr(slices, "machine", clock)
    ended: list[str] = []

    def work(name: str, steps: int) -> None:
        for _ in range(steps):
            clock.now += 5.0
            checkpoint()
        ended.append(name)

    async with asyncio.TaskGroup() as tasks:
        for name, steps in (("long", 9), ("longer", 10), ("a", 1), ("b", 1), ("c", 2)):
            tasks.create_task(in_slices(work, name, steps))
    assert ended == ["a", "b", "c", "long", "longer"]


async def test_work_that_is_cancelled_before_it_begins_leaves_its_turn_to_others() -> None:
    seen: list[str] = []

    def work(name: str) -> None:
        seen.append(name)
        checkpoint()

    first, second, third = (asyncio.create_task(in_slices(work, name)) for name in "abc")
    await asyncio.sleep(0)
    assert seen == ["a"]  # the others wait for the next turn
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert seen == ["a", "c"]
    assert second.cancelled()


async def test_context_variables_have_the_values_of_the_caller() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")
    variable.set("caller's")

    def work() -> list[str]:
        seen = [variable.get()]
        checkpoint()
        return [*seen, variable.get()]

    assert await in_slices(work) == ["caller's", "caller's"]


async def test_stopped_work_ends_at_its_checkpoint() -> None:
    seen: list[str] = []

    def work() -> str:
        try:
            for step in range(9):
                seen.append(f"work {step}")
                checkpoint()
        finally:
            seen.append("cleaned up")
        return "done"

    assert await in_slices_until(lambda: len(seen) == 2, work) is None
    assert seen == ["work 0", "work 1", "cleaned up"]
    assert await in_slices_until(lambda: False, work) == "done"


async def test_a_long_list_is_read_with_checkpoints_and_a_short_one_without() -> None:
    def ended(number: int) -> int:
        assert list(paced(range(number))) == list(range(number))
        return slices_ended()

    assert await in_slices(ended, slices.PACE) == 0
    assert await in_slices(ended, 3 * slices.PACE) == 3
