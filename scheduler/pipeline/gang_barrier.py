"""A barrier for the members of a gang that plugins out of process have to permit.

Webhooks reserve and permit at the start of each member's binding, after the pass. Until enough
members have got through that, none of them is bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api.waiting import WaitingPod


class GangBarrier:
    """The members of one pass. Each reports once, from its own task; one verdict is for all."""

    def __init__(
        self, needed: int, members: int, too_few: Status, on_enough: Callable[[], None]
    ) -> None:
        self._needed = needed
        self._undecided = members
        self._permitted = 0
        self._too_few = too_few
        self._on_enough = on_enough
        self._verdict: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    @property
    def plugin(self) -> str:
        """The plugin that keeps the gang together."""
        return self._too_few.plugin

    def permit(self) -> Status | None:
        """Count a member that is permitted; the verdict on all, if there is one."""
        self._permitted += 1
        self._undecided -= 1
        self._decide()
        return self._verdict.result() if self._verdict.done() else None

    def reject(self) -> None:
        """Count a member that gives its node up."""
        self._undecided -= 1
        self._decide()

    async def wait(self, waiting: WaitingPod) -> Status:
        """Wait for the verdict on all; a member that is rejected meanwhile no longer counts."""
        self._verdict.add_done_callback(lambda verdict: _pass_on(verdict, waiting, self.plugin))
        verdict = await waiting.verdict()
        if not verdict.ok and not self._verdict.done():
            self._permitted -= 1
            self._decide()
        return verdict

    def when_too_few(self, tell: Callable[[Status], object]) -> None:
        """Call a function as soon as it is certain that too few members get through."""

        def decided(verdict: asyncio.Future[Status]) -> None:
            if not verdict.cancelled() and not verdict.result().ok:
                tell(verdict.result())

        self._verdict.add_done_callback(decided)

    def _decide(self) -> None:
        if self._verdict.done():
            return
        if self._permitted >= self._needed:
            self._verdict.set_result(SUCCESS)
            self._on_enough()
        elif self._permitted + self._undecided < self._needed:
            self._verdict.set_result(self._too_few)


def _pass_on(verdict: asyncio.Future[Status], waiting: WaitingPod, plugin: str) -> None:
    if verdict.cancelled():
        return
    status = verdict.result()
    if status.ok:
        waiting.allow(plugin)
    else:
        waiting.reject(plugin, status.message, status.code)
