"""Runs a profile's plugins at each extension point.

All points are driven from one table of entries, so timing, counting and the containment of faults
are written once. Order is the configured order; undo runs in reverse.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.interface import (
    MAX_SCORE,
    POINTS,
    EnqueueExtensions,
    Observer,
    Plugin,
    Point,
    PostFilterResult,
    PreFilterResult,
)
from scheduler.framework.waiting import WaitingPod
from scheduler.model.events import Action
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from scheduler.observe.metrics import Children, Metrics
from scheduler.queueing.hints import ANY_KIND, HintRegistration
from scheduler.queueing.tiers import QueuedPod
from scheduler.state.columns import Codes, Rows, Scores

# The points whose calls ``scheduler_plugin_evaluation_total`` counts.
_EVALUATED = frozenset(("preFilter", "filter", "preScore", "score"))


class PluginFault(Exception):
    """A plugin raised, or returned something it must not: a bug in it, not a verdict."""

    def __init__(self, plugin: str, point: str, fault: object) -> None:
        super().__init__(f"plugin {plugin!r} failed at {point}: {fault}")
        self.plugin = plugin
        self.point = point


class Entry(msgspec.Struct, frozen=True):
    """A plugin at one point: what to call, and what its scores count."""

    name: str
    call: Callable[..., Any]
    weight: int
    count: Callable[[], None] | None
    """Counts a call, at the points where calls are counted."""


class PreFilterOutcome(msgspec.Struct, frozen=True):
    """What is known before nodes are looked at."""

    rejection: Status | None = None
    """The verdict on the pod as a whole, if it was rejected."""
    node_names: frozenset[str] | None = None
    """The only nodes worth looking at; None: all."""
    excluded: Status = SUCCESS
    """The verdict on all other nodes."""
    narrowing: Sequence[str] = ()
    """The plugins that named nodes: each of them may be why the others are left out."""


class ScoredRows(msgspec.Struct, frozen=True):
    """Totals per row, and each plugin's weighted part of them."""

    totals: Scores
    plugins: dict[str, Scores]


class Framework:
    """One profile: the plugins it enables, at the points it enables them."""

    def __init__(
        self,
        profile: str,
        plugins: Mapping[str, Plugin],
        enabled: Mapping[str, Sequence[tuple[str, int]]],
        metrics: Metrics,
    ) -> None:
        self.profile = profile
        self.plugins = plugins
        self.waiting: dict[str, WaitingPod] = {}
        self._metrics = metrics
        self._durations = Children(metrics.extension_point_duration)
        self._entries = {
            point.key: tuple(
                self._entry(point, name, weight) for name, weight in enabled.get(point.key, ())
            )
            for point in POINTS.values()
        }

    def _entry(self, point: Point, name: str, weight: int) -> Entry:
        count = None
        if point.key in _EVALUATED:
            count = self._metrics.plugin_evaluations.labels(name, point.label, self.profile).inc
        return Entry(name, getattr(self.plugins[name], point.method), weight or 1, count)

    def observed_kinds(self) -> set[str]:
        """Kinds besides pods and nodes that some plugin looks up or listens to."""
        looked_up = {
            kind
            for plugin in self.plugins.values()
            if isinstance(plugin, Observer)
            for kind in plugin.observes
        }
        heard = {hint.kind for hints in self.hints().values() for hint in hints}
        return (looked_up | heard) - {"Pod", "Node", ANY_KIND}

    def hints(self) -> dict[str, Sequence[HintRegistration]]:
        """What each plugin listens to; one that does not say is woken by every event."""
        everything = (HintRegistration(ANY_KIND, ~Action(0)),)
        return {
            name: plugin.hints() if isinstance(plugin, EnqueueExtensions) else everything
            for name, plugin in self.plugins.items()
        }

    # Queue

    def sort_key(self, queued: QueuedPod) -> Any:
        """The key of the queue sort plugin."""
        (entry,) = self._entries["queueSort"]
        return entry.call(queued)

    def run_pre_enqueue(self, pod: PodInfo) -> Status:
        """The first verdict that keeps the pod out of the queue, else Success."""
        for entry in self._entries["preEnqueue"]:
            status: Status = self._call("preEnqueue", entry, pod)
            if not status.ok:
                return status.by(entry.name)
        return SUCCESS

    # Scheduling cycle

    def run_pre_filter(self, cycle: Cycle) -> PreFilterOutcome:
        """The verdict on the pod as a whole, and the only nodes worth looking at."""
        rejection: Status | None = None
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        with self._timed("preFilter") as outcome:
            for entry in self._entries["preFilter"]:
                result: PreFilterResult = self._call("preFilter", entry, cycle)
                code = result.status.code
                if code is Code.SKIP:
                    cycle.skipped["filter"].add(entry.name)
                    continue
                if code is Code.UNSCHEDULABLE:
                    rejection = result.status.by(entry.name)
                    continue
                if code is not Code.SUCCESS:
                    outcome.append(code)
                    return PreFilterOutcome(result.status.by(entry.name))
                if result.node_names is not None:
                    narrowing.append(entry.name)
                    names = result.node_names if names is None else names & result.node_names
                    if not names:
                        outcome.append(Code.UNRESOLVABLE)
                        return PreFilterOutcome(_nothing_left(narrowing), narrowing=narrowing)
            if rejection is not None:
                outcome.append(rejection.code)
                return PreFilterOutcome(rejection)
        if names is None:
            return PreFilterOutcome()
        reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowing))}]"
        return PreFilterOutcome(None, names, unresolvable(reason).by(narrowing[0]), narrowing)

    def run_filters(self, cycle: Cycle, rows: Rows) -> Codes:
        """A verdict per row: of the first plugin that rejects it, or 0."""
        codes: Codes = np.zeros(len(rows), np.int32)
        passing, remaining = np.arange(len(rows)), rows
        with self._timed("filter") as outcome:
            for entry in self._entries["filter"]:
                if entry.name in cycle.skipped["filter"]:
                    continue
                verdicts: Codes = self._call("filter", entry, cycle, remaining)
                if len(verdicts) != len(passing):
                    raise self._fault(entry.name, "filter", "wrong number of verdicts")
                if verdicts.any():
                    codes[passing] = verdicts
                    passing = passing[verdicts == 0]
                    remaining = rows[passing]
                    if not len(passing):
                        outcome.append(Code.UNSCHEDULABLE)
                        break
        return codes

    def judges_row_by_row(self, cycle: Cycle) -> bool:
        """Whether all filters that look at this pod are ``row_by_row``."""
        return all(
            entry.name in cycle.skipped["filter"]
            or getattr(self.plugins[entry.name], "row_by_row", False)
            for entry in self._entries["filter"]
        )

    def run_post_filters(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult | None:
        """What came of making room; None when no plugin is enabled."""
        if not self._entries["postFilter"]:
            return None
        reasons: list[str] = []
        nominated: str | None = None
        with self._timed("postFilter") as outcome:
            for entry in self._entries["postFilter"]:
                result: PostFilterResult = self._call("postFilter", entry, cycle, diagnosis)
                outcome.append(result.status.code)
                if result.status.code is not Code.UNSCHEDULABLE:
                    return result
                reasons += result.status.reasons
                if result.nominated_node is not None:
                    nominated = result.nominated_node
        return PostFilterResult(unschedulable(*reasons), nominated)

    def run_scores(self, cycle: Cycle, rows: Rows) -> ScoredRows:
        """Weighted scores of feasible rows, normalised over these rows."""
        self._run_pre_score(cycle, rows)
        parts: dict[str, Scores] = {}
        totals: Scores = np.zeros(len(rows), np.int64)
        with self._timed("score"):
            for entry in self._entries["score"]:
                if entry.name in cycle.skipped["score"]:
                    continue
                raw: Scores = self._call("score", entry, cycle, rows)
                scores = self._normalize(entry, cycle, raw)
                if len(scores) != len(rows):
                    raise self._fault(entry.name, "score", "wrong number of scores")
                parts[entry.name] = scores * entry.weight
                totals += parts[entry.name]
        return ScoredRows(totals, parts)

    def _run_pre_score(self, cycle: Cycle, rows: Rows) -> None:
        with self._timed("preScore"):
            for entry in self._entries["preScore"]:
                status: Status = self._call("preScore", entry, cycle, rows)
                if status.code is Code.SKIP:
                    cycle.skipped["score"].add(entry.name)
                elif not status.ok:
                    raise self._fault(entry.name, "preScore", status.message)

    def _normalize(self, entry: Entry, cycle: Cycle, raw: Scores) -> Scores:
        try:
            # Typed by the ScorePlugin protocol; the registry only lets such plugins score.
            scores: Scores = self.plugins[entry.name].normalize(cycle, raw)  # type: ignore[attr-defined]  # see above
        except Exception as fault:
            raise self._fault(entry.name, "score", fault) from fault
        if len(scores) and (scores.min() < 0 or scores.max() > MAX_SCORE):
            raise self._fault(entry.name, "score", f"a score is outside 0..{MAX_SCORE}")
        return scores

    def run_reserve(self, cycle: Cycle, node: str) -> Status:
        """Book the pod everywhere; the first refusal is returned, and nothing is undone here."""
        with self._timed("reserve") as outcome:
            for entry in self._entries["reserve"]:
                status: Status = self._call("reserve", entry, cycle, node)
                if not status.ok:
                    outcome.append(status.code)
                    return status.by(entry.name)
        return SUCCESS

    def run_unreserve(self, cycle: Cycle, node: str) -> None:
        """Undo all bookings, last first; every plugin is asked, whatever the others do."""
        faults = []
        for entry in reversed(self._entries["reserve"]):
            try:
                self.plugins[entry.name].unreserve(cycle, node)  # type: ignore[attr-defined]  # ReservePlugin
            except Exception as fault:
                faults.append(self._fault(entry.name, "reserve", fault))
        if faults:
            raise faults[0]

    def run_permit(self, cycle: Cycle, node: str) -> Status:
        """Success, a rejection, or Wait: the pod is then in ``waiting``."""
        timeouts: dict[str, float] = {}
        with self._timed("permit") as outcome:
            for entry in self._entries["permit"]:
                status, timeout = self._call("permit", entry, cycle, node)
                if status.code is Code.WAIT:
                    timeouts[entry.name] = timeout
                elif not status.ok:
                    outcome.append(status.code)
                    return Status(status.code, status.reasons, entry.name)
            if not timeouts:
                return SUCCESS
            outcome.append(Code.WAIT)
        self.waiting[cycle.pod.uid] = WaitingPod(cycle.pod, node, timeouts)
        return Status(Code.WAIT)

    # Binding

    async def wait_on_permit(self, cycle: Cycle) -> Status:
        """The verdict of the plugins that asked the pod to wait; Success if none did."""
        waiting = self.waiting.get(cycle.pod.uid)
        if waiting is None:
            return SUCCESS
        started = time.perf_counter()
        try:
            status = await waiting.verdict()
        finally:
            del self.waiting[cycle.pod.uid]
        elapsed = time.perf_counter() - started
        self._metrics.permit_wait_duration.labels(status.code.value).observe(elapsed)
        return status

    async def run_pre_bind(self, cycle: Cycle, node: str) -> Status:
        """The first refusal, else Success."""
        with self._timed("preBind") as outcome:
            for entry in self._entries["preBind"]:
                status: Status = await self._acall("preBind", entry, cycle, node)
                if not status.ok and status.code is not Code.SKIP:
                    outcome.append(status.code)
                    return status.by(entry.name)
        return SUCCESS

    async def run_bind(self, cycle: Cycle, node: str) -> Status:
        """The verdict of the first plugin that acts."""
        with self._timed("bind") as outcome:
            for entry in self._entries["bind"]:
                status: Status = await self._acall("bind", entry, cycle, node)
                if status.code is not Code.SKIP:
                    outcome.append(status.code)
                    return status if status.ok else status.by(entry.name)
        return error("no bind plugin acted on the pod")

    def run_post_bind(self, cycle: Cycle, node: str) -> None:
        """Tell all plugins that the pod is bound."""
        with self._timed("postBind"):
            for entry in self._entries["postBind"]:
                self._call("postBind", entry, cycle, node)

    # Calls

    def _call(self, point: str, entry: Entry, *args: Any) -> Any:
        if entry.count is not None:
            entry.count()
        try:
            return entry.call(*args)
        except Exception as fault:
            raise self._fault(entry.name, point, fault) from fault

    async def _acall(self, point: str, entry: Entry, *args: Any) -> Any:
        try:
            return await entry.call(*args)
        except Exception as fault:
            raise self._fault(entry.name, point, fault) from fault

    def _fault(self, plugin: str, point: str, fault: Exception | str) -> PluginFault:
        label = POINTS[point].label
        self._metrics.plugin_errors.labels(plugin, label).inc()
        text = fault if isinstance(fault, str) else f"{type(fault).__name__}: {fault}"
        return PluginFault(plugin, label, text)

    @contextmanager
    def _timed(self, point: str) -> Iterator[list[Code]]:
        """Observes how long a point took, under the last code put into the list it yields."""
        outcome: list[Code] = []
        started = time.perf_counter()
        try:
            yield outcome
        except Exception:
            outcome.append(Code.ERROR)
            raise
        finally:
            status = outcome[-1].value if outcome else Code.SUCCESS.value
            elapsed = time.perf_counter() - started
            self._durations[POINTS[point].label, status, self.profile].observe(elapsed)


def _nothing_left(plugins: Sequence[str]) -> Status:
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}").by(plugins[0])
    names = " ".join(sorted(plugins))
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{names}] simultaneously").by(plugins[0])
