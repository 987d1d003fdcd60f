"""A whole scheduler without edges for hostile objects, and what may be asked of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from scheduler.assembly import Core, assemble, available
from scheduler.config.loading import Configuration, from_dicts
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.framework.faults import PluginFault
from scheduler.model.objects import KINDS, Change
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import SUCCESS, error
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.evaluation import CycleError, evaluate
from scheduler.pipeline.placement import Placement, fit_error, select_node
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from tests.cost.census import reached
from tests.equivalence.world import Hands
from tests.pipeline.support import FakeClock

PROFILE = "equipoise"
MORE = ("NodeResourceTopologyMatch", "Coscheduling", "NodeConditions", "ServiceAffinity")
CONFIG = {
    "apiVersion": KUBE_API_VERSION,
    "kind": KUBE_KIND,
    "profiles": [
        {
            "schedulerName": PROFILE,
            "plugins": {"multiPoint": {"enabled": [{"name": name} for name in MORE]}},
            "pluginConfig": [
                {"name": "ServiceAffinity", "args": {"labels": ["zone"]}},
                {"name": "NodeResourceTopologyMatch", "args": {"cacheResyncPeriodSeconds": 0}},
            ],
        }
    ],
}
UNCACHED = {
    "apiVersion": "equipoise.dev/v1alpha1",
    "kind": "EquipoiseConfiguration",
    "equivalence": {"enabled": False},
}
MOST_JUDGED = 4
"""So many pods are judged by both schedulers."""

TYPES = tuple(kind.type for kind in KINDS.values())


@cache
def _configuration(cached: bool) -> Configuration:
    return from_dicts([CONFIG, *([] if cached else [UNCACHED])], available(), environ={})


class SchedulerUnderTest:
    """A core, an outlet whose bindings wait, and a clock that moves when told."""

    def __init__(self, *, cached: bool = True) -> None:
        self.outlet = Hands()
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.core: Core = assemble(
            _configuration(cached), self.outlet, self.metrics, registry=IN_TREE, clock=self.clock
        )
        self._empty = self._sizes()

    async def attempt(self) -> None:
        """Place one pod, up to the start of its binding."""
        self.clock.advance(2.0)
        self.core.queue.flush()
        self.core.scheduler.schedule_one()
        await turns()

    async def answer_all(self, *, ok: bool) -> None:
        """The API server answers all bindings."""
        while self.outlet.binding:
            _, answer = self.outlet.binding.popitem()
            if not answer.done():
                answer.set_result(SUCCESS if ok else error("the API server said no"))
            await turns()

    async def settle(self) -> None:
        """All that is under way ends."""
        await self.answer_all(ok=False)
        await self.core.bindings.stop()
        await self.core.background.stop()
        self.clock.advance(1000.0)
        self.core.queue.flush()
        self.core.scheduler.schedule_one()
        await turns()

    async def close(self) -> None:
        """Nothing is used any more."""
        await self.core.stop()

    # What is left when all objects are gone

    def left_behind(self) -> list[str]:
        """What this scheduler still has of objects, if all of them were deleted."""
        state = self.core.state
        now = self._sizes()
        wrong = [
            f"left behind: {name} has {size}, not {self._empty[name]}"
            for name, size in now.items()
            if size != self._empty[name]
        ]
        columns = state.columns
        arrays = {
            "requested": columns.requested,
            "allocatable": columns.allocatable,
            "nonzero": columns.nonzero,
            "pods": columns.pod_count,
        }
        wrong += [f"left behind: sums in {name}" for name, each in arrays.items() if each.any()]
        return wrong

    def _sizes(self) -> dict[str, int]:
        state, queue = self.core.state, self.core.queue
        sizes = {
            "nodes": state.node_count,
            "pods": state.pod_count,
            "assumed pods": state.assumed_count,
            "namespaces": len(state.namespaces),
            "nodes with pods": len(state.nodes_with_pods()),
            "nominated nodes": len(state.nominations.nodes()),
            "the queue": len(queue.view.snapshot()),
            "objects": sum(len(state.objects.all(kind.type)) for kind in KINDS.values()),
            "unconfirmed": len(self.core.unconfirmed),
        }
        return sizes

    def held_objects(self) -> Counter[str]:
        """How many API objects and pods can be reached from the core, by type."""
        return Counter(
            type(each).__name__
            for each in reached(self.core)
            if isinstance(each, PodInfo) or type(each) in TYPES
        )

    # Decisions

    def outcome(self, pod: Pod, *, by_class: bool) -> object:
        """Where a pod would go, or why nowhere; with what is kept for its class, or without."""
        cycle = Cycle(PodInfo(pod), self.core.state)
        framework = self.core.frameworks[PROFILE]
        cache = self.core.scheduler.class_cache if by_class else None
        pod_class = cache.class_of(cycle) if cache is not None else None
        try:
            if cache is None or pod_class is None:
                evaluation = evaluate(framework, cycle)
            else:
                if pod_class.known:
                    cycle.equivalence_class = pod_class
                evaluation = evaluate(framework, cycle, pod_class, cache)
            chosen = select_node(evaluation, self.core.seed)
        except (PluginFault, CycleError) as fault:
            raise fault.__cause__ or fault from None
        return chosen if isinstance(chosen, Placement) else fit_error(cycle, chosen)

    def unlike_fresh(self, objects: Mapping[str, Sequence[Any]]) -> Iterator[str]:
        """Decisions that a scheduler without past and caches makes otherwise."""
        pods = [each for each in objects["Pod"] if each.spec.scheduler_name == PROFILE]
        waiting = [pod for pod in pods if not pod.spec.node_name][:MOST_JUDGED]
        if not waiting or not objects["Node"] or self.core.state.assumed_count:
            return
        fresh = SchedulerUnderTest(cached=False)
        for kind, each in objects.items():
            fresh.core.event_handlers.handler(kind)([Change(None, one) for one in each])
        for info in [info for name in fresh.nominated() for info in fresh.nominated_on(name)]:
            fresh.core.state.nominations.remove(info.uid)
        for name in self.nominated():
            for info in self.nominated_on(name):
                fresh.core.state.nominations.set(PodInfo(info.pod), name)
        for pod in waiting:
            kept, anew = self.outcome(pod, by_class=True), fresh.outcome(pod, by_class=False)
            if kept != anew:
                yield f"a pod is judged otherwise without caches: {kept!r}, {anew!r}"

    def nominated(self) -> list[str]:
        """The nodes that pods are nominated to; a nomination may be ahead of the watch."""
        return list(self.core.state.nominations.nodes())

    def nominated_on(self, name: str) -> list[PodInfo]:
        """The pods that are nominated to a node."""
        return list(self.core.state.nominations.on(name))


async def turns() -> None:
    """Let tasks that are ready run."""
    for _ in range(8):
        await asyncio.sleep(0)
