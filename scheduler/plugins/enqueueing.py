"""PrioritySort and SchedulingGates: the order of the queue, and gated pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.model.events import Action
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, unresolvable
from scheduler.plugin_api import Handle
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import PRIORITY_SORT, SCHEDULING_GATES
from scheduler.queueing.hints import HintRegistration, by_uid, own_change
from scheduler.queueing.queued_pod import QueuedPod


class PrioritySort:
    """Higher priority first; among equals, the pod that was queued first."""

    name = PRIORITY_SORT
    traits = PluginTraits(comparable=True)

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Priority descending, then time of queueing."""
        return -queued.info.priority, queued.timestamp


class SchedulingGates:
    """Holds pods whose ``spec.schedulingGates`` is not empty."""

    name = SCHEDULING_GATES

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Hold the pod while it has gates."""
        gates = [gate.name for gate in pod.pod.spec.scheduling_gates]
        if not gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gates)}]")

    def hints(self) -> Sequence[HintRegistration]:
        """The pod's own gates are gone."""
        return (HintRegistration("Pod", Action.POD_GATES_ELIMINATED, own_change, by_uid),)
