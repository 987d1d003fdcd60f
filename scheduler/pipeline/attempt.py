"""One attempt at one pod, from pop to the end of binding, and how its reservation is reverted."""

from __future__ import annotations

import msgspec

from scheduler.equivalence.classes import PodClass, template_of
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.packed import digest
from scheduler.model.status import Code, Status
from scheduler.observe.logs import get_logger
from scheduler.pipeline.gang_barrier import GangBarrier
from scheduler.pipeline.placement import Placement
from scheduler.plugin_api.cycle import Cycle
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.webhooks.answers import RemoteAnswers

log = get_logger(__name__)

_LONG_TEMPLATE = 1024
"""Templates longer than that are known by their digest: queues keep one for each cohort."""


class Attempt(msgspec.Struct):
    """What the steps of the scheduler hand to each other."""

    queued: QueuedPod
    framework: Framework
    cycle: Cycle
    started: float
    pod_class: PodClass | None = None
    """The equivalence class of the pod, if it is in one."""
    searched: int = 0
    """The version of the state that was searched for a node last."""
    placement: Placement | None = None
    """Set once a node is chosen."""
    answers: RemoteAnswers = msgspec.field(default_factory=RemoteAnswers)
    """The answers of plugins out of process so far."""
    barrier: GangBarrier | None = None
    """Set for members of a gang that plugins out of process have to permit."""
    node_version: int = 0
    """The version of the chosen node that was filtered (`ClusterState.node_version`)."""
    group: tuple[str, str] | None = None
    """Profile and name of the pod group for which this member asks a plugin out of process."""
    companions: dict[str, None] = msgspec.field(default_factory=dict)
    """Pods (``namespace/name``) that wait in the queue for the answer that this one waits for."""
    companion_answers: dict[str, RemoteAnswers] = msgspec.field(default_factory=dict)
    """By uid, the answers about them so far: kept until this pod is tried again, or is gone."""

    @property
    def cohort(self) -> bytes | None:
        """The key under which equal pods wait in one cohort; None if the pod waits by itself.

        Pods of a cohort are rejected alike, now and later.

        The class does not suffice: two pods of one class may part when the cluster changes, for
        example when a pod arrives that keeps away from the labels of one of them.
        """
        if self.pod_class is None or not self.pod_class.known or self.pod_class.own:
            return None
        if not self.framework.answers_for_class:
            return None
        template = template_of(self.cycle.pod)
        return template if len(template) <= _LONG_TEMPLATE else digest(template)

    def restart(self) -> None:
        """Begin anew with the pod as it is now; answers of plugins out of process are kept."""
        self.cycle = Cycle(self.queued.info, self.cycle.state)
        self.pod_class = None

    def drop_transient_slots(self) -> None:
        """Drop what binding, which may take long, does not need. A node is reserved."""
        self.cycle.drop_transient_slots()
        if self.framework.remote.enabled:
            self.answers = RemoteAnswers()
            self.companion_answers = {}

    @property
    def node(self) -> str:
        """The chosen node."""
        assert self.placement is not None, "no node is chosen yet"
        return self.placement.node


class NodeReservation(msgspec.Struct, eq=False):
    """A pod that is assumed on a node: the status of Reserve and Permit, and `revert`."""

    attempt: Attempt
    status: Status
    """Success, Wait, or why the node must be given up."""

    @property
    def holds(self) -> bool:
        """Whether the pod may be bound, now or after it has waited for permission."""
        return self.status.ok or self.status.code is Code.WAIT

    def revert(self) -> None:
        """Unreserve and forget as if nothing had happened: no waiting pod is moved.

        That is right only while no other pod was judged by the state in between.
        """
        _unreserve(self.attempt, None, trial=True)
        self.attempt.placement = None


def unreserve_and_forget(attempt: Attempt, why: Status) -> None:
    """Give the node of an attempt up; the queue moves the pods that may fit there now."""
    _unreserve(attempt, why)


def _unreserve(attempt: Attempt, why: Status | None, *, trial: bool = False) -> bool:
    if waiting := attempt.framework.waiting.pop(attempt.cycle.pod.uid, None):
        waiting.dismiss()
    if (journal := attempt.cycle.state.journal) is not None:
        journal.reverted(attempt.cycle.pod.uid, trial)
    return unreserve(attempt.framework, attempt.cycle, attempt.node, why, trial=trial)


def unreserve(
    framework: Framework,
    cycle: Cycle,
    node: str,
    why: Status | None = None,
    *,
    trial: bool = False,
) -> bool:
    """Run Unreserve, the last plugin first, then forget the pod; whether it was still assumed.

    A pod that the watch has confirmed stays. Plugins find ``why`` in the cycle. ``trial``: see
    `ClusterState.forget`.
    """
    cycle.refusal = why
    try:
        framework.run_unreserve(cycle, node)
    except PluginFault as fault:
        log.error("Plugin failed to undo a reservation", exc=fault, pod=cycle.pod.key, node=node)
    return cycle.state.forget(cycle.pod.uid, trial=trial)
