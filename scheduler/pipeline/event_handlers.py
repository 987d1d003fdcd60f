"""From watched changes to the state, and from its events to all that listen: one ordered table.

::

    watch ──► handler of the kind ──► state ──► events ──► `EventHandlers.table`, row by row
    assume, forget (our own) ───────► state ──► events ──► the same table

The state applies a change first. Then the listeners of each event are called in the order of the
table; the queue is near its end, so that a pod is not tried before all others know of the event.
A plugin that has something to announce enters at the row of the queue (``Handle.queue.tell``).

Every change is applied on its own; one that fails is logged, and the next one is applied. No
content of an object may stop the loop. Between two changes the event loop may run other tasks
(`slices`), so a long list does not hold them up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from scheduler import machine
from scheduler.framework.runtime import Framework
from scheduler.gangs.registry import GangRegistry
from scheduler.model.events import (
    ADD,
    ASSIGNED_POD,
    BOUND_POD,
    DELETE,
    ENDED_POD,
    POD,
    UNSCHEDULABLE_POD,
    UPDATE,
    WATCHED_POD,
    Action,
    Event,
    node_update,
)
from scheduler.model.limits import DEFAULT_LIMITS, PodLimits
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.numa.cell_cache import KIND as NODE_TOPOLOGY
from scheduler.numa.cell_cache import cell_listeners
from scheduler.observe.arenas import OutsideArenas
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.confirmation import Unconfirmed
from scheduler.pipeline.headroom import Headroom
from scheduler.pipeline.nomination import remove_nomination, update_nomination
from scheduler.pipeline.refusals import Refusals
from scheduler.plugin_api.memory import Memories
from scheduler.plugin_api.waiting import Waits
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState
from scheduler.webhooks.suspension import Suspension

log = get_logger(__name__)

EVICTED = "removed while it waited for permission"
GANG_KINDS = (*WATCHED_POD, ASSIGNED_POD, "PodGroup")

_SIZES = ("nodes", "pods", "assumed_pods")
_Applier = Callable[[Any, Any], Event | None]
"""Applies the old and the new version of an object; returns the event, if there is one."""


EventHandler = Callable[[Event], Event | None]


class EventListener(NamedTuple):
    """A row of the table."""

    destination: str
    kinds: tuple[str, ...] | None
    """The kinds of events that it is called with; None: all but those of `WATCHED_POD`."""
    handle: EventHandler
    """May return the event with more detail for the rows below."""
    silent: bool = True
    """Whether it is also called with silent events."""


EventKind = tuple[str, bool]
"""The kind of an event, and whether it is silent."""


_FEW_EVENTS = 4


class EventHandlers:
    """Applies watched changes in the order in which they come, and publishes their events."""

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        frameworks: Mapping[str, Framework],
        metrics: Metrics,
        suspension: Suspension[Attempt],
        memories: Memories,
        unconfirmed: Unconfirmed,
        waits: Waits,
        headroom: Headroom,
        refusals: Refusals,
        limits: PodLimits = DEFAULT_LIMITS,
    ) -> None:
        self._state = state
        self._memories = memories
        self._unconfirmed = unconfirmed
        self._queue = queue
        self._frameworks = frameworks
        self._suspension = suspension
        self._waits = waits
        self._headroom = headroom
        self._refusals = refusals
        self._limits = limits
        self._over_limits = Children(metrics.pods_over_limits)
        self._durations = Children(metrics.event_handling_duration)
        self._sizes = Children(metrics.cache_size)
        self._shown = (-1, -1, -1)
        """The sizes of the cache that metrics show."""
        self._outside_arenas = OutsideArenas()
        self._held_back: list[Event] | None = None
        """Events of the state while a watched change is applied to it."""
        self.table = self._listeners()
        self._calls: dict[tuple[EventKind, ...], list[tuple[EventHandler, int]]] = {}
        """For the kinds of the events of a change: the calls of listeners, in order."""
        state.connect(self.publish)

    def _listeners(self) -> tuple[EventListener, ...]:
        """The listeners of events after the state, in this order; one line each."""
        gangs = self._state.shared.all(GangRegistry)
        numa = (ENDED_POD, ASSIGNED_POD, NODE_TOPOLOGY)
        headroom = (BOUND_POD, ENDED_POD)
        return (
            *(EventListener("gangs", GANG_KINDS, each.on_event) for each in gangs),
            *(EventListener("numa", numa, each.on_event) for each in cell_listeners(self._state)),
            EventListener("memories", (ENDED_POD, "Node"), self._memories.on_event),
            EventListener("refusals", (ENDED_POD,), self._refusals.on_event),
            EventListener("headroom", headroom, self._headroom.on_event),
            EventListener("bindings", (ASSIGNED_POD,), self.confirm_assigned_pod, silent=False),
            EventListener("suspension", (ASSIGNED_POD,), self.drop_assigned_pod, silent=False),
            EventListener("queue", None, self._to_queue, silent=False),
            *(EventListener("gangs", GANG_KINDS, each.activate_changed) for each in gangs),
        )

    def publish(self, *events: Event) -> None:
        """Call the listeners of the events of one change that the state has applied.

        The order is that of the table: a listener is called with all events before the next one.
        """
        if self._held_back is not None:
            self._held_back.extend(events)
            return
        kinds = tuple([(event.kind, event.silent) for event in events])
        calls = self._calls.get(kinds)
        if calls is None:
            calls = self._calls_of(kinds)
        current = list(events)
        for handle, number in calls:
            detailed = handle(current[number])
            if detailed is not None:
                current[number] = detailed

    def _calls_of(self, kinds: tuple[EventKind, ...]) -> list[tuple[EventHandler, int]]:
        """The calls for events of these kinds, found once unless there are unusually many."""
        calls = [
            (row.handle, number)
            for row in self.table
            for number, (kind, silent) in enumerate(kinds)
            if (kind not in WATCHED_POD if row.kinds is None else kind in row.kinds)
            and (row.silent or not silent)
        ]
        if len(kinds) <= _FEW_EVENTS:
            self._calls[kinds] = calls
        return calls

    def handler(self, kind: str) -> Callable[[Sequence[Any]], None]:
        """The function that takes changes of a kind, each with its ``old`` and ``new`` version.

        Without an old version the object was added, without a new one it was deleted.
        """
        appliers: dict[str, _Applier] = {"Pod": self._pod, "Node": self._node}
        apply = appliers.get(kind) or partial(self._other, kind)

        def handle(changes: Sequence[Any]) -> None:
            journal = self._state.journal
            if journal is not None:
                journal.tick()
            for change in changes:
                if journal is not None:
                    journal.changed(kind, change.old, change.new)
                try:
                    self._timed(apply, change)
                except Exception as fault:
                    key = (change.new or change.old).metadata.key
                    log.error("Event could not be applied", exc=fault, kind=kind, object=key)
                checkpoint()
            self._show_sizes()

        return handle

    def _show_sizes(self) -> None:
        state = self._state
        sizes = state.node_count, state.pod_count, state.assumed_count
        if sizes != self._shown:  # a batch may be one change, and few change all of them
            for name, size, shown in zip(_SIZES, sizes, self._shown, strict=True):
                if size != shown:
                    self._sizes[name,].set(size)
            self._shown = sizes

    def _timed(self, apply: _Applier, change: Any) -> None:
        started = machine.perf_counter()
        if change.new is None:
            event = apply(change.old, None)
        else:  # what is made of an object lives as long as the object
            self._outside_arenas.enter()
            try:
                event = apply(change.old, change.new)
            finally:
                self._outside_arenas.leave()
        if event is not None:
            self._durations[event.label,].observe(machine.perf_counter() - started)

    # Pods: watch → cache

    def _pod(self, old: Pod | None, new: Pod | None) -> Event | None:
        if old == new:
            return None
        was = self._info(old)
        now = self._renewed(was, new)
        if now is not None:
            if now.excess:
                self._report_excess(was, now)
            if now.excess or now.long:  # there are checkpoints, so before anything is changed
                if _placed(now) or self._state.assumed(now.uid):
                    now.derive_held()
                elif was is not None and not now.excess:
                    now.derive_compared()
        events: list[Event] = []
        self._held_back = events  # until the state has applied the change as a whole
        try:
            waiting = self._pod_to_cache(was, now)
        finally:
            self._held_back = None
        if waiting is not None:
            events.insert(0, waiting)
        self.publish(_watched_pod(old, new), *events)
        return events[0] if waiting is not None else events[-1] if events else None

    def _pod_to_cache(self, was: PodInfo | None, now: PodInfo | None) -> Event | None:
        """Apply a change to the state; returns the event of a pod of ours without a node."""
        if now is not None and _placed(now):
            self.add_pod_to_cache(was, now)
            return None
        if was is not None and _placed(was):
            self.delete_pod_from_cache(was)
            return None
        if now is not None and self._ours(now):
            if self._state.confirmed(now.uid):
                return None  # its node was read, and the watch is behind
            self._state.renew_assumed(now)
            return Event(UNSCHEDULABLE_POD, ADD if was is None else UPDATE, was, now)
        if was is not None and self._ours(was):
            self._forget_deleted(was)
            return Event(UNSCHEDULABLE_POD, DELETE, was)
        return None

    def add_pod_to_cache(self, was: PodInfo | None, now: PodInfo) -> None:
        """The pod is on a node: confirm an assumed pod, or take over what others bound."""
        # Nothing was there before: an assumed pod is no older version of a pod on a node.
        self._state.set_pod(now, was if was is not None and _placed(was) else None)
        if self._state.nominations.node_of(now.uid):
            remove_nomination(self._state, self._queue, now, now.uid, now.node_name)

    def delete_pod_from_cache(self, was: PodInfo) -> None:
        """The pod was deleted or has finished: what it held is free."""
        self._state.remove_pod(was.uid)

    def _forget_deleted(self, was: PodInfo) -> None:
        """A pod of ours was deleted before the watch showed its node: it may be assumed there.

        It is confirmed there if it was read. A pod that waits on permit is forgotten when its
        rejection ends the attempt. The end of an attempt also runs Unreserve, unless its binding
        was answered: PostBind was the end then.
        """
        if self._state.confirmed(was.uid):
            self._state.remove_pod(was.uid)
            return
        waits = was.uid in self._waits.by_plugins
        if not waits and self._state.forget(was.uid, own=False):
            self._unconfirmed.settled(was.uid)

    def _info(self, pod: Pod | None) -> PodInfo | None:
        if pod is None:
            return None
        known = self._state.pod(pod.metadata.uid)
        return known if known is not None and known.pod is pod else PodInfo(pod, self._limits)

    def _renewed(self, was: PodInfo | None, pod: Pod | None) -> PodInfo | None:
        """The new version; what was derived from unchanged parts is kept."""
        if pod is None:
            return None
        return was.renewed(pod) if was is not None else PodInfo(pod, self._limits)

    def _report_excess(self, was: PodInfo | None, now: PodInfo) -> None:
        """Log and count a pod beyond the limits, once, also one of another scheduler."""
        if was is not None and was.excess:
            return
        placed = _placed(now)
        if not placed and not self._ours(now):
            return
        self._over_limits["placed" if placed else "waiting",].inc()
        effect = "counts in part only" if placed else "is not placed"
        log.warning("Pod is too large", pod=now.key, effect=effect, fields="; ".join(now.excess))

    def _ours(self, info: PodInfo) -> bool:
        spec = info.pod.spec
        return not spec.node_name and not info.pod.finished and self.responsible(info.pod)

    def responsible(self, pod: Pod) -> bool:
        """Whether a pod asks for one of our profiles."""
        return pod.spec.scheduler_name in self._frameworks

    # Pods: cache → bindings, suspension

    def confirm_assigned_pod(self, event: Event) -> None:
        """The watch shows a pod on its node: its binding needs no confirmation any more."""
        if isinstance(event.new, PodInfo) and not event.own:
            self._unconfirmed.settled(event.new.uid)

    def drop_assigned_pod(self, event: Event) -> None:
        """A pod that waits for plugins out of process has got a node."""
        if isinstance(event.new, PodInfo) and event.action is ADD and not event.own:
            self._suspension.drop(event.new)

    # Pods: cache → queue

    def _to_queue(self, event: Event) -> None:
        old, new = event.old, event.new
        if event.kind != UNSCHEDULABLE_POD:
            self._event_to_queue(event)
        elif isinstance(new, PodInfo):
            self._pod_to_queue(old if isinstance(old, PodInfo) else None, new)
        elif isinstance(old, PodInfo):
            self.delete_pod_from_queue(old)

    def _event_to_queue(self, event: Event) -> None:
        """Remove a pod that got a node, and move the pods that the event may have cured."""
        if event.kind == ASSIGNED_POD and event.action is ADD:
            assert isinstance(event.new, PodInfo), "an added pod is there"
            self._queue.delete(event.new)
        self._queue.on_event(event)
        if event.kind == ASSIGNED_POD and event.action is DELETE and not event.own:
            assert isinstance(event.old, PodInfo), "a deleted pod was there"
            self._retry_nominated(event.old.node_name)

    def _retry_nominated(self, node: str) -> None:
        """Retry pods nominated to a node that a pod has left, unless victims are still leaving it.

        Where they do not fit after all, no hint wakes them, and their nominations would stay.
        """
        if nominated := self._state.nominations.on(node):
            leaving = [pod.priority for pod in self._state.pods_on(node) if pod.pod.deleting]
            lowest = min(leaving, default=math.inf)
            self._queue.retry([pod.key for pod in nominated if pod.priority <= lowest])

    def _pod_to_queue(self, was: PodInfo | None, now: PodInfo) -> None:
        if self._state.assumed(now.uid):
            # It is assumed on a node. If the binding fails, this version is requeued.
            self._queue.update_in_flight(now)
        elif was is None:
            self.add_pod_to_queue(now)
        else:
            self.update_pod_in_queue(was, now)

    def add_pod_to_queue(self, now: PodInfo) -> None:
        """A pod of ours without a node was added."""
        self._queue.add(now)
        update_nomination(self._state, self._queue, None, now)

    def update_pod_in_queue(self, was: PodInfo, now: PodInfo) -> None:
        """A pod of ours without a node was updated, or replaced by another of its name."""
        if was.uid != now.uid:
            remove_nomination(self._state, self._queue, was)
            self._suspension.drop(was)
        self._queue.update(was, now)
        update_nomination(self._state, self._queue, was, now)

    def delete_pod_from_queue(self, was: PodInfo) -> None:
        """A pod of ours was deleted before it got a node."""
        self._queue.delete(was)
        self._suspension.drop(was)
        remove_nomination(self._state, self._queue, was)
        for waiting in self._waits.undecided(was.uid):
            waiting.reject("", EVICTED)

    # Nodes

    def _node(self, old: Node | None, new: Node | None) -> Event | None:
        if old == new:
            return None
        if new is None:
            assert old is not None, "a change has an object"
            return self.delete_node_from_cache(old)
        return self.add_node_to_cache(new) if old is None else self.update_node_in_cache(old, new)

    def add_node_to_cache(self, new: Node) -> Event:
        """A node was added."""
        self._state.set_node(new)
        return self._published(Event("Node", ADD, None, new))

    def update_node_in_cache(self, old: Node, new: Node) -> Event | None:
        """A node was updated, or replaced by another of its name."""
        self._state.set_node(new)
        action = node_update(old, new)
        if action is not None:
            return self._published(Event("Node", action, old, new))
        if old.metadata.uid != new.metadata.uid:
            self.publish(Event("Node", UPDATE, old, new, silent=True))
        return None

    def delete_node_from_cache(self, old: Node) -> Event:
        """A node was deleted: pods that were to get it after preemption are tried again."""
        self._state.remove_node(old.name)
        event = self._published(Event("Node", DELETE, old))
        if nominated := self._state.nominations.on(old.name):
            self._queue.activate([pod.key for pod in nominated])
        return event

    # All other kinds

    def _other(self, kind: str, old: Any, new: Any) -> Event | None:
        if old == new:
            return None
        self._state.set_object(kind, (new or old).metadata.key, new)
        return self._published(Event(kind, _action(old, new), old, new))

    def _published(self, event: Event) -> Event:
        self.publish(event)
        return event


def _action(old: object, new: object) -> Action:
    return ADD if old is None else DELETE if new is None else UPDATE


def _watched_pod(old: Pod | None, new: Pod | None) -> Event:
    """The event of a change of a pod; see `WATCHED_POD`."""
    if old is None:
        assert new is not None, "a change has an object"
        return Event(ENDED_POD if new.finished else POD, ADD, None, new)
    if new is None:
        return Event(ENDED_POD, DELETE, old)
    kind = POD
    if new.finished or old.finished or new.metadata.uid != old.metadata.uid:
        kind = ENDED_POD
    elif new.spec.node_name and not old.spec.node_name:
        kind = BOUND_POD
    return Event(kind, UPDATE, old, new)


def _placed(info: PodInfo) -> bool:
    return bool(info.pod.spec.node_name) and not info.pod.finished
