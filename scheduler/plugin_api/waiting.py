"""Pods that wait on permit, between reservation and binding.

::

    permit says Wait ──► WaitingPod ──► allowed by every plugin that asked for time ──► bound
    (a plugin, a webhook,     │
    the gang of the pod)      └──────► rejected, or out of time ──► back to the queue

The pod's status names the node that it will get (``nominatedNodeName``), and its condition the
plugins that it waits for. Both are written once, when the wait begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from scheduler import machine
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, unschedulable
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.outlet import Outlet

MAX_WAIT = 15 * 60.0

WAITING_ON_PERMIT = "WaitingOnPermit"
"""The reason in the PodScheduled condition."""


class WaitingPod:
    """A reserved pod that waits for every plugin that asked to; the first rejection decides.

    Each plugin's timeout runs from the start, and ends when that plugin allows the pod. A decision
    counts even if nothing awaits the verdict yet. With ``expires=False`` the caller ends the wait.
    """

    def __init__(
        self,
        pod: PodInfo,
        node: str,
        timeouts: Mapping[str, float],
        *,
        expires: bool = True,
        now: Callable[[], float] = machine.wall,
    ) -> None:
        self.pod = pod
        self.node = node
        self.since = now()
        """In seconds since 1970, for people."""
        loop = asyncio.get_running_loop()
        self._verdict: asyncio.Future[Status] = loop.create_future()
        self._until = {
            plugin: self.since + min(timeout, MAX_WAIT) for plugin, timeout in timeouts.items()
        }
        self._timers: dict[str, asyncio.TimerHandle | None] = {
            plugin: loop.call_later(min(timeout, MAX_WAIT), self._expire, plugin)
            if expires
            else None
            for plugin, timeout in timeouts.items()
        }

    @property
    def pending_plugins(self) -> list[str]:
        """Plugins that have not allowed the pod yet."""
        return list(self._timers)

    def until(self, plugin: str) -> float:
        """When the timeout of a plugin ends, in seconds since 1970."""
        return self._until[plugin]

    @property
    def decided(self) -> bool:
        """Whether the wait is over."""
        return self._verdict.done()

    @property
    def rejected(self) -> bool:
        """Whether the pod was rejected; its reservation may not be undone yet."""
        return self._verdict.done() and not self._verdict.result().ok

    @property
    def message(self) -> str:
        """The plugins that the pod waits for, in words that do not change during the wait."""
        plugins = ", ".join(
            f"{plugin} until {_written(self._until[plugin])}" for plugin in self.pending_plugins
        )
        return f"waiting on permit for node {self.node} since {_written(self.since)}: {plugins}"

    def allow(self, plugin: str) -> None:
        """A plugin allows the pod; the last one ends the wait."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(SUCCESS)

    def reject(self, plugin: str, reason: str, code: Code = Code.UNSCHEDULABLE) -> bool:
        """Send the pod back to the queue; False if it was already decided."""
        return self._decide(Status(code, (reason,), plugin))

    def follow(self, other: WaitingPod) -> None:
        """Be rejected as soon as the other wait of the same pod is."""

        def reject(verdict: asyncio.Future[Status]) -> None:
            if not verdict.cancelled() and not verdict.result().ok:
                self._decide(verdict.result())

        other._verdict.add_done_callback(reject)

    def dismiss(self) -> None:
        """Stop the timers; the verdict is not needed any more."""
        for timer in self._timers.values():
            if timer is not None:
                timer.cancel()

    async def verdict(self) -> Status:
        """Wait for all plugins, a rejection, or the first plugin whose time is up."""
        try:
            return await self._verdict
        finally:
            self.dismiss()

    async def within(self, seconds: float) -> Status | None:
        """The verdict, if there is one within so many seconds."""
        await asyncio.wait((self._verdict,), timeout=seconds)
        return self._verdict.result() if self._verdict.done() else None

    def _expire(self, plugin: str) -> None:
        self._decide(unschedulable(f"pod {self.pod.key} timed out waiting on permit").by(plugin))

    def _decide(self, verdict: Status) -> bool:
        open_ = not self._verdict.done()
        if open_:
            self._verdict.set_result(verdict)
        return open_


class Waits:
    """All pods of a scheduler that wait on permit, and what is written to them about it.

    A pod may wait twice: for plugins in process, and in its binding task for a webhook or its gang.
    """

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self.by_plugins: dict[str, WaitingPod] = {}
        """By uid, those that plugins in process hold; each framework keeps its own here."""
        self.held: dict[str, WaitingPod] = {}
        """By uid, those that are held in their binding task."""

    def undecided(self, uid: str) -> list[WaitingPod]:
        """The waits of a pod that are not over."""
        found = (self.by_plugins.get(uid), self.held.get(uid))
        return [each for each in found if each is not None and not each.decided]

    def announce(self, cycle: Cycle, waiting: WaitingPod) -> None:
        """Write the node and the plugins that it waits for to the pod's status."""
        self.nominate(cycle, waiting.node)
        self._outlet.set_condition(cycle.pod, WAITING_ON_PERMIT, waiting.message)

    def nominate(self, cycle: Cycle, node: str) -> None:
        """Write the node to the pod's status, because binding takes a while."""
        cycle.announced = True
        self._outlet.nominate(cycle.pod, node)

    def reject(self, uid: str, status: Status) -> None:
        """Reject a pod, if it is held here."""
        if (held := self.held.get(uid)) is not None:
            held.reject(status.plugin, status.message, status.code)

    @contextmanager
    def holding(self, cycle: Cycle, waiting: WaitingPod) -> Iterator[WaitingPod]:
        """Have a pod wait for the length of a block."""
        uid = cycle.pod.uid
        self.held[uid] = waiting
        self.announce(cycle, waiting)
        try:
            yield waiting
        finally:
            del self.held[uid]
            waiting.dismiss()


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
