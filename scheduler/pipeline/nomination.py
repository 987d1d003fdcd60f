"""Nominations of waiting pods: kept in step with the pods' status; their end wakes other pods.

A pod for which preemption evicts others is nominated to their node until it is bound. Pods of its
priority or lower are filtered as if it were there already, so the end of a nomination may cure
them.
"""

from __future__ import annotations

from scheduler.model.events import ASSIGNED_POD, Action, Event
from scheduler.model.podinfo import PodInfo
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.state.cache import ClusterState


def update_nomination(
    state: ClusterState, queue: SchedulingQueue, was: PodInfo | None, now: PodInfo
) -> None:
    """Follow the status of a waiting pod, if its nominated node changed there.

    Otherwise our own nomination counts: it takes a while until the status shows it.
    """
    said = was.pod.status.nominated_node_name if was is not None and was.uid == now.uid else ""
    says = now.pod.status.nominated_node_name
    current = state.nominations.node_of(now.uid)
    node = says if says != said else current
    if current and current != node:
        remove_nomination(state, queue, now)
    state.nominations.set(now, node)


def remove_nomination(
    state: ClusterState, queue: SchedulingQueue, pod: PodInfo, exclude: str = "", taken: str = ""
) -> bool:
    """Remove a nomination and wake the pods that it may have kept away; whether there was one.

    ``taken`` is the node that the pod has got, or is nominated to next: no room is free there.
    """
    node = state.nominations.remove(pod.uid)
    if node and node != taken:
        gone = Event(
            ASSIGNED_POD,
            Action.DELETE,
            old=pod.bound_to(node),
            own=True,
            exclude=exclude,
            max_priority=pod.priority,
        )
        queue.on_event(gone)
    return bool(node)
