"""How CSI drivers call what in-tree volume plugins used to serve.

Objects of old clusters name a plugin that is gone (``kubernetes.io/aws-ebs``); its CSI driver does
the work. To count and place such volumes with the driver's own, a scheduler must know the driver's
name, the driver's handle of the disk, and the node label that carries its topology.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from scheduler.model.disks import InTreeSources
from scheduler.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.model.storage import PersistentVolume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_SEPARATOR = "__"
"""Between the zones in the label of a volume that is in several."""

_UNKNOWN = "UNSPECIFIED"
_EBS_ID = re.compile(r"vol-[^/]*")


class TranslationError(ValueError):
    """An in-tree volume that its CSI driver could not serve."""


class Migration(NamedTuple):
    """An in-tree plugin and the driver that replaced it."""

    plugin: str
    driver: str
    topology_key: str = ""
    """The node label that stands for the zone label; empty if the driver keeps what there is."""


GCE = Migration("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone")
EBS = Migration("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone")
AZURE = Migration("kubernetes.io/azure-disk", "disk.csi.azure.com")
CINDER = Migration(
    "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
)
PORTWORX = Migration("kubernetes.io/portworx-volume", "pxd.portworx.com")

_MIGRATED = {migration.plugin: migration for migration in (GCE, EBS, AZURE, CINDER, PORTWORX)}
_UNCOUNTED = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
"""Migrated as well, but schedulers neither count nor place their volumes."""


def driver_of(provisioner: str) -> str:
    """The CSI driver behind a provisioner's name; empty if its volumes do not count."""
    if provisioner in _UNCOUNTED:
        return ""
    migration = _MIGRATED.get(provisioner)
    return migration.driver if migration else provisioner


def migration_of(source: InTreeSources) -> Migration | None:
    """The migration of an inline volume or a PersistentVolume; None if it has no such source."""
    if source.gce_persistent_disk:
        return GCE
    if source.aws_elastic_block_store:
        return EBS
    if source.azure_disk:
        return AZURE
    if source.cinder:
        return CINDER
    return PORTWORX if source.portworx_volume else None


def inline_handle(source: InTreeSources) -> str:
    """The driver's handle of a disk that a pod names itself. Raises TranslationError."""
    if disk := source.gce_persistent_disk:
        return f"projects/{_UNKNOWN}/zones/{_UNKNOWN}/disks/{disk.pd_name}"
    return _handle(source)


def volume_handle(volume: PersistentVolume) -> str:
    """The driver's handle of a PersistentVolume's disk. Raises TranslationError."""
    if disk := volume.spec.gce_persistent_disk:
        return f"projects/{_UNKNOWN}/{_gce_place(volume)}/disks/{disk.pd_name}"
    return _handle(volume.spec)


def _handle(source: InTreeSources) -> str:
    if ebs := source.aws_elastic_block_store:
        return _ebs_handle(ebs.volume_id)
    if azure := source.azure_disk:
        if azure.kind is not None and azure.kind.lower() != "managed":
            raise TranslationError(f"kind({azure.kind}) is not supported in csi migration")
        return azure.disk_uri
    other = source.cinder or source.portworx_volume
    return other.volume_id if other else ""


def _ebs_handle(volume_id: str) -> str:
    """``vol-1`` of ``vol-1``, ``aws:///vol-1`` and ``aws://zone/vol-1``."""
    if not volume_id.startswith("aws://"):
        return volume_id
    try:
        handle = urlsplit(volume_id).path.strip("/")
    except ValueError:  # brackets that do not match, for instance
        handle = ""
    if not _EBS_ID.fullmatch(handle):
        raise TranslationError(
            "failed to translate Kubernetes ID to EBS Volume ID"
            f" Invalid format for AWS volume ({volume_id})"
        )
    return handle


def _gce_place(volume: PersistentVolume) -> str:
    labels = volume.metadata.labels
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or _UNKNOWN).split(ZONE_SEPARATOR)
    if len(zones) == 1:
        return f"zones/{zones[0]}"
    regions = {zone.rpartition("-")[0] for zone in zones if zone.count("-") == 2}
    if len(regions) != 1 or not all(zone.count("-") == 2 for zone in zones):
        raise TranslationError(f"failed to get region from zones: {zones}")
    return f"regions/{regions.pop()}"


def translated_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """Where the driver says that an in-tree volume can be used. Raises TranslationError.

    Zones come from the volume's node affinity, or else from its zone label.
    """
    volume_handle(volume)  # a volume without one cannot be translated at all
    affinity = volume.spec.node_affinity
    selector = affinity.required if affinity else None
    migration = migration_of(volume.spec)
    if migration is None or not migration.topology_key:
        return selector
    zone_key = _zone_key(selector, volume.metadata.labels)
    if _values(selector, zone_key):
        selector = _renamed(selector, zone_key, migration.topology_key)
    elif label := volume.metadata.labels.get(zone_key):
        zones = {zone.strip() for zone in label.split(ZONE_SEPARATOR)} - {""}
        selector = _narrowed(selector, migration.topology_key, zones)
    if zone_key == BETA_ZONE and _values(selector, BETA_REGION):
        selector = _renamed(selector, BETA_REGION, REGION)
    return selector


def _zone_key(selector: NodeSelector | None, labels: Collection[str]) -> str:
    """The zone label that a volume uses, in its affinity or else among its own labels."""
    keys = [requirement.key for requirement in _requirements(selector)]
    found = (key for names in (keys, labels) for key in (ZONE, BETA_ZONE) if key in names)
    return next(found, ZONE)


def _requirements(selector: NodeSelector | None) -> list[NodeSelectorRequirement]:
    terms = (selector.node_selector_terms or ()) if selector else ()
    return [requirement for term in terms for requirement in term.match_expressions]


def _values(selector: NodeSelector | None, key: str) -> bool:
    return any(r.key == key and r.values for r in _requirements(selector))


def _renamed(selector: NodeSelector | None, old: str, new: str) -> NodeSelector:
    return _mapped(
        selector,
        lambda requirements: tuple(
            msgspec.structs.replace(r, key=new) if r.key == old else r for r in requirements
        ),
    )


def _narrowed(selector: NodeSelector | None, key: str, zones: set[str]) -> NodeSelector | None:
    if not zones:
        return selector
    within = NodeSelectorRequirement(key, "In", tuple(sorted(zones)))
    return _mapped(selector, lambda requirements: (*requirements, within))


def _mapped(
    selector: NodeSelector | None,
    change: Callable[[tuple[NodeSelectorRequirement, ...]], tuple[NodeSelectorRequirement, ...]],
) -> NodeSelector:
    """The selector with each term's label requirements changed; none counts as one empty term."""
    terms = (selector.node_selector_terms if selector else None) or (NodeSelectorTerm(),)
    return NodeSelector(
        tuple(
            msgspec.structs.replace(term, match_expressions=change(term.match_expressions))
            for term in terms
        )
    )
