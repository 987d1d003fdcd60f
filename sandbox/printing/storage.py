"""The columns of volumes, claims, storage classes and devices."""

from datetime import datetime

from sandbox.printing.column import AGE, NAME, Column, at, boolean, text
from sandbox.store import Body

_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_UNSET = "<unset>"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(listed: list[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in listed)


def _phase(body: Body, _now: datetime) -> str:
    if "deletionTimestamp" in body["metadata"]:
        return "Terminating"
    return str(at(body, "status.phase", ""))


def _of_bound(claim: Body, path: str) -> str:
    """What a claim has only once it has a volume."""
    return str(at(claim, path, "")) if at(claim, "spec.volumeName") else ""


def _claim(volume: Body, _now: datetime) -> str:
    claim = at(volume, "spec.claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _class_name(storage_class: Body, _now: datetime) -> str:
    name = storage_class["metadata"].get("name", "")
    annotations = storage_class["metadata"].get("annotations") or {}
    return f"{name} (default)" if annotations.get(_DEFAULT) == "true" else name


def _claim_state(claim: Body, _now: datetime) -> str:
    leaving = "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if leaving else []
    if not at(claim, "status.allocation"):
        return ",".join(states or ["pending"])
    states.append("allocated")
    if at(claim, "status.reservedFor"):
        states.append("reserved")
    return ",".join(states)


_VOLUME_CLASS = text("VolumeAttributesClass", "spec.volumeAttributesClassName", _UNSET)
_VOLUME_MODE = text("VolumeMode", "spec.volumeMode", _UNSET, wide=True)

PERSISTENT_VOLUMES = (
    NAME,
    text("Capacity", "spec.capacity.storage"),
    Column("Access Modes", lambda body, _: _modes(at(body, "spec.accessModes", []))),
    text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
    Column("Status", _phase),
    Column("Claim", _claim),
    text("StorageClass", "spec.storageClassName"),
    _VOLUME_CLASS,
    text("Reason", "status.reason"),
    AGE,
    _VOLUME_MODE,
)
PERSISTENT_VOLUME_CLAIMS = (
    NAME,
    Column("Status", _phase),
    text("Volume", "spec.volumeName"),
    Column("Capacity", lambda body, _: _of_bound(body, "status.capacity.storage")),
    Column(
        "Access Modes",
        lambda body, _: (
            _modes(at(body, "status.accessModes", [])) if at(body, "spec.volumeName") else ""
        ),
    ),
    text("StorageClass", "spec.storageClassName"),
    _VOLUME_CLASS,
    AGE,
    _VOLUME_MODE,
)
STORAGE_CLASSES = (
    Column("Name", _class_name, format="name"),
    text("Provisioner", "provisioner"),
    text("ReclaimPolicy", "reclaimPolicy"),
    text("VolumeBindingMode", "volumeBindingMode"),
    Column("AllowVolumeExpansion", lambda body, _: bool(body.get("allowVolumeExpansion"))),
    AGE,
)
VOLUME_ATTACHMENTS = (
    NAME,
    Column("Attacher", lambda body, _: at(body, "spec.attacher", ""), format="name"),
    text("PV", "spec.source.persistentVolumeName"),
    text("Node", "spec.nodeName"),
    boolean("Attached", "status.attached"),
    AGE,
)
CSI_NODES = (
    NAME,
    Column("Drivers", lambda body, _: len(at(body, "spec.drivers", [])), "integer"),
    AGE,
)
RESOURCE_CLAIMS = (NAME, Column("State", _claim_state), AGE)
RESOURCE_SLICES = (
    NAME,
    text("Node", "spec.nodeName"),
    text("Driver", "spec.driver"),
    text("Pool", "spec.pool.name"),
    AGE,
)
