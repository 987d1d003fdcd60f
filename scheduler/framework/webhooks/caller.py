"""Calls of one webhook: as many at once as allowed, repeated where that is safe, counted.

What goes wrong is told apart by whose fault it may be. No answer, or one that says that the webhook
failed, opens the circuit breaker for all. An answer that refuses a pod, or makes no sense, opens
one for the pod's namespace: an author whose pods a webhook chokes on keeps nobody else from it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from scheduler.config.webhooks import Endpoint
from scheduler.framework.answers import EXPLAINING
from scheduler.framework.webhooks.breaker import Breaker, State
from scheduler.framework.webhooks.slots import CallSlots, Overloaded
from scheduler.framework.webhooks.transport import CallFailed, Transport
from scheduler.observe.metrics import Children, Metrics
from scheduler.slices import in_slices

T = TypeVar("T")

MAX_WAITING = 4096
"""How many calls of a namespace may wait for a free slot, if no others do; further ones fail."""
MAX_REFUSED = 1024
"""Of so many namespaces it is remembered that their pods were refused."""
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
        endpoint: Endpoint,
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
        self._refusing: OrderedDict[str, Breaker] = OrderedDict()
        """By namespace, for those of which a pod was refused last."""
        self._refused = metrics.webhook_refused_namespaces.labels(name)
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
            once = partial(self._once, namespace, path, body, read)
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

    async def _once(
        self, namespace: str, path: str, body: Callable[[], bytes], read: Callable[[bytes], T]
    ) -> T:
        self._admit(namespace)
        try:
            answer = await self._transport.post(path, body())
            value = await _understood(answer, read)
        except CallFailed as failure:
            self._count(namespace, failure.result)
            raise
        except BaseException:
            self._count(namespace, "cancelled")
            raise
        self._count(namespace, "success")
        return value

    # Breakers

    def _admit(self, namespace: str) -> None:
        refusing = self._refusing.get(namespace)
        if refusing is not None and not refusing.admit():
            message = f"it refused too many pods of namespace {namespace} in a row"
            raise CallFailed("breaker_open", f"{message}, and is left alone", unsent=True)
        if not self.breaker.admit():
            if refusing is not None:
                refusing.abandoned()
            message = "it failed too often in a row and is left alone for a while"
            raise CallFailed("breaker_open", message, unsent=True)

    def _count(self, namespace: str, result: str) -> None:
        refusing = self._refusing.get(namespace)
        if result in _ABOUT_THE_POD:
            self.breaker.succeeded()  # whatever it says, it is there
            (refusing or self._new_refusing(namespace)).failed()
        elif result == "success":
            self.breaker.succeeded()
            if refusing is not None:
                del self._refusing[namespace]
        else:
            if refusing is not None:
                refusing.abandoned()
            if result in _OUR_FAULT:
                self.breaker.abandoned()
            else:
                self.breaker.failed()
        if refusing is not None or result in _ABOUT_THE_POD:
            states = (each.state for each in self._refusing.values())
            self._refused.set(sum(state is not State.CLOSED for state in states))

    def _new_refusing(self, namespace: str) -> Breaker:
        if len(self._refusing) >= MAX_REFUSED:
            self._refusing.popitem(last=False)
        endpoint = self.endpoint
        breaker = Breaker(endpoint.breaker_failures, endpoint.breaker_open_for, clock=self._clock)
        self._refusing[namespace] = breaker
        return breaker


_OUR_FAULT = frozenset(("request_too_large", "credentials", "cancelled"))
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
