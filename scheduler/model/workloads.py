"""Namespaces, controllers and policies around pods, gangs, and the leader's lease."""

from __future__ import annotations

from scheduler.model.meta import Kind, LabelSelector, ObjectMeta, ResourceList, Struct

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
"""The label by which a pod names its PodGroup, in its own namespace."""


class Namespace(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class ServiceSpec(Struct, frozen=True):
    selector: dict[str, str] = {}


class Service(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class SelectorSpec(Struct, frozen=True):
    selector: LabelSelector | None = None


class ReplicaSet(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


class StatefulSet(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


class ReplicationController(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class PodDisruptionBudgetStatus(Struct, frozen=True):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class PodGroupSpec(Struct, frozen=True):
    min_member: int = 0
    min_resources: ResourceList = {}
    schedule_timeout_seconds: int | None = None


class PodGroupStatus(Struct, frozen=True):
    schedule_start_time: str | None = None


class PodGroup(Struct, frozen=True):
    """scheduling.x-k8s.io/v1alpha1: pods that run together or not at all.

    Of its status only that is read which we could not write again from what we know of the pods.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def pod_group_of(metadata: ObjectMeta) -> str | None:
    """The ``namespace/name`` of the group that a pod's label names; None if it names none."""
    name = metadata.labels.get(POD_GROUP_LABEL)
    return f"{metadata.namespace}/{name}" if name else None


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


KINDS = (
    Kind("Service", Service, "/api/v1/services", namespaced=True),
    Kind("Namespace", Namespace, "/api/v1/namespaces"),
    Kind("ReplicaSet", ReplicaSet, "/apis/apps/v1/replicasets", namespaced=True),
    Kind("StatefulSet", StatefulSet, "/apis/apps/v1/statefulsets", namespaced=True),
    Kind(
        "ReplicationController",
        ReplicationController,
        "/api/v1/replicationcontrollers",
        namespaced=True,
    ),
    Kind(
        "PodDisruptionBudget",
        PodDisruptionBudget,
        "/apis/policy/v1/poddisruptionbudgets",
        namespaced=True,
    ),
    Kind("PriorityClass", PriorityClass, "/apis/scheduling.k8s.io/v1/priorityclasses"),
    Kind(
        "PodGroup",
        PodGroup,
        "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
        optional=True,
        namespaced=True,
    ),
)
