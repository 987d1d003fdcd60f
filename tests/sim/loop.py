"""An event loop with a virtual clock: time jumps to the next timer when nothing is ready.

What is ready runs in rounds, as in asyncio: what a round makes ready belongs to the next one, so
`sleep(0)` lets all others run that were ready before. Within a round the order is drawn from the
seed, between what nothing orders in reality: tasks that begin or are woken, timers due at the same
instant, and the callbacks of different hosts. Plain callbacks of one host stay in order, because
`call_soon` promises it and protocols rely on it; so do the events of one connection (`network`).

There are no threads and no sockets: `run_in_executor` calls at once, connections are the network's.
A callback takes no time. More than `LIVELOCK` callbacks without a step of the clock are a fault.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import socket
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any, Protocol

from tests.sim.hosts import HOST, THREAD, Host, Thread

LIVELOCK = 200_000
_MANY_CANCELLED = 512
_STEP = "TaskStepMethWrapper"
"""The type of callbacks that begin or continue a task which no future has woken."""


class LivelockError(Exception):
    """Callbacks make each other ready for ever, and no time passes."""


class DeadlockError(Exception):
    """Nothing is ready and no timer is set: nothing will ever happen again."""


class TooManySteps(Exception):
    """The simulation took more callbacks than it was given."""


class Transports(Protocol):
    """What connects hosts."""

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A connection to who listens there; raises OSError."""

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> asyncio.AbstractServer:
        """Accept connections; raises OSError."""


class NumberedTask(asyncio.Task[Any]):
    """Hashed by its number: the order of a set of tasks must not depend on addresses."""

    def __init__(self, number: int, made_in: int, coro: Any, **options: Any) -> None:
        self._number = number
        self._made_in = made_in
        super().__init__(coro, **options)

    def yields(self, handle: asyncio.Handle, now: int) -> bool:
        """Whether this step follows a bare yield (``sleep(0)``): it waits for nothing but others.

        The first step comes in the round after the one in which the task was made.
        """
        step = type(handle._callback).__name__ == _STEP  # type: ignore[attr-defined]  # not public
        return step and now > self._made_in + 1

    def __hash__(self) -> int:
        return self._number


class NumberedFuture(asyncio.Future[Any]):
    """Likewise; the loop sets the number, since a constructor in Python takes twice as long."""

    __slots__ = ("number",)

    number: int

    def __hash__(self) -> int:
        return self.number


class _Handle(asyncio.Handle):
    """What `asyncio.Handle` makes without debugging, at half the cost."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    """What `asyncio.TimerHandle` makes without debugging, at half the cost."""

    __slots__ = ("by_host",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: Context,
        by_host: Host | None,
    ) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True
        self.by_host = by_host
        """By whose clock it was set; None: by true time."""

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            if self._scheduled:
                self._loop.timer_cancelled()
            self._callback = self._args = None  # type: ignore[assignment]  # as asyncio does


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. `now` is true time in seconds; each host has clocks of its own beside it."""

    def __init__(
        self, rng: random.Random, *, shuffle: bool = True, max_callbacks: int = 50_000_000
    ) -> None:
        super().__init__()
        self.now = 0.0
        self.callbacks = 0
        self.network: Transports | None = None
        self._rng = rng
        self._shuffle = shuffle
        self._max_callbacks = max_callbacks
        self._instant = 0
        """How many callbacks had run when time last moved."""
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._cancelled = 0
        self._numbers = 0
        self._round = 0
        self._dialled: dict[int, tuple[str, int]] = {}
        self.homeless: list[asyncio.Task[Any]] = []
        """Tasks that no host keeps."""
        self.set_task_factory(self._make_task)
        # Each future asks, and each timer that ends: a type answers without a frame of Python.
        self.get_debug = bool  # type: ignore[method-assign]  # as said

    # Time

    def time(self) -> float:
        """The monotonic clock of the host that asks."""
        host = HOST.get()
        return self.now if host is None else host.monotonic()

    def call_at(  # type: ignore[override]  # its types of arguments are not public
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """By the clock of the host that asks."""
        if context is None:
            context = copy_context()
        host = context.get(HOST)
        timer = _Timer(when, callback, args, self, context, host)
        self._numbers += 1
        at = when if host is None else host.true_time_at(when)
        heapq.heappush(self._timers, (at, self._numbers, timer))
        return timer

    def call_later(  # type: ignore[override]  # likewise
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """By the clock of the host that asks."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at_true(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context
    ) -> asyncio.TimerHandle:
        """By true time, in a context whose host may have another."""
        timer = _Timer(when, callback, args, self, context, None)
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, timer))
        return timer

    def clocks_changed(self, host: Host) -> None:
        """Date the timers of a host again, after its clock got another rate or was suspended."""
        timers, self._timers = self._timers, []
        for at, number, timer in timers:
            by_host = timer.by_host is host
            self._timers.append((host.true_time_at(timer.when()) if by_host else at, number, timer))
        heapq.heapify(self._timers)

    def timer_cancelled(self) -> None:
        """A timer that is set was cancelled; many of these are removed."""
        self._cancelled += 1
        if self._cancelled > _MANY_CANCELLED and 2 * self._cancelled > len(self._timers):
            self._timers = [each for each in self._timers if not each[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def call_soon(  # type: ignore[override]  # likewise
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """In the next round."""
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    # Rounds

    def _run_once(self) -> None:
        """Rounds, until the loop is to stop."""
        while True:
            if not self._ready:
                self._jump()
            if self._timers and self._timers[0][0] <= self.now:
                self._add_due()
            ready = self._ready
            if self.callbacks - self._instant > LIVELOCK:
                raise LivelockError(f"{LIVELOCK} callbacks at {self.now:.6f} s: {ready[0]}")
            self._round += 1
            if len(ready) == 1:
                self._run(ready.popleft())
            else:
                self._ready = deque()
                for handle in self._ordered(ready) if self._shuffle else ready:
                    self._run(handle)
            if self._stopping:  # type: ignore[attr-defined]  # not public
                return

    def _run(self, handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        context: Context = handle._context  # type: ignore[attr-defined]  # not public
        host = context.get(HOST)
        if host is not None:
            if host.state != "running":
                if host.state == "paused":
                    host.parked.append(handle)
                return
            if host.stalled and (thread := context.get(THREAD, "scheduling")) in host.stalled:
                host.stalled[thread].append(handle)
                return
            host.callbacks += 1
        self.callbacks += 1
        try:
            context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
        except Exception as fault:
            self.call_exception_handler({"message": f"in {handle}", "exception": fault})
        if host is not None and host.callbacks == host.stop_at:
            host.stop_at = 0
            host.on_stop()

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled -= 1
        if not timers:
            raise DeadlockError(f"nothing is ready and no timer is set, at {self.now:.3f} s")
        if timers[0][0] > self.now:
            self.now = timers[0][0]
            self._instant = self.callbacks
        if self.callbacks > self._max_callbacks:
            raise TooManySteps(f"{self.callbacks} callbacks by {self.now:.3f} s")

    def _add_due(self) -> None:
        timers, now = self._timers, self.now
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            if timer._cancelled:
                self._cancelled -= 1
            else:
                self._ready.append(timer)

    def _ordered(self, handles: deque[asyncio.Handle]) -> deque[asyncio.Handle]:
        """The handles in an order of the seed: see the module."""
        ordered: deque[asyncio.Handle] = deque()
        together: list[tuple[object, asyncio.Handle]] = []
        for handle in handles:
            owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
            if isinstance(owner, NumberedTask):
                if owner.yields(handle, self._round):
                    ordered.extend(self._shuffled(together))
                    ordered.append(handle)
                    together = []
                else:
                    together.append((owner, handle))
            elif isinstance(handle, asyncio.TimerHandle):
                together.append((id(handle), handle))  # equal timers are different ones
            else:
                together.append((handle._context.get(HOST), handle))  # type: ignore[attr-defined]
        ordered.extend(self._shuffled(together))
        return ordered

    def _shuffled(self, together: list[tuple[object, asyncio.Handle]]) -> Iterable[asyncio.Handle]:
        """The handles in another order, but those of one lane as they are."""
        lanes: dict[object, deque[asyncio.Handle]] = {}
        for lane, handle in together:
            lanes.setdefault(lane, deque()).append(handle)
        if len(lanes) < 2:
            return [handle for _, handle in together]
        # Equal to a shuffle, at a third of the cost.
        slots = sorted((lane for lane, _ in together), key=self._lot)
        return [lanes[lane].popleft() for lane in slots]

    def _lot(self, lane: object) -> float:
        return self._rng.random()

    def resume(self, host: Host) -> None:
        """Let a paused host run again, beginning with what came due meanwhile."""
        self._ready.extend(host.parked)
        host.parked.clear()

    def resume_thread(self, host: Host, thread: Thread) -> None:
        """Let a thread of a host run again, likewise."""
        self._ready.extend(host.stalled.pop(thread, ()))

    def abandon(self) -> None:
        """Forget what is ready or has a time, so that the loop can be run for something else."""
        self._ready.clear()
        self._timers.clear()
        self._instant = self.callbacks
        self._max_callbacks += LIVELOCK

    def close(self) -> None:
        """Hold nothing any more."""
        self._timers.clear()
        super().close()

    # Numbers in place of addresses

    def create_future(self) -> asyncio.Future[Any]:
        """A future hashed by its number."""
        self._numbers += 1
        future = NumberedFuture(loop=self)
        future.number = self._numbers
        return future

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None
    ) -> asyncio.Task[Any]:
        self._numbers += 1
        task = NumberedTask(self._numbers, self._round, coro, loop=loop, context=context)
        host = (context[HOST] if context is not None and HOST in context else None) or HOST.get()
        (self.homeless.append if host is None else host.keep)(task)
        return task

    # No threads, no sockets

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def run_in_executor(  # type: ignore[override]  # likewise
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Call it now."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as fault:
            future.set_exception(fault)
        return future

    async def create_connection(  # type: ignore[override]  # of its many parameters those in use
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: socket.socket | None = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Through the network."""
        assert self.network is not None, "there is a network"
        assert not ssl, "connections are plain"
        if sock is not None:
            host, port = self._dialled.pop(sock.fileno())
            sock.close()
        assert host is not None, "it has an address"
        assert port is not None, "it has an address"
        return await self.network.connect(protocol_factory, host, port)

    async def create_server(  # type: ignore[override]  # likewise
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **_: Any,
    ) -> asyncio.AbstractServer:
        """On the network."""
        assert self.network is not None, "there is a network"
        assert host is not None, "it has a name"
        return self.network.listen(protocol_factory, host, port or 0)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[tuple[Any, ...]]:
        """Names are addresses."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Note where it should go: aiohttp connects sockets before it makes connections of them."""
        self._dialled[sock.fileno()] = address[:2]
