"""Runs a profile's plugins at each extension point, in the configured order; undo in reverse.

All points are driven from one table of entries, so timing, counting and the containment of faults
are written once (`PluginRunner`). Filters and scores can also be run one plugin at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from scheduler import machine
from scheduler.equivalence.classes import FILTER, SCORE
from scheduler.equivalence.reads import Declaration
from scheduler.framework.declarations import declared_filter, declared_hints, declared_score
from scheduler.framework.faults import PluginFault, PluginFaultReporter
from scheduler.framework.filters import FilterRunner
from scheduler.framework.plugin_runner import PluginEntry, PluginRunner
from scheduler.framework.scores import ScoredRows, ScoreRunner
from scheduler.framework.sorting import rank_of, sort_key_of
from scheduler.model.events import ASSIGNED_POD, UNSCHEDULABLE_POD
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.extension_points import (
    CountingPlugin,
    InterestedPlugin,
    LeaderAwarePlugin,
    LookAheadPlugin,
    Observer,
    Plugin,
    PostFilterPreview,
    PostFilterPreviewPlugin,
    PostFilterResult,
    PreBindPreFlight,
    PreFilterResult,
    RemoteReserve,
    UnreservePlugin,
    VictimTrimmer,
)
from scheduler.plugin_api.groups import GroupPlugin
from scheduler.plugin_api.handle import Victims
from scheduler.plugin_api.waiting import WaitingPod
from scheduler.queueing.hints import ANY_KIND, HintRegistration
from scheduler.state.columns import Codes, Rows
from scheduler.state.podindex import PodIndex
from scheduler.state.scratch import Scratch


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


_SUCCESS, _UNSCHEDULABLE, _SKIP = Code.SUCCESS, Code.UNSCHEDULABLE, Code.SKIP
_NOBODY: frozenset[str] = frozenset()
_NOTHING_KNOWN = PreFilterOutcome()
_ALWAYS_WATCHED = {"Pod", ASSIGNED_POD, UNSCHEDULABLE_POD, "Node", ANY_KIND}


class RemotePoints:
    """The plugins of a profile that answer from another process (trait ``remote``): `webhooks`.

    They reserve and permit in the binding task, because the scheduling cycle never awaits.
    """

    def __init__(self, runner: PluginRunner) -> None:
        self._runner = runner
        self.plugins: dict[str, InterestedPlugin] = {}
        """The remote plugins, by name."""
        self._leader_aware = []
        for name, plugin in runner.plugins.items():
            if not runner.traits[name].remote:
                continue
            if not isinstance(plugin, InterestedPlugin):
                raise ValueError(f"plugin {name!r}: remote plugins need a method concerns")
            self.plugins[name] = plugin
            if isinstance(plugin, LeaderAwarePlugin):
                self._leader_aware.append(plugin)
        self.enabled = bool(self.plugins)
        """Whether an attempt may be suspended."""
        self._reserve: list[PluginEntry] = []
        self._permit: list[PluginEntry] = []
        for point, late in (("reserve", self._reserve), ("permit", self._permit)):
            for entry in runner.entries[point]:
                plugin = runner.plugins[entry.name]
                if isinstance(plugin, RemoteReserve):
                    reserving = late is self._reserve
                    call = plugin.reserve_remotely if reserving else plugin.permit_remotely
                    late.append(PluginEntry(entry.name, call, 1, None, False))
        self.reserves = bool(self._reserve or self._permit)
        """Whether some plugin reserves or permits in the binding task."""

    def concerns(self, pod: PodInfo) -> bool:
        """Whether a remote plugin judges the pod, so that its attempt may be suspended."""
        return any(plugin.concerns(pod) for plugin in self.plugins.values())

    def begin(self) -> None:
        """This replica schedules from now on."""
        for plugin in self._leader_aware:
            plugin.begin()

    async def reserve_and_permit(self, cycle: Cycle, node: str) -> Status:
        """Reserve and permit of remote plugins, in order; the first refusal, else Success."""
        for point, entries in (("reserve", self._reserve), ("permit", self._permit)):
            for entry in entries:
                status: Status = await self._runner.call_async(point, entry, cycle, node)
                if not status.ok:
                    return status.by(entry.name)
        return SUCCESS


class Framework:
    """One profile: the plugins it enables, at the points it enables them."""

    def __init__(
        self,
        profile: str,
        plugins: Mapping[str, Plugin],
        enabled: Mapping[str, Sequence[tuple[str, int]]],
        metrics: Metrics,
        fault_reporter: PluginFaultReporter | None = None,
        external: Collection[str] | None = None,
        post_filters: Sequence[str] = (),
        trimmers: Sequence[str] = (),
        waiting: dict[str, WaitingPod] | None = None,
    ) -> None:
        """``external`` are the plugins whose answers are checked; all, if it is None.

        ``post_filters`` are the profile's PostFilter plugins, whether or not they run here, and
        ``trimmers`` those that limit the victims of preemption. Pods that wait on permit are put
        into ``waiting``, if it is given. Raises ValueError.
        """
        self.profile = profile
        self.plugins = plugins
        self.fault_reporter = fault_reporter or PluginFaultReporter(metrics)
        runner = self.runner = PluginRunner(
            profile,
            plugins,
            enabled,
            metrics,
            self.fault_reporter,
            plugins if external is None else external,
        )
        self._entries = runner.entries
        self.filters = FilterRunner(runner)
        self.scores = ScoreRunner(runner)
        self.remote = RemotePoints(runner)
        self.waiting: dict[str, WaitingPod] = {} if waiting is None else waiting
        """Pods that wait on permit, by uid; perhaps of other profiles as well."""
        self._post_filters = post_filters
        self._trimmers = [
            plugin for name in trimmers if isinstance(plugin := plugins[name], VictimTrimmer)
        ]
        self._counting = [
            (name, plugin)
            for name in runner.names("preFilter", "filter", "preScore", "score")
            if isinstance(plugin := plugins[name], CountingPlugin)
        ]
        self._ahead = {
            name: plugin
            for name in runner.names("preFilter", "filter")
            if isinstance(plugin := plugins[name], LookAheadPlugin)
        }
        self.looks_ahead = frozenset(self._ahead)
        """The plugins that may prepare for an attempt."""
        self.sort_key = sort_key_of(runner)
        """The key of a queued pod, which sorts the next pod first."""
        self.rank = rank_of(runner)
        """The rank of a queued pod: what counts before the time at which it was queued."""
        self.vetoes = bool(self._entries["postScore"])
        """Whether some plugin may veto the best node."""
        self.judges_choice = self.vetoes or bool(self._entries["afterFilter"])
        """Whether some plugin looks at all feasible nodes, or the best, of each pod."""
        self.answers_for_class = all(
            runner.traits[name].answers_for_class
            for name in runner.names("afterFilter", "postFilter", "postScore")
        )
        """Whether plugins that look at whole attempts answer alike for all pods of a class."""
        self._skips_reserve = frozenset(
            name for name in runner.names("reserve") if runner.traits[name].skips_reserve
        )
        self._undoing = [
            (name, plugin.unreserve)
            for name in reversed(runner.names("reserve", "permit", "preBind"))
            if isinstance(plugin := plugins[name], UnreservePlugin)
        ]
        self._pre_flights = [
            (entry.name, plugin)
            for entry in self._entries["preBind"]
            if isinstance(plugin := plugins[entry.name], PreBindPreFlight)
        ]
        self._skips_pre_bind = self._skips_reserve.intersection(n for n, _ in self._pre_flights)
        self.reserving = frozenset((*runner.names("reserve"), *self.remote.plugins))
        """The plugins that reserve, or are remote: not called again before the binding is sent."""
        self.counting_own_pods = self.reserving | {
            name for name, traits in runner.traits.items() if traits.own_accounting
        }
        """The plugins whose verdicts on a pod's own node may count the pod itself."""
        self.asks_if_stale = all(
            runner.traits[entry.name].asks_if_stale for entry in self._entries["bind"]
        )
        """Whether bind plugins check the decision themselves before each request."""
        permitting = (plugins[entry.name] for entry in self._entries["permit"])
        self.groups: GroupPlugin | None = next(
            (plugin for plugin in permitting if isinstance(plugin, GroupPlugin)), None
        )

    def declarations(self) -> dict[str, list[Declaration]]:
        """What the plugins declare to read when they filter and score, in the order they run."""
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
        """Kinds besides pods and nodes that some plugin looks up or has hints for."""
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
        """The hints of each plugin; one without any has its pods activated by every event."""
        return {name: declared_hints(plugin) for name, plugin in self.plugins.items()}

    # Queue

    def run_pre_enqueue(self, pod: PodInfo) -> Status:
        """The first verdict that keeps the pod out of the queue, else Success."""
        for entry in self._entries["preEnqueue"]:
            status: Status = self.runner.call("preEnqueue", entry, pod)
            if not status.ok:
                return status.by(entry.name)
        return SUCCESS

    # Scheduling cycle

    def count_ahead(self, pod: PodInfo, index: PodIndex) -> None:
        """Count the pods that an attempt will ask about; the event loop may run meanwhile."""
        for name, plugin in self._counting:
            try:
                counted = list(plugin.counted(pod))
            except Exception as fault:
                self.runner.fault(name, "preFilter", fault)
                continue
            for sets, living_only in counted:
                index.count_ahead(*sets, living_only=living_only)

    def look_ahead(self, pod: PodInfo) -> None:
        """Have plugins prepare for an attempt; the event loop may run meanwhile."""
        for name, plugin in self._ahead.items():
            try:
                plugin.look_ahead(pod)
            except Exception as fault:
                self.runner.fault(name, "preFilter", fault)

    def run_pre_filter(self, cycle: Cycle) -> PreFilterOutcome:
        """The verdict on the pod as a whole, and the only nodes worth looking at."""
        entries = self.runner.without["preFilter"][cycle.skipped["filter"]]
        if not entries:
            return _NOTHING_KNOWN
        rejection: Status | None = None
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        with self.runner.timed("preFilter") as timing:
            for entry in entries:
                result: PreFilterResult = self.runner.call("preFilter", entry, cycle)
                code = result.status.code
                if code is _SKIP:
                    cycle.skip("filter", frozenset((entry.name,)))
                    continue
                if code is _UNSCHEDULABLE:
                    rejection = result.status.by(entry.name)
                    continue
                if code is not _SUCCESS:
                    timing.code = code
                    return PreFilterOutcome(_signed(result.status, "PreFilter", entry.name))
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
            return _NOTHING_KNOWN
        reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowing))}]"
        return PreFilterOutcome(None, names, unresolvable(reason).by(narrowing[0]), narrowing)

    def prepare_filter(self, name: str, cycle: Cycle) -> Code:
        """Run PreFilter of one plugin alone; Success if it has none. Raises ``PluginFault``."""
        for entry in self._entries["preFilter"]:
            if entry.name == name:
                result: PreFilterResult = self.runner.call("preFilter", entry, cycle)
                return result.status.code
        return Code.SUCCESS

    def run_filters(self, cycle: Cycle, rows: Rows) -> Codes:
        """A verdict per row: of the first plugin that rejects it, or 0."""
        return self.filters.run(cycle, rows)

    def trial(self, cycle: Cycle) -> AbstractContextManager[Scratch]:
        """Change the state for the length of a block, which must not await."""
        return self.filters.trial(cycle)

    def run_after_filters(self, cycle: Cycle, rows: Rows) -> Status:
        """Success, or the first rejection of the pod as a whole; anything else is a fault."""
        return self._first_rejection("afterFilter", cycle, rows)

    def run_post_score(self, cycle: Cycle, node: str) -> Status:
        """Success, or the first veto against the node; anything else is a fault."""
        return self._first_rejection("postScore", cycle, node)

    def _first_rejection(self, point: str, cycle: Cycle, subject: Any) -> Status:
        """Success, or the first rejection, with the name of its plugin."""
        if not self._entries[point]:
            return SUCCESS
        with self.runner.timed(point) as timing:
            for entry in self._entries[point]:
                status: Status = self.runner.call(point, entry, cycle, subject)
                if status.ok:
                    continue
                if not status.rejected:
                    raise self.runner.fault(entry.name, point, status.message or status.code.value)
                timing.code = status.code
                return status.by(entry.name)
        return SUCCESS

    def run_post_filters(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult | None:
        """The result of making room; None when no plugin is enabled."""
        if not self._entries["postFilter"]:
            return None
        reasons: list[str] = []
        nominated: str | None = None
        acted = False
        with self.runner.timed("postFilter") as timing:
            for entry in self._entries["postFilter"]:
                result: PostFilterResult = self.runner.call("postFilter", entry, cycle, diagnosis)
                timing.code = result.status.code
                acted |= result.acted
                if result.status.code is not Code.UNSCHEDULABLE:
                    return msgspec.structs.replace(result, acted=acted)
                reasons += result.status.reasons
                if result.nominated_node is not None:
                    nominated = result.nominated_node
        return PostFilterResult(unschedulable(*reasons), nominated, acted)

    def preview_post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterPreview | None:
        """What post-filter plugins would do, in their order, without doing it; None without any.

        Plugins that cannot say so without acting are named. Raises ``PluginFault``.
        """
        if not self._post_filters:
            return None
        reasons: list[str] = []
        for name in self._post_filters:
            plugin = self.plugins[name]
            if not isinstance(plugin, PostFilterPreviewPlugin):
                reasons.append(f"{name} may make room, and is asked only in an attempt.")
                continue
            try:
                preview = plugin.preview(cycle, diagnosis)
            except Exception as fault:
                raise self.runner.fault(name, "postFilter", fault) from fault
            if preview.node or preview.final:
                return preview
            reasons.append(preview.message)
        return PostFilterPreview(" ".join(filter(None, reasons)))

    def trim_victims(self, cycle: Cycle, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The victims of preemption, by node, that all trimming plugins allow."""
        for plugin in self._trimmers:
            victims = plugin.trim(cycle, victims)
            if not victims:
                break
        return victims

    def run_scores(self, cycle: Cycle, rows: Rows) -> ScoredRows:
        """Weighted scores of feasible rows, normalised over these rows."""
        return self.scores.run(cycle, rows)

    def run_reserve(self, cycle: Cycle, node: str) -> Status:
        """Reserve; returns the first refusal, and undoes nothing."""
        entries = self.runner.without["reserve"][self._skips_reserve & cycle.skipped["filter"]]
        if not entries:
            self.runner.idle("reserve")
            return SUCCESS
        with self.runner.timed("reserve") as timing:
            for entry in entries:
                status: Status = self.runner.call("reserve", entry, cycle, node)
                if status is not SUCCESS and not status.ok:
                    timing.code = status.code
                    return _signed(status, "Reserve", entry.name)
        return SUCCESS

    def run_unreserve(self, cycle: Cycle, node: str) -> None:
        """Undo all bookings, last first; every plugin is called, whatever the others do."""
        faults = []
        for name, undo in self._undoing:
            try:
                undo(cycle, node)
            except Exception as fault:
                faults.append(self.runner.fault(name, "reserve", fault))
        if faults:
            raise faults[0]

    def run_permit(self, cycle: Cycle, node: str) -> Status:
        """Success, a rejection, or Wait: the pod is then in ``waiting``."""
        if not self._entries["permit"]:
            return SUCCESS
        timeouts: dict[str, float] = {}
        with self.runner.timed("permit") as timing:
            for entry in self._entries["permit"]:
                answer = self.runner.call("permit", entry, cycle, node)
                if wrong := _unusable_permit(answer):
                    raise self.runner.fault(entry.name, "permit", wrong)
                status, timeout = answer
                if status.code is Code.WAIT:
                    timeouts[entry.name] = timeout
                elif not status.ok:
                    timing.code = status.code
                    return _signed(status, "Permit", entry.name)
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
        started = machine.perf_counter()
        try:
            status = await waiting.verdict()
        finally:
            del self.waiting[cycle.pod.uid]
        elapsed = machine.perf_counter() - started
        self.runner.metrics.permit_wait_duration.labels(status.code.value).observe(elapsed)
        return status

    def has_pre_bind_work(self, cycle: Cycle, node: str) -> bool:
        """Whether some plugin says that its ``pre_bind`` will have work to do for the pod.

        That of plugins which say that they have none is not called. Plugins that have reserved
        nothing, because the filter skips the pod, are not asked.
        """
        idle = self._skips_pre_bind & cycle.skipped["filter"]
        cycle.skipped["preBind"] = idle
        if len(idle) == len(self._pre_flights):
            return False
        for name, plugin in self._pre_flights:
            if name in idle:
                continue
            try:
                status = plugin.pre_bind_pre_flight(cycle, node)
            except Exception as fault:
                raise self.runner.fault(name, "preBind", fault) from fault
            if status.code is Code.SKIP:
                idle |= {name}
            elif not status.ok:
                raise self.runner.fault(name, "preBind", status.message or status.code.value)
        cycle.skipped["preBind"] = idle
        return len(idle) < len(self._pre_flights)

    def skips_pre_bind(self, cycle: Cycle) -> bool:
        """Whether PreBind has no plugin to call, after `has_pre_bind_work`; that is then all."""
        if self.runner.without["preBind"][cycle.skipped["preBind"]]:
            return False
        self.runner.idle("preBind")
        return True

    async def run_pre_bind(self, cycle: Cycle, node: str) -> Status:
        """The first refusal, else Success."""
        with self.runner.timed("preBind") as timing:
            idle = cycle.skipped.get("preBind", _NOBODY)
            for entry in self.runner.without["preBind"][idle]:
                status: Status = await self.runner.call_async("preBind", entry, cycle, node)
                if not status.ok and status.code is not Code.SKIP:
                    timing.code = status.code
                    return _signed(status, "PreBind", entry.name)
        return SUCCESS

    async def run_bind(self, cycle: Cycle, node: str) -> Status:
        """The verdict of the first plugin that acts."""
        with self.runner.timed("bind") as timing:
            for entry in self._entries["bind"]:
                status: Status = await self.runner.call_async("bind", entry, cycle, node)
                if status.code is not _SKIP:
                    timing.code = status.code
                    return status if status.ok else _signed(status, "Bind", entry.name)
        return error("no bind plugin acted on the pod")

    def run_post_bind(self, cycle: Cycle, node: str) -> None:
        """Call all plugins after a successful bind, whatever the others do."""
        if not self._entries["postBind"]:
            return
        faults = []
        with self.runner.timed("postBind"):
            for entry in self._entries["postBind"]:
                try:
                    self.runner.call("postBind", entry, cycle, node)
                except PluginFault as fault:
                    faults.append(fault)
        if faults:
            raise faults[0]


def _signed(status: Status, point: str, plugin: str) -> Status:
    """A refusal as people see it: errors say where they come from, as kube-scheduler's do."""
    if status.code is not Code.ERROR:
        return status.by(plugin)
    return error(f'running {point} plugin "{plugin}": {status.message}').by(plugin)


def _nothing_left(plugins: Sequence[str]) -> Status:
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}").by(plugins[0])
    names = " ".join(sorted(plugins))
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{names}] simultaneously").by(plugins[0])


def _unusable_permit(answer: tuple[Any, ...]) -> str:
    """What is wrong with the answer of a permit plugin; empty if nothing is."""
    if len(answer) != 2 or not isinstance(answer[0], Status):
        return "returned something else than a Status and a time"
    seconds = answer[1]
    if answer[0].code is Code.WAIT and not (isinstance(seconds, int | float) and seconds >= 0):
        return f"must say how many seconds to wait, not {seconds!r:.40}"
    return ""
