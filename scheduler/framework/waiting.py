"""Pods that a permit plugin holds back, between reservation and binding."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, unschedulable

MAX_WAIT = 15 * 60.0


class WaitingPod:
    """A reserved pod that waits for every plugin that asked to; the first rejection decides."""

    def __init__(self, pod: PodInfo, node: str, timeouts: Mapping[str, float]) -> None:
        self.pod = pod
        self.node = node
        self._pending = {name: min(timeout, MAX_WAIT) for name, timeout in timeouts.items()}
        self._verdict: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    @property
    def pending_plugins(self) -> list[str]:
        """Plugins that have not allowed the pod yet."""
        return list(self._pending)

    def allow(self, plugin: str) -> None:
        """A plugin has nothing against the pod any more; the last one lets it go."""
        self._pending.pop(plugin, None)
        if not self._pending and not self._verdict.done():
            self._verdict.set_result(SUCCESS)

    def reject(self, plugin: str, reason: str, code: Code = Code.UNSCHEDULABLE) -> None:
        """Send the pod back to the queue."""
        if not self._verdict.done():
            self._verdict.set_result(Status(code, (reason,), plugin))

    async def verdict(self) -> Status:
        """Wait for all plugins, a rejection, or the shortest of the timeouts."""
        first = min(self._pending, key=self._pending.__getitem__)
        try:
            return await asyncio.wait_for(self._verdict, self._pending[first])
        except TimeoutError:
            timeout = f"pod {self.pod.key} timed out waiting on permit"
            return unschedulable(timeout).by(first)
