"""PersistentVolume, PersistentVolumeClaim and StorageClass, as a scheduler reads them."""

from __future__ import annotations

import msgspec

from scheduler.model.meta import AnnotatedMeta, LabelSelector, ResourceList, Struct
from scheduler.model.nodes import NodeSelector
from scheduler.model.pods import ResourceRequirements


class ObjectReference(Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class CSIVolumeSource(Struct, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Struct, frozen=True):
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolumeSource | None = None
    # In-tree sources are matched by identity only, so they stay as they came.
    aws_elastic_block_store: dict[str, object] | None = None
    gce_persistent_disk: dict[str, object] | None = None
    azure_disk: dict[str, object] | None = None


class VolumePhase(Struct, frozen=True):
    phase: str = ""


class PersistentVolume(Struct, frozen=True):
    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: VolumePhase = VolumePhase()


class PersistentVolumeClaimSpec(Struct, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    resources: ResourceRequirements = ResourceRequirements()
    selector: LabelSelector | None = None


class PersistentVolumeClaim(Struct, frozen=True):
    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: VolumePhase = VolumePhase()


class TopologySelectorRequirement(Struct, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True):
    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(Struct, frozen=True):
    metadata: AnnotatedMeta = AnnotatedMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = msgspec.field(default=())
