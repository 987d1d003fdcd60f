"""One run of one contestant: pods wait, it starts, and what it does is timed through one watch."""

import asyncio
import math
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from e2e.bench.arena import Arena, Heat
from e2e.bench.contestants import Contestant, Launcher, Running
from e2e.bench.machine import Usage, calibrate
from e2e.bench.workloads import Workload
from e2e.harness.processes import answers_ok

POLL_SECONDS = 0.05
START_SECONDS = 120.0
SLOWEST_PODS_PER_SECOND = 5.0

Clock = Callable[[], float]


class BenchError(Exception):
    """A contestant did not do its work; the message ends with the tail of its log."""


@dataclass(frozen=True)
class Measurement:
    """What one run showed. All pods were bound, within the limits of nodes and of the workload."""

    pods: int
    pods_per_second: float
    """From the first to the last pod that got a node."""
    start_seconds: float
    """From the launch of the process until it scheduled: it was ready, or bound its first pod."""
    scheduling_seconds: float
    """From then until the last pod had a node."""
    events: int
    events_seconds: float
    """From then until the last event was written."""
    cpu_seconds: float
    """CPU of the process from its launch until the last event was written."""
    cpu_ms_per_pod: float
    """The part of it since the first pod was bound, shared among the pods."""
    peak_memory_mib: float
    nodes_used: int
    load_average: float
    """Of the last minute before the run: other work on the machine and the previous run."""
    calibration_ms: float


@dataclass
class _Marks:
    """Moments of a run, and the CPU time used up to one of them."""

    launched: float
    ready: float = math.inf
    first: float = math.inf
    last: float = math.inf
    cpu_at_first: float = 0.0

    @property
    def scheduling(self) -> float:
        """When it began to schedule; a pod may be bound before we notice that it is ready."""
        return min(self.ready, self.first)

    def binding(self, now: float, pid: int) -> None:
        """A pod got a node."""
        self.last = now
        if self.first == math.inf:
            self.first = now
            self.cpu_at_first = Usage.of(pid).cpu_seconds


@dataclass(frozen=True)
class Course:
    """Where runs take place, and what is needed to hold them one after the other."""

    arena: Arena
    launcher: Launcher
    trust: ssl.SSLContext
    clock: Clock = time.perf_counter

    async def run(
        self, contestant: Contestant, workload: Workload, pods: int, namespace: str
    ) -> Measurement:
        """Let one contestant place the workload; raises ``BenchError`` if it fails or is too slow.

        Bounded: ``START_SECONDS`` and the time for all pods at ``SLOWEST_PODS_PER_SECOND``.
        """
        bodies = workload.pods(pods, len(self.arena.zones), contestant.name)
        load, calibration = os.getloadavg()[0], calibrate()
        async with self.arena.pending(namespace, bodies) as heat:
            since = await heat.resource_version()
            marks = _Marks(self.clock())
            with self.launcher.start(contestant) as running:
                await self._follow(heat, since, running, marks)
                events, all_done = await heat.events_written(self.clock)
                usage = Usage.of(running.process.pid)
            placements = await heat.placements()
        fault = workload.fault(placements) if len(placements) == pods else "pods were lost"
        if fault is not None:
            raise BenchError(f"{contestant.name} placed {workload.name} wrongly: {fault}")
        return Measurement(
            pods=pods,
            pods_per_second=(pods - 1) / (marks.last - marks.first),
            start_seconds=marks.scheduling - marks.launched,
            scheduling_seconds=marks.last - marks.scheduling,
            events=events,
            events_seconds=all_done - marks.scheduling,
            cpu_seconds=usage.cpu_seconds,
            cpu_ms_per_pod=(usage.cpu_seconds - marks.cpu_at_first) * 1000 / pods,
            peak_memory_mib=usage.peak_mib,
            nodes_used=len({each.node for each in placements}),
            load_average=load,
            calibration_ms=calibration,
        )

    async def _follow(self, heat: Heat, since: str, running: Running, marks: _Marks) -> None:
        """Mark the moments of the run until all pods are bound."""
        process = running.process
        limit = START_SECONDS + heat.pods / SLOWEST_PODS_PER_SECOND
        bindings = asyncio.create_task(
            heat.follow(since, lambda: marks.binding(self.clock(), process.pid))
        )
        attendant = asyncio.create_task(self._attend(running, marks))
        either = {bindings, attendant}
        try:
            await asyncio.wait(either, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not bindings.done():
                what = f"{len(await heat.placements())} of {heat.pods} pods bound"
                how = f"ended with {process.exit_code}" if attendant.done() else f"{limit:g} s over"
                raise BenchError(f"{process.name}: {how}, {what}\n{process.tail()}")
            await bindings
        finally:
            for task in either:
                task.cancel()
            await asyncio.gather(*either, return_exceptions=True)

    async def _attend(self, running: Running, marks: _Marks) -> None:
        """Note when the process is ready; return if it ends, for then nothing more will happen."""
        while running.process.exit_code is None:
            if marks.ready == math.inf and await asyncio.to_thread(
                answers_ok, running.readyz, self.trust
            ):
                marks.ready = self.clock()
            await asyncio.sleep(POLL_SECONDS)
