"""A whole scheduler without edges, told what happens by hand, and what tests ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.assembly import Core, assemble, available
from scheduler.config.defaults import SCHEDULER_NAME
from scheduler.config.loading import from_dicts
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.framework.registry import Registry
from scheduler.model.objects import KINDS as STRUCTS
from scheduler.model.objects import from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, WriteError, never_stale
from scheduler.plugins.table import IN_TREE
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.cache import PodState
from tests.builders import Json
from tests.equivalence.templates import HOST, PACKED, RACK, ZONE
from tests.equivalence.things import KINDS
from tests.pipeline.support import Change, FakeClock

Object = tuple[str, str]
"""Kind and name."""


class ByName:
    """Sorts by priority and name: the order does not depend on who was tried when."""

    name = "ByName"

    def __init__(self, args: object, handle: object) -> None: ...

    def sort_key(self, queued: QueuedPod) -> tuple[int, str]:
        return -queued.info.priority, queued.key


REGISTRY: Registry = {**IN_TREE, ByName.name: ByName}


def _profile(name: str, args: Mapping[str, Json], *extra: str) -> Json:
    return {
        "schedulerName": name,
        "plugins": {
            "multiPoint": {"enabled": [{"name": plugin} for plugin in extra]},
            "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": ByName.name}]},
        },
        "pluginConfig": [{"name": plugin, "args": values} for plugin, values in args.items()],
    }


def configuration(*, reserve: bool = False, **equivalence: Any) -> list[Json]:
    """Two profiles that disagree: all plugins there are, and other arguments for them."""
    amounts = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}]
    hard = {"topologyKey": HOST, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    preferred = {"weight": 3, "preference": {"matchExpressions": [_exists(ZONE)]}}
    packed: dict[str, Json] = {
        "NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": amounts}},
        "InterPodAffinity": {"hardPodAffinityWeight": 40},
        "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": [hard]},
        "NodeAffinity": {
            "addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}
        },
        "NodeResourceTopologyMatch": {"cacheResyncPeriodSeconds": 5 if reserve else 0},
    }
    return [
        {
            "apiVersion": KUBE_API_VERSION,
            "kind": KUBE_KIND,
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "profiles": [
                _profile(
                    SCHEDULER_NAME,
                    {"ServiceAffinity": {"labels": [RACK]}},
                    "ServiceAffinity",
                    "NodeConditions",
                ),
                _profile(PACKED, packed, "NodeResourceTopologyMatch"),
            ],
        },
        {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "equivalence": equivalence,
        },
    ]


def _exists(key: str) -> Json:
    return {"key": key, "operator": "Exists"}


class Hands:
    """An outlet whose bindings wait until the test lets them succeed or fail."""

    def __init__(self) -> None:
        self.binding: dict[str, asyncio.Future[Status]] = {}
        self.bound: dict[str, str] = {}
        self.evicted: list[str] = []
        self.nominations: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.refuses_patches = False

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.binding[pod.key] = answer
        status = await answer
        if status.ok:
            self.bound[pod.key] = node
        return status

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        if self.refuses_patches:
            raise WriteError("the API server is busy")

    async def send(self, request: ObjectRequest) -> Any:
        raise WriteError("the API server is busy")

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        self.evicted.append(pod.key)

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        pass

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        self.messages[pod.key] = message

    def nominate(self, pod: PodInfo, node: str) -> None:
        self.nominations[pod.key] = node


class World:
    """A core and the objects that it is sent, by kind and name, each with its traits."""

    def __init__(self, *, reserve: bool = False, **equivalence: Any) -> None:
        """With ``reserve``, one profile has the reserve cache of NUMA cells."""
        self._reserve = reserve
        self.outlet = Hands()
        self.clock = FakeClock()
        self.core: Core = assemble(
            from_dicts(
                configuration(reserve=reserve, **equivalence), available(REGISTRY), environ={}
            ),
            self.outlet,
            Metrics(),
            registry=REGISTRY,
            clock=self.clock,
        )
        self.declarations = {
            profile: framework.declarations() for profile, framework in self.core.frameworks.items()
        }
        self.traits: dict[Object, dict[str, int]] = {}
        self.seen: dict[Object, Any] = {}
        """By kind and key, what the watch said last."""

    # What the watch says

    def change(self, kind: str, name: str, **traits: int) -> None:
        """An object comes, or some traits of one that is there change."""
        known = self.traits.setdefault((kind, name), {})
        known |= traits
        self.see(KINDS[kind].build(name, known))

    def remove(self, kind: str, name: str) -> None:
        """An object goes, if it is there."""
        if self.traits.pop((kind, name), None) is not None:
            self.lose(next(k for k in self.seen if k[0] == kind and k[1].split("/")[-1] == name))

    def see(self, raw: Json) -> None:
        """The watch reports an object as it is now."""
        kind = raw["kind"]
        new: Any = from_dict(raw, STRUCTS[kind].type)
        key = (kind, new.metadata.key)
        old = self.seen.get(key)
        self.seen[key] = new
        self.core.event_handlers.handler(kind)([Change(old, new)])

    def lose(self, key: Object) -> None:
        """The watch reports that an object is gone."""
        old = self.seen.pop(key)
        self.core.event_handlers.handler(key[0])([Change(old, None)])

    # What the scheduler does

    async def attempt(self) -> QueuedPod | None:
        """One attempt, and what runs in the background gets a few turns."""
        queued = self.core.scheduler.schedule_one()
        await self.turns()
        return queued

    async def turns(self) -> None:
        """Let tasks that are ready run."""
        for _ in range(8):
            await asyncio.sleep(0)

    async def answer(self, key: str, *, ok: bool, confirm: bool = True) -> None:
        """The API server answers a binding; the watch may show it as well."""
        future = self.outlet.binding.pop(key)
        if not future.done():
            future.set_result(SUCCESS if ok else error("the API server said no"))
        await self.turns()
        if ok and confirm:
            self.confirm(key)
            await self.turns()

    def confirm(self, key: str) -> None:
        """The watch shows a binding."""
        old = self.seen.get(("Pod", key))
        node = self.outlet.bound.get(key)
        if old is not None and node is not None and not old.spec.node_name:
            spec = msgspec.structs.replace(old.spec, node_name=node)
            new = msgspec.structs.replace(old, spec=spec)
            self.seen["Pod", key] = new
            self.core.event_handlers.handler("Pod")([Change(old, new)])

    def rebuilt(self) -> World:
        """Another world, without any cache, that is sent the objects of this one.

        The reserve cache is memory: what is believed of cells depends on what came before. So with
        it, this world itself.
        """
        if self._reserve:
            return self
        new = World(enabled=False)
        old, state = self.core.state, new.core.state
        for kind, objects in old.objects._kinds.items():
            changes = [Change(None, each) for each in objects.values()]
            new.core.event_handlers.handler(kind)(changes)
        for name in old.names():
            node = old.node(name)
            assert node is not None
            state.set_node(node)
        for node_name in old.nodes_with_pods():
            for info in old.pods_on(node_name):
                state.book(PodInfo(info.pod).bound_to(node_name), PodState.ADDED)
        for node_name in old.nominations.nodes():
            for info in old.nominations.on(node_name):
                state.nominations.set(PodInfo(info.pod), node_name)
        return new

    async def close(self) -> None:
        """End whatever is under way."""
        await self.core.bindings.stop()
        await self.core.background.stop()
