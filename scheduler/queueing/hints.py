"""Which events may cure which plugin's rejections."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from scheduler.model.events import ASSIGNED_POD, UNSCHEDULABLE_POD, Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.queueing.columns import (
    MOST_KEYS,
    Answer,
    ColumnFactory,
    HintFunction,
    Indexed,
    WaitingColumn,
)
from scheduler.queueing.queued_pod import QueuedPod

log = get_logger(__name__)

ANY_KIND = "*"
"""A registration of this kind matches events of all kinds."""

PluginOfProfile = tuple[str, str]
"""A profile and the name of one of its plugins."""

_EXTENSION_POINT = "QueueingHint"
_RESULT_LABELS = {Hint.QUEUE: "Queue", Hint.SKIP: "QueueSkip"}
_POD_KINDS = ("Pod", ASSIGNED_POD, UNSCHEDULABLE_POD)
_UPDATES = ~(Action.ADD | Action.DELETE)


class HintRegistration(msgspec.Struct, frozen=True):
    """The events that may cure a plugin's rejections (upstream: ClusterEventWithHint).

    ``hint`` returns whether an event may have cured a rejected pod. It is called for each such pod,
    so it must be cheap; None stands for always. UPDATE includes all finer updates, kind ``Pod``
    includes waiting and assigned pods, and kind ``*`` all kinds. ``column`` makes an object that
    decides for all rejected pods at once (`columns`), with the same results as the hint; without it
    each event costs a call for each cohort that the plugin rejected.
    """

    kind: str
    actions: Action
    hint: HintFunction | None = None
    column: ColumnFactory | None = None


def own_change(pod: PodInfo, event: Event) -> Hint:
    """A hint: only an update of the rejected pod itself may cure it."""
    own = isinstance(event.new, PodInfo) and event.new.uid == pod.uid
    return Hint.QUEUE if own else Hint.SKIP


def by_uid() -> WaitingColumn:
    """The column beside `own_change`."""
    return Indexed(
        lambda pod: (((pod.uid,),),),
        lambda event: (event.new.uid,) if isinstance(event.new, PodInfo) else (),
    )


Hints = Mapping[str, Mapping[str, Sequence[HintRegistration]]]
"""Registrations by profile and plugin."""


class Requeue(enum.IntEnum):
    """How an event moves a rejected pod; of several, the greatest counts."""

    SKIP = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


class HintTable:
    """The registrations of all plugins, and calls of their hints and columns.

    Matching is done once for each kind and action, so that a usual event costs one dictionary
    lookup. A hint that raises counts as Queue: an attempt in vain costs less than a forgotten pod.
    Each such error is counted, and logged once per plugin.
    """

    def __init__(self, hints: Hints, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._registrations: dict[PluginOfProfile, list[HintRegistration]] = {
            (profile, plugin): _with_taint_updates(registrations)
            for profile, plugins in hints.items()
            for plugin, registrations in plugins.items()
        }
        self._matches: dict[
            tuple[str, Action, bool], dict[PluginOfProfile, tuple[HintRegistration, ...]]
        ] = {}
        self._clock = clock
        self._durations = Children(metrics.queueing_hint_execution_duration)
        self._errors = metrics.plugin_errors
        self._logged: set[str] = set()

    def registrations(self, plugin: PluginOfProfile) -> Sequence[HintRegistration]:
        """All registrations of a plugin."""
        return self._registrations.get(plugin, ())

    def matching(self, event: Event) -> Mapping[PluginOfProfile, tuple[HintRegistration, ...]]:
        """The plugins that registered for this event, with their registrations."""
        matches = self._matches.get((event.kind, event.action, event.own))
        if matches is None:
            matches = self._match(event)
            self._matches[event.kind, event.action, event.own] = matches
        return matches

    def verdict(self, queued: QueuedPod, event: Event) -> Requeue:
        """How an event moves a pod, by the hints of the plugins that rejected it."""
        if self._cured_by(queued.pending_plugins, queued, event):
            return Requeue.AT_ONCE
        if self._cured_by(queued.unschedulable_plugins, queued, event):
            return Requeue.AFTER_BACKOFF
        return Requeue.SKIP

    def replay(self, queued: QueuedPod, missed: Collection[Event] | None) -> Requeue:
        """How the events move a pod that happened while it was in flight; None: not known.

        A pod that no plugin rejected failed by an error, and backs off. So does one for which its
        hints would take long.
        """
        if missed is None or not queued.rejectors:
            return Requeue.AFTER_BACKOFF
        if len(missed) * queued.info.weight > MOST_KEYS:
            return Requeue.AFTER_BACKOFF
        best = Requeue.AT_ONCE if queued.pending_plugins else Requeue.AFTER_BACKOFF
        verdict = Requeue.SKIP
        for event in missed:
            if verdict is best:
                break
            verdict = max(verdict, self.verdict(queued, event))
        return verdict

    def cures(self, plugin: str, hint: HintFunction | None, pod: PodInfo, event: Event) -> bool:
        """Whether a plugin's hint says that an event may have cured a pod."""
        return hint is None or self._call(plugin, hint, pod, event) is Hint.QUEUE

    def answer(self, plugin: str, column: WaitingColumn, event: Event) -> Answer | None:
        """The answer of a plugin's column to an event; None if the column raises."""
        start = self._clock()
        try:
            answer = column.answer(event)
            result = "Queue" if answer.cured or answer.unsure else "QueueSkip"
        except Exception as fault:
            self.report(plugin, event.label, fault)
            answer, result = None, "Error"
        self._durations[plugin, event.label, result].observe(self._clock() - start)
        return answer

    def report(self, plugin: str, event: str, fault: Exception, pod: str = "") -> None:
        """Count an error of a plugin's hint or column, and log the first one."""
        self._errors.labels(plugin, _EXTENSION_POINT).inc()
        if plugin not in self._logged:
            self._logged.add(plugin)
            log.error("Queueing hint failed", exc=fault, plugin=plugin, pod=pod, event=event)

    def _match(self, event: Event) -> dict[PluginOfProfile, tuple[HintRegistration, ...]]:
        matches = {
            plugin: tuple(each for each in registrations if _matches(each, event))
            for plugin, registrations in self._registrations.items()
        }
        return {plugin: matching for plugin, matching in matches.items() if matching}

    def _cured_by(self, plugins: Iterable[str], queued: QueuedPod, event: Event) -> bool:
        matching = self.matching(event)
        return any(
            self.cures(plugin, registration.hint, queued.info, event)
            for plugin in plugins
            for registration in matching.get((queued.profile, plugin), ())
        )

    def _call(self, plugin: str, function: HintFunction, info: PodInfo, event: Event) -> Hint:
        start = self._clock()
        try:
            hint = function(info, event)
            result = _RESULT_LABELS[hint]
        except Exception as fault:
            self.report(plugin, event.label, fault, info.key)
            hint, result = Hint.QUEUE, "Error"
        self._durations[plugin, event.label, result].observe(self._clock() - start)
        return hint


def _with_taint_updates(registrations: Sequence[HintRegistration]) -> list[HintRegistration]:
    """Register plugins that registered for new nodes for changes of taints too, as kube-scheduler.

    A new node often is tainted until it is ready, and can be used when the taint is removed. A
    plugin whose registrations have columns has declared exactly what may cure its pods.
    """
    node_actions = Action(0)
    exact = True
    for registration in registrations:
        if registration.kind == "Node":
            node_actions |= _widened(registration.actions)
            exact = exact and registration.column is not None
    if Action.ADD in node_actions and Action.NODE_TAINT not in node_actions and not exact:
        return [*registrations, HintRegistration("Node", Action.NODE_TAINT)]
    return list(registrations)


def _matches(registration: HintRegistration, event: Event) -> bool:
    kinds = _POD_KINDS if registration.kind == "Pod" else (registration.kind,)
    if registration.kind == ANY_KIND and event.own:
        # A plugin that registers for everything does not wait for what the scheduler itself undoes.
        return False
    if registration.kind != ANY_KIND and event.kind not in kinds:
        return False
    return bool(_widened(registration.actions) & event.action)


def _widened(actions: Action) -> Action:
    return actions | _UPDATES if Action.UPDATE in actions else actions
