"""How many may look into the scheduler at once: looking costs it time, and answers are large."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.fairness import Shares
from scheduler.kube.slots import Slots
from scheduler.serve.connections import send
from scheduler.serve.guards import TooMany

READS_OF_ONE = 3
"""By one address; a third more is there for others."""
WAITING_OF_ONE = 24
"""Likewise for those that wait for their turn."""
WAIT_SECONDS = 5.0
HEAVY = ("/api/", "/debug/")


class Reads:
    """Turns to read, shared by address; beyond the bounds, or after a while, 429."""

    def __init__(self) -> None:
        self._slots = Slots(READS_OF_ONE, least=0, most=1)
        self._present = Shares(READS_OF_ONE + WAITING_OF_ONE)

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """A block that runs when it is its turn; raises TooMany."""
        if not self._present.may_take(address):
            raise TooMany("too many such requests wait already")
        self._present.take(address)
        try:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._slots.take(address)
            except TimeoutError:
                raise TooMany("others are being answered") from None
            try:
                yield
            finally:
                self._slots.release(address)
        finally:
            self._present.give_back(address)

    def middleware(self) -> Middleware:
        """Has a turn last until the answer is sent, so that few answers are in memory."""

        @web.middleware
        async def in_turn(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not request.path.startswith(HEAVY):
                return await handler(request)
            async with self.turn(request.remote or ""):
                response = await handler(request)
                await send(request, response)
                return response

        return in_turn
