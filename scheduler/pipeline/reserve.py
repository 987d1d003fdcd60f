"""Taking a node for a pod, and giving it back."""

from __future__ import annotations

from scheduler.framework.complaints import PluginFault
from scheduler.framework.cycle import Cycle
from scheduler.framework.runtime import Framework
from scheduler.model.events import ASSIGNED_POD, Action, Event
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status
from scheduler.observe.logs import get_logger
from scheduler.pipeline.attempt import Attempt
from scheduler.queueing.scheduling_queue import SchedulingQueue

log = get_logger(__name__)


def reserve(attempt: Attempt) -> Status:
    """Assume the pod on its node and let plugins book it; the caller undoes a refusal."""
    state, pod, node = attempt.cycle.state, attempt.cycle.pod, attempt.node
    attempt.node_version = state.node_version(node)
    state.assume(pod, node)
    state.nominations.remove(pod.uid)
    return attempt.framework.run_reserve(attempt.cycle, node)


def give_back(attempt: Attempt, queue: SchedulingQueue, why: Status) -> None:
    """Undo ``reserve``; others may have been rejected because of this pod, so they are told."""
    if undo(attempt, why):
        tell_gone(attempt.cycle.pod, attempt.node, queue)


def tell_gone(pod: PodInfo, node: str, queue: SchedulingQueue) -> None:
    """Wake others who may take what an assumed pod has given back."""
    gone = Event(ASSIGNED_POD, Action.DELETE, old=pod.bound_to(node), own=True)
    queue.on_event(gone, exclude=pod.uid)


def undo(attempt: Attempt, why: Status | None = None) -> bool:
    """Undo ``reserve``, whatever happened since: bookings in reverse, then the assumption.

    Nobody waits for permission after that.

    Tells nobody, which is right only if nobody has seen the state since. Returns whether the pod
    was still assumed: one that the watch has confirmed stays.
    """
    if waiting := attempt.framework.waiting.pop(attempt.cycle.pod.uid, None):
        waiting.dismiss()
    return release(attempt.framework, attempt.cycle, attempt.node, why)


def release(framework: Framework, cycle: Cycle, node: str, why: Status | None = None) -> bool:
    """Undo bookings in reverse, then the assumption; whether the pod was still assumed.

    Plugins find in the cycle ``why``.
    """
    cycle.refusal = why
    try:
        framework.run_unreserve(cycle, node)
    except PluginFault as fault:
        log.error("Plugin failed to undo a reservation", exc=fault, pod=cycle.pod.key, node=node)
    return cycle.state.forget(cycle.pod.uid)
