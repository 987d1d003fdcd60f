"""Machines, and the processes on them: who runs a callback, what its clocks show, whether it runs.

Every callback of the event loop carries a context, and the context says on which host it runs: a
task inherits it from the one that made it, a connection from the end that opened or accepted it.
"""

from __future__ import annotations

import asyncio
import math
import random
import uuid
from collections.abc import Callable, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import Any, Literal, Protocol

from scheduler.slices import TURN, LoopTurn

EPOCH = 1_767_225_600.0
"""What wall clocks show at the beginning: 2026-01-01T00:00:00Z."""

TICK_SECONDS = 20e-6
"""How much work passes between two looks at the finest clock, so that slices of work end."""

State = Literal["running", "paused", "dead"]
Thread = Literal["scheduling", "heartbeat"]

HOST: ContextVar[Host | None] = ContextVar("host", default=None)
"""On which host the callback runs; None for the simulation itself."""
THREAD: ContextVar[Thread] = ContextVar("thread", default="scheduling")
"""In which of the two threads of a daemon the callback would run."""
PEER: ContextVar[str] = ContextVar("peer", default="")
"""Whose request is being handled, in a server."""


class TrueTime(Protocol):
    """Where clocks would be if they were right."""

    now: float


class Host:
    """One process on one machine, from its start to its end; a restart is another of the same name.

    `rng` decides all that its process draws by lot.
    """

    def __init__(self, name: str, true: TrueTime, rng: random.Random) -> None:
        self.name = name
        self.state: State = "running"
        self.rng = rng
        self.parked: list[asyncio.Handle] = []
        """What came due while it was paused, in order."""
        self.stalled: dict[Thread, list[asyncio.Handle]] = {}
        """Threads that do not run, and what came due in them, in order."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._room = 64
        self.callbacks = 0
        """How many callbacks it has run."""
        self.stop_at = 0
        """The number of callbacks after which `on_stop` is called; 0: never."""
        self.on_stop: Callable[[], None] = lambda: None
        self._turn = LoopTurn()
        self._true = true
        self._began = true.now
        self._shown = self._began
        self._rate = 1.0
        self._stepped = 0.0
        self._suspended = 0.0
        self._ticks = 0

    # Clocks

    def drift(self, rate: float) -> None:
        """Let the clocks run at this rate from now on; 1 is right."""
        self._shown, self._began = self.monotonic(), self._true.now
        self._rate = rate

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._stepped += seconds

    def suspend(self, seconds: float) -> None:
        """The machine has been suspended for so long: only the clock of the fence counted that."""
        self._suspended += seconds
        self._began += seconds

    def monotonic(self) -> float:
        """Also the time of the event loop."""
        return self._shown + (self._true.now - self._began) * self._rate

    def true_time_at(self, when: float) -> float:
        """When the monotonic clock will show this, or a little more.

        Rounded down, a timer would find itself early, and set itself again at the same instant.
        """
        found = self._began + (when - self._shown) / self._rate
        while self._shown + (found - self._began) * self._rate < when:
            found = math.nextafter(found, math.inf)
        return found

    def boottime(self) -> float:
        """Counts suspension."""
        return self.monotonic() + self._suspended

    def wall(self) -> float:
        """What people set."""
        return EPOCH + self._stepped + self.boottime()

    def perf_counter(self) -> float:
        """Moves a little with every look: else work would take no time, and no slice would end."""
        self._ticks += 1
        return self.monotonic() + self._ticks * TICK_SECONDS

    # Work

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task: one of a dead process must not be collected, as it would clean up then."""
        self._tasks.append(task)
        if len(self._tasks) > self._room:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._room = 64 + 2 * len(self._tasks)

    def unfinished(self) -> Iterator[asyncio.Task[Any]]:
        """Tasks that have not ended."""
        return (each for each in self._tasks if not each.done())

    def release(self) -> None:
        """Hold nothing any more."""
        self._tasks.clear()

    def context(self) -> Context:
        """A context in which callbacks run on this host."""
        context = copy_context()
        context.run(HOST.set, self)
        context.run(TURN.set, self._turn)
        return context

    def task(self, work: Any, name: str | None = None) -> asyncio.Task[Any]:
        """Begin a task on this host."""
        return asyncio.get_running_loop().create_task(work, name=name, context=self.context())


class SimulatedMachine:
    """What `scheduler.machine` asks: the host that runs the present callback."""

    def __init__(self, outside: Host) -> None:
        self._outside = outside

    def _host(self) -> Host:
        return HOST.get() or self._outside

    def monotonic(self) -> float:
        """Of the host."""
        return self._host().monotonic()

    def boottime(self) -> float:
        """Of the host."""
        return self._host().boottime()

    def wall(self) -> float:
        """Of the host."""
        return self._host().wall()

    def perf_counter(self) -> float:
        """Of the host."""
        return self._host().perf_counter()

    def random(self) -> float:
        """From the lots of the host."""
        return self._host().rng.random()

    def uuid4(self) -> uuid.UUID:
        """From the lots of the host."""
        return uuid.UUID(int=self._host().rng.getrandbits(128), version=4)
