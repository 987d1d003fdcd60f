"""Which events may cure which plugin's rejections."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from scheduler.model.events import ASSIGNED_POD, UNSCHEDULED_POD, Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.queueing.columns import Answer, ColumnFactory, HintFunction, Indexed, WaitingColumn
from scheduler.queueing.tiers import Listener, QueuedPod

log = get_logger(__name__)

ANY_KIND = "*"
"""A registration of this kind listens to objects of all kinds."""

_EXTENSION_POINT = "QueueingHint"
_RESULT_LABELS = {Hint.QUEUE: "Queue", Hint.SKIP: "QueueSkip"}
_POD_KINDS = ("Pod", ASSIGNED_POD, UNSCHEDULED_POD)
_UPDATES = ~(Action.ADD | Action.DELETE)


class HintRegistration(msgspec.Struct, frozen=True):
    """A plugin listens to some actions on a kind.

    ``hint`` is asked for each rejected pod whether the event may have cured it, so it must be
    light; None means that it always may. UPDATE includes all finer updates, kind ``Pod`` includes
    waiting and assigned pods, and kind ``*`` all kinds. ``column`` makes what answers for all
    rejected pods at once (`columns`), with the same answers as the hint; without it each event
    costs a call for each kind of pod that the plugin keeps waiting.
    """

    kind: str
    actions: Action
    hint: HintFunction | None = None
    column: ColumnFactory | None = None


def own_change(pod: PodInfo, event: Event) -> Hint:
    """The hint of those whom only a change of the waiting pod itself can satisfy."""
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
    """What becomes of a rejected pod after an event; the greater verdict wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


class HintTable:
    """Answers which plugins listen to an event, and whether it may have cured a given pod.

    Matching is done once for each kind and action that ever occurs, so that a usual event costs
    one dictionary lookup. A hint that raises counts as a cure: a pod tried in vain costs less than
    a pod forgotten. Each such fault is counted, and logged once per plugin.
    """

    def __init__(self, hints: Hints, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._registrations: dict[Listener, list[HintRegistration]] = {
            (profile, plugin): _with_taint_updates(registrations)
            for profile, plugins in hints.items()
            for plugin, registrations in plugins.items()
        }
        self._matches: dict[
            tuple[str, Action, bool], dict[Listener, tuple[HintRegistration, ...]]
        ] = {}
        self._clock = clock
        self._durations = Children(metrics.queueing_hint_execution_duration)
        self._errors = metrics.plugin_errors
        self._logged: set[str] = set()

    def registrations(self, listener: Listener) -> Sequence[HintRegistration]:
        """All that a plugin listens to."""
        return self._registrations.get(listener, ())

    def listeners(self, event: Event) -> Mapping[Listener, tuple[HintRegistration, ...]]:
        """The plugins that registered for this event, with what they registered."""
        matches = self._matches.get((event.kind, event.action, event.own))
        if matches is None:
            matches = self._match(event)
            self._matches[event.kind, event.action, event.own] = matches
        return matches

    def verdict(self, queued: QueuedPod, event: Event) -> Requeue:
        """What an event means for a pod, by the hints of the plugins that rejected it."""
        if self._cured_by(queued.pending_plugins, queued, event):
            return Requeue.AT_ONCE
        if self._cured_by(queued.unschedulable_plugins, queued, event):
            return Requeue.AFTER_BACKOFF
        return Requeue.SKIP

    def replay(self, queued: QueuedPod, missed: Iterable[Event] | None) -> Requeue:
        """What all events mean together that a pod missed in flight; None if they are not known.

        A pod that nobody rejected needs none: it failed by a fault, and backs off.
        """
        if missed is None or not queued.rejectors:
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
        return hint is None or self._ask(plugin, hint, pod, event) is Hint.QUEUE

    def answer(self, plugin: str, column: WaitingColumn, event: Event) -> Answer | None:
        """What an event means to all who are in a plugin's column; None if that fails."""
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
        """Count a fault of a plugin's hint or column, and log the first one."""
        self._errors.labels(plugin, _EXTENSION_POINT).inc()
        if plugin not in self._logged:
            self._logged.add(plugin)
            log.error("Queueing hint failed", exc=fault, plugin=plugin, pod=pod, event=event)

    def _match(self, event: Event) -> dict[Listener, tuple[HintRegistration, ...]]:
        matches = {
            listener: tuple(each for each in registrations if _matches(each, event))
            for listener, registrations in self._registrations.items()
        }
        return {listener: matching for listener, matching in matches.items() if matching}

    def _cured_by(self, plugins: Iterable[str], queued: QueuedPod, event: Event) -> bool:
        listeners = self.listeners(event)
        return any(
            self.cures(plugin, registration.hint, queued.info, event)
            for plugin in plugins
            for registration in listeners.get((queued.profile, plugin), ())
        )

    def _ask(self, plugin: str, function: HintFunction, info: PodInfo, event: Event) -> Hint:
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
    """Let a plugin that waits for new nodes see changes of taints too, as kube-scheduler does.

    A new node often is tainted until it is ready: to such a plugin it arrives when the taint goes.
    A plugin with a column has said exactly what may cure its pods, and needs no such help.
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
        # A plugin that cannot say what it waits for does not wait for what we undo ourselves.
        return False
    if registration.kind != ANY_KIND and event.kind not in kinds:
        return False
    return bool(_widened(registration.actions) & event.action)


def _widened(actions: Action) -> Action:
    return actions | _UPDATES if Action.UPDATE in actions else actions
