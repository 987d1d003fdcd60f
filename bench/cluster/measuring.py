"""One turn of one contestant: pods wait, it starts, and what it does is timed through one watch."""

import asyncio
import math
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bench.cluster.arena import Arena
from bench.cluster.contestants import Contestant, Launcher, Running
from bench.cluster.machine import Usage, calibrate, cpu_seconds
from bench.cluster.run import Clock, Outcome, Run
from bench.cluster.templates import MEASURED
from e2e.harness.processes import answers_ok

POLL_SECONDS = 0.05
START_SECONDS = 120.0
SLOWEST_PODS_PER_SECOND = 5.0


class BenchError(Exception):
    """A contestant did not do its work; the message ends with the tail of its log."""


@dataclass(frozen=True)
class Measurement:
    """What one turn showed. All pods were bound, within the limits of nodes and of the workload."""

    pods: int
    pods_per_second: float
    """From the first to the last pod that got a node; with a flood, from ``start_seconds`` on."""
    start_seconds: float
    """From the launch of the process until it scheduled: it was ready, or bound its first pod."""
    scheduling_seconds: float
    """From then until the last pod had a node."""
    events_seconds: float
    """From then until the last event was written."""
    cpu_seconds: float
    """CPU of the process from its launch until all was written."""
    cpu_seconds_bound: float
    """The part of it until the last pod had a node."""
    cpu_ms_per_pod: float
    """The part of it since the first pod was bound, shared among the pods."""
    server_ms_per_pod: float
    """CPU of etcd and the API server from the first binding to the last, shared among the pods."""
    peak_memory_mib: float
    nodes_used: int
    evicted: int
    events: dict[str, int]
    """Events by reason, about the pods that waited before the start."""
    other_events: dict[str, int]
    """Events by reason, about pods that came meanwhile or had to go."""
    conditions: dict[str, int]
    """Values of PodScheduled, of the pods that waited before the start."""
    load_average: float
    """Of the last minute before the turn: other work on the machine and the previous turn."""
    calibration_ms: float


@dataclass
class _Marks:
    """Moments of a turn, and the CPU time used up to some of them."""

    launched: float
    ready: float = math.inf
    first: float = math.inf
    last: float = math.inf
    cpu_at_first: float = 0.0
    cpu_at_last: float = 0.0
    servers_at_first: float = 0.0
    servers_at_last: float = 0.0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def scheduling(self) -> float:
        """When it began to schedule; a pod may be bound before we notice that it is ready."""
        return min(self.ready, self.first)

    def is_ready(self, now: float) -> None:
        """It says that it is ready."""
        self.ready = now
        self.begun.set()

    def binding(self, now: float, pid: int, servers: Sequence[int]) -> None:
        """A pod got a node."""
        self.last = now
        if self.first == math.inf:
            self.first = now
            self.begun.set()
            self.cpu_at_first = Usage.of(pid).cpu_seconds
            self.servers_at_first = cpu_seconds(servers)

    def bound(self, pid: int, servers: Sequence[int]) -> None:
        """All pods have got a node."""
        self.cpu_at_last = Usage.of(pid).cpu_seconds
        self.servers_at_last = cpu_seconds(servers)

    def rate(self, run: Run) -> float:
        """Pods per second. Those that fit nowhere go first, so their time counts."""
        pods = run.size.measured
        if run.size.unfit:
            return pods / (self.last - self.scheduling)
        return (pods - 1) / (self.last - self.first)


@dataclass(frozen=True)
class Course:
    """Where turns take place, and what is needed to hold them one after the other."""

    arena: Arena
    launcher: Launcher
    trust: ssl.SSLContext
    servers: Sequence[int]
    """The processes of the control plane."""
    clock: Clock = time.perf_counter
    beside: Callable[[Running], Awaitable[None]] | None = None
    """What goes on beside a turn, from when the contestant begins until all pods are bound."""

    async def run(self, contestant: Contestant, on_binding: Callable[[], None]) -> Measurement:
        """Let one contestant place the pods; raises ``BenchError`` if it fails or is too slow.

        Bounded: ``START_SECONDS`` and the time for all pods at ``SLOWEST_PODS_PER_SECOND``.
        """
        load, calibration = os.getloadavg()[0], calibrate()
        async with self.arena.pending(contestant.name) as run:
            orders = await run.orders() if contestant.scored is None else None
            since = await run.resource_version()
            marks = _Marks(self.clock())
            with self.launcher.start(contestant, orders) as running:
                await self._follow(run, since, running, marks, on_binding)
                settled = await run.settled(self.clock)
                usage = Usage.of(running.process.pid)
            outcome = await run.outcome()
            devices = await run.device_fault()
        fault = devices or self.arena.workload.fault(outcome.placements, self.arena.size)
        if fault is not None:
            name = self.arena.workload.name
            raise BenchError(f"{contestant.name} placed {name} wrongly: {fault}")
        return self._measurement(run, marks, settled, usage, outcome, load, calibration)

    def _measurement(
        self,
        run: Run,
        marks: _Marks,
        settled: float,
        usage: Usage,
        outcome: Outcome,
        load: float,
        calibration: float,
    ) -> Measurement:
        pods = run.size.measured
        timed = (each for each in outcome.placements if each.namespace == MEASURED)
        return Measurement(
            pods=pods,
            pods_per_second=marks.rate(run),
            start_seconds=marks.scheduling - marks.launched,
            scheduling_seconds=marks.last - marks.scheduling,
            events_seconds=max(settled, marks.last) - marks.scheduling,
            cpu_seconds=usage.cpu_seconds,
            cpu_seconds_bound=marks.cpu_at_last,
            cpu_ms_per_pod=(usage.cpu_seconds - marks.cpu_at_first) * 1000 / pods,
            server_ms_per_pod=(marks.servers_at_last - marks.servers_at_first) * 1000 / pods,
            peak_memory_mib=usage.peak_mib,
            nodes_used=len({each.node for each in timed}),
            evicted=outcome.evicted,
            events=outcome.events,
            other_events=outcome.other_events,
            conditions=outcome.conditions,
            load_average=load,
            calibration_ms=calibration,
        )

    async def _follow(
        self,
        run: Run,
        since: str,
        running: Running,
        marks: _Marks,
        on_binding: Callable[[], None],
    ) -> None:
        """Mark the moments of the turn until all pods are bound."""
        process = running.process
        limit = START_SECONDS + run.waiting / SLOWEST_PODS_PER_SECOND

        def bound() -> None:
            marks.binding(self.clock(), process.pid, self.servers)
            on_binding()

        bindings = asyncio.create_task(run.follow(since, bound))
        attendant = asyncio.create_task(self._attend(running, marks))
        others = [
            asyncio.create_task(self._churn(run, marks)),
            asyncio.create_task(self._go_on_beside(running, marks)),
        ]
        either = {bindings, attendant}
        try:
            await asyncio.wait(either, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not bindings.done():
                what = f"{await run.bound()} of {run.size.measured} pods bound"
                how = f"ended with {process.exit_code}" if attendant.done() else f"{limit:g} s over"
                raise BenchError(f"{process.name}: {how}, {what}\n{process.tail()}")
            await bindings
            marks.bound(process.pid, self.servers)
        finally:
            for task in (*either, *others):
                task.cancel()
            await asyncio.gather(*either, *others, return_exceptions=True)

    async def _attend(self, running: Running, marks: _Marks) -> None:
        """Note when the process is ready; return if it ends, for then nothing more will happen."""
        while running.process.exit_code is None:
            url = running.readyz if marks.ready == math.inf else None
            if url is not None and await asyncio.to_thread(answers_ok, url, self.trust):
                marks.is_ready(self.clock())
            await asyncio.sleep(POLL_SECONDS)

    async def _churn(self, run: Run, marks: _Marks) -> None:
        """Create pods as soon as the contestant begins."""
        await marks.begun.wait()
        await run.churn()

    async def _go_on_beside(self, running: Running, marks: _Marks) -> None:
        """Do what is to be done beside, as soon as the contestant begins."""
        await marks.begun.wait()
        if self.beside is not None:
            await self.beside(running)
