"""DefaultBinder: creates the Binding at the API server."""

from __future__ import annotations

from typing import Any

from scheduler.model.status import Status
from scheduler.plugin_api import Handle, PluginTraits
from scheduler.plugin_api.cycle import STALE, Cycle
from scheduler.plugin_api.outlet import never_stale
from scheduler.plugins.names import DEFAULT_BINDER


class DefaultBinder:
    """Posts a Binding for the pod's uid."""

    name = DEFAULT_BINDER
    traits = PluginTraits(asks_if_stale=True)

    def __init__(self, args: Any, handle: Handle) -> None:
        self._outlet = handle.write

    async def bind(self, cycle: Cycle, node: str) -> Status:
        """Success once the API server has the pod on the node."""
        return await self._outlet.bind(cycle.pod, node, cycle.find(STALE) or never_stale)
