"""Cluster events: what happened, in the words that queueing hints listen to."""

from __future__ import annotations

import enum

import msgspec

from scheduler.model.meta import ObjectMeta
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo


class Action(enum.Flag):
    """What happened to an object; an update may carry several."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE = enum.auto()
    """An update that none of the finer actions describes."""
    NODE_ALLOCATABLE = enum.auto()
    NODE_LABEL = enum.auto()
    NODE_TAINT = enum.auto()
    NODE_CONDITION = enum.auto()
    NODE_DECLARED_FEATURE = enum.auto()
    POD_LABEL = enum.auto()
    POD_SCALE_DOWN = enum.auto()
    POD_GATES_ELIMINATED = enum.auto()
    POD_TOLERATION = enum.auto()
    POD_GENERATED_CLAIM = enum.auto()

    __hash__ = object.__hash__  # that of Enum is written in Python, and hashes the name


ADD, DELETE, UPDATE = Action.ADD, Action.DELETE, Action.UPDATE
"""Read for every pod: a member of an enumeration takes many times what a name does."""


ACTION_LABELS: dict[Action, str] = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE: "Update",
    Action.NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.NODE_LABEL: "UpdateNodeLabel",
    Action.NODE_TAINT: "UpdateNodeTaint",
    Action.NODE_CONDITION: "UpdateNodeCondition",
    Action.NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.POD_LABEL: "UpdatePodLabel",
    Action.POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.POD_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.POD_TOLERATION: "UpdatePodToleration",
    Action.POD_GENERATED_CLAIM: "UpdatePodGeneratedResourceClaim",
}


class Hint(enum.Enum):
    """Whether an event may have cured a rejected pod."""

    SKIP = "Skip"
    QUEUE = "Queue"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change of one object. ``label`` is its name in ``queue_incoming_pods_total``."""

    kind: str
    action: Action
    old: object = None
    new: object = None
    own: bool = False
    """The scheduler undid something of its own; nothing changed in the cluster."""
    node: str = ""
    """The node whose room changed, where neither ``old`` nor ``new`` names it."""
    trial: bool = False
    """A pod was only tried on its node, and never to be bound there."""
    silent: bool = False
    """The queue moves no pods: no pod was judged by what was undone, or there is less room."""
    exclude: str = ""
    """The uid of a waiting pod that the event does not concern."""
    max_priority: int | None = None
    """The event concerns waiting pods up to this priority only; None: all."""

    @property
    def label(self) -> str:
        """``NodeAdd``, ``AssignedPodDelete`` and the like, as kube-scheduler names them."""
        return f"{self.kind}{ACTION_LABELS.get(self.action, 'Update')}"

    @property
    def old_bytes(self) -> int:
        """The length of the JSON of the old version, which is kept nowhere else."""
        old = self.old.pod if isinstance(self.old, PodInfo) else self.old
        metadata = getattr(old, "metadata", None)
        return metadata.json_bytes if isinstance(metadata, ObjectMeta) else 0


POD = "Pod"
"""A watched pod, as it was and is (`Pod`), on a node or not, of any scheduler. In registrations of
hints it stands for assigned and unschedulable pods, which kube-scheduler's metrics distinguish."""
BOUND_POD = "BoundPod"
"""The same (`Pod`), if it was seen without a node before and has one now."""
ENDED_POD = "EndedPod"
"""The same (`Pod`), if it has finished, was deleted or was replaced by another of its name."""
WATCHED_POD = (POD, BOUND_POD, ENDED_POD)
"""Of a change of a pod, the watch has an event of one of these kinds."""
ASSIGNED_POD = "AssignedPod"
"""A pod that holds room on a node (`PodInfo`): bound, or assumed there (``own``)."""
UNSCHEDULABLE_POD = "UnschedulablePod"
"""A pod of ours without a node (`PodInfo`)."""


def node_update(old: Node, new: Node) -> Action | None:
    """What changed between two versions of a node, or None when nothing a plugin reads did."""
    changed = Action(0)
    if old.spec.taints != new.spec.taints or (
        old.spec.unschedulable and not new.spec.unschedulable
    ):
        changed |= Action.NODE_TAINT
    if old.status.allocatable != new.status.allocatable:
        changed |= Action.NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        changed |= Action.NODE_LABEL
    if _states(old) != _states(new):
        changed |= Action.NODE_CONDITION
    if old.status.declared_features != new.status.declared_features:
        changed |= Action.NODE_DECLARED_FEATURE
    return changed or None


def _states(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def pod_update(old: PodInfo, new: PodInfo) -> Action:
    """What changed between two versions of a pod; plain UPDATE when nothing finer fits."""
    changed = Action(0)
    was, now = old.pod, new.pod
    if was.metadata.labels != now.metadata.labels:
        changed |= Action.POD_LABEL
    if _scaled_down(old, new):
        changed |= Action.POD_SCALE_DOWN
    if was.spec.scheduling_gates and not now.spec.scheduling_gates:
        changed |= Action.POD_GATES_ELIMINATED
    # Tolerations can only be added, so comparing their number suffices.
    if len(was.spec.tolerations) != len(now.spec.tolerations):
        changed |= Action.POD_TOLERATION
    if was.status.resource_claim_statuses != now.status.resource_claim_statuses:
        changed |= Action.POD_GENERATED_CLAIM
    return changed or Action.UPDATE


def _scaled_down(old: PodInfo, new: PodInfo) -> bool:
    """Whether a pod requests less of something.

    Most versions of a pod share what they request. What a waiting pod beyond the limits requests is
    not even read.
    """
    if new.excess and not new.node_name:
        return False
    before, after = old.requests, new.requests
    if before is after:
        return False
    return any(amount > after.get(name, 0) for name, amount in before.items())
