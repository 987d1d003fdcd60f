"""Loop lag and collector pauses, on clocks that the tests own."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from scheduler.observe import runtime
from scheduler.observe.metrics import Metrics
from scheduler.observe.runtime import (
    MOST_AT_ONCE,
    OLD_THRESHOLD,
    YOUNG_THRESHOLD,
    EventLoopLag,
    GcPauses,
    freeze_after_sync,
    freeze_imports,
    freeze_while_syncing,
)
from tests.patience import PATIENCE


@pytest.fixture
def collector_as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


class LateSleeper:
    """A clock and a sleep that overshoots by the given amounts, then is cancelled."""

    def __init__(self, *overshoots: float) -> None:
        self.now = 0.0
        self._overshoots = iter(overshoots)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        try:
            self.now += seconds + next(self._overshoots)
        except StopIteration:
            raise asyncio.CancelledError from None


async def test_lag_is_what_the_sleep_overshot() -> None:
    metrics, sleeper, ticks = Metrics(), LateSleeper(0.0, 0.5, 0.25), []
    lag = EventLoopLag(
        metrics.loop_lag,
        interval=1.0,
        on_tick=lambda: ticks.append(lag.latest),
        clock=sleeper.clock,
        sleep=sleeper.sleep,
    )
    with pytest.raises(asyncio.CancelledError):
        await lag.run()
    assert ticks == [0.0, 0.5, 0.25]
    assert metrics.registry.get_sample_value("equipoise_event_loop_lag_seconds_count") == 3
    assert metrics.registry.get_sample_value("equipoise_event_loop_lag_seconds_sum") == 0.75


async def test_lag_runs_on_a_real_loop_until_cancelled() -> None:
    ticked = asyncio.Event()
    lag = EventLoopLag(Metrics().loop_lag, interval=0.0, on_tick=ticked.set)
    task = asyncio.create_task(lag.run())
    await asyncio.wait_for(ticked.wait(), PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_pauses_are_observed_by_generation_and_end_with_stop() -> None:
    metrics, readings = Metrics(), iter([1.0, 1.5])
    pauses = GcPauses(metrics.gc_pause, clock=lambda: next(readings))
    gc.disable()
    pauses.start()
    try:
        gc.collect(1)
    finally:
        pauses.stop()
        gc.enable()
    gc.collect(1)
    sample = metrics.registry.get_sample_value
    assert sample("equipoise_gc_pause_seconds_sum", {"generation": "1"}) == 0.5
    assert sample("equipoise_gc_pause_seconds_count", {"generation": "1"}) == 1
    assert sample("equipoise_gc_pause_seconds_count", {"generation": "2"}) == 0


@pytest.mark.usefixtures("collector_as_it_was")
async def test_what_a_sync_brings_is_frozen_before_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime, "FREEZE_SECONDS", 0.0)
    ended = asyncio.Event()
    waiting = asyncio.create_task(freeze_while_syncing(_until(ended)))
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(gc.get_freeze_count()))
    brought: list[list[int]] = []
    while len(collected) < 3:
        brought.append([len(brought)])
        await asyncio.sleep(0)
    assert collected[-1] > collected[0]
    ended.set()
    await waiting


async def _until(event: asyncio.Event) -> None:
    await event.wait()


@pytest.mark.usefixtures("collector_as_it_was")
def test_freezing_hides_what_is_alive_and_raises_the_threshold() -> None:
    before = gc.get_freeze_count()
    freeze_after_sync()
    assert gc.get_freeze_count() > before
    assert gc.get_threshold()[2] == OLD_THRESHOLD


@pytest.mark.usefixtures("collector_as_it_was")
def test_what_was_imported_is_not_looked_at_again() -> None:
    before = len(gc.get_objects())
    freeze_imports()
    assert gc.get_freeze_count() > before // 2
    assert len(gc.get_objects()) < before // 100


@pytest.mark.usefixtures("collector_as_it_was")
def test_a_collection_that_is_not_a_full_one_looks_at_few_objects() -> None:
    freeze_after_sync()
    looked_at: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] < 2:
            generations = range(info["generation"] + 1)
            looked_at.append(sum(len(gc.get_objects(generation=each)) for each in generations))

    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(20 * YOUNG_THRESHOLD)]
    finally:
        gc.callbacks.remove(note)
    assert len(looked_at) > len(kept) // YOUNG_THRESHOLD // 2
    assert max(looked_at) <= MOST_AT_ONCE
