"""Every watched kind in one table: its struct and where the API server keeps it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from scheduler.model.meta import ObjectMeta, Struct
from scheduler.model.nodes import CSINode, Node, NodeResourceTopology
from scheduler.model.pods import Pod
from scheduler.model.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.model.workloads import (
    Lease,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)


class Kind(Struct, frozen=True):
    """A watched kind: its struct, the path that lists it, and whether a cluster may lack it."""

    name: str
    type: type
    path: str
    optional: bool = False
    namespaced: bool = False


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("Pod", Pod, "/api/v1/pods", namespaced=True),
        Kind("Node", Node, "/api/v1/nodes"),
        Kind("PersistentVolume", PersistentVolume, "/api/v1/persistentvolumes"),
        Kind(
            "PersistentVolumeClaim",
            PersistentVolumeClaim,
            "/api/v1/persistentvolumeclaims",
            namespaced=True,
        ),
        Kind("StorageClass", StorageClass, "/apis/storage.k8s.io/v1/storageclasses"),
        Kind("CSINode", CSINode, "/apis/storage.k8s.io/v1/csinodes"),
        Kind("CSIDriver", CSIDriver, "/apis/storage.k8s.io/v1/csidrivers"),
        Kind(
            "CSIStorageCapacity",
            CSIStorageCapacity,
            "/apis/storage.k8s.io/v1/csistoragecapacities",
            namespaced=True,
        ),
        Kind("VolumeAttachment", VolumeAttachment, "/apis/storage.k8s.io/v1/volumeattachments"),
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
            "NodeResourceTopology",
            NodeResourceTopology,
            "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
            optional=True,
        ),
        Kind(
            "PodGroup",
            PodGroup,
            "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
            optional=True,
            namespaced=True,
        ),
    )
}


def without_nulls(value: object) -> object:
    """A copy of API JSON with null members dropped, as the API server would store it."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value if v is not None]
    return value


T = TypeVar("T")


def from_dict(raw: object, type_: type[T]) -> T:
    """A struct from plain API JSON; raises msgspec.ValidationError that names the field."""
    return msgspec.convert(without_nulls(raw), type_, strict=True)


__all__ = [
    "KINDS",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "Kind",
    "Lease",
    "Namespace",
    "Node",
    "NodeResourceTopology",
    "ObjectMeta",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodGroup",
    "PriorityClass",
    "ReplicaSet",
    "ReplicationController",
    "Service",
    "StatefulSet",
    "StorageClass",
    "VolumeAttachment",
    "from_dict",
]
