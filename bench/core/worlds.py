"""Large clusters without a server, and a core that is fed by hand and timed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scheduler.assembly import Core, assemble, available
from scheduler.config.loading import from_dicts
from scheduler.framework.registry import Registry
from scheduler.model.objects import KINDS, from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.observe.metrics import Metrics
from scheduler.observe.runtime import freeze_after_sync
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, never_stale
from scheduler.plugins.table import IN_TREE
from tests.builders import Json, NodeBuilder, PodBuilder, make_pod, make_worker, pod_term

TEMPLATES = 100
ZONES = 10
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class CountingOutlet:
    """Answers at once and keeps nothing but numbers, so that only the core is measured."""

    def __init__(self) -> None:
        self.bound = 0
        self.events = 0
        self.conditions = 0
        self.evicted = 0

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        self.bound += 1
        return SUCCESS

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        raise AssertionError("nothing here patches objects")

    async def send(self, request: ObjectRequest) -> Any:
        raise AssertionError("nothing here writes objects")

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        self.evicted += 1

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        self.events += 1

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        self.conditions += 1

    def nominate(self, pod: PodInfo, node: str) -> None:
        pass


class Change(NamedTuple):
    old: Any
    new: Any


class Took(NamedTuple):
    """CPU seconds of this thread, which other work on the machine does not lengthen much."""

    deciding: float
    """From the queue to the start of binding."""
    whole: float
    """With the binding tasks, up to an outlet that answers at once."""


class World:
    """A core with the default profile and the clock of the daemon."""

    def __init__(
        self,
        *config: Json,
        outlet: CountingOutlet | None = None,
        registry: Registry = IN_TREE,
    ) -> None:
        self.outlet = outlet or CountingOutlet()
        self.metrics = Metrics()
        loaded = from_dicts(config, available(registry), environ={})
        self.core: Core = assemble(loaded, self.outlet, self.metrics, registry=registry)

    def see(self, kind: str, objects: Iterable[Any]) -> None:
        """The watch reports new objects."""
        self.core.event_handlers.handler(kind)([Change(None, each) for each in objects])

    def add(self, *builders: NodeBuilder | PodBuilder | Json) -> None:
        """The watch reports objects that were just built."""
        for builder in builders:
            raw = builder if isinstance(builder, dict) else builder.obj()
            self.see(raw["kind"], [from_dict(raw, KINDS[raw["kind"]].type)])

    def is_synced(self) -> None:
        """All is known: what is alive now is to stay, as in the daemon."""
        freeze_after_sync()

    async def drain(self) -> Took:
        """Attempt pods, a slice at a time, until no pod is active and all bindings have ended."""
        core, deciding, began = self.core, 0.0, time.thread_time()
        while core.queue.active:
            started = time.thread_time()
            await core.scheduler.run_slice()
            deciding += time.thread_time() - started
            await asyncio.sleep(0)
            await core.bindings.room()
        await core.bindings.idle()
        await core.background.idle()
        return Took(deciding, time.thread_time() - began)

    def evaluations(self, plugin: str, point: str = "Filter") -> int:
        """How often a plugin was asked about nodes."""
        (profile,) = self.core.frameworks
        labels = {"plugin": plugin, "extension_point": point, "profile": profile}
        name = "scheduler_plugin_evaluation_total"
        return int(self.metrics.registry.get_sample_value(name, labels) or 0)


def a_node(number: int) -> NodeBuilder:
    name = f"node-{number:05}"
    return make_worker(name).label(**{HOST: name, ZONE: f"zone-{number % ZONES}"})


def app(template: int) -> dict[str, str]:
    return {"app": f"app-{template % TEMPLATES}"}


def a_pod(name: str, template: int = 0) -> PodBuilder:
    return make_pod(name).cpu("100m").memory("128Mi").label(**app(template))


def running_pod(number: int, nodes: int) -> PodBuilder:
    """A pod of one of the templates; every other template carries terms, of four kinds in turn."""
    template = number % TEMPLATES
    pod = a_pod(f"running-{number}", template).on(f"node-{number % nodes:05}")
    match template % 8:
        case 0:
            pod.apart(pod_term(HOST, app(template)))
        case 2:
            pod.rather_near(50, pod_term(ZONE, app(template + 1)))
        case 4:
            pod.rather_apart(50, pod_term(HOST, app(template)))
        case 6:
            pod.near(pod_term(ZONE, app(template)))
    return pod


def plain_world(nodes: int, running: int, *config: Json, registry: Registry = IN_TREE) -> World:
    """Nodes with plain pods of one template on them."""
    world = World(*config, registry=registry)
    world.add(*(a_node(number) for number in range(nodes)))
    pods = (a_pod(f"running-{number}").on(f"node-{number % nodes:05}") for number in range(running))
    world.add(*pods)
    return world


def full_world(nodes: int) -> World:
    """Nodes with so many large pods on them that only small ones still fit."""
    world = World()
    world.add(*(a_node(number) for number in range(nodes)))
    pods = (make_pod(f"running-{number}").cpu("900m") for number in range(nodes * 4))
    world.add(*(pod.on(f"node-{number % nodes:05}") for number, pod in enumerate(pods)))
    return world


def busy_world(nodes: int, running: int, *config: Json) -> World:
    """Nodes with pods of a hundred templates on them, half of which carry affinity terms."""
    world = World(*config)
    world.add(*(a_node(number) for number in range(nodes)))
    world.add(*(running_pod(number, nodes) for number in range(running)))
    return world
