"""Pods that a permit plugin holds back, between reservation and binding."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, unschedulable

MAX_WAIT = 15 * 60.0


class WaitingPod:
    """A reserved pod that waits for every plugin that asked to; the first rejection decides.

    Each plugin's time runs from the start, and ends when that plugin allows the pod. Whatever is
    decided before somebody waits for the verdict counts.
    """

    def __init__(self, pod: PodInfo, node: str, timeouts: Mapping[str, float]) -> None:
        self.pod = pod
        self.node = node
        loop = asyncio.get_running_loop()
        self._verdict: asyncio.Future[Status] = loop.create_future()
        self._timers = {
            plugin: loop.call_later(min(timeout, MAX_WAIT), self._expire, plugin)
            for plugin, timeout in timeouts.items()
        }

    @property
    def pending_plugins(self) -> list[str]:
        """Plugins that have not allowed the pod yet."""
        return list(self._timers)

    @property
    def rejected(self) -> bool:
        """Whether it is decided that the pod gives its node back, though it may not have yet."""
        return self._verdict.done() and not self._verdict.result().ok

    def allow(self, plugin: str) -> None:
        """A plugin has nothing against the pod any more; the last one lets it go."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(SUCCESS)

    def reject(self, plugin: str, reason: str, code: Code = Code.UNSCHEDULABLE) -> bool:
        """Send the pod back to the queue; tells whether that is not decided otherwise already."""
        return self._decide(Status(code, (reason,), plugin))

    def dismiss(self) -> None:
        """What was reserved is undone already: nobody will ask for the verdict."""
        for timer in self._timers.values():
            timer.cancel()

    async def verdict(self) -> Status:
        """Wait for all plugins, a rejection, or the first plugin whose time is up."""
        try:
            return await self._verdict
        finally:
            self.dismiss()

    def _expire(self, plugin: str) -> None:
        self._decide(unschedulable(f"pod {self.pod.key} timed out waiting on permit").by(plugin))

    def _decide(self, verdict: Status) -> bool:
        open_ = not self._verdict.done()
        if open_:
            self._verdict.set_result(verdict)
        return open_
