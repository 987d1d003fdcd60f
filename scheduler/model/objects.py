"""Every watched kind in one table, and how their structs are made from plain JSON."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from scheduler.model import devices, nodes, pods, storage, workloads
from scheduler.model.meta import Kind, ObjectMeta
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

T = TypeVar("T")


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change of an object: added (None, new), updated (old, new) or deleted (old, None)."""

    old: T | None
    new: T | None


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (*pods.KINDS, *nodes.KINDS, *storage.KINDS, *workloads.KINDS, *devices.KINDS)
}
"""Each kind is declared below its struct."""


def without_nulls(value: object) -> object:
    """A copy of API JSON with null members dropped, as the API server would store it."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value if v is not None]
    return value


def from_dict(raw: object, type_: type[T]) -> T:
    """A struct from plain API JSON; raises msgspec.ValidationError that names the field."""
    try:
        return msgspec.convert(raw, type_, strict=True)
    except msgspec.ValidationError:
        # Nulls stand for what is absent; few objects have any, and looking for them takes longer
        # than all the rest.
        return msgspec.convert(without_nulls(raw), type_, strict=True)


__all__ = [
    "KINDS",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "Change",
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
