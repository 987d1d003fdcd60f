"""Promises of nodes to waiting pods: kept in step with pods' status, and missed when they end.

A pod for which others are being evicted is promised their node until it gets there. Pods of its
priority or lower are judged as if it were there already, so the end of a promise may cure them.
"""

from __future__ import annotations

from scheduler.model.events import ASSIGNED_POD, Action, Event
from scheduler.model.podinfo import PodInfo
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.state.cache import ClusterState


def follow(state: ClusterState, queue: SchedulingQueue, was: PodInfo | None, now: PodInfo) -> None:
    """Take over what a waiting pod's status says.

    Only when it changed: what we promised (or took back) ourselves takes a while to get there.
    """
    said = was.pod.status.nominated_node_name if was is not None and was.uid == now.uid else ""
    says = now.pod.status.nominated_node_name
    current = state.nominations.node_of(now.uid)
    node = says if says != said else current
    if current and current != node:
        withdraw(state, queue, now)
    state.nominations.set(now, node)


def withdraw(state: ClusterState, queue: SchedulingQueue, pod: PodInfo, exclude: str = "") -> bool:
    """Forget a promise and wake whom it may have kept away; tells whether there was one."""
    node = state.nominations.remove(pod.uid)
    if node:
        gone = Event(ASSIGNED_POD, Action.DELETE, old=pod.bound_to(node), own=True)
        queue.on_event(gone, exclude, up_to=pod.priority)
    return bool(node)
