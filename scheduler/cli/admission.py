"""Defaults that an API server would set on objects that come from a file.

Only what changes a verdict: requests that follow from limits, host ports of pods on the host's
network, priorities by class, nodes that give a capacity and nothing else, when a storage class
binds, and the class of claims that name none. Objects are copied where they change; those from a
live cluster come out as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.cli.workloads import Body
from scheduler.model.volumes import BETA_CLASS

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_BUILT_IN_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def admitted(objects: list[Body]) -> list[Body]:
    """The objects as the API server would store them."""
    classes = priority_classes(objects)
    general = next((o.get("value", 0) for o in objects if _is_default_class(o)), 0)
    storage = _default_storage_class(objects)

    def stored(body: Body) -> Body:
        match body["kind"]:
            case "Pod":
                return {**body, "spec": _pod_spec(body.get("spec", {}), classes, general)}
            case "Node":
                return _node(body)
            case "StorageClass":
                return {"volumeBindingMode": "Immediate", **body}
            case "PersistentVolumeClaim" if storage and _wants_a_class(body):
                return {**body, "spec": {**body.get("spec", {}), "storageClassName": storage}}
        return body

    return [stored(body) for body in objects]


def priority_classes(objects: list[Body]) -> dict[str, int]:
    """The value of each PriorityClass, those that every cluster has included."""
    given = {
        body["metadata"]["name"]: body.get("value", 0)
        for body in objects
        if body["kind"] == "PriorityClass"
    }
    return {**_BUILT_IN_CLASSES, **given}


def _is_default_class(body: Body) -> bool:
    return body["kind"] == "PriorityClass" and bool(body.get("globalDefault"))


def _default_storage_class(objects: list[Body]) -> str:
    """The newest class that is marked as the default, the first by name of several; "" if none."""
    marked = sorted(
        (body["metadata"]["name"], body["metadata"].get("creationTimestamp", ""))
        for body in objects
        if body["kind"] == "StorageClass"
        and body["metadata"].get("annotations", {}).get(DEFAULT_CLASS) == "true"
    )
    return max(marked, key=lambda each: each[1], default=("", ""))[0]


def _wants_a_class(claim: Body) -> bool:
    """Whether a claim names no class; one that is bound was stored without any."""
    named = "storageClassName" in claim.get("spec", {})
    named = named or BETA_CLASS in claim["metadata"].get("annotations", {})
    return not named and claim.get("status", {}).get("phase") != "Bound"


def _pod_spec(spec: Body, classes: Mapping[str, int], general: int) -> Body:
    on_host = bool(spec.get("hostNetwork"))
    spec = dict(spec)
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_container(container, on_host) for container in spec[field]]
    if "priority" not in spec:
        name = spec.get("priorityClassName")
        spec["priority"] = classes.get(str(name), 0) if name else general
    return spec


def _container(container: Body, on_host: bool) -> Body:
    resources = container.get("resources", {})
    requests = {**resources.get("limits", {}), **resources.get("requests", {})}
    filled = {**container, "resources": {**resources, "requests": requests}}
    if on_host and "ports" in container:
        filled["ports"] = [
            {**port, "hostPort": port.get("hostPort") or port.get("containerPort", 0)}
            for port in container["ports"]
        ]
    return filled


def _node(node: Body) -> Body:
    status = node.get("status", {})
    if "allocatable" in status or "capacity" not in status:
        return node
    return {**node, "status": {**status, "allocatable": status["capacity"]}}
