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
from tests.fuzz.probes import probes
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
MOST_JUDGED = 3
"""So many waiting pods are judged by both schedulers."""
MOST_USES = 30
"""So often a scheduler without caches is used."""

Objects = Mapping[str, Sequence[Any]]
"""All objects by kind."""

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
        except CycleError as fault:
            if fault.__cause__ is not None:
                raise fault.__cause__ from None
            return f"error: {fault}"  # the verdict of a plugin, not its fault
        except PluginFault as fault:
            raise fault.__cause__ or fault from None
        return chosen if isinstance(chosen, Placement) else fit_error(cycle, chosen)

    def judged(self, objects: Objects) -> list[object]:
        """Where some waiting pods would go now; what is found about their classes is kept."""
        return [self.outcome(pod, by_class=True) for pod in judged_pods(objects)]

    def nominated(self) -> list[str]:
        """The nodes that pods are nominated to; a nomination may be ahead of the watch."""
        return list(self.core.state.nominations.nodes())

    def nominated_on(self, name: str) -> list[PodInfo]:
        """The pods that are nominated to a node."""
        return list(self.core.state.nominations.on(name))


class Reference:
    """A scheduler without caches: it gets what it is asked about, and then loses all of that.

    One is used for several inputs, because to make one takes longer than all else. What it says
    otherwise is asked of a new one, which has no past at all.
    """

    def __init__(self) -> None:
        self._scheduler: SchedulerUnderTest | None = None
        self._uses = 0

    def unlike(self, world: SchedulerUnderTest, objects: Objects) -> Iterator[str]:
        """Decisions that a scheduler without past and caches makes otherwise."""
        pods = judged_pods(objects)
        if not objects["Node"] or world.core.state.assumed_count:
            return
        kept = world.judged(objects)
        scheduler = self._take()
        said = _said_of(scheduler, world, objects, pods)
        _lose(scheduler, objects)
        wrong = [f"in a scheduler without caches: {each}" for each in scheduler.left_behind()]
        if said != kept:
            anew = _said_of(SchedulerUnderTest(cached=False), world, objects, pods)
            for one, other in zip(kept, anew, strict=True):
                if one != other:
                    wrong.append(f"a pod is judged otherwise without caches: {one!r}, {other!r}")
            for one, other in zip(said, anew, strict=True):
                if one != other:
                    wrong.append(f"a pod is judged otherwise after others: {one!r}, {other!r}")
        if not wrong:
            self._scheduler = scheduler
        yield from wrong

    def _take(self) -> SchedulerUnderTest:
        """The scheduler; it has to be put back, so that none is used again that has raised."""
        scheduler, self._scheduler = self._scheduler, None
        self._uses += 1
        if scheduler is None or self._uses % MOST_USES == 0:
            scheduler = SchedulerUnderTest(cached=False)
        return scheduler


def _said_of(
    scheduler: SchedulerUnderTest, world: SchedulerUnderTest, objects: Objects, pods: Sequence[Pod]
) -> list[object]:
    """Where a scheduler puts pods once it has all objects, with the nominations of another."""
    nominations = scheduler.core.state.nominations
    for kind, each in objects.items():
        scheduler.core.event_handlers.handler(kind)([Change(None, one) for one in each])
    for info in [info for name in scheduler.nominated() for info in scheduler.nominated_on(name)]:
        nominations.remove(info.uid)
    for name in world.nominated():
        for info in world.nominated_on(name):
            nominations.set(PodInfo(info.pod), name)
    return [scheduler.outcome(pod, by_class=False) for pod in pods]


def _lose(scheduler: SchedulerUnderTest, objects: Objects) -> None:
    """All objects and nominations go."""
    for kind, each in objects.items():
        scheduler.core.event_handlers.handler(kind)([Change(one, None) for one in each])
    for info in [info for name in scheduler.nominated() for info in scheduler.nominated_on(name)]:
        scheduler.core.state.nominations.remove(info.uid)


def judged_pods(objects: Objects) -> list[Pod]:
    """Some pods that wait for this scheduler, and some that nobody created."""
    pods = (each for each in objects["Pod"] if each.spec.scheduler_name == PROFILE)
    waiting = [pod for pod in pods if not pod.spec.node_name]
    return [*waiting[:MOST_JUDGED], *probes(PROFILE)]


async def turns() -> None:
    """Let tasks that are ready run."""
    for _ in range(8):
        await asyncio.sleep(0)
