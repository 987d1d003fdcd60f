"""Throughput, latency and queue of the last half hour, sampled on a timer, for the page.

A sample costs a sort of the durations since the last one, at most a thousand: a tenth of a
millisecond every two seconds. Nothing is counted in between that is not counted anyway.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from scheduler import machine
from scheduler.bounded import ENTRY_BYTES, Usage
from scheduler.observe.arenas import OutsideArenas
from scheduler.observe.decisions import Decisions

INTERVAL_SECONDS = 2.0
MAX_SAMPLES = 900
MAX_DURATIONS = 1024
"""Of the newest decisions of an interval, whose durations stand for all of them."""


class Sample(msgspec.Struct, frozen=True):
    """What happened in one interval, and what waits at its end."""

    time: float
    """Its end, in seconds since the epoch."""
    bound: float
    """Pods bound per second."""
    attempts: float
    """Attempts per second, whatever their result."""
    p50: float | None
    """The median duration of its attempts in milliseconds; None if there were none."""
    p99: float | None
    tiers: dict[str, int]
    """Pods in each tier of the queue."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Sample)


class Samples:
    """A ring of the last samples. Belongs to the scheduling thread."""

    def __init__(
        self,
        decisions: Decisions,
        tiers: Callable[[], Mapping[str, int]],
        *,
        clock: Callable[[], float] = machine.monotonic,
        wall: Callable[[], float] = machine.wall,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._decisions = decisions
        self._tiers = tiers
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self._ring: deque[bytes] = deque(maxlen=MAX_SAMPLES)
        """Encoded: numbers that are kept for half an hour would keep the arenas of a flood."""
        self._outside_arenas = OutsideArenas()
        self.newest: Sample | None = None
        """The last sample; None before the first."""
        self._last = (clock(), decisions.made, decisions.scheduled)
        self.taken = 0
        """How many samples were taken: the number of the newest."""

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await self._sleep(INTERVAL_SECONDS)
            self.take()

    def take(self) -> Sample:
        """Take a sample now, of the time since the last one, and return it."""
        since, made, scheduled = self._last
        self._last = now, made_now, scheduled_now = (
            self._clock(),
            self._decisions.made,
            self._decisions.scheduled,
        )
        elapsed = max(now - since, 1e-3)
        newest = self._decisions.since(made, MAX_DURATIONS)
        durations = sorted(each.duration for each in newest)
        sample = Sample(
            time=round(self._wall(), 3),
            bound=round((scheduled_now - scheduled) / elapsed, 2),
            attempts=round((made_now - made) / elapsed, 2),
            p50=_quantile(durations, 0.5),
            p99=_quantile(durations, 0.99),
            tiers=dict(self._tiers()),
        )
        with self._outside_arenas:
            self._ring.append(_ENCODER.encode(sample))
        self.newest = sample
        self.taken += 1
        return sample

    def series(self) -> dict[str, Any]:
        """All samples as columns, the oldest first."""
        ring = [_DECODER.decode(each) for each in self._ring]
        names = ring[-1].tiers if ring else {}
        return {
            "time": [each.time for each in ring],
            "bound": [each.bound for each in ring],
            "attempts": [each.attempts for each in ring],
            "p50": [each.p50 for each in ring],
            "p99": [each.p99 for each in ring],
            "tiers": {name: [each.tiers.get(name, 0) for each in ring] for name in names},
        }

    def usage(self) -> Usage:
        """How much is kept."""
        return Usage(len(self._ring), 2 * ENTRY_BYTES * len(self._ring))


def _quantile(ascending: list[float], share: float) -> float | None:
    """The value that this share of all does not exceed, in milliseconds."""
    if not ascending:
        return None
    at = min(int(share * len(ascending)), len(ascending) - 1)
    return round(1000 * ascending[at], 3)
