"""The law of cohorts: no pod is left waiting behind an equal one, whatever happens.

The model knows nothing of scouts. For each kind of pod it remembers the verdict of the newest
attempt, and whether anything has happened since that could cure it. If so, and pods of that kind
are parked, then one of them must be on its way.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, unschedulable
from scheduler.observe.instruments import Gauge
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.queueing.unschedulable_pods import Cohort
from scheduler.queueing.view import QueueEntry

from .support import Bench, make_pod, only_itself

NAMES = tuple("abcdef")
KINDS = ("red", "blue")
PLUGINS = ("One", "Two", "Own")
GATE = "Gate"
MAX_UNSCHEDULABLE = 20.0

names = st.sampled_from(NAMES)
kinds = st.sampled_from(KINDS)
kind_sets = st.frozensets(kinds, min_size=1)
plugin_sets = st.frozensets(st.sampled_from(PLUGINS), min_size=1)
seldom = st.integers(0, 4).map(lambda number: number == 0)


def for_kinds(info: PodInfo, event: Event) -> Hint:
    """A hint that is true for the kinds of pods that the event names."""
    named = event.new
    return Hint.QUEUE if isinstance(named, frozenset) and kind_of(info) in named else Hint.SKIP


def kind_of(info: PodInfo) -> str:
    return info.pod.metadata.labels["kind"]


HINTS = {
    "One": [HintRegistration("One", Action.ADD, for_kinds)],
    "Two": [HintRegistration("Two", Action.ADD, for_kinds)],
    "Own": [HintRegistration("Pod", Action.POD_LABEL, only_itself)],
    GATE: [HintRegistration(GATE, Action.ADD)],
}


@dataclass
class Verdict:
    """The newest word on some pods, and whether it may be out of date."""

    begun: int
    """How many events had happened when the attempt began."""
    plugins: frozenset[str]
    judged_at: float
    cured: bool


@dataclass(eq=False)
class ModelPod:
    info: PodInfo
    group: str = ""
    """Under what it was parked last: a name for its equals, or its uid if it stands alone."""
    handle: QueuedPod | None = None
    seen: PodInfo | None = None
    begun: int = 0
    missed: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    deleted: bool = False
    activated: bool = False


class CohortMachine(RuleBasedStateMachine):
    """Random histories of pods of few kinds, whose equals are parked together."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: set[str] = set()
        self.bench = Bench(HINTS, self.gate, max_unschedulable=MAX_UNSCHEDULABLE)
        self.queue = self.bench.queue
        self.waiting: dict[str, ModelPod] = {}
        self.flying: list[ModelPod] = []
        self.verdicts: dict[str, Verdict] = {}
        self.uids = itertools.count()
        self.events = 0
        self.grouping = 0

    def gate(self, info: PodInfo) -> Status:
        return unschedulable("closed").by(GATE) if info.key in self.closed else SUCCESS

    def entries(self) -> dict[str, QueueEntry]:
        return {entry.pod: entry for entry in self.queue.view.snapshot()}

    def parked(self) -> dict[str, list[ModelPod]]:
        """The parked pods by group."""
        groups: dict[str, list[ModelPod]] = {}
        for key, entry in self.entries().items():
            if entry.tier == "unschedulable":
                pod = self.waiting[key]
                groups.setdefault(pod.group, []).append(pod)
        return groups

    # Pods come, change and go.

    @rule(name=names, kind=kinds)
    def add(self, name: str, kind: str) -> None:
        key = f"default/{name}"
        if key in self.waiting or any(pod.info.key == key for pod in self.flying):
            return
        info = make_pod(name, uid=f"uid-{next(self.uids)}", labels={"kind": kind})
        self.queue.add(info)
        self.waiting[key] = ModelPod(info)

    @rule(name=names, kind=kinds)
    def change(self, name: str, kind: str) -> None:
        """A new version of the pod, perhaps of another kind."""
        key = f"default/{name}"
        for pod in (*self.waiting.values(), *self.flying):
            if pod.info.key != key or pod.deleted:
                continue
            old, pod.info = pod.info, make_pod(name, uid=pod.info.uid, labels={"kind": kind})
            parked = self.entries().get(key)
            self.queue.update(old, pod.info)
            if kind_of(old) == kind or parked is None or parked.tier != "unschedulable":
                continue
            common = self.verdicts[pod.group]
            pod.group = pod.info.uid
            cured = common.cured or "Own" in common.plugins
            self.verdicts[pod.group] = Verdict(0, common.plugins, common.judged_at, cured)

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

    # Attempts.

    @rule()
    def pop(self) -> None:
        queued = self.queue.pop()
        if queued is None:
            tiers = {entry.tier for entry in self.entries().values()}
            assert not tiers & {"active", "backoff"}
            return
        pod = self.waiting.pop(queued.key)
        pod.handle, pod.seen, pod.begun = queued, pod.info, self.events
        pod.missed, pod.activated = [], False
        self.flying.append(pod)

    def land(self, pod: ModelPod) -> None:
        self.flying.remove(pod)
        if not pod.deleted:
            self.waiting[pod.info.key] = pod

    @initialize(each=st.lists(st.tuples(kinds, plugin_sets), min_size=2, max_size=len(NAMES)))
    def start_with_parked_pods(self, each: list[tuple[str, frozenset[str]]]) -> None:
        for name, (kind, plugins) in zip(NAMES, each, strict=False):
            self.add(name, kind)
            self.pop()
            self.return_rejected(self.flying[0], plugins)

    @rule(plugins=plugin_sets)
    def try_the_next_in_vain(self, plugins: frozenset[str]) -> None:
        flying = len(self.flying)
        self.pop()
        if len(self.flying) > flying:
            self.return_rejected(self.flying[-1], plugins)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), plugins=plugin_sets, pending=plugin_sets | st.just(()), alone=seldom)
    def reject(
        self,
        data: st.DataObject,
        plugins: frozenset[str],
        pending: Collection[str],
        alone: bool,
    ) -> None:
        pod = data.draw(st.sampled_from(self.flying))
        self.return_rejected(pod, plugins, frozenset(pending), alone)

    def return_rejected(
        self,
        pod: ModelPod,
        plugins: frozenset[str],
        pending: frozenset[str] = frozenset(),
        alone: bool = False,
    ) -> None:
        self.land(pod)
        assert pod.handle is not None
        assert pod.seen is not None
        before = self.parked()
        cohort = None if alone else f"{kind_of(pod.seen)}-{self.grouping}"
        self.queue.requeue_rejected(pod.handle, plugins, pending, "no", cohort)
        if pod.deleted:
            return
        changed = kind_of(pod.seen) != kind_of(pod.info)
        alone = cohort is None or changed or pod.activated
        pod.group = pod.info.uid if alone else str(cohort)
        said = plugins | pending
        known = self.verdicts.get(pod.group) if pod.group in before else None
        if known is not None and known.begun > pod.begun:
            known.judged_at = self.bench.clock.now
            return
        cured = {plugin for plugin, named in pod.missed if kind_of(pod.info) in named}
        if changed:
            cured.add("Own")
        self.verdicts[pod.group] = Verdict(
            pod.begun, said, self.bench.clock.now, bool(cured & said) or pod.activated
        )

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(self.flying))
        self.land(pod)
        assert pod.handle is not None
        self.queue.requeue_error(pod.handle, "boom")

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def placed(self, data: st.DataObject) -> None:
        self.queue.placed(data.draw(st.sampled_from(self.flying)).info.uid)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(self.flying))
        self.flying.remove(pod)
        self.queue.done(pod.info.uid)

    # What may cure.

    @rule(plugin=st.sampled_from(("One", "Two")), named=kind_sets)
    def event(self, plugin: str, named: frozenset[str]) -> None:
        groups = self.parked()
        self.events += 1
        self.queue.on_event(Event(plugin, Action.ADD, None, named))
        for group, pods in groups.items():
            if plugin in self.verdicts[group].plugins and kind_of(pods[0].info) in named:
                self.verdicts[group].cured = True
        for pod in self.flying:
            pod.missed.append((plugin, named))

    @rule(really=seldom)
    def tell_pods_apart_in_another_way(self, really: bool) -> None:
        self.grouping ^= really

    @rule(name=names)
    def close_gate(self, name: str) -> None:
        self.closed.add(f"default/{name}")

    @rule()
    def open_gates(self) -> None:
        self.closed.clear()
        self.events += 1
        self.queue.on_event(Event(GATE, Action.ADD))

    @rule(name=names)
    def activate(self, name: str) -> None:
        key = f"default/{name}"
        self.queue.activate([key])
        for pod in self.flying:
            pod.activated |= pod.info.key == key

    @rule(seconds=st.sampled_from((0.25, 1.0, 3.0, 25.0)))
    def time_passes(self, seconds: float) -> None:
        groups = self.parked()
        self.bench.clock.advance(seconds)
        self.queue.flush()
        for group in groups:
            verdict = self.verdicts[group]
            verdict.cured |= verdict.judged_at + MAX_UNSCHEDULABLE <= self.bench.clock.now

    # What must always hold.

    @invariant()
    def the_law(self) -> None:
        entries, parked = self.entries(), self.parked()
        self.nobody_is_lost(entries)
        for group, pods in parked.items():
            for pod in pods:
                assert set(entries[pod.info.key].plugins) == self.verdicts[group].plugins
            if self.verdicts[group].cured:
                self.somebody_is_on_the_way(entries, pods)
        self.the_gauges_are_true(entries)
        self.nothing_is_kept_of_pods_that_are_gone(sum(map(len, parked.values())))

    def somebody_is_on_the_way(self, entries: dict[str, QueueEntry], pods: list[ModelPod]) -> None:
        ahead = {entries[pod.info.key].behind for pod in pods}
        assert len(ahead) == 1, "equal pods follow the same one"
        (scout,) = ahead
        flying = any(pod.info.key == scout for pod in self.flying)
        assert flying or entries[scout].tier in ("active", "backoff", "error-backoff")

    def nobody_is_lost(self, entries: dict[str, QueueEntry]) -> None:
        assert sorted(entries) == sorted(self.waiting)
        assert len(self.queue) == len(entries)
        assert self.queue.view.counts()["in-flight"] == len(self.flying)

    def the_gauges_are_true(self, entries: dict[str, QueueEntry]) -> None:
        tiers = Counter(entry.tier.removeprefix("error-") for entry in entries.values())
        assert nonzero(self.bench.metrics.pending_pods, "queue") == tiers
        rejections = Counter(plugin for entry in entries.values() for plugin in entry.plugins)
        assert nonzero(self.bench.metrics.unschedulable_pods, "plugin") == rejections

    def nothing_is_kept_of_pods_that_are_gone(self, parked: int) -> None:
        cohorts = self.queue._pods.unschedulable
        assert len(cohorts) == parked
        assert len(cohorts._cohorts) <= parked + len(cohorts.scouting)
        waiters = self.queue._waiters
        listening = [
            each.target for each in waiters._waiters.values() if isinstance(each.target, Cohort)
        ]
        idle = [cohort for cohort in cohorts._cohorts.values() if cohort.scout is None]
        assert set(listening) == set(idle)
        assert len(cohorts._by_age) == len(idle)


def nonzero(gauge: Gauge, label: str) -> dict[str, float]:
    (family,) = gauge.collect()
    return {sample.labels[label]: sample.value for sample in family.samples if sample.value}


TestCohortLaw = CohortMachine.TestCase
TestCohortLaw.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
