"""The scheduling loop: attempts pods as long as there are some, and lets others have their turn.

A backlog may be placed at once (`batch`); what that leaves over goes the way of all pods (`cycle`).
The event loop is given back every few milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from scheduler.equivalence.cache import Equivalence
from scheduler.framework.runtime import Framework
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.batch import SLICE_SECONDS, Backlog, Batches
from scheduler.pipeline.binding import Bindings
from scheduler.pipeline.cycle import SchedulingCycle
from scheduler.pipeline.failure import Failures
from scheduler.pipeline.suspension import Suspension
from scheduler.queueing.together import GroupQueue
from scheduler.state.cache import ClusterState


class SchedulingLoop(SchedulingCycle):
    """Schedules until it is stopped, for all profiles."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        state: ClusterState,
        queue: GroupQueue,
        bindings: Bindings,
        failures: Failures,
        metrics: Metrics,
        suspension: Suspension,
        *,
        equivalence: Equivalence | None = None,
        batches: Backlog | None = None,
        tie_break_seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            frameworks,
            state,
            queue,
            bindings,
            failures,
            metrics,
            suspension,
            equivalence=equivalence,
            tie_break_seed=tie_break_seed,
            clock=clock,
        )
        suspension.run_slice = self.run_slice
        self.batches = (
            Batches(batches, frameworks, state, queue, self._classes, self, metrics, clock)
            if batches and self._classes
            else None
        )
        """What places backlogs at once, if anything does."""
        self._stopped = False

    async def run(self) -> None:
        """Schedule until stopped or cancelled."""
        self.begin()
        while not self._stopped:
            await self._queue.wait()
            await self._bindings.room()
            if not await self.run_batch():
                self.run_slice()
            await asyncio.sleep(0)

    def begin(self) -> None:
        """This replica schedules: plugins are told, and may let in pods that they kept out."""
        for framework in self._frameworks.values():
            framework.begin()
        self._queue.retry_gated()

    async def run_batch(self) -> bool:
        """Place the backlog at once, if there is one worth it; False if there is not."""
        if self.batches is None or not self.batches.due:
            return False
        await self.batches.run()
        return True

    @property
    def stopped(self) -> bool:
        """Whether no further pods are attempted."""
        return self._stopped

    def stop(self) -> None:
        """Attempt no further pods; what is being bound goes on."""
        self._stopped = True
        self._suspension.cancel()

    def run_slice(self) -> None:
        """Attempt pods until none is left, the slice is over, or too many bindings are open."""
        self._queue.flush()
        end = self._clock() + SLICE_SECONDS
        while self._may_go_on() and self.schedule_next() and self._clock() < end:
            pass

    async def breathe(self) -> None:
        """Let others run, and come back when another pod may be bound."""
        await asyncio.sleep(0)
        await self._bindings.room()

    def _may_go_on(self) -> bool:
        return not (self._stopped or self._bindings.full)
