"""Pods of ours that a kubelet refused after they were bound: counted, logged, and kept.

A kubelet admits a pod, or sets its phase to Failed with a reason such as OutOfcpu. That a pod we
bound does not fit after all means that something else took the room in the same instant, most
likely another scheduler. Its room is free again with the same event (a finished pod holds
nothing), and its controller makes another pod.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from scheduler import machine
from scheduler.model.events import Event
from scheduler.model.pods import Pod, admission_error
from scheduler.observe.decisions import Decisions
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.observe.repeats import Repeats

log = get_logger(__name__)


class Refusals:
    """Called with changes of pods. O(1) for each, and the log gets one line a minute per node."""

    def __init__(
        self,
        profiles: Container[str],
        metrics: Metrics,
        decisions: Decisions,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._profiles = profiles
        self._counts = Children(metrics.admission_errors)
        self._decisions = decisions
        self._logged = Repeats(clock)
        metrics.caches.follow("refusals", lambda: {"logged_refusals": self._logged.usage()})

    def on_event(self, event: Event) -> None:
        """Report a pod of ours that has just been refused."""
        old, new = event.old, event.new
        if not isinstance(old, Pod) or not isinstance(new, Pod) or old.finished:
            return
        if not new.finished or new.spec.scheduler_name not in self._profiles:
            return
        if reason := admission_error(new):
            self._report(new, reason)

    def _report(self, pod: Pod, reason: str) -> None:
        key, node = pod.metadata.key, pod.spec.node_name
        self._counts[reason, node].inc()
        message = f"the kubelet of {node} refused the pod: {reason}"
        self._decisions.record(key, "refused", node=node, message=message)
        self._decisions.history.record(pod.metadata.uid, message)
        tell = log.warning if self._logged.news(node, reason) else log.debug
        tell("Kubelet refused a pod", pod=key, node=node, reason=reason)
