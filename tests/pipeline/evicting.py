"""A stage on which pods may be evicted: the outlet remembers whom, and can refuse or delay it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from scheduler.framework.registry import Registry
from scheduler.model.objects import from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.workloads import PodDisruptionBudget
from scheduler.plugin_api.outlet import WriteError
from scheduler.plugins.table import IN_TREE
from tests.builders import Json, NodeBuilder, PodBuilder, make_node
from tests.pipeline.support import Change, RecordingOutlet, Stage


class EvictingOutlet(RecordingOutlet):
    """Evicts at once, unless ``held`` says to wait for an event or ``refused`` names the pod."""

    def __init__(self) -> None:
        super().__init__()
        self.evicted: list[str] = []
        self.evicting: dict[str, Mapping[str, Any]] = {}
        self.refused: set[str] = set()
        self.held: dict[str, asyncio.Event] = {}
        self.nominations: list[tuple[str, str]] = []

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        name = pod.pod.metadata.name
        self.evicting[name] = condition
        if name in self.held:
            await self.held[name].wait()
        if name in self.refused:
            raise WriteError("the API server is busy")
        self.evicted.append(name)

    def nominate(self, pod: PodInfo, node: str) -> None:
        self.nominations.append((pod.pod.metadata.name, node))

    def hold(self, name: str) -> asyncio.Event:
        """Have the eviction of a pod wait until the event is set."""
        self.held[name] = asyncio.Event()
        return self.held[name]


class Arena(Stage):
    """A stage with preemption."""

    outlet: EvictingOutlet

    def __init__(self, registry: Registry = IN_TREE, config: tuple[Json, ...] = ()) -> None:
        super().__init__(registry, config, outlet=EvictingOutlet())

    def protect(
        self, name: str, allowed: int, *, disrupted: tuple[str, ...] = (), **spec: Any
    ) -> None:
        """A disruption budget comes; ``spec`` is its selector."""
        raw = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
            },
        }
        budget = from_dict(raw, PodDisruptionBudget)
        self.core.event_handlers.handler("PodDisruptionBudget")([Change(None, budget)])

    async def preempt(self, *objects: NodeBuilder | PodBuilder) -> str:
        """See some objects, make one attempt, and let evictions end; the nominated node, or ""."""
        self.see(*objects)
        queued = await self.core.scheduler.in_turn(self.attempt)
        assert queued is not None
        await self.core.background.idle()
        return self.core.state.nominations.node_of(queued.info.uid)

    @property
    def message(self) -> str:
        """The newest word on why a pod waits."""
        return self.outlet.conditions[-1].message


def make_box(name: str, cpu: int = 4) -> NodeBuilder:
    """A node with some CPUs and nothing else to run out of."""
    return make_node(name).cpu(cpu)
