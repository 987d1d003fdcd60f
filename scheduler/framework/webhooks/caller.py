"""Calls of one webhook: as many at once as allowed, repeated where that is safe, counted.

What goes wrong is told apart by whose fault it may be. No answer, or one that says that the webhook
failed, counts for the circuit breaker, which opens for all. An answer that refuses a pod, or makes
no sense, may be due to the pod: it costs that pod its attempt and a back-off, like a rejection, and
shows that the webhook is there. An author whose pods a webhook chokes on keeps nobody from it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from scheduler.config.webhooks import CallTarget
from scheduler.framework.answers import EXPLAINING
from scheduler.framework.webhooks.breaker import Breaker
from scheduler.framework.webhooks.slots import CallSlots, Overloaded
from scheduler.framework.webhooks.transport import CallFailed, Transport
from scheduler.observe.metrics import Children, Metrics
from scheduler.slices import in_slices

T = TypeVar("T")

MAX_WAITING = 4096
"""How many calls of a namespace may wait for a free slot, if no others do; further ones fail."""
SLICED_BYTES = 64 * 1024
"""A longer answer is read in slices."""
EXPLANATIONS = "(explanations)"
"""Whose turn it is if nobody schedules: all explanations together have the share of a namespace."""
RETRY_SECONDS = 0.05
"""Before the first repetition; twice as long before each further one."""


class Caller:
    """The one way to a webhook. Used from one event loop; a call that is cancelled is dropped."""

    def __init__(
        self,
        endpoint: CallTarget,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
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
    ) -> T:
        """What ``read`` makes of the answer; it raises ValueError if that makes no sense.

        ``namespace`` is that of the pod in question: calls are shared by it.

        A call that is not ``repeatable`` is made again only if nothing of it was sent. Raises
        CallFailed. The body is made when the call is sent, so calls that wait take no room.
        """
        began, result = self._clock(), "cancelled"
        try:
            once = partial(self._once, path, body, read)
            owner = EXPLANATIONS if EXPLAINING.get() else namespace
            answer = await self._admitted(owner, once, repeatable)
            result = "success"
            return answer
        except CallFailed as failure:
            result = failure.result
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

    async def _once(self, path: str, body: Callable[[], bytes], read: Callable[[bytes], T]) -> T:
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
        return value

    def _count(self, result: str) -> None:
        """What a failure tells about the webhook."""
        if result in _OUR_FAULT:
            self.breaker.abandoned()
        elif result in _ABOUT_THE_POD:
            self.breaker.succeeded()
        else:
            self.breaker.failed()


_OUR_FAULT = frozenset(("request_too_large", "credentials"))
"""What tells nothing about the other side."""
_ABOUT_THE_POD = frozenset(("refused", "invalid", "response_too_large"))
"""What the webhook may say because of the pod."""
_IN_VAIN = frozenset(("breaker_open", "request_too_large", "response_too_large", "refused"))
"""What would come out the same a moment later."""


async def _understood(answer: bytes, read: Callable[[bytes], T]) -> T:
    try:
        if len(answer) > SLICED_BYTES:
            return await in_slices(read, answer)
        return read(answer)
    except (ValueError, RecursionError) as fault:
        raise CallFailed("invalid", f"its answer makes no sense: {fault}") from fault
