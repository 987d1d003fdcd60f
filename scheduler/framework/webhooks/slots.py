"""Calls of one webhook at once, shared by namespace: no author's pods keep all others waiting."""

from __future__ import annotations

import asyncio

from scheduler.fairness import Shares, Turns


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
