"""Volume sources that name a disk themselves, in pods and in PersistentVolumes.

Most of them are history: the drivers left Kubernetes for CSI, their names stayed in objects.
"""

from __future__ import annotations

import msgspec

from scheduler.model.meta import Struct


class GCEDisk(Struct, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class EBSDisk(Struct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDisk(Struct, frozen=True):
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class CinderDisk(Struct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxDisk(Struct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class RBDImage(Struct, frozen=True):
    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    read_only: bool = False


class ISCSITarget(Struct, frozen=True):
    iqn: str = ""
    read_only: bool = False


class InTreeSources(Struct, frozen=True):
    """The sources that a CSI driver has replaced; at most one is set."""

    gce_persistent_disk: GCEDisk | None = None
    aws_elastic_block_store: EBSDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderDisk | None = None
    portworx_volume: PortworxDisk | None = None
