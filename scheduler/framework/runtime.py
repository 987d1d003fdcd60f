"""Runs a profile's plugins at each extension point.

All points are driven from one table of entries, so timing, counting and the containment of faults
are written once. Order is the configured order; undo runs in reverse.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from scheduler.equivalence.classes import FILTER, SCORE
from scheduler.equivalence.reads import Declaration
from scheduler.framework.answers import AnswerNeeded
from scheduler.framework.calls import Entry
from scheduler.framework.complaints import Complaints, PluginFault
from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.declaring import declared_filter, declared_hints, declared_score
from scheduler.framework.groups import GroupPlugin
from scheduler.framework.guests import unusable_permit
from scheduler.framework.interface import (
    Bookkeeper,
    Observer,
    Plugin,
    PostFilterResult,
    PreBindPreFlight,
    PreFilterResult,
    QuickFilter,
    RoomPreview,
    RoomPreviewer,
    WhatIfPlugin,
)
from scheduler.framework.remote import RemotePlugin, RemotePoints
from scheduler.framework.sorting import rank_of, sort_key_of
from scheduler.framework.waiting import WaitingPod
from scheduler.model.events import ASSIGNED_POD, UNSCHEDULED_POD
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from scheduler.observe.metrics import Metrics
from scheduler.queueing.hints import ANY_KIND, HintRegistration
from scheduler.state.aspects import OF_PODS
from scheduler.state.columns import Codes, Rows, Scores


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


_NOTHING_KNOWN = PreFilterOutcome()
_ALWAYS_WATCHED = {"Pod", ASSIGNED_POD, UNSCHEDULED_POD, "Node", ANY_KIND}


class ScoredRows(msgspec.Struct, frozen=True):
    """Totals per row, and each plugin's weighted part of them."""

    totals: Scores
    plugins: dict[str, Scores]


class Framework(RemotePoints):
    """One profile: the plugins it enables, at the points it enables them."""

    def __init__(
        self,
        profile: str,
        plugins: Mapping[str, Plugin],
        enabled: Mapping[str, Sequence[tuple[str, int]]],
        metrics: Metrics,
        complaints: Complaints | None = None,
        guests: Collection[str] | None = None,
        making_room: Sequence[str] = (),
    ) -> None:
        """``making_room`` are the profile's post-filter plugins, whether or not they run here."""
        super().__init__(profile, plugins, enabled, metrics, complaints, guests)
        self._making_room = making_room
        self.waiting: dict[str, WaitingPod] = {}
        self.sort_key = sort_key_of(self._entries["queueSort"], plugins, self.complaints)
        """The key of a queued pod, which sorts the next pod first."""
        self.rank = rank_of(self._entries["queueSort"], plugins, self.complaints)
        """The rank of a queued pod: what counts before the time at which it came."""
        self.vetoes = bool(self._entries["postScore"])
        """Whether some plugin may veto the best node."""
        self.judges_choice = self.vetoes or bool(self._entries["afterFilter"])
        """Whether some plugin looks at all feasible nodes, or the best, of each pod."""
        self.answers_for_class = all(
            getattr(plugins[entry.name], "answers_for_class", False) is True
            for point in ("afterFilter", "postFilter", "postScore")
            for entry in self._entries[point]
        )
        """Whether plugins that look at whole attempts say the same for all pods of a class."""
        judging = dict.fromkeys(e.name for p in ("preFilter", "filter") for e in self._entries[p])
        self.what_if = tuple(
            (name, plugin) for name in judging if isinstance(plugin := plugins[name], WhatIfPlugin)
        )
        """The plugins that are told of pods added and removed on trial."""
        booking = (e.name for p in ("reserve", "permit", "preBind") for e in self._entries[p])
        self._undoing = [
            (name, undo)
            for name in reversed(dict.fromkeys(booking))
            if (undo := getattr(plugins[name], "unreserve", None)) is not None
        ]
        self._quick = [
            (entry.name, plugin)
            for entry in reversed(self._entries["filter"])  # the most telling ones are the last
            if isinstance(plugin := plugins[entry.name], QuickFilter)
        ]
        judges = (entry.name for entry in self._entries["filter"])
        self._sums_only = frozenset(name for name in judges if _reads_sums_only(plugins[name]))
        """The filters for which pods that go change nothing but what is requested."""
        self._pre_flights = [
            (entry.name, plugin)
            for entry in self._entries["preBind"]
            if isinstance(plugin := plugins[entry.name], PreBindPreFlight)
        ]
        self._find_remote()
        reserving = frozenset(entry.name for entry in self._entries["reserve"])
        self.bookkeepers = reserving | {
            name for name, plugin in plugins.items() if isinstance(plugin, RemotePlugin)
        }
        """The plugins that keep books of reservations, or are outside: not to be asked twice."""
        self.own_books = self.bookkeepers | {
            name
            for name, plugin in plugins.items()
            if isinstance(plugin, Bookkeeper) and plugin.keeps_books
        }
        """The plugins whose verdicts on a pod's own node may count the pod itself."""
        permitting = (plugins[entry.name] for entry in self._entries["permit"])
        self.groups: GroupPlugin | None = next(
            (plugin for plugin in permitting if isinstance(plugin, GroupPlugin)), None
        )

    def declarations(self) -> dict[str, list[Declaration]]:
        """What the plugins say they read when they filter and score, in the order they run."""
        judges = [entry.name for entry in self._entries["filter"]]
        preparers = [entry.name for entry in self._entries["preFilter"]]
        return {
            FILTER: [
                declared_filter(self.plugins[name], judges=name in judges)
                for name in dict.fromkeys(judges + preparers)
            ],
            SCORE: [
                declared_score(self.plugins[entry.name], entry.weight)
                for entry in self._entries["score"]
            ],
        }

    def observed_kinds(self) -> set[str]:
        """Kinds besides pods and nodes that some plugin looks up or listens to."""
        return {kind for kinds in self.observed().values() for kind in kinds}

    def observed(self) -> dict[str, set[str]]:
        """The same by plugin; pods and nodes, which are always watched, are left out."""
        hints = self.hints()
        return {
            name: {hint.kind for hint in hints[name]}.union(
                plugin.observes if isinstance(plugin, Observer) else ()
            )
            - _ALWAYS_WATCHED
            for name, plugin in self.plugins.items()
        }

    def hints(self) -> dict[str, Sequence[HintRegistration]]:
        """What each plugin listens to; one that does not say is woken by every event."""
        return {name: declared_hints(plugin) for name, plugin in self.plugins.items()}

    # Queue

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
        entries = [e for e in self._entries["preFilter"] if e.name not in cycle.skipped["filter"]]
        if not entries:
            return _NOTHING_KNOWN
        rejection: Status | None = None
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        with self.timed("preFilter") as timing:
            for entry in entries:
                result: PreFilterResult = self._call("preFilter", entry, cycle)
                code = result.status.code
                if code is Code.SKIP:
                    cycle.skipped["filter"].add(entry.name)
                    continue
                if code is Code.UNSCHEDULABLE:
                    rejection = result.status.by(entry.name)
                    continue
                if code is not Code.SUCCESS:
                    timing.code = code
                    return PreFilterOutcome(result.status.by(entry.name))
                if result.node_names is not None:
                    narrowing.append(entry.name)
                    names = result.node_names if names is None else names & result.node_names
                    if not names:
                        timing.code = Code.UNRESOLVABLE
                        return PreFilterOutcome(_nothing_left(narrowing), narrowing=narrowing)
            if rejection is not None:
                timing.code = rejection.code
                return PreFilterOutcome(rejection)
        if names is None:
            return PreFilterOutcome()
        reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowing))}]"
        return PreFilterOutcome(None, names, unresolvable(reason).by(narrowing[0]), narrowing)

    def run_filters(self, cycle: Cycle, rows: Rows) -> Codes:
        """A verdict per row: of the first plugin that rejects it, or 0."""
        codes: Codes = np.zeros(len(rows), np.int32)
        passing, remaining = np.arange(len(rows)), rows
        with self.timed("filter") as timing:
            for entry in self._entries["filter"]:
                if entry.name in cycle.skipped["filter"]:
                    continue
                verdicts = self._filter(entry, cycle, remaining)
                if verdicts.any():
                    codes[passing] = verdicts
                    passing = passing[verdicts == 0]
                    remaining = rows[passing]
                    if not len(passing):
                        timing.code = Code.UNSCHEDULABLE
                        break
        return codes

    def still_reject(self, plugins: Collection[str], pod: PodInfo, rows: Rows) -> bool:
        """Whether these plugins, as far as they are quick, reject a pod on each of these rows."""
        for name, plugin in self._quick:
            if name in plugins:
                try:
                    rows = rows[plugin.accepts(pod, rows)]
                except Exception as fault:
                    self._fault(name, "filter", fault)
                    return False
                if not len(rows):
                    return True
        return False

    def judges_row_by_row(self, cycle: Cycle) -> bool:
        """Whether all filters that look at this pod are ``row_by_row``."""
        return all(
            entry.name in cycle.skipped["filter"]
            or getattr(self.plugins[entry.name], "row_by_row", False)
            for entry in self._entries["filter"]
        )

    def judges_by_sums(self, cycle: Cycle) -> bool:
        """Whether pods that go change nothing for these filters but what is requested of rows.

        Then what a filter would say without some pods can be asked without taking them away.
        """
        return self.judges_row_by_row(cycle) and all(
            entry.name in cycle.skipped["filter"] or entry.name in self._sums_only
            for entry in self._entries["filter"]
        )

    def run_after_filters(self, cycle: Cycle, rows: Rows) -> Status:
        """Success, or the first rejection of the pod as a whole; anything else is a fault."""
        if not self._entries["afterFilter"]:
            return SUCCESS
        with self.timed("afterFilter") as timing:
            for entry in self._entries["afterFilter"]:
                status = self._verdict("afterFilter", entry, cycle, rows)
                if not status.ok:
                    timing.code = status.code
                    return status
        return SUCCESS

    def run_post_score(self, cycle: Cycle, node: str) -> Status:
        """Success, or the first veto against the node; anything else is a fault."""
        if not self._entries["postScore"]:
            return SUCCESS
        with self.timed("postScore") as timing:
            for entry in self._entries["postScore"]:
                status = self._verdict("postScore", entry, cycle, node)
                if not status.ok:
                    timing.code = status.code
                    return status
        return SUCCESS

    def _verdict(self, point: str, entry: Entry, cycle: Cycle, subject: Any) -> Status:
        """Success or a rejection, signed."""
        status: Status = self._call(point, entry, cycle, subject)
        if status.ok:
            return SUCCESS
        if not status.rejected:
            raise self._fault(entry.name, point, status.message or status.code.value)
        return status.by(entry.name)

    def run_post_filters(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult | None:
        """What came of making room; None when no plugin is enabled."""
        if not self._entries["postFilter"]:
            return None
        reasons: list[str] = []
        nominated: str | None = None
        with self.timed("postFilter") as timing:
            for entry in self._entries["postFilter"]:
                result: PostFilterResult = self._call("postFilter", entry, cycle, diagnosis)
                timing.code = result.status.code
                if result.status.code is not Code.UNSCHEDULABLE:
                    return result
                reasons += result.status.reasons
                if result.nominated_node is not None:
                    nominated = result.nominated_node
        return PostFilterResult(unschedulable(*reasons), nominated)

    def preview_room(self, cycle: Cycle, diagnosis: Diagnosis) -> RoomPreview | None:
        """What post-filter plugins would do, in their order, without doing it; None without any.

        Plugins that cannot say so without acting are named. Raises ``PluginFault``.
        """
        if not self._making_room:
            return None
        reasons: list[str] = []
        for name in self._making_room:
            plugin = self.plugins[name]
            if not isinstance(plugin, RoomPreviewer):
                reasons.append(f"{name} may make room, and is asked only in an attempt.")
                continue
            try:
                preview = plugin.preview(cycle, diagnosis)
            except AnswerNeeded:
                raise
            except Exception as fault:
                raise self._fault(name, "postFilter", fault) from fault
            if preview.node or preview.final:
                return preview
            reasons.append(preview.message)
        return RoomPreview(" ".join(filter(None, reasons)))

    def run_scores(self, cycle: Cycle, rows: Rows) -> ScoredRows:
        """Weighted scores of feasible rows, normalised over these rows."""
        self._run_pre_score(cycle, rows)
        parts: dict[str, Scores] = {}
        totals: Scores = np.zeros(len(rows), np.int64)
        with self.timed("score"):
            for entry in self._entries["score"]:
                if entry.name in cycle.skipped["score"]:
                    continue
                scores = self.normalize(entry.name, cycle, self._score(entry, cycle, rows))
                parts[entry.name] = scores * entry.weight
                totals += parts[entry.name]
        return ScoredRows(totals, parts)

    def _run_pre_score(self, cycle: Cycle, rows: Rows) -> None:
        with self.timed("preScore"):
            for entry in self._entries["preScore"]:
                if entry.name in cycle.skipped["score"]:
                    continue
                if entry.count is not None:
                    entry.count()
                try:
                    status: Status = entry.call(cycle, rows)
                except Exception as fault:
                    status = error(f"{type(fault).__name__}: {fault}")
                if not status.ok:
                    cycle.skipped["score"].add(entry.name)
                    if status.code is not Code.SKIP:
                        self._no_score(entry.name, cycle, status.message, "preScore")

    def run_reserve(self, cycle: Cycle, node: str) -> Status:
        """Book the pod everywhere; the first refusal is returned, and nothing is undone here."""
        with self.timed("reserve") as timing:
            for entry in self._entries["reserve"]:
                status: Status = self._call("reserve", entry, cycle, node)
                if not status.ok:
                    timing.code = status.code
                    return status.by(entry.name)
        return SUCCESS

    def run_unreserve(self, cycle: Cycle, node: str) -> None:
        """Undo all bookings, last first; every plugin is asked, whatever the others do."""
        faults = []
        for name, undo in self._undoing:
            try:
                undo(cycle, node)
            except Exception as fault:
                faults.append(self._fault(name, "reserve", fault))
        if faults:
            raise faults[0]

    def run_permit(self, cycle: Cycle, node: str) -> Status:
        """Success, a rejection, or Wait: the pod is then in ``waiting``."""
        if not self._entries["permit"]:
            return SUCCESS
        timeouts: dict[str, float] = {}
        with self.timed("permit") as timing:
            for entry in self._entries["permit"]:
                answer = self._call("permit", entry, cycle, node)
                if wrong := unusable_permit(answer):
                    raise self._fault(entry.name, "permit", wrong)
                status, timeout = answer
                if status.code is Code.WAIT:
                    timeouts[entry.name] = timeout
                elif not status.ok:
                    timing.code = status.code
                    return Status(status.code, status.reasons, entry.name)
            if not timeouts:
                return SUCCESS
            timing.code = Code.WAIT
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

    def has_pre_bind_work(self, cycle: Cycle, node: str) -> bool:
        """Whether some plugin says that its ``pre_bind`` will have work to do for the pod."""
        for name, plugin in self._pre_flights:
            try:
                status = plugin.pre_bind_pre_flight(cycle, node)
            except Exception as fault:
                raise self._fault(name, "preBind", fault) from fault
            if status.ok:
                return True
            if status.code is not Code.SKIP:
                raise self._fault(name, "preBind", status.message or status.code.value)
        return False

    async def run_pre_bind(self, cycle: Cycle, node: str) -> Status:
        """The first refusal, else Success."""
        with self.timed("preBind") as timing:
            for entry in self._entries["preBind"]:
                status: Status = await self._acall("preBind", entry, cycle, node)
                if not status.ok and status.code is not Code.SKIP:
                    timing.code = status.code
                    return status.by(entry.name)
        return SUCCESS

    async def run_bind(self, cycle: Cycle, node: str) -> Status:
        """The verdict of the first plugin that acts."""
        with self.timed("bind") as timing:
            for entry in self._entries["bind"]:
                status: Status = await self._acall("bind", entry, cycle, node)
                if status.code is not Code.SKIP:
                    timing.code = status.code
                    return status if status.ok else status.by(entry.name)
        return error("no bind plugin acted on the pod")

    def run_post_bind(self, cycle: Cycle, node: str) -> None:
        """Tell all plugins that the pod is bound, whatever the others do."""
        if not self._entries["postBind"]:
            return
        faults = []
        with self.timed("postBind"):
            for entry in self._entries["postBind"]:
                try:
                    self._call("postBind", entry, cycle, node)
                except PluginFault as fault:
                    faults.append(fault)
        if faults:
            raise faults[0]


def _reads_sums_only(plugin: Plugin) -> bool:
    if getattr(plugin, "by_sums", False) is True:
        return True
    reads = declared_filter(plugin, judges=True).reads
    return reads is not None and reads.all.isdisjoint(OF_PODS)


def _nothing_left(plugins: Sequence[str]) -> Status:
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}").by(plugins[0])
    names = " ".join(sorted(plugins))
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{names}] simultaneously").by(plugins[0])
