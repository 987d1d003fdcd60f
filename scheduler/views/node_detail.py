"""One node in full: what it offers and has given away, its pods, NUMA cells and devices."""

from __future__ import annotations

from itertools import islice
from typing import Any

from scheduler.assembly import Core
from scheduler.dra.device_view import describe_devices
from scheduler.model.podinfo import PodInfo
from scheduler.numa.cell_view import describe_cells
from scheduler.slices import checkpoint

MAX_PODS = 500
MAX_LABELS = 200
MAX_CONDITIONS = 50
MAX_REQUESTS = 32
"""Of one pod."""


class UnknownNode(LookupError):
    """There is no such node."""


def node_detail(core: Core, name: str) -> dict[str, Any]:
    """The node, and the pods that hold its resources, the greatest priority first."""
    state = core.state
    node = state.node(name)
    if node is None:
        raise UnknownNode(f"unknown node: {name}")
    row = state.describe(name)
    pods = sorted(state.pods_on(name), key=lambda info: (-info.priority, info.key))
    labels = sorted(islice(node.metadata.labels.items(), MAX_LABELS))
    return {
        **row,
        "labels": dict(labels),
        "conditions": {
            each.type: each.status for each in islice(node.status.conditions, MAX_CONDITIONS)
        },
        "podsOnNode": [_pod(core, info) for info in pods[:MAX_PODS]],
        "numa": describe_cells(state, name),
        "devices": describe_devices(state, name),
    }


def _pod(core: Core, info: PodInfo) -> dict[str, Any]:
    checkpoint()
    requests = sorted(islice(info.requests.items(), MAX_REQUESTS))
    return {
        "pod": info.key,
        "priority": info.priority,
        "scheduler": info.pod.spec.scheduler_name,
        "assumed": core.state.assumed(info.uid),
        "deleting": info.pod.deleting,
        "requests": {name: amount for name, amount in requests if amount},
    }
