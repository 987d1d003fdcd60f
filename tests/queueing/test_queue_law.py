"""The law of the queue: it always agrees with a model that is too simple to be wrong.

The model has no heaps, no index and no shared event log: a list of pods that are sorted when
asked, and for each pod in flight its own list of the events that it missed.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, unschedulable
from scheduler.observe.instruments import Gauge
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.queued_pod import BACKOFF_WINDOW, Backoff, QueuedPod

from .support import Bench, make_pod, only_itself

NAMES = ("a", "b", "c", "d")
PLUGINS = ("One", "Two", "Own")
GATE = "Gate"
MAX_UNSCHEDULABLE = 20.0

names = st.sampled_from(NAMES)
plugin_sets = st.frozensets(st.sampled_from(PLUGINS))
name_sets = st.frozensets(names)


def for_named(info: PodInfo, event: Event) -> Hint:
    """A hint that is true for the pods that the event names."""
    named = event.new
    return Hint.QUEUE if isinstance(named, frozenset) and info.key in named else Hint.SKIP


HINTS = {
    "One": [HintRegistration("One", Action.ADD, for_named)],
    "Two": [HintRegistration("Two", Action.ADD, for_named)],
    "Own": [HintRegistration("Pod", Action.POD_LABEL, only_itself)],
    GATE: [HintRegistration(GATE, Action.ADD, for_named)],
}


@dataclass(eq=False)
class ModelPod:
    info: PodInfo
    arrived: float
    tier: str = "active"
    unschedulable: int = 0
    errors: int = 0
    plugins: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    backoff_until: float = 0.0
    owed_until: float = 0.0
    borrowed_until: float = 0.0
    seen: PodInfo | None = None
    missed: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    deleted: bool = False
    handle: QueuedPod | None = None

    @property
    def rank(self) -> tuple[int, float]:
        return -self.info.priority, self.arrived


def nonzero(gauge: Gauge, label: str) -> dict[str, float]:
    (family,) = gauge.collect()
    return {sample.labels[label]: sample.value for sample in family.samples if sample.value}


class QueueMachine(RuleBasedStateMachine):
    """Random histories, played to the queue and to the model alike."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: set[str] = set()
        self.bench = Bench(HINTS, self.gate, max_unschedulable=MAX_UNSCHEDULABLE)
        self.queue = self.bench.queue
        self.waiting: dict[str, ModelPod] = {}
        self.flying: list[ModelPod] = []
        self.versions = 0

    # The gate, shared by both.

    def gate(self, info: PodInfo) -> Status:
        return unschedulable("closed").by(GATE) if info.key in self.closed else SUCCESS

    # The model.

    def model_place(self, pod: ModelPod, *, at_once: bool = False) -> None:
        if pod.info.key in self.closed:
            pod.tier = "gated"
            pod.plugins.add(GATE)
        elif pod.backoff_until <= self.bench.clock.now:
            pod.tier = "active"
        elif pod.borrowed_until > self.bench.clock.now or not pod.plugins | pod.pending:
            pod.tier = "error-backoff"
        elif at_once:
            pod.tier, pod.borrowed_until = "active", pod.owed_until
        else:
            pod.tier = "backoff"
        self.waiting[pod.info.key] = pod

    def model_wake(self, pod: ModelPod, plugin: str) -> None:
        if pod.tier == "unschedulable" or (pod.tier == "gated" and plugin in (GATE, "Own")):
            if plugin in pod.pending:
                self.model_place(pod, at_once=True)
            elif plugin in pod.plugins:
                self.model_place(pod)

    def fresh(self, name: str, uid: str, priority: int, label: int) -> PodInfo:
        return make_pod(name, uid=uid, priority=priority, labels={"version": str(label)})

    # Steps.

    @rule(name=names, priority=st.integers(0, 2))
    def add(self, name: str, priority: int) -> None:
        key = f"default/{name}"
        if key in self.waiting or any(pod.info.key == key for pod in self.flying):
            return
        self.versions += 1
        info = self.fresh(name, f"uid-{self.versions}", priority, 0)
        self.queue.add(info)
        self.model_place(ModelPod(info, self.bench.clock.now), at_once=True)

    @rule(name=names, priority=st.integers(0, 2), label=st.integers(0, 1))
    def update(self, name: str, priority: int, label: int) -> None:
        key = f"default/{name}"
        live = [pod for pod in (*self.waiting.values(), *self.flying) if not pod.deleted]
        for pod in live:
            if pod.info.key != key:
                continue
            old, pod.info = pod.info, self.fresh(name, pod.info.uid, priority, label)
            self.queue.update(old, pod.info)
            if pod not in self.flying and old.pod.metadata.labels != pod.info.pod.metadata.labels:
                self.model_wake(pod, "Own")

    @rule(name=names)
    def delete(self, name: str) -> None:
        key = f"default/{name}"
        gone = self.waiting.pop(key, None)
        if gone is not None:
            self.queue.delete(gone.info)
        for pod in self.flying:
            if pod.info.key == key:
                self.queue.delete(pod.info)
                pod.deleted = True

    @rule()
    def pop(self) -> None:
        queued = self.queue.pop()
        active = [pod for pod in self.waiting.values() if pod.tier == "active"]
        early = [pod for pod in self.waiting.values() if pod.tier == "backoff"]
        if not active and not early:
            assert queued is None
            return
        assert queued is not None
        pod = self.waiting.pop(queued.key)
        assert queued.info is pod.info
        if active:
            assert pod.rank == min(other.rank for other in active)
            if pod.backoff_until <= self.bench.clock.now < pod.owed_until:
                pod.borrowed_until = pod.owed_until
        else:
            best = min((other.backoff_until, other.rank) for other in early)
            assert (pod.backoff_until, pod.rank) == best
            pod.borrowed_until = pod.owed_until
        pod.handle, pod.seen, pod.missed = queued, pod.info, []
        self.flying.append(pod)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), plugins=plugin_sets, pending=plugin_sets)
    def reject(self, data: st.DataObject, plugins: frozenset[str], pending: frozenset[str]) -> None:
        pod = self.land(data)
        assert pod.handle is not None
        self.queue.requeue_rejected(pod.handle, plugins, pending, "no")
        pod.plugins, pod.pending = set(plugins), set(pending)
        if not plugins | pending:
            pod.errors += 1
        else:
            pod.unschedulable, pod.errors = pod.unschedulable + 1, 0
        self.model_return(pod)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        pod = self.land(data)
        assert pod.handle is not None
        self.queue.requeue_error(pod.handle, "boom")
        pod.plugins, pod.pending = set(), set()
        pod.errors += 1
        self.model_return(pod)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        self.queue.done(self.land(data).info.uid)

    def land(self, data: st.DataObject) -> ModelPod:
        pod = data.draw(st.sampled_from(self.flying))
        self.flying.remove(pod)
        return pod

    def model_return(self, pod: ModelPod) -> None:
        if pod.deleted:
            return
        assert pod.seen is not None
        pod.arrived = self.bench.clock.now
        since = max(pod.arrived, pod.borrowed_until)
        pod.owed_until = Backoff().until(since, pod.errors or pod.unschedulable)
        longest = math.floor(pod.arrived + Backoff().maximum) + BACKOFF_WINDOW
        pod.backoff_until = min(pod.owed_until, longest)
        cures = {plugin for plugin, cured in pod.missed if pod.info.key in cured}
        if pod.seen.pod.metadata.labels != pod.info.pod.metadata.labels:
            cures.add("Own")
        if cures & pod.pending:
            self.model_place(pod, at_once=True)
        elif cures & (pod.plugins | {"activated"}) or not pod.plugins | pod.pending:
            self.model_place(pod)
        else:
            pod.tier = "unschedulable"
            self.waiting[pod.info.key] = pod

    @rule(plugin=st.sampled_from(("One", "Two", GATE)), cured=name_sets)
    def event(self, plugin: str, cured: frozenset[str]) -> None:
        keys = frozenset(f"default/{name}" for name in cured)
        if plugin == GATE:
            self.closed -= keys
        self.queue.on_event(Event(plugin, Action.ADD, None, keys))
        for pod in list(self.waiting.values()):
            if pod.info.key in keys:
                self.model_wake(pod, plugin)
        for pod in self.flying:
            pod.missed.append((plugin, keys))

    @rule(name=names)
    def close_gate(self, name: str) -> None:
        self.closed.add(f"default/{name}")

    @rule(chosen=name_sets)
    def activate(self, chosen: frozenset[str]) -> None:
        keys = frozenset(f"default/{name}" for name in chosen)
        self.queue.activate(keys)
        for key in keys & self.waiting.keys():
            pod = self.waiting[key]
            if pod.tier in ("backoff", "error-backoff"):
                pod.tier = "active"
            elif pod.tier != "active":
                self.model_place(pod, at_once=True)
        for pod in self.flying:
            pod.missed.append(("activated", keys))

    @rule(seconds=st.sampled_from((0.25, 1.0, 3.0, 25.0)))
    def time_passes(self, seconds: float) -> None:
        self.bench.clock.advance(seconds)
        self.queue.flush()
        now = self.bench.clock.now
        for pod in list(self.waiting.values()):
            if pod.tier in ("backoff", "error-backoff") and pod.backoff_until <= now:
                pod.tier = "active"
            elif pod.tier == "unschedulable" and pod.arrived + MAX_UNSCHEDULABLE <= now:
                self.model_place(pod)

    # What must always hold.

    @invariant()
    def every_pod_is_where_the_model_has_it(self) -> None:
        expected = {key: pod.tier for key, pod in self.waiting.items()}
        listed = [(entry.pod, entry.tier) for entry in self.queue.view.snapshot()]
        assert dict(listed) == expected
        assert len(listed) == len(expected) == len(self.queue)
        assert self.queue.view.counts()["in-flight"] == len(self.flying)

    @invariant()
    def the_next_deadline_is_the_first_of_all(self) -> None:
        deadlines = [
            pod.backoff_until if "backoff" in pod.tier else pod.arrived + MAX_UNSCHEDULABLE
            for pod in self.waiting.values()
            if pod.tier in ("backoff", "error-backoff", "unschedulable")
        ]
        assert self.queue.next_deadline() == min(deadlines, default=None)

    @invariant()
    def the_gauges_are_true(self) -> None:
        tiers = Counter(pod.tier for pod in self.waiting.values())
        tiers["backoff"] += tiers.pop("error-backoff", 0)
        assert nonzero(self.bench.metrics.pending_pods, "queue") == +tiers
        rejections = Counter(
            plugin for pod in self.waiting.values() for plugin in pod.plugins | pod.pending
        )
        assert nonzero(self.bench.metrics.unschedulable_pods, "plugin") == rejections

    @invariant()
    def events_are_remembered_only_for_pods_in_flight(self) -> None:
        remembered = nonzero(self.bench.metrics.inflight_events, "event")
        assert remembered.pop("PodPopped", 0) == len(self.flying)
        longest = max((len(pod.missed) for pod in self.flying), default=0)
        assert sum(remembered.values()) <= longest


TestQueueLaw = QueueMachine.TestCase
TestQueueLaw.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
