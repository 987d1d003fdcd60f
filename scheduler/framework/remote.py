"""The plugins of a profile that answer from another process (trait ``remote``): `webhooks`.

They reserve and permit in the binding task, because the scheduling cycle never awaits.
"""

from __future__ import annotations

from scheduler.framework.plugin_runner import PluginEntry, PluginRunner
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import ConcernedPlugin, LateReserve, LeaderAwarePlugin


class RemotePoints:
    """What the runtime does for remote plugins."""

    def __init__(self, runner: PluginRunner) -> None:
        self._runner = runner
        self.plugins: dict[str, ConcernedPlugin] = {}
        """The remote plugins, by name."""
        self._leader_aware = []
        for name, plugin in runner.plugins.items():
            if not runner.traits[name].remote:
                continue
            if not isinstance(plugin, ConcernedPlugin):
                raise ValueError(f"plugin {name!r}: remote plugins need a method concerns")
            self.plugins[name] = plugin
            if isinstance(plugin, LeaderAwarePlugin):
                self._leader_aware.append(plugin)
        self.enabled = bool(self.plugins)
        """Whether an attempt may be suspended."""
        self._reserve: list[PluginEntry] = []
        self._permit: list[PluginEntry] = []
        for point, late in (("reserve", self._reserve), ("permit", self._permit)):
            for entry in runner.entries[point]:
                plugin = runner.plugins[entry.name]
                if isinstance(plugin, LateReserve):
                    call = (
                        plugin.reserve_remotely
                        if late is self._reserve
                        else (plugin.permit_remotely)
                    )
                    late.append(PluginEntry(entry.name, call, 1, None, False))
        self.reserves = bool(self._reserve or self._permit)
        """Whether some plugin reserves or permits in the binding task."""

    def concerns(self, pod: PodInfo) -> bool:
        """Whether a remote plugin judges the pod, so that its attempt may be suspended."""
        return any(plugin.concerns(pod) for plugin in self.plugins.values())

    def begin(self) -> None:
        """This replica schedules from now on."""
        for plugin in self._leader_aware:
            plugin.begin()

    async def reserve_and_permit(self, cycle: Cycle, node: str) -> Status:
        """Reserve and permit of remote plugins, in order; the first refusal, else Success."""
        for point, entries in (("reserve", self._reserve), ("permit", self._permit)):
            for entry in entries:
                status: Status = await self._runner.call_async(point, entry, cycle, node)
                if not status.ok:
                    return status.by(entry.name)
        return SUCCESS
