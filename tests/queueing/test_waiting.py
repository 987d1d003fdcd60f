"""The scheduler sleeps until there is something to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scheduler.queueing.scheduling_queue import SchedulingQueue

from .support import NODE_ADD, Bench, make_pod

A = make_pod("a")


async def asleep(queue: SchedulingQueue) -> asyncio.Task[None]:
    """A task that waits for the queue and has had every chance to stop waiting."""
    task = asyncio.create_task(queue.wait())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_it_returns_at_once_when_a_pod_is_active() -> None:
    bench = Bench()
    bench.queue.add(A)
    await bench.queue.wait()
    assert bench.queue.pop() is not None


async def test_it_returns_at_once_when_a_pod_may_go_early() -> None:
    bench = Bench()
    bench.rejected(A, "Fit")
    bench.queue.on_event(NODE_ADD)
    await bench.queue.wait()
    assert bench.queue.pop() is not None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda bench: bench.queue.add(make_pod("b")), id="a pod is added"),
        pytest.param(lambda bench: bench.queue.on_event(NODE_ADD), id="an event wakes one"),
        pytest.param(lambda bench: bench.queue.activate([A.key]), id="one is activated"),
    ],
)
async def test_it_returns_when(change: Callable[[Bench], None]) -> None:
    bench = Bench()
    bench.rejected(A, "Fit")
    task = await asleep(bench.queue)
    change(bench)
    await task
    assert bench.queue.pop() is not None


async def test_a_pod_that_comes_back_with_an_error_sets_the_alarm() -> None:
    bench = Bench()
    queued = bench.popped(A)
    task = await asleep(bench.queue)
    bench.queue.requeue_error(queued, "boom")
    bench.clock.now = queued.backoff_until
    await task
    bench.queue.flush()
    assert bench.queue.pop() is queued


async def test_a_pod_that_is_only_parked_does_not_end_the_wait() -> None:
    bench = Bench()
    queued = bench.popped(A)
    task = await asleep(bench.queue)
    bench.queue.requeue_rejected(queued, {"Fit"}, (), "no")
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_timer_itself_ends_the_wait() -> None:
    clock = asyncio.get_running_loop().time
    bench = Bench(max_unschedulable=0.01, clock=clock)
    bench.rejected(A, "Fit")
    await bench.queue.wait()
    deadline = bench.queue.next_deadline()
    assert deadline is not None
    assert deadline <= clock()
