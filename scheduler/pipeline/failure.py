"""When a pod is not placed: requeue it, and report why in an event and in its status."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable

from scheduler import machine
from scheduler.model.status import Code, Status
from scheduler.observe.arenas import OutsideArenas, own_copy
from scheduler.observe.decisions import Decisions, Result
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.observe.repeats import Repeats, SharedFaults
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.nomination import remove_nomination
from scheduler.pipeline.placement import fit_error
from scheduler.plugin_api.cycle import Diagnosis
from scheduler.plugin_api.outlet import Outlet
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.slices import checkpoint

log = get_logger(__name__)

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
MAX_MESSAGE = 4096
"""Reasons quote what authors of pods write, and are kept and sent: beyond this they are cut."""


class FailureHandler:
    """Ends attempts that did not lead to a binding.

    An unchanged reason is reported at most once a minute for each pod, and a fault that many pods
    have in common is logged at most once a minute.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        outlet: Outlet,
        metrics: Metrics,
        decisions: Decisions,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._queue = queue
        self._outlet = outlet
        self._decisions = decisions
        self._clock = clock
        self.told = Repeats(clock)
        """What was said last about each pod, by uid."""
        self._faults = SharedFaults(clock)
        self._attempts = Children(metrics.schedule_attempts)
        self._durations = Children(metrics.scheduling_attempt_duration)
        self._outside_arenas = OutsideArenas()
        metrics.caches.follow("failures", lambda: {"told_failures": self.told.usage()})
        metrics.tables.follow(*self.told.tables())

    def unschedulable(self, attempt: Attempt, diagnosis: Diagnosis) -> None:
        """No node fits: requeue until an event that the rejecting plugins registered for."""
        message = brief(diagnosis.message or fit_error(attempt.cycle, diagnosis))
        diagnosis.message = message
        plugins, pending = diagnosis.unschedulable_plugins, diagnosis.pending_plugins
        cohort = _cohort(attempt, diagnosis)
        with self._outside_arenas:  # what is kept of a pod that waits goes with the pod
            self._queue.requeue_rejected(
                attempt.queued, plugins, pending, message, cohort, by_filters=True
            )
        self._nominate(attempt, diagnosis.nominated_node)
        self._report(attempt, UNSCHEDULABLE, message, (*plugins, *pending), len(diagnosis.rows))

    def rejected(self, attempt: Attempt, status: Status) -> None:
        """A step after Filter rejected the pod, or failed. Its node is given up already."""
        if not status.rejected:
            self.failed(attempt, status.message)
            return
        message = brief(status.message)
        pending = {status.plugin} if status.code is Code.PENDING else set()
        rejecting = {status.plugin} - pending
        with self._outside_arenas:
            self._queue.requeue_rejected(attempt.queued, rejecting, pending, message)
        self._nominate(attempt, "")
        self._report(attempt, UNSCHEDULABLE, message, (status.plugin,))

    def outdated(self, attempt: Attempt, reason: str) -> None:
        """The decision was stale when it was to be written: requeue for another attempt at once."""
        log.debug("Decision no longer held", pod=attempt.cycle.pod.key, reason=reason)
        self._queue.requeue_outdated(attempt.queued, reason)
        if attempt.cycle.announced:
            self._nominate(attempt, "")

    def group_unschedulable(
        self, attempts: Iterable[Attempt], message: str, plugins: Collection[str]
    ) -> None:
        """A pod group was rejected as a whole and is requeued already: report for each pod."""
        message = brief(message)
        for attempt in attempts:
            checkpoint()
            self._nominate(attempt, "")
            self._report(attempt, UNSCHEDULABLE, message, plugins)

    def failed(self, attempt: Attempt, message: str) -> None:
        """A fault, not a verdict: requeue with back-off."""
        message = brief(message)
        pod = attempt.cycle.pod
        others = self._faults.news(message, pod.key, pod.uid)
        tell = log.debug if others is None else log.error
        tell("Scheduling a pod failed", pod=pod.key, error=message, others=others)
        with self._outside_arenas:
            self._queue.requeue_error(attempt.queued, message)
        self._nominate(attempt, "")
        self._report(attempt, SCHEDULER_ERROR, message, ())

    def _nominate(self, attempt: Attempt, node: str | None) -> None:
        """Nominate the pod to a node, or ("") to none; None changes nothing.

        The nomination counts from now on; the pod's status follows.
        """
        if node is None or (node and attempt.queued.tier is None):  # it was deleted meanwhile
            return
        # The version in the queue: the one that was tried may have an older status.
        state, pod = attempt.cycle.state, attempt.queued.info
        if state.journal is not None:
            state.journal.nominated(pod.uid, node)
        if node:
            remove_nomination(state, self._queue, pod, pod.uid, node)
            state.nominations.set(pod, node)
            self._outlet.nominate(pod, node)
            return
        removed = remove_nomination(state, self._queue, pod, pod.uid)
        if removed or attempt.cycle.announced or pod.pod.status.nominated_node_name:
            self._outlet.nominate(pod, "")

    def _report(
        self,
        attempt: Attempt,
        reason: str,
        message: str,
        plugins: Iterable[str],
        evaluated: int = 0,
    ) -> None:
        pod, profile = attempt.queued.info, attempt.framework.profile
        if (journal := attempt.cycle.state.journal) is not None:
            journal.failed(pod.uid, reason, message)
        elapsed = self._clock() - attempt.started
        result: Result = "unschedulable" if reason == UNSCHEDULABLE else "error"
        self._attempts[result, profile].inc()
        self._durations[result, profile].observe(elapsed)
        self._decisions.record(
            own_copy(pod.key),  # the last decisions outlive their pods
            result,
            message=message,
            evaluated=evaluated,
            duration=elapsed,
            plugins=tuple(plugins),
        )
        if attempt.queued.tier is None:
            return  # deleted or bound by others meanwhile: to call it unscheduled would be wrong
        with self._outside_arenas:
            news = self._noted(attempt, reason, message)
        if news:  # events outlive their pods: among what goes with these, each would keep a page
            self._outlet.record_event(pod, "Warning", "FailedScheduling", "Scheduling", message)

    def _noted(self, attempt: Attempt, reason: str, message: str) -> bool:
        """Keep a failure with the pod; whether it is to be told, as nothing like it was of late."""
        pod = attempt.queued.info
        self._decisions.history.record(pod.uid, message)
        news = self.told.news(pod.uid, reason, message)
        if news or attempt.cycle.announced:  # the pod says by now that it waits for permission
            self._outlet.set_condition(pod, reason, message)
        return news


def brief(message: str) -> str:
    """The message, cut to `MAX_MESSAGE`."""
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 2]} …"


def _cohort(attempt: Attempt, diagnosis: Diagnosis) -> Hashable | None:
    """What the verdict depends on; None if equal pods may get another one.

    A node that one pod is nominated to is not free for its equals.
    """
    node = diagnosis.nominated_node
    if node is None:
        node = attempt.cycle.state.nominations.node_of(attempt.cycle.pod.uid)
    return None if node else attempt.cohort
