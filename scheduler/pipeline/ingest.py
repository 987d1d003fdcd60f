"""From watch events to state and queue: one function per kind.

Every change is applied on its own; one that fails is logged, and the next one is applied. No
content of an object may stop the loop. Between two changes the event loop may run other tasks
(`slices`), so a long list does not hold them up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from scheduler.framework.runtime import Framework
from scheduler.model.events import (
    ASSIGNED_POD,
    UNSCHEDULED_POD,
    Action,
    Event,
    node_update,
    pod_update,
)
from scheduler.model.limits import DEFAULT_LIMITS, PodLimits
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, admission_error
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.pipeline.confirmation import Unconfirmed
from scheduler.pipeline.nomination import remove_nomination, update_nomination
from scheduler.pipeline.suspension import Suspension
from scheduler.plugin_api.memory import Memories
from scheduler.plugin_api.waiting import Waits
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState

log = get_logger(__name__)

EVICTED = "removed while it waited for permission"

_Applier = Callable[[Any, Any], Event | None]
"""Applies the old and the new version of an object; answers what happened, if anything did."""


class Ingest:
    """Applies watched changes in the order in which they come."""

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        frameworks: Mapping[str, Framework],
        metrics: Metrics,
        suspension: Suspension,
        memories: Memories,
        unconfirmed: Unconfirmed,
        waits: Waits,
        limits: PodLimits = DEFAULT_LIMITS,
    ) -> None:
        self._state = state
        self._memories = memories
        self._unconfirmed = unconfirmed
        self._queue = queue
        self._frameworks = frameworks
        self._suspension = suspension
        self._waits = waits
        self._limits = limits
        self._over_limits = Children(metrics.pods_over_limits)
        self._admission_errors = Children(metrics.admission_errors)
        self._durations = Children(metrics.event_handling_duration)
        self._sizes = Children(metrics.cache_size)

    def handler(self, kind: str) -> Callable[[Sequence[Any]], None]:
        """The function that takes changes of a kind, each with its ``old`` and ``new`` version.

        Without an old version the object came, without a new one it went.
        """
        appliers: dict[str, _Applier] = {"Pod": self._pod, "Node": self._node}
        apply = appliers.get(kind) or partial(self._other, kind)

        def handle(changes: Sequence[Any]) -> None:
            for change in changes:
                try:
                    self._timed(apply, change)
                except Exception as fault:
                    key = (change.new or change.old).metadata.key
                    log.error("Event could not be applied", exc=fault, kind=kind, object=key)
                checkpoint()
            self._sizes["nodes",].set(self._state.node_count)
            self._sizes["pods",].set(self._state.pod_count)
            self._sizes["assumed_pods",].set(self._state.assumed_count)

        return handle

    def _timed(self, apply: _Applier, change: Any) -> None:
        started = time.perf_counter()
        event = apply(change.old, change.new)
        if event is not None:
            self._durations[event.label,].observe(time.perf_counter() - started)

    # Pods

    def _pod(self, old: Pod | None, new: Pod | None) -> Event | None:
        if old == new:
            return None
        was = self._info(old)
        now = self._renewed(was, new)
        if now is not None and now.excess:
            self._tell_of_excess(was, now)
            if _placed(now):
                now.derive_held()  # has checkpoints, so it comes before anything is changed
        self._state.pod_listeners.follow(old, new)
        if old is not None and _ended(old, new):
            self._memories.pod_gone(old.metadata.uid)
            self._count_refusal(old, new)
        if now is not None and _placed(now):
            return self._placed(was, now)
        if was is not None and _placed(was):
            return self._vacated(was)
        if now is not None and self._ours(now):
            return self._waiting(was, now)
        if was is not None and self._ours(was):
            return self._gone(was)
        return None

    def _count_refusal(self, old: Pod, new: Pod | None) -> None:
        """Count a pod of ours that its kubelet did not take."""
        if new is None or old.finished or not self.responsible(new):
            return
        if reason := admission_error(new):
            self._admission_errors[reason, new.spec.node_name].inc()

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

    def _tell_of_excess(self, was: PodInfo | None, now: PodInfo) -> None:
        """Log and count a pod beyond the limits, once, also one of another scheduler."""
        if was is not None and was.excess:
            return
        placed = _placed(now)
        if not placed and not self._ours(now):
            return
        self._over_limits["placed" if placed else "waiting",].inc()
        effect = "counts in part only" if placed else "is not placed"
        log.warning("Pod is too large", pod=now.key, effect=effect, fields="; ".join(now.excess))

    def _placed(self, was: PodInfo | None, now: PodInfo) -> Event:
        """The pod is on a node: confirm what we assumed, or learn what others did."""
        self._state.set_pod(now)
        self._unconfirmed.settled(now.uid)
        self._state.nominations.remove(now.uid)
        if was is not None and _placed(was):
            return self._tell(Event(ASSIGNED_POD, pod_update(was, now), was, now))
        if was is not None and self._ours(was):
            self._queue.delete(was)
            self._suspension.drop(was)
        # Nothing was there before: what we assumed is no older version of a pod on a node.
        return self._tell(Event(ASSIGNED_POD, Action.ADD, None, now))

    def _vacated(self, was: PodInfo) -> Event:
        """The pod is gone or finished: what it held is free."""
        self._state.remove_pod(was.uid)
        return self._tell(Event(ASSIGNED_POD, Action.DELETE, was))

    def _waiting(self, was: PodInfo | None, now: PodInfo) -> Event:
        event = Event(UNSCHEDULED_POD, Action.ADD if was is None else Action.UPDATE, was, now)
        if self._state.assumed(now.uid):
            # It is assumed on a node. If the binding fails, this version is requeued.
            self._queue.update_in_flight(now)
            return event
        if was is None:
            self._queue.add(now)
        else:
            if was.uid != now.uid:
                remove_nomination(self._state, self._queue, was)
                self._suspension.drop(was)
            self._queue.update(was, now)
        update_nomination(self._state, self._queue, was, now)
        return event

    def _gone(self, was: PodInfo) -> Event:
        """A pod of ours was deleted before it got a node."""
        self._queue.delete(was)
        self._suspension.drop(was)
        remove_nomination(self._state, self._queue, was)
        framework = self._frameworks[was.pod.spec.scheduler_name]
        if held := self._waits.held.get(was.uid):
            held.reject("", EVICTED)
        if waiting := framework.waiting.get(was.uid):
            waiting.reject("", EVICTED)
        elif (assumed := self._state.pod(was.uid)) and self._state.forget(was.uid):
            self._unconfirmed.settled(was.uid)
            self._tell(Event(ASSIGNED_POD, Action.DELETE, assumed))
        return Event(UNSCHEDULED_POD, Action.DELETE, was)

    def _ours(self, info: PodInfo) -> bool:
        spec = info.pod.spec
        return not spec.node_name and not info.pod.finished and self.responsible(info.pod)

    def responsible(self, pod: Pod) -> bool:
        """Whether a pod asks for one of our profiles."""
        return pod.spec.scheduler_name in self._frameworks

    # Nodes

    def _node(self, old: Node | None, new: Node | None) -> Event | None:
        if new is None:
            if old is None:
                return None
            self._state.remove_node(old.name)
            self._memories.node_gone(old.name)
            return self._tell(Event("Node", Action.DELETE, old))
        if old == new:
            return None
        if old is not None and old.metadata.uid != new.metadata.uid:
            self._memories.node_gone(old.name)
        self._state.set_node(new)
        action = Action.ADD if old is None else node_update(old, new)
        return self._tell(Event("Node", action, old, new)) if action is not None else None

    # Everything else is only of interest to plugins.

    def _other(self, kind: str, old: Any, new: Any) -> Event | None:
        if old == new:
            return None
        self._state.set_object(kind, (new or old).metadata.key, new)
        action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
        return self._tell(Event(kind, action, old, new))

    def _tell(self, event: Event) -> Event:
        """Wake the pods that the event may have cured; the state has applied it already."""
        self._queue.on_event(event)
        return event


def _ended(old: Pod, new: Pod | None) -> bool:
    return new is None or new.finished or new.metadata.uid != old.metadata.uid


def _placed(info: PodInfo) -> bool:
    return bool(info.pod.spec.node_name) and not info.pod.finished
