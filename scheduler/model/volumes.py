"""The volumes of a pod: claims, disks, and what binds them to each other."""

from __future__ import annotations

from itertools import islice

import msgspec

from scheduler.model.csi_migration import migration_of
from scheduler.model.pods import Pod, Volume
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

MONITORS = 64
"""How many monitors of a disk are looked at."""

DELAYED = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class ClaimUse(msgspec.Struct, frozen=True, gc=False):
    """A pod's use of a PersistentVolumeClaim."""

    name: str
    key: str
    """``namespace/name``."""
    ephemeral: bool = False
    """The claim is made for this pod from its own template, and must belong to it."""


class DiskUse(msgspec.Struct, frozen=True, gc=False):
    """A pod's use of a disk that cannot be shared on a node, unless all only read."""

    identity: tuple[str, ...]
    read_only: bool = False


class PodVolumes(msgspec.Struct, frozen=True):
    """Those of a pod's volumes that matter for where it can run."""

    claims: tuple[ClaimUse, ...] = ()
    disks: tuple[DiskUse, ...] = ()
    inline: tuple[Volume, ...] = ()
    """Disks that the pod names itself and that count as volumes of a CSI driver."""

    @property
    def attachable(self) -> bool:
        """Whether a node's limits on attached volumes may concern the pod."""
        return bool(self.claims or self.inline)


NO_VOLUMES = PodVolumes()


def pod_volumes(pod: Pod, limit: int) -> PodVolumes:
    """A pod's claims and disks. A claim or disk that is used twice comes twice.

    Only so many volumes are looked at: a node that has them has no room for others.
    """
    if not pod.spec.volumes:
        return NO_VOLUMES
    volumes = pod.spec.volumes[:limit]
    claims = [claim for volume in volumes if (claim := _claim(pod, volume))]
    disks = list(islice((disk for volume in volumes for disk in _disks(volume)), limit))
    inline = [volume for volume in volumes if migration_of(volume)]
    if not claims and not disks and not inline:
        return NO_VOLUMES
    return PodVolumes(tuple(claims), tuple(disks), tuple(inline))


def _claim(pod: Pod, volume: Volume) -> ClaimUse | None:
    namespace = pod.metadata.namespace
    if volume.persistent_volume_claim is not None:
        name = volume.persistent_volume_claim.claim_name
        return ClaimUse(name, f"{namespace}/{name}")
    if volume.ephemeral is not None:
        name = f"{pod.metadata.name}-{volume.name}"
        return ClaimUse(name, f"{namespace}/{name}", ephemeral=True)
    return None


def _disks(volume: Volume) -> list[DiskUse]:
    """An image behind several monitors is one disk for each: any one in common is a conflict."""
    disks = []
    if gce := volume.gce_persistent_disk:
        disks.append(DiskUse(("gce", gce.pd_name), gce.read_only))
    if ebs := volume.aws_elastic_block_store:
        disks.append(DiskUse(("ebs", ebs.volume_id)))
    if iscsi := volume.iscsi:
        disks.append(DiskUse(("iscsi", iscsi.iqn), iscsi.read_only))
    if rbd := volume.rbd:
        disks += [
            DiskUse(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)
            for monitor in dict.fromkeys(rbd.monitors[:MONITORS])
        ]
    return disks


def class_of(thing: PersistentVolumeClaim | PersistentVolume) -> str:
    """The storage class of a claim or a volume, empty if it has none."""
    beta = thing.metadata.annotations.get(BETA_CLASS)
    return beta if beta is not None else thing.spec.storage_class_name or ""


def fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the binding of a claim to its volume is complete."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def made_for(claim: PersistentVolumeClaim, pod: Pod, pod_uid: str) -> bool:
    """Whether a claim was made from the pod's own template."""
    owner = claim.metadata.controller
    same_namespace = claim.metadata.namespace == pod.metadata.namespace
    return same_namespace and owner is not None and owner.uid == pod_uid


def promised_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim, or kept for it by name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.metadata.name
        and reference.namespace == claim.metadata.namespace
        and reference.uid in ("", claim.metadata.uid)
    )
