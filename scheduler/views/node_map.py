"""All nodes as columns, for a heat map by one resource: 5,000 of them take well below 1 MB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler.assembly import Core
from scheduler.dra.device_view import DevicesOfNodes, drivers_of_nodes
from scheduler.model.resources import PODS
from scheduler.numa.cell_view import cells_of_nodes
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Rows

DEVICES = "device:"
"""Before the name of a driver, in place of a resource: its devices. No resource has a colon."""
ZONE_LABEL = "topology.kubernetes.io/zone"
_TOGETHER = 256
"""Nodes that are read between two checkpoints."""


class UnknownResource(LookupError):
    """No node offers this resource."""


def node_map(core: Core, resource: str, limit: int) -> dict[str, Any]:
    """Names, zones, and what of one resource each node has and has given away.

    ``device:DRIVER`` stands for the devices of a driver. Yields to the event loop; nodes that go
    meanwhile are left out. A cluster without nodes has an empty map of whatever resource.
    """
    state = core.state
    resources = [*_offered(state), *(DEVICES + driver for driver in drivers_of_nodes(state))]
    if resource not in resources and state.node_count:
        raise UnknownResource(f"no node offers {resource!r}; there are {', '.join(resources)}")
    is_devices = resource.startswith(DEVICES)
    devices = DevicesOfNodes(state, resource.removeprefix(DEVICES)) if is_devices else None
    names = sorted(state.names())[:limit]
    nodes: dict[str, Any] = {"capacity": {resource: []}, "requested": {resource: []}}
    cells: list[Any] = []
    for start in range(0, len(names) or 1, _TOGETHER):  # columns are there without nodes as well
        checkpoint()
        part = [name for name in names[start : start + _TOGETHER] if state.row(name) is not None]
        rows = np.array([state.row(name) for name in part], np.intp)
        for column, values in _plain_columns(state, part, rows).items():
            nodes.setdefault(column, []).extend(values)
        if devices is not None:
            amounts = [devices.count(name) for name in part], list(map(devices.reserved, part))
        else:
            amounts = _amounts(state, resource, rows)
        for column, values in zip(("capacity", "requested"), amounts, strict=True):
            nodes[column][resource].extend(values)
        cells += cells_of_nodes(state, part, resource) or [None] * len(part)
    nodes["cells"] = cells if any(each is not None for each in cells) else None
    nodes["devices"] = None if devices is None else list(map(devices.marks, nodes["name"]))
    return {"count": state.node_count, "resources": resources, "nodes": nodes}


def _plain_columns(state: ClusterState, names: Sequence[str], rows: Rows) -> dict[str, Any]:
    columns = state.columns
    return {
        "name": names,
        "zone": [_zone(state, row) for row in rows.tolist()],
        "pods": columns.pod_count[rows].tolist(),
        "podLimit": columns.pod_limit[rows].tolist(),
        "unschedulable": columns.unschedulable[rows].tolist(),
        "taints": [len(columns.taints.of(row)) for row in rows.tolist()],
    }


def _offered(state: ClusterState) -> list[str]:
    """The resources that some node has any of, and pods."""
    columns = state.columns
    most = columns.allocatable[:, state.rows()].max(axis=1, initial=0)
    named = zip(columns.resources.values, most.tolist(), strict=True)
    return [*(name for name, offered in named if offered and name != PODS), PODS]


def _amounts(state: ClusterState, resource: str, rows: Rows) -> tuple[list[int], list[int]]:
    columns = state.columns
    if resource == PODS:
        return columns.pod_limit[rows].tolist(), columns.pod_count[rows].tolist()
    index = columns.resources.find(resource)
    if index is None:  # no node offers it any more
        return [0] * len(rows), [0] * len(rows)
    return columns.allocatable[index, rows].tolist(), columns.requested[index, rows].tolist()


def _zone(state: ClusterState, row: int) -> str:
    node = state.columns.nodes[row]
    return "" if node is None else node.metadata.labels.get(ZONE_LABEL, "")
