"""The health of the interpreter itself: event-loop lag, garbage collector pauses, frozen start-up.

The scheduler is one thread on one loop; whatever holds that thread delays every pod. These numbers
distinguish the two usual causes.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

from scheduler import machine
from scheduler.observe.allocator import keep_freed_memory
from scheduler.observe.instruments import Histogram
from scheduler.observe.readings import Reading

GENERATIONS = 3
MAX_UNFLUSHED_PAUSES = 4096

FREEZE_SECONDS = 0.1
"""How often what came is frozen during the first sync."""

YOUNG_THRESHOLD = 2_000
MIDDLE_THRESHOLD = 1
OLD_THRESHOLD = 2_000
MOST_AT_ONCE = 6_250
"""Collections hold all threads, for about a microsecond an object among very many pods. So one that
is not a full one looks at so many at most; at more if older objects have ended meanwhile, since the
interpreter counts those that begin less those that end. That costs no more in all: what survives is
looked at once as young and once as middle-aged, however much at a time. Fewer young ones at a time
would cost more: their number goes up and down with bindings, and passes a lower threshold far more
often. A full one comes after twelve million objects, if a quarter more are alive than after the
last."""


async def freeze_while_syncing(sync: Coroutine[Any, Any, None]) -> None:
    """Wait for the first sync, and freeze what it brings a little at a time.

    One collection of a whole large cluster would hold the interpreter, and with it all threads, for
    most of a second.
    """
    filling = asyncio.ensure_future(sync)
    try:
        while not filling.done():
            await asyncio.wait((filling,), timeout=FREEZE_SECONDS)
            _freeze()
        await filling
    finally:
        filling.cancel()


def freeze_imports() -> None:
    """Take what was imported out of the collector's sight, before anybody waits for an answer.

    To be called once, when the program starts: the first collection would otherwise look at all of
    it, some 50 ms, while probes wait.
    """
    _freeze()


def freeze_after_sync() -> None:
    """Take everything that is alive now out of the garbage collector's sight, and let it rest more.

    To be called once, after the first sync: the cluster's objects are then in memory and most stay.
    Blocks for one collection of what was not frozen before.
    """
    _freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD, OLD_THRESHOLD)
    keep_freed_memory()


def _freeze() -> None:
    gc.collect()  # garbage that is frozen is never freed
    gc.freeze()


def interpreter(loop: asyncio.AbstractEventLoop | None = None) -> Iterator[Reading]:
    """How many tasks the loop has; may be called from another thread.

    Costs some 0.3 µs for each task.
    """
    yield Reading(
        "equipoise_event_loop_tasks",
        "Tasks of the scheduling loop that have not ended.",
        len(asyncio.all_tasks(loop)) if loop is not None else 0,
    )


class EventLoopLag:
    """Measures how late the event loop runs a timer; `run` it as a task for the process's life."""

    def __init__(
        self,
        histogram: Histogram,
        *,
        interval: float = 0.25,
        on_tick: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = machine.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.latest = 0.0
        """The last measured lag, in seconds."""
        self._histogram = histogram
        self._interval = interval
        self._on_tick = on_tick
        self._clock = clock
        self._sleep = sleep

    async def run(self) -> None:
        """Measure until cancelled, and call `on_tick` after every measurement."""
        while True:
            start = self._clock()
            await self._sleep(self._interval)
            self.latest = max(0.0, self._clock() - start - self._interval)
            self._histogram.observe(self.latest)
            self._on_tick()


class GcPauses:
    """Measures each pause of the garbage collector, between `start` and `stop`.

    A collection may begin at any allocation, even while the metric's own lock is held, so the
    callback only notes the duration; `flush` hands the notes to the histogram.
    """

    def __init__(
        self, histogram: Histogram, clock: Callable[[], float] = machine.monotonic
    ) -> None:
        self._children = [histogram.labels(str(generation)) for generation in range(GENERATIONS)]
        self._clock = clock
        self._started = 0.0
        self._noted: deque[tuple[int, float]] = deque(maxlen=MAX_UNFLUSHED_PAUSES)

    def start(self) -> None:
        """Begin to measure."""
        gc.callbacks.append(self._callback)

    def stop(self) -> None:
        """End to measure, and flush what was noted."""
        gc.callbacks.remove(self._callback)
        self.flush()

    def flush(self) -> None:
        """Observe the pauses noted since the last flush; not to be called from a gc callback."""
        while self._noted:
            generation, seconds = self._noted.popleft()
            self._children[generation].observe(seconds)

    def _callback(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._started = self._clock()
        else:
            self._noted.append((info["generation"], self._clock() - self._started))
