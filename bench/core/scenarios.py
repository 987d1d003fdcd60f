"""What ``make bench-micro`` measures. Each scenario makes a world of its own and gives figures."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from bench.core.device_scenarios import (
    devices_world,
    pods_with_claims,
    pods_with_extended_resources,
)
from bench.core.external_plugins import ForOneNode, InColumns, external_plugins
from bench.core.worlds import (
    HOST,
    ZONE,
    World,
    a_node,
    a_pod,
    app,
    busy_world,
    full_world,
    plain_world,
    running_pod,
)
from scheduler.kube.decoding import ObjectDecoder, Page, PageSize
from scheduler.model.objects import KINDS
from tests.builders import Json, PodBuilder, constraint, make_pod, pod_term

MIB = 1 << 20
PROMISES = 30


@dataclass(frozen=True)
class Scale:
    """How large worlds are."""

    nodes: int = 5_000
    running: int = 10_000
    pods: int = 3_000

    @property
    def larger(self) -> Scale:
        """Three times as many nodes."""
        return Scale(self.nodes * 3, self.running, self.pods)


class Figures(msgspec.Struct):
    """What a scenario showed; a figure that does not apply is None."""

    placed: int = 0
    cpu_ms: float | None = None
    """CPU milliseconds for each pod, from the queue to the start of binding."""
    whole_ms: float | None = None
    """The same up to the end of binding, with an outlet that answers at once."""
    hit_rate: float | None = None
    """The share of verdicts and scores that were known, of all that a pod needs."""
    values: dict[str, float] = {}
    """Others, by name."""
    peak_mib: float = 0.0

    @property
    def decisions_per_second(self) -> float | None:
        """Of CPU time."""
        return 1000 / self.cpu_ms if self.cpu_ms else None


@dataclass(frozen=True)
class Scenario:
    """One row of the table. A target is a text and whether figures meet it."""

    run: Callable[[Scale], Figures]
    target: str = ""
    met: Callable[[Figures], bool] = field(default=lambda _: True)


def _decisions(goal: int) -> tuple[str, Callable[[Figures], bool]]:
    return f"≥ {goal} decisions/s", lambda figures: (figures.decisions_per_second or 0) >= goal


def _at_most(name: str, goal: float) -> tuple[str, Callable[[Figures], bool]]:
    return f"{name} ≤ {goal:g}", lambda figures: figures.values[name] <= goal


# Placing pods


def _place(world: World, pods: Iterable[PodBuilder | Json]) -> Figures:
    """Place the pods and say what each took."""
    world.is_synced()
    world.add(*pods)
    waiting = world.core.queue.view.counts()["active"]
    before = _evaluated(world)
    took = asyncio.run(world.drain())
    evaluated = _evaluated(world) - before
    return Figures(
        placed=world.outlet.bound,
        cpu_ms=took.deciding * 1000 / waiting,
        whole_ms=took.whole * 1000 / waiting,
        hit_rate=_kept(world, waiting, evaluated),
        peak_mib=_peak(),
    )


def _evaluated(world: World) -> int:
    """Rows whose verdict or score was not known, so far."""
    equivalence = world.core.equivalence
    return equivalence.statistics.misses if equivalence else 0


def _kept(world: World, pods: int, evaluated: int) -> float | None:
    """The share of rows that were not evaluated, of all that would be if nothing were kept."""
    equivalence = world.core.equivalence
    columns = [len(each.columns) for each in equivalence or ()]
    if not columns:
        return None
    needed = pods * world.core.state.node_count * sum(columns) / len(columns)
    return max(0.0, 1 - evaluated / needed)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def plain(scale: Scale) -> Figures:
    """A run of identical pods without an owner."""
    pods = (a_pod(f"new-{number}") for number in range(scale.pods))
    return _place(plain_world(scale.nodes, scale.running), pods)


def owned(scale: Scale) -> Figures:
    """A run of identical pods of a ReplicaSet behind a Service: default spreading applies."""
    world = plain_world(scale.nodes, scale.running)
    selector = {"app": "web"}
    world.add(
        _object("v1", "Service", {"selector": selector}),
        _object("apps/v1", "ReplicaSet", {"selector": {"matchLabels": selector}}),
    )
    pods = (
        a_pod(f"new-{number}").label(**selector).owner("ReplicaSet", "web")
        for number in range(scale.pods)
    )
    return _place(world, pods)


def _object(version: str, kind: str, spec: Json) -> Json:
    metadata = {"name": "web", "namespace": "default", "uid": f"uid-{kind}"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def distinct(scale: Scale) -> Figures:
    """Pods no two of which are alike, so that nothing is known of any."""
    pods = (
        make_pod(f"new-{number}").cpu(f"{100 + number}m").memory("128Mi").label(own=f"{number}")
        for number in range(scale.pods // 3)
    )
    return _place(plain_world(scale.nodes, scale.running), pods)


def in_turn(scale: Scale) -> Figures:
    """Pods of a hundred templates in turn, on nodes full of affinity terms."""
    pods = (a_pod(f"new-{number}", number) for number in range(scale.pods))
    return _place(busy_world(scale.nodes, scale.running), pods)


def constrained(constrain: Callable[[PodBuilder], PodBuilder], scale: Scale) -> Figures:
    """A run of identical pods with a constraint, on nodes full of affinity terms."""
    pods = (constrain(a_pod(f"new-{number}", 1)) for number in range(scale.pods // 3))
    return _place(busy_world(scale.nodes, scale.running), pods)


_OWN = app(1)


def _zone_spread(pod: PodBuilder) -> PodBuilder:
    return pod.spread(constraint(ZONE, labelSelector={"matchLabels": _OWN}))


def _apart(pod: PodBuilder) -> PodBuilder:
    return pod.apart(pod_term(HOST, _OWN))


def _rather_near(pod: PodBuilder) -> PodBuilder:
    return pod.rather_near(50, pod_term(ZONE, _OWN))


def with_claims(scale: Scale) -> Figures:
    """Pods with equal claims for one device each, 8 devices a node."""
    world = devices_world(scale.nodes)
    return _place(world, list(pods_with_claims(world, scale.pods, alike=True)))


def with_extended_resources(scale: Scale) -> Figures:
    """Pods that ask for a device by an extended resource, so that claims are made for them."""
    return _place(devices_world(scale.nodes), list(pods_with_extended_resources(scale.pods)))


def with_selectors(scale: Scale) -> Figures:
    """Pods whose claims select devices each in a way of its own."""
    world = devices_world(scale.nodes)
    return _place(world, list(pods_with_claims(world, scale.pods // 3, alike=False)))


def larger(scale: Scale) -> Figures:
    """What three times the nodes cost, for a run of plain pods."""
    small, large = plain(scale), plain(scale.larger)
    assert small.cpu_ms is not None
    assert large.cpu_ms is not None
    large.values = {"times the cost": large.cpu_ms / small.cpu_ms}
    return large


ROUNDS = 5


def with_external_plugins(kind: type, scale: Scale) -> Figures:
    """What ten trivial plugins that declare what they read cost, for a run of plain pods."""
    config, registry = external_plugins(kind)

    def once(world: World) -> Figures:
        return _place(world, (a_pod(f"new-{number}") for number in range(scale.pods)))

    without, with_them = [], []
    for _ in range(ROUNDS):  # in turn; others only ever lengthen CPU times, so the least is true
        without.append(once(plain_world(scale.nodes, scale.running)))
        with_them.append(once(plain_world(scale.nodes, scale.running, config, registry=registry)))
    base = min(each.cpu_ms or 0 for each in without)
    cost = min(each.cpu_ms or 0 for each in with_them)
    figures = with_them[0]
    figures.cpu_ms = cost
    figures.values = {"ms without": base, "times the cost": cost / base}
    return figures


def many_classes(scale: Scale) -> Figures:
    """3,000 classes, each met twice, on three times the nodes."""
    world = plain_world(scale.larger.nodes, scale.running)
    requests = [f"{100 + number}m" for number in range(scale.pods)]
    pods = (
        make_pod(f"new-{meeting}-{number}").cpu(request).memory("128Mi")
        for meeting in range(2)
        for number, request in enumerate(requests)
    )
    figures = _place(world, pods)
    if equivalence := world.core.equivalence:
        budget = world.core.config.equipoise.equivalence.budget_mebibytes * MIB
        figures.values = {
            "share of the budget": equivalence.bytes / budget,
            "classes": equivalence.class_count,
            "columns": equivalence.column_count,
            "evictions": equivalence.evictions,
        }
    return figures


def flood(scale: Scale) -> Figures:
    """10,000 equal pods that fit nowhere stand before others that fit."""
    world = plain_world(scale.nodes, scale.running)
    world.is_synced()
    unfit = scale.nodes * 2
    world.add(*(a_pod(f"unfit-{number}").cpu("9").priority(10) for number in range(unfit)))
    before = world.evaluations("NodeResourcesFit")
    took = asyncio.run(world.drain())
    evaluations = world.evaluations("NodeResourcesFit") - before
    figures = _place(world, (a_pod(f"new-{number}") for number in range(scale.pods)))
    figures.values = {
        "evaluations": evaluations,
        "ms for each that fits nowhere": took.whole * 1000 / unfit,
        "conditions": world.outlet.conditions,
    }
    return figures


def nominated(scale: Scale) -> Figures:
    """A run of small pods while thirty nodes are those of nominated pods of higher priority."""
    world = full_world(scale.nodes)
    for number in range(min(PROMISES, scale.nodes // 2)):
        pod = make_pod(f"nominated-{number}").cpu("3").priority(10)
        world.core.state.nominations.set(pod.info(), f"node-{number:05}")
    return _place(world, (a_pod(f"new-{number}") for number in range(scale.pods // 3)))


def preemption(scale: Scale) -> Figures:
    """Pods that find room only where others have to go; those never do."""
    world = full_world(scale.nodes)
    pods = (make_pod(f"new-{number}").cpu("3").priority(10) for number in range(PROMISES))
    figures = _place(world, pods)
    figures.values = {"evicted": world.outlet.evicted}
    return figures


# Start-up


def start_up(scale: Scale) -> Figures:
    """From the pages of a list, as bytes, to columns: nodes, and ten running pods on each."""
    nodes = _pages(a_node(number).obj() for number in range(scale.nodes))
    pods = _pages(running_pod(number, scale.nodes).obj() for number in range(scale.nodes * 10))
    world = World()
    started = time.thread_time()
    _take(world, "Node", nodes)
    _take(world, "Pod", pods)
    seconds = time.thread_time() - started
    started = time.thread_time()
    world.is_synced()
    freezing = time.thread_time() - started
    assert world.core.state.pod_count == scale.nodes * 10
    values = {"seconds": seconds, "seconds to freeze": freezing}
    return Figures(values=values, peak_mib=_peak())


def _pages(objects: Iterable[Json]) -> list[bytes]:
    everything = list(objects)
    return [
        msgspec.json.encode({"items": everything[first : first + PageSize.MOST]})
        for first in range(0, len(everything), PageSize.MOST)
    ]


def _take(world: World, kind: str, pages: list[bytes]) -> None:
    decoder: ObjectDecoder[Any] = ObjectDecoder(kind, KINDS[kind].type, world.metrics)
    for page in pages:
        raw = msgspec.json.decode(page, type=Page).items or []
        world.see(kind, [decoder.decode(each) for each in raw])


SCENARIOS: dict[str, Scenario] = {
    "plain pods": Scenario(plain, *_decisions(5_000)),
    "with owner and service": Scenario(owned, *_decisions(2_500)),
    "all distinct": Scenario(distinct, *_decisions(500)),
    "plain pods, 3 times the nodes": Scenario(larger, *_at_most("times the cost", 1.5)),
    "100 templates in turn": Scenario(in_turn),
    "zone spread": Scenario(partial(constrained, _zone_spread)),
    "required anti-affinity": Scenario(partial(constrained, _apart)),
    "preferred affinity": Scenario(partial(constrained, _rather_near)),
    "3,000 classes, 3 times the nodes": Scenario(
        many_classes, *_at_most("share of the budget", 1.0)
    ),
    "10,000 fit nowhere": Scenario(flood, *_at_most("evaluations", 1)),
    "plain pods, 10 plugins in columns": Scenario(
        partial(with_external_plugins, InColumns), *_at_most("times the cost", 1.2)
    ),
    "plain pods, 10 plugins by node": Scenario(partial(with_external_plugins, ForOneNode)),
    "claims alike, 8 devices a node": Scenario(with_claims, *_decisions(2_000)),
    "extended resources from devices": Scenario(with_extended_resources),
    "claims all distinct": Scenario(with_selectors, *_decisions(200)),
    "30 nodes promised": Scenario(nominated),
    "30 pods that have to preempt": Scenario(preemption),
    "start-up, 10 pods a node": Scenario(start_up),
}
