"""The program as the documentation describes it: every in-tree plugin, in one profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.assembly import Core, assemble, available
from scheduler.config.loading import from_dicts
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, never_stale
from scheduler.plugins.table import IN_TREE


class _NoCluster:
    """An outlet that leads nowhere: generators build plugins and place no pods."""

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        return SUCCESS

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None: ...

    async def send(self, request: ObjectRequest) -> Any: ...

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None: ...

    def record_event(
        self, pod: PodInfo, type_: str, reason: str, action: str, note: str
    ) -> None: ...

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None: ...

    def nominate(self, pod: PodInfo, node: str) -> None: ...


def all_plugins(args: Mapping[str, Mapping[str, Any]] | None = None) -> Framework:
    """A profile with every in-tree plugin, on by default or not; ``args`` are by plugin."""
    (framework,) = core_with(Metrics(), args).frameworks.values()
    return framework


def core_with(metrics: Metrics, args: Mapping[str, Mapping[str, Any]] | None = None) -> Core:
    """The core of a scheduler with that profile, which counts in ``metrics``."""
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in IN_TREE]}},
        "pluginConfig": [{"name": name, "args": each} for name, each in (args or {}).items()],
    }
    config = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    return assemble(from_dicts([config], available(), environ={}), _NoCluster(), metrics)
