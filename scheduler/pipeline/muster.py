"""Members of a gang whom somebody outside has to let in: enough of them go on, or none does.

Webhooks reserve and permit at the start of each member's binding, after the pass. Until enough
members have got through that, none of them may be bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scheduler.framework.waiting import WaitingPod
from scheduler.model.status import SUCCESS, Status


class Muster:
    """One pass's members. Each reports once, from its own task; the last word is for all."""

    def __init__(
        self, needed: int, members: int, too_few: Status, on_enough: Callable[[], None]
    ) -> None:
        self._needed = needed
        self._out = members
        self._in = 0
        self._too_few = too_few
        self._on_enough = on_enough
        self._verdict: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    @property
    def plugin(self) -> str:
        """Who has members wait for each other."""
        return self._too_few.plugin

    def let_in(self) -> Status | None:
        """Nobody outside has anything against this member; the verdict, if it is clear for all."""
        self._in += 1
        self._report()
        return self._verdict.result() if self._verdict.done() else None

    async def clear(self, waiting: WaitingPod) -> Status:
        """Wait until it is clear for all; a member that is rejected meanwhile leaves the others."""
        self._verdict.add_done_callback(lambda verdict: _pass_on(verdict, waiting, self.plugin))
        verdict = await waiting.verdict()
        if not verdict.ok and not self._verdict.done():
            self._in -= 1
            self._settle()
        return verdict

    def when_too_few(self, tell: Callable[[Status], object]) -> None:
        """Tell somebody as soon as it is certain that too few members get through."""

        def decided(verdict: asyncio.Future[Status]) -> None:
            if not verdict.cancelled() and not verdict.result().ok:
                tell(verdict.result())

        self._verdict.add_done_callback(decided)

    def refused(self) -> None:
        """This member gives its node back."""
        self._report()

    def _report(self) -> None:
        self._out -= 1
        self._settle()

    def _settle(self) -> None:
        if self._verdict.done():
            return
        if self._in >= self._needed:
            self._verdict.set_result(SUCCESS)
            self._on_enough()
        elif self._in + self._out < self._needed:
            self._verdict.set_result(self._too_few)


def _pass_on(verdict: asyncio.Future[Status], waiting: WaitingPod, plugin: str) -> None:
    if verdict.cancelled():
        return
    status = verdict.result()
    if status.ok:
        waiting.allow(plugin)
    else:
        waiting.reject(plugin, status.message, status.code)
