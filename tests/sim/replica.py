"""A replica of the scheduler: the real daemon, as a process that can be killed, paused, restarted.

Killed means what SIGKILL means. Its system closes its connections (or the machine is gone too, and
nobody is told), and none of its callbacks and timers ever runs again: tasks stay at the await where
they are, no clean-up has any effect. What it had written to its connections before still arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from scheduler.app import Daemon
from scheduler.config.loading import Configuration
from scheduler.framework.registry import Registry
from scheduler.kube.client import KubeClient
from scheduler.kube.errors import ClusterUnreachable
from scheduler.kube.process_deadline import ProcessDeadline
from scheduler.observe.metrics import Metrics
from scheduler.operators.podgroups import StatusWatch
from scheduler.process import SideLoop
from scheduler.slices import TURN, LoopTurn
from tests.sim.hosts import THREAD, Host, Thread
from tests.sim.statuses import ReflectedStatuses

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation

Connections = Literal["closed", "black-holed"]

UNREACHABLE = 3
"""The exit code of a process that finds no API server."""
FAULT = 70
"""The exit code of a process that ended by an exception."""
RESTART_SECONDS = (1.0, 10.0)
KILLED = "killed"
"""How the note begins that a replica was killed."""

R = TypeVar("R")


class ProcessEnded(BaseException):
    """Raised where a process has ended itself: nothing of it goes on."""


class _SameLoop:
    """In place of a thread: tasks on the one loop there is, which can stall together."""

    def __init__(self) -> None:
        self._turn = LoopTurn()

    async def call(self, work: Coroutine[Any, Any, R]) -> R:
        """Run it as a task."""
        context = copy_context()
        context.run(THREAD.set, "heartbeat")
        context.run(TURN.set, self._turn)
        return await asyncio.create_task(work, context=context)

    async def stop(self) -> None:
        """There is nothing to end."""


class SimulatedProcess:
    """The process around a simulated daemon."""

    last_resort = False
    look_seconds = 5.0
    """Work takes no time here, so there is little to see."""

    def __init__(self, replica: Replica) -> None:
        self.name = replica.name
        self._replica = replica

    def side_loop(self, name: str) -> SideLoop:
        """The same loop."""
        return _SameLoop()

    def exit(self, code: int) -> NoReturn:
        """The process is gone at once."""
        self._replica.ended(code)
        raise ProcessEnded

    def deadline(self) -> ProcessDeadline | None:
        """A simulated pause falls between callbacks, and the fence is asked after it."""
        return None

    async def fill(self, sync: Coroutine[Any, Any, None]) -> None:
        """Wait; the collector belongs to all."""
        await sync

    async def return_memory(self, metrics: Metrics) -> None:
        """Memory belongs to all."""
        await asyncio.get_running_loop().create_future()

    def status_watch(self, client: KubeClient) -> StatusWatch:
        """A watch of our own in place of kopf, which needs a thread."""
        return ReflectedStatuses(client)


class Replica:
    """One replica through all its restarts; each is a process of its own (`host`)."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        config: Configuration,
        *,
        registry: Registry | None = None,
        supervised: bool = False,
    ) -> None:
        self.name = name
        self.daemon: Daemon | None = None
        self.metrics: Metrics | None = None
        self.host: Host | None = None
        self.exit_code: int | None = None
        """Of the last process that ended by itself."""
        self.starts = 0
        self._simulation = simulation
        self._config = config
        self._registry = registry
        self._supervised = supervised
        self._clock: tuple[float, float] = (1.0, 0.0)

    @property
    def alive(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.host is not None and self.host.state != "dead"

    @property
    def runs(self) -> bool:
        """Whether there is a process that is not paused."""
        return self.host is not None and self.host.state == "running"

    @property
    def leading(self) -> bool:
        """Whether it believes to lead."""
        return self.alive and self.daemon is not None and self.daemon.leading

    # Life

    def start(self) -> None:
        """Start a process."""
        assert not self.alive, f"{self.name} runs already"
        self.starts += 1
        self.daemon, self.exit_code = None, None
        host = self.host = self._simulation.host(self.name)
        host.drift(self._clock[0])
        host.step(self._clock[1])
        self._note("starts")
        host.task(self._live(host), name=f"process {self.name}")

    def restart(self) -> None:
        """Start another process after the last has ended."""
        self.start()

    def stop(self) -> None:
        """Ask it to end in order (SIGTERM)."""
        self._note("is asked to stop")
        if self.daemon is not None:
            self.daemon.stop()
        else:
            self.kill()

    def kill(self, connections: Connections = "closed") -> None:
        """End it at once (SIGKILL, or its machine loses power)."""
        if not self.alive:
            return
        self._note(f"{KILLED}, connections {connections}")
        self._end(silently=connections == "black-holed")
        self._restart_later()

    def kill_after(self, callbacks: int, connections: Connections = "closed") -> None:
        """Kill it after so many more of its callbacks."""
        host = self.host
        if host is not None and self.alive:
            host.on_stop = lambda: self.kill(connections)
            host.stop_at = host.callbacks + callbacks

    def pause(self) -> None:
        """Let none of its callbacks and timers run (SIGSTOP)."""
        if self.host is not None and self.host.state == "running":
            self._note("paused")
            self.host.state = "paused"

    def resume(self) -> None:
        """Let it go on."""
        if self.host is not None and self.host.state == "paused":
            self._note("goes on")
            self.host.state = "running"
            self._simulation.loop.resume(self.host)

    def stall(self, thread: Thread) -> Callable[[], None]:
        """Let one of its threads not run; what is returned lets it go on."""
        host = self.host
        if host is None or host.state == "dead" or thread in host.stalled:
            return lambda: None
        self._note(f"{thread} stalls")
        host.stalled[thread] = []
        return lambda: self._go_on(host, thread)

    def go_on(self) -> None:
        """Let all its threads go on."""
        if self.host is not None:
            for thread in list(self.host.stalled):
                self._go_on(self.host, thread)

    def _go_on(self, host: Host, thread: Thread) -> None:
        if thread in host.stalled:
            self._note(f"{thread} goes on")
            self._simulation.loop.resume_thread(host, thread)

    def drift(self, rate: float) -> None:
        """Let its clocks run at this rate; 1 is right."""
        self._clock = (rate, self._clock[1])
        if self.host is not None and self.alive:
            self._note(f"clocks run at {rate:g}")
            self.host.drift(rate)
            self._simulation.loop.clocks_changed(self.host)

    def step(self, seconds: float) -> None:
        """Set its wall clock forward, or back."""
        self._clock = (self._clock[0], self._clock[1] + seconds)
        if self.host is not None and self.alive:
            self._note(f"wall clock set by {seconds:+g} s")
            self.host.step(seconds)

    def ended(self, code: int) -> None:
        """The process has ended by itself."""
        self.exit_code = code
        self._note(f"exits with {code}")
        self._end(silently=False)
        self._restart_later()

    def forget(self) -> None:
        """Hold nothing of the last process."""
        self.daemon = self.metrics = None

    # Inside the process

    async def _live(self, host: Host) -> None:
        try:
            code = await self._run()
        except ProcessEnded:
            return
        except ClusterUnreachable as fault:
            self._note(f"finds no cluster: {fault}")
            code = UNREACHABLE
        except Exception as fault:
            self._simulation.fault(self.name, fault)
            code = FAULT
        if host.state != "dead":
            self.ended(code)

    async def _run(self) -> int:
        metrics = Metrics()
        client = await KubeClient.connect(
            metrics=metrics, master=self._simulation.url, environ={"HOME": "/nowhere"}
        )
        try:
            self.metrics = metrics
            self.daemon = Daemon(
                self._config,
                client,
                metrics,
                registry=self._registry,
                process=SimulatedProcess(self),
            )
            return await self.daemon.run()
        finally:
            await client.close()

    def _end(self, *, silently: bool) -> None:
        host = self.host
        assert host is not None, "there is a process"
        host.state = "dead"
        host.parked.clear()
        host.stalled.clear()
        self.daemon = None
        self._simulation.bury(host, silently=silently)

    def _restart_later(self) -> None:
        if not self._supervised:
            return
        shortest, longest = RESTART_SECONDS
        pause = shortest + (longest - shortest) * self._simulation.rng.random()
        self._simulation.later(pause, self._start_again)

    def _start_again(self) -> None:
        if not self.alive:
            self.start()

    def _note(self, text: str) -> None:
        self._simulation.history.note(self.name, text)
