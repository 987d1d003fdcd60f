"""The scheduling loop: attempts pods as long as there are some, and lets others have their turn.

A backlog may be placed at once (`batch`); what that leaves over goes the way of all pods (`cycle`).
Attempts run in slices of a few milliseconds: between two pods, and at checkpoints within a long
attempt, the event loop runs everything else. Only one attempt is under way at any time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from scheduler import slices
from scheduler.equivalence.cache import Equivalence
from scheduler.framework.runtime import Framework
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.batch import Backlog, Batches
from scheduler.pipeline.binding import Bindings
from scheduler.pipeline.cycle import SchedulingCycle
from scheduler.pipeline.failure import Failures
from scheduler.pipeline.suspension import Suspension
from scheduler.queueing.together import GroupQueue
from scheduler.slices import in_slices_until
from scheduler.state.cache import ClusterState

R = TypeVar("R")


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
        self._turn = asyncio.Lock()
        """Held by the one who attempts pods."""

    async def run(self) -> None:
        """Schedule until stopped or cancelled."""
        await self.in_turn(self.begin)
        while not self._stopped:
            await self._queue.wait()
            await self._bindings.room()
            if not await self.run_batch():
                await self.run_slice()
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
        """Attempt no further pods; what is being bound goes on.

        An attempt that is under way ends at the checkpoint where it is, and takes back what it had
        not handed over to binding.
        """
        self._stopped = True
        self._suspension.cancel()

    async def in_turn(self, work: Callable[[], R]) -> R | None:
        """Attempt pods in slices, while nobody else does; None if the loop is or was stopped."""
        async with self._turn:
            return None if self._stopped else await in_slices_until(self._is_stopped, work)

    async def run_slice(self) -> None:
        """Attempt pods until none is left, the slice is over, or too many bindings are open.

        A long attempt takes more slices than one, and is then the last.
        """
        await self.in_turn(self._attempt_some)

    def _attempt_some(self) -> None:
        self._queue.flush()
        end = self._clock() + slices.SLICE_SECONDS
        while self._may_go_on() and self.schedule_next() and self._clock() < end:
            pass

    def _is_stopped(self) -> bool:
        return self._stopped

    async def breathe(self) -> None:
        """Let others run, and come back when another pod may be bound."""
        await asyncio.sleep(0)
        await self._bindings.room()

    def _may_go_on(self) -> bool:
        return not (self._stopped or self._bindings.full)
