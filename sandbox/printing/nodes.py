"""The columns of nodes."""

from datetime import datetime

from sandbox.printing.column import AGE, NAME, NONE, Column, at, text
from sandbox.printing.durations import UNKNOWN
from sandbox.store import Body

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


def _status(node: Body, _now: datetime) -> str:
    found = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in at(node, "status.conditions", [])
        if condition.get("type") == "Ready"
    ]
    shown = found or ["Unknown"]
    if at(node, "spec.unschedulable"):
        shown.append("SchedulingDisabled")
    return ",".join(shown)


def _roles(node: Body, _now: datetime) -> str:
    labels = node["metadata"].get("labels") or {}
    found = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    found.add(labels.get(_ROLE, ""))
    return ",".join(sorted(found - {""})) or NONE


def _address(kind: str, node: Body) -> str:
    addresses = at(node, "status.addresses", [])
    return next((each["address"] for each in addresses if each.get("type") == kind), NONE)


NODES = (
    NAME,
    Column("Status", _status),
    Column("Roles", _roles),
    AGE,
    text("Version", "status.nodeInfo.kubeletVersion"),
    Column("Internal-IP", lambda node, _: _address("InternalIP", node), wide=True),
    Column("External-IP", lambda node, _: _address("ExternalIP", node), wide=True),
    text("OS-Image", "status.nodeInfo.osImage", UNKNOWN, wide=True),
    text("Kernel-Version", "status.nodeInfo.kernelVersion", UNKNOWN, wide=True),
    text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", UNKNOWN, wide=True),
)
