"""Plugins of a profile that answer from outside: which they are, and their late points."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from scheduler.framework.calls import Entry
from scheduler.framework.cycle import Cycle
from scheduler.framework.single import SinglePlugins
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status


@runtime_checkable
class RemotePlugin(Protocol):
    """A plugin that may need answers from outside, and so may raise `AnswerNeeded`."""

    remote: bool
    """Says that it is one; True."""

    def concerns(self, pod: PodInfo) -> bool:
        """Whether it has anything to say about such a pod: by namespace, labels and spec alone."""
        ...


@runtime_checkable
class LateReserve(Protocol):
    """Books and permits by calls, so not in the cycle but at the start of the binding task."""

    async def reserve_remotely(self, cycle: Cycle, node: str) -> Status:
        """As ``reserve``; ``unreserve`` is called after any failure, as for all plugins."""
        ...

    async def permit_remotely(self, cycle: Cycle, node: str) -> Status:
        """As ``permit``; returns when the waiting is over."""
        ...


class RemotePoints(SinglePlugins):
    """What the runtime does for plugins outside."""

    @property
    def asks_outside(self) -> bool:
        """Whether an attempt may have to be suspended."""
        return self._remote

    def asks_about(self, pod: PodInfo) -> bool:
        """Whether somebody outside has a say about a pod, so that its attempt may have to wait."""
        return self._remote and any(
            plugin.concerns(pod)
            for plugin in self.plugins.values()
            if isinstance(plugin, RemotePlugin)
        )

    def begin(self) -> None:
        """This replica schedules from now on; plugins that wait for that are told."""
        for plugin in self.plugins.values():
            begin = getattr(plugin, "begin", None) if isinstance(plugin, RemotePlugin) else None
            if begin is not None:
                begin()

    async def run_late_points(self, cycle: Cycle, node: str) -> Status:
        """Reserve and permit of plugins outside, in order; the first refusal, else Success."""
        for point in ("reserve", "permit"):
            for entry in self._late[point]:
                status: Status = await self._acall(point, entry, cycle, node)
                if not status.ok:
                    return status.by(entry.name)
        return SUCCESS

    def _find_remote(self) -> None:
        self._remote = any(isinstance(plugin, RemotePlugin) for plugin in self.plugins.values())
        self._late = {
            point: [
                Entry(entry.name, getattr(plugin, f"{point}_remotely"), 1, None)
                for entry in self._entries[point]
                if isinstance(plugin := self.plugins[entry.name], LateReserve)
            ]
            for point in ("reserve", "permit")
        }
        self.books_outside = any(self._late.values())
        """Whether somebody outside reserves or permits, at the start of bindings."""
