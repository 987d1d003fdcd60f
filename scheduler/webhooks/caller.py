"""Calls of one webhook: bounded and shared by namespace, repeated where that is safe, counted.

Failures differ by their possible cause. No answer, or one that says that the webhook failed, counts
for the circuit breaker, which opens for all pods. An answer that refuses a pod, or is invalid, may
be due to the pod: it costs that pod its attempt and a back-off, like a rejection, and shows that
the webhook works. So pods that a webhook cannot handle do not keep other pods from it.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from scheduler import machine
from scheduler.config.webhooks import CallTarget
from scheduler.fairness import Shares, Turns
from scheduler.model.journal import Journal
from scheduler.observe.metrics import Children, Metrics
from scheduler.slices import in_slices
from scheduler.webhooks.answers import EXPLAINING
from scheduler.webhooks.transport import CallFailed, Transport

T = TypeVar("T")

MAX_WAITING = 4096
"""How many calls of a namespace may wait for a free slot, if no others do; further ones fail."""
SLICED_BYTES = 64 * 1024
"""A longer answer is read in slices."""
EXPLANATIONS = "(explanations)"
"""All explanations together have the share of one namespace, under this name."""
RETRY_SECONDS = 0.05
"""Before the first repetition; twice as long before each further one."""


class WebhookCalls(Protocol):
    """How a plugin asks its webhook or extender."""

    async def call(
        self,
        point: str,
        path: str,
        body: Callable[[], bytes],
        read: Callable[[bytes], T],
        *,
        namespace: str,
        repeatable: bool = True,
        pod: str = "",
    ) -> T:
        """See `Caller.call`."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class Caller:
    """The one way to a webhook. Used from one event loop; a call that is cancelled is dropped."""

    def __init__(
        self,
        endpoint: CallTarget,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = machine.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        journal: Journal | None = None,
    ) -> None:
        self._journal = journal
        self.endpoint = endpoint
        name = endpoint.name
        self.breaker = Breaker(
            endpoint.breaker_failures,
            endpoint.breaker_open_for,
            show=metrics.webhook_breaker_state.labels(name).set,
            clock=clock,
        )
        self._slots = CallSlots(endpoint.concurrency, MAX_WAITING)
        self._transport = Transport(endpoint, self._slots.size)
        self._in_flight = metrics.webhook_in_flight.labels(name)
        self._retries = metrics.webhook_retries.labels(name)
        self._durations = Children(metrics.webhook_duration)
        self._clock = clock
        self._sleep = sleep

    async def call(
        self,
        point: str,
        path: str,
        body: Callable[[], bytes],
        read: Callable[[bytes], T],
        *,
        namespace: str,
        repeatable: bool = True,
        pod: str = "",
    ) -> T:
        """What ``read`` returns for the answer; it raises ValueError if the answer is invalid.

        ``namespace`` is that of the pod in question: calls are shared by it. ``pod`` is its name,
        for recordings.

        A call that is not ``repeatable`` is made again only if nothing of it was sent. Raises
        CallFailed. The body is made when the call is sent, so calls that wait take no room.
        """
        began, result = self._clock(), "cancelled"
        journal = None if EXPLAINING.get() else self._journal
        try:
            once = partial(self._once, path, body, read, pod, journal)
            owner = EXPLANATIONS if EXPLAINING.get() else namespace
            answer = await self._admitted(owner, once, repeatable)
            result = "success"
            return answer
        except CallFailed as failure:
            result = failure.result
            if journal is not None:
                journal.answered(self.endpoint.name, path, pod, b"", f"{result}:{failure}")
            raise
        finally:
            elapsed = self._clock() - began
            self._durations[self.endpoint.name, point, result].observe(elapsed)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def _admitted(self, owner: str, once: Callable[[], Awaitable[T]], repeatable: bool) -> T:
        try:
            await self._slots.acquire(owner)
        except Overloaded:
            message = "as many calls are waiting for their turn as may"
            raise CallFailed("overloaded", message, unsent=True) from None
        self._in_flight.inc()
        try:
            return await self._repeated(once, repeatable)
        finally:
            self._in_flight.dec()
            self._slots.release(owner)

    async def _repeated(self, once: Callable[[], Awaitable[T]], repeatable: bool) -> T:
        for repetition in range(self.endpoint.retries + 1):
            if repetition:
                self._retries.inc()
                await self._sleep(RETRY_SECONDS * 2 ** (repetition - 1))
            try:
                return await once()
            except CallFailed as failure:
                last = failure
                if failure.result in _IN_VAIN or not (repeatable or failure.unsent):
                    break
        raise last

    async def _once(
        self,
        path: str,
        body: Callable[[], bytes],
        read: Callable[[bytes], T],
        pod: str,
        journal: Journal | None,
    ) -> T:
        if not self.breaker.admit():
            message = "it failed too often in a row and is left alone for a while"
            raise CallFailed("breaker_open", message, unsent=True)
        try:
            answer = await self._transport.post(path, body())
            value = await _understood(answer, read)
        except CallFailed as failure:
            self._count(failure.result)
            raise
        except BaseException:
            self.breaker.abandoned()
            raise
        self.breaker.succeeded()
        if journal is not None:
            journal.answered(self.endpoint.name, path, pod, answer, "")
        return value

    def _count(self, result: str) -> None:
        """Count a failure for the breaker, if it says something about the webhook."""
        if result in _OUR_FAULT:
            self.breaker.abandoned()
        elif result in _ABOUT_THE_POD:
            self.breaker.succeeded()
        else:
            self.breaker.failed()


_OUR_FAULT = frozenset(("request_too_large", "credentials"))
"""Results that say nothing about the webhook."""
_ABOUT_THE_POD = frozenset(("refused", "invalid", "response_too_large"))
"""Results that may be due to the pod."""
_IN_VAIN = frozenset(("breaker_open", "request_too_large", "response_too_large", "refused"))
"""Results that a repetition would not change."""


async def _understood(answer: bytes, read: Callable[[bytes], T]) -> T:
    try:
        if len(answer) > SLICED_BYTES:
            return await in_slices(read, answer)
        return read(answer)
    except (ValueError, RecursionError) as fault:
        raise CallFailed("invalid", f"its answer makes no sense: {fault}") from fault


class Overloaded(Exception):
    """As many calls wait as may."""


class CallSlots:
    """Slots for calls. A namespace alone has `each`; a third more is there for others.

    Namespaces take turns. At most so many calls of one namespace wait, bounded for all alike.
    """

    def __init__(self, each: int, waiting: int) -> None:
        self._held = Shares(each)
        self._waiting = Shares(waiting)
        self._turns: Turns[asyncio.Future[None]] = Turns()

    @property
    def size(self) -> int:
        """How many calls there may be at once."""
        return self._held.size

    async def acquire(self, namespace: str) -> None:
        """Wait for a slot; raises Overloaded. `release` must follow."""
        if not self._turns.waits(namespace) and self._held.may_take(namespace):
            self._held.take(namespace)
            return
        if not self._waiting.may_take(namespace):
            raise Overloaded
        turn = asyncio.get_running_loop().create_future()
        self._waiting.take(namespace)
        self._turns.add(namespace, turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._turns.remove(namespace, turn)
            if not turn.cancelled():  # it had just got a slot
                self.release(namespace)
            raise
        finally:
            self._waiting.give_back(namespace)

    def release(self, namespace: str) -> None:
        """A call has ended."""
        self._held.give_back(namespace)
        while (found := self._turns.next(self._held.may_take)) is not None:
            owner, turn = found
            if not turn.done():
                self._held.take(owner)
                turn.set_result(None)


class BreakerState(enum.IntEnum):
    """Numbers as ``equipoise_webhook_breaker_state`` shows them."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """One webhook's circuit breaker. ``admit`` before a call, then ``succeeded`` or ``failed``.

    After a call without outcome ``abandoned`` must be called: it may have been the one that tries.

    ::

                    failures in a row
         ┌────────┐ ────────────────► ┌──────┐   time is up    ┌───────────┐
         │ closed │                   │ open │ ──────────────► │ half-open │ one call tries
         └────────┘ ◄──┐              └──────┘ ◄────────────── └─────┬─────┘
                       └────────────────── it answers ───────────────┘ it fails: open again
    """

    def __init__(
        self,
        failures: int,
        open_for: float,
        *,
        show: Callable[[float], None] = lambda state: None,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._limit = failures
        self._open_for = open_for
        self._show = show
        self._clock = clock
        self._failed = 0
        self._open_until = 0.0
        self._probing = False
        self._state = BreakerState.CLOSED
        show(BreakerState.CLOSED)

    @property
    def state(self) -> BreakerState:
        """The state now; an open breaker may be due for a trial call."""
        return self._state

    def admit(self) -> bool:
        """Whether a call may be made now."""
        if self._state is BreakerState.CLOSED:
            return True
        if self._probing or self._clock() < self._open_until:
            return False
        self._probing = True
        self._become(BreakerState.HALF_OPEN)
        return True

    def succeeded(self) -> None:
        """A call was answered."""
        self._failed = 0
        self._probing = False
        self._become(BreakerState.CLOSED)

    def failed(self) -> None:
        """A call was not answered, or not validly."""
        self._failed += 1
        if self._probing or self._failed >= self._limit:
            self._probing = False
            self._open_until = self._clock() + self._open_for
            self._become(BreakerState.OPEN)

    def abandoned(self) -> None:
        """A call ended without a result that says something about the webhook."""
        if self._probing:
            self._probing = False
            self._become(BreakerState.OPEN)

    def _become(self, state: BreakerState) -> None:
        if state is not self._state:
            self._state = state
            self._show(state)
