"""Nodes and pods to play with: different machines, different needs, a few that cannot be met."""

from __future__ import annotations

from typing import Any

import msgspec

from sandbox.devices.driver import BOARDS, DRIVER
from sandbox.numa.machine import Machine, uniform

Manifest = dict[str, Any]

NAMESPACE = "demo"

PRIORITY = "important"
_ZONES = ("east", "west", "north")


class NodePool(msgspec.Struct, frozen=True):
    """Equal nodes: ``share`` of 100."""

    name: str
    share: int
    cpu: str
    memory: str
    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()
    extra: dict[str, str] = {}
    images: tuple[tuple[str, int], ...] = ()
    machine: Machine | None = None
    """For nodes with NUMA cells; it says what they have, instead of ``cpu`` and ``memory``."""


class App(msgspec.Struct, frozen=True):
    """A Deployment's worth of equal pods; ``pods`` is their number per 100 nodes."""

    name: str
    pods: int
    cpu: str
    memory: str
    spec: dict[str, Any] = {}
    port: int = 0
    extra: dict[str, str] = {}
    pinned: bool = False
    """Guaranteed: with whole CPUs, they are the pod's own, of one cell."""
    claim: str = ""
    """The template of the claim that each pod has."""
    devices: bool = False
    """Asks for devices, by a claim or by an extended resource."""


_GPU_TAINT = {"key": "example.com/gpu", "effect": "NoSchedule"}
_CELLS_TAINT = {"key": "example.com/cells", "effect": "NoSchedule"}
_SPOT_TAINT = {"key": "example.com/spot", "value": "true", "effect": "PreferNoSchedule"}

POOLS = (
    NodePool(
        "general", 54, "16", "64Gi", {"disk": "hdd"}, images=(("example.com/web:1", 350 << 20),)
    ),
    NodePool("fast", 15, "32", "128Gi", {"disk": "ssd"}),
    NodePool("spot", 15, "32", "128Gi", {"disk": "ssd", "spot": "true"}, (_SPOT_TAINT,)),
    # Four GPUs by a device plugin, as ever, and two boards by a driver for claims.
    NodePool("gpu", 7, "64", "256Gi", {BOARDS: "2"}, (_GPU_TAINT,), {"example.com/gpu": "4"}),
    NodePool("edge", 3, "4", "16Gi", {"role": "edge"}),
    NodePool(
        "numa",
        6,
        "",
        "",
        {"role": "numa"},
        (_CELLS_TAINT,),
        machine=uniform(2, 16, 64 << 30, reserved_memory=1 << 30),
    ),
)

_ON_CELLS = {
    "nodeSelector": {"role": "numa"},
    "tolerations": [{"key": "example.com/cells", "operator": "Exists"}],
}
_TOLERATE_GPU = [{"key": "example.com/gpu", "operator": "Exists"}]
_ON_BOARDS = {"tolerations": _TOLERATE_GPU}
QUARTERS = "example.com/board-quarter"
"""An extended resource that a class of devices serves."""


def _prefer(key: str, value: str) -> dict[str, Any]:
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 50, "preference": {"matchExpressions": [_in(key, value)]}}]}}  # fmt: skip


def _require(key: str, value: str) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [_in(key, value)]}]}}}  # fmt: skip


def _in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


APPS = (
    App("web", 400, "250m", "256Mi"),
    App("api", 150, "500m", "1Gi", {"affinity": _prefer("disk", "ssd")}),
    App(
        "cache",
        20,
        "2",
        "8Gi",
        {"affinity": _require("disk", "ssd"), "priorityClassName": PRIORITY},
        port=6379,
    ),
    App("batch", 120, "1", "2Gi", {"nodeSelector": {"spot": "true"}}),
    App("train", 28, "8", "32Gi", {"tolerations": _TOLERATE_GPU}, extra={"example.com/gpu": "1"}),
    App("ingress", 5, "200m", "128Mi", {"nodeSelector": {"role": "edge"}}, port=443),
    # Four to a node: a fifth would fit the node's free CPUs, but those of no cell.
    App("trading", 27, "6", "8Gi", _ON_CELLS, pinned=True),
    App("ticker", 6, "1", "1Gi", _ON_CELLS, pinned=True),
    App("tune", 7, "2", "8Gi", _ON_BOARDS, claim="half-board", devices=True),
    App("infer", 14, "1", "4Gi", _ON_BOARDS, claim="quarter-board", devices=True),
    App("encode", 5, "1", "2Gi", _ON_BOARDS, extra={QUARTERS: "1"}, devices=True),
    App("giant", 2, "200", "2Ti"),
    App("lost", 3, "100m", "64Mi", {"nodeSelector": {"topology.kubernetes.io/zone": "atlantis"}}),
    App("held", 2, "100m", "64Mi", {"schedulingGates": [{"name": "example.com/approval"}]}),
)


def _device_class(profile: str, **spec: Any) -> Manifest:
    of_profile = f'device.attributes["{DRIVER}"].profile == "{profile}"'
    expression = f'device.driver == "{DRIVER}" && {of_profile}'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": f"board-{profile}"},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }


def _claim_template(profile: str) -> Manifest:
    requests = [{"name": "board", "exactly": {"deviceClassName": f"board-{profile}"}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": f"{profile}-board", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def surroundings() -> list[tuple[str, Manifest]]:
    """What must be there before the pods: paths and objects."""
    devices = "/apis/resource.k8s.io/v1"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY},
        "value": 100,
    }
    return [
        ("/api/v1/namespaces", namespace),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", priority),
        (f"{devices}/deviceclasses", _device_class("whole")),
        (f"{devices}/deviceclasses", _device_class("half")),
        (f"{devices}/deviceclasses", _device_class("quarter", extendedResourceName=QUARTERS)),
        *(
            (f"{devices}/namespaces/{NAMESPACE}/resourceclaimtemplates", _claim_template(each))
            for each in ("whole", "half", "quarter")
        ),
    ]


def nodes(count: int = 100) -> list[Manifest]:
    """About ``count`` nodes of all pools, at least one of each."""
    return [
        _node(pool, f"{pool.name}-{i:03d}", _ZONES[i % len(_ZONES)])
        for pool in POOLS
        for i in range(max(1, pool.share * count // 100))
    ]


def machines(count: int = 100) -> dict[str, Machine]:
    """The machines behind the nodes with cells, for a cluster of ``count`` nodes."""
    return {
        f"{pool.name}-{i:03d}": pool.machine
        for pool in POOLS
        if pool.machine is not None
        for i in range(max(1, pool.share * count // 100))
    }


def _node(pool: NodePool, name: str, zone: str) -> Manifest:
    labels = {"topology.kubernetes.io/zone": zone, **pool.labels}
    if pool.machine is not None:
        node = pool.machine.node(name, labels)
        return {**node, "spec": {"taints": list(pool.taints)}}
    resources = {"cpu": pool.cpu, "memory": pool.memory, "pods": "110", **pool.extra}
    labels = {"kubernetes.io/hostname": name, **labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(pool.taints)} if pool.taints else {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "images": [{"names": [image], "sizeBytes": size} for image, size in pool.images],
        },
    }


def pods(
    scheduler_name: str, scale: int = 100, *, pinned: bool = False, devices: bool = False
) -> list[Manifest]:
    """The pods of ordinary apps, of those with CPUs of their own, or of those with devices.

    As many as a cluster of ``scale`` nodes has.
    """
    return [
        pod(app, i, scheduler_name)
        for app in APPS
        if (app.pinned, app.devices) == (pinned, devices)
        for i in range(max(1, app.pods * scale // 100))
    ]


def pod(app: App, number: int, scheduler_name: str) -> Manifest:
    """One pod of an app."""
    requests = {"cpu": app.cpu, "memory": app.memory, **app.extra}
    container: dict[str, Any] = {
        "name": app.name,
        "image": f"example.com/{app.name}:1",
        "resources": {"requests": requests, "limits": requests if app.pinned else app.extra},
    }
    if app.port:
        container["ports"] = [{"containerPort": app.port, "hostPort": app.port}]
    spec: Manifest = {"schedulerName": scheduler_name, "containers": [container], **app.spec}
    if app.claim:
        container["resources"]["claims"] = [{"name": "board"}]
        spec["resourceClaims"] = [{"name": "board", "resourceClaimTemplateName": app.claim}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app.name}-{number:04d}",
            "namespace": NAMESPACE,
            "labels": {"app": app.name},
        },
        "spec": spec,
    }
