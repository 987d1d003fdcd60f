"""Volumes, claims, classes, CSI drivers and what they attach, as a scheduler reads them."""

from __future__ import annotations

import msgspec

from scheduler.model.disks import InTreeSources
from scheduler.model.meta import (
    AnnotatedMeta,
    Kind,
    LabelSelector,
    ObjectMeta,
    RawQuantity,
    ResourceList,
    Struct,
)
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


class PersistentVolumeSpec(InTreeSources, frozen=True):
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str = ""
    csi: CSIVolumeSource | None = None


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
    volume_attributes_class_name: str = ""


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


class CSIDriverSpec(Struct, frozen=True):
    storage_capacity: bool = False


class CSIDriver(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Struct, frozen=True):
    """How much room a storage class has for new volumes that some nodes can reach."""

    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


class AttachmentSource(Struct, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


KINDS = (
    Kind("PersistentVolume", PersistentVolume, "/api/v1/persistentvolumes"),
    Kind(
        "PersistentVolumeClaim",
        PersistentVolumeClaim,
        "/api/v1/persistentvolumeclaims",
        namespaced=True,
    ),
    Kind("StorageClass", StorageClass, "/apis/storage.k8s.io/v1/storageclasses"),
    Kind("CSIDriver", CSIDriver, "/apis/storage.k8s.io/v1/csidrivers"),
    Kind(
        "CSIStorageCapacity",
        CSIStorageCapacity,
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        namespaced=True,
    ),
    Kind("VolumeAttachment", VolumeAttachment, "/apis/storage.k8s.io/v1/volumeattachments"),
)
