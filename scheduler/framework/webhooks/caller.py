"""Calls of one webhook: as many at once as allowed, repeated where that is safe, counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from scheduler.config.webhooks import Endpoint
from scheduler.framework.webhooks.breaker import Breaker
from scheduler.framework.webhooks.transport import CallFailed, Transport
from scheduler.observe.metrics import Children, Metrics

T = TypeVar("T")

MAX_WAITING = 4096
"""How many calls may wait for a free slot; further ones fail at once."""
RETRY_SECONDS = 0.05
"""Before the first repetition; twice as long before each further one."""


class Caller:
    """The one way to a webhook. Used from one event loop; a call that is cancelled is dropped."""

    def __init__(
        self,
        endpoint: Endpoint,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.endpoint = endpoint
        self._transport = Transport(endpoint)
        name = endpoint.name
        self.breaker = Breaker(
            endpoint.breaker_failures,
            endpoint.breaker_open_for,
            show=metrics.webhook_breaker_state.labels(name).set,
            clock=clock,
        )
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._waiting = 0
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
        repeatable: bool = True,
    ) -> T:
        """What ``read`` makes of the answer; it raises ValueError if that makes no sense.

        A call that is not ``repeatable`` is made again only if nothing of it was sent. Raises
        CallFailed. The body is made when the call is sent, so calls that wait take no room.
        """
        began, result = self._clock(), "cancelled"
        try:
            answer = await self._admitted(path, body, read, repeatable)
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

    async def _admitted(
        self,
        path: str,
        body: Callable[[], bytes],
        read: Callable[[bytes], T],
        repeatable: bool,
    ) -> T:
        if self._waiting >= MAX_WAITING:
            raise CallFailed("overloaded", f"{MAX_WAITING} calls are waiting", unsent=True)
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._in_flight.inc()
        try:
            return await self._repeated(path, body, read, repeatable)
        finally:
            self._in_flight.dec()
            self._slots.release()

    async def _repeated(
        self,
        path: str,
        body: Callable[[], bytes],
        read: Callable[[bytes], T],
        repeatable: bool,
    ) -> T:
        for repetition in range(self.endpoint.retries + 1):
            if repetition:
                self._retries.inc()
                await self._sleep(RETRY_SECONDS * 2 ** (repetition - 1))
            try:
                return await self._once(path, body(), read)
            except CallFailed as failure:
                last = failure
                if failure.result in _IN_VAIN or not (repeatable or failure.unsent):
                    break
        raise last

    async def _once(self, path: str, body: bytes, read: Callable[[bytes], T]) -> T:
        if not self.breaker.admit():
            message = "it failed too often in a row and is left alone for a while"
            raise CallFailed("breaker_open", message, unsent=True)
        try:
            answer = await self._transport.post(path, body)
            value = _understood(answer, read)
        except CallFailed as failure:
            if failure.result in _OUR_FAULT:
                self.breaker.abandoned()
            else:
                self.breaker.failed()
            raise
        except BaseException:
            self.breaker.abandoned()
            raise
        self.breaker.succeeded()
        return value


_OUR_FAULT = frozenset(("request_too_large", "credentials"))
_IN_VAIN = frozenset(("breaker_open", "request_too_large", "response_too_large", "refused"))
"""What would come out the same a moment later."""


def _understood(answer: bytes, read: Callable[[bytes], T]) -> T:
    try:
        return read(answer)
    except (ValueError, RecursionError) as fault:
        raise CallFailed("invalid", f"its answer makes no sense: {fault}") from fault
