"""All nodes as columns, for a heat map by one resource: 5,000 of them take well below 1 MB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.assembly import Core
from scheduler.dra.device_view import DevicesOfNodes, drivers_of_nodes
from scheduler.model.resources import PODS
from scheduler.numa.cell_view import cells_of_nodes
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Rows
from scheduler.views.node_zones import node_zones

DEVICES = "device:"
"""Before the name of a driver, in place of a resource: its devices. No resource has a colon."""
_TOGETHER = 256
"""Nodes that are read between two checkpoints."""


class UnknownResource(LookupError):
    """No node offers this resource."""


def node_map(core: Core, resource: str, limit: int) -> dict[str, Any]:
    """Names, zones, and what of one resource each node has and has given away.

    ``device:DRIVER`` stands for the devices of a driver. Yields to the event loop; all
    but devices and cells is of one moment. A cluster without nodes has an empty map of whatever
    resource.
    """
    state = core.state
    resources = [*_offered(state), *(DEVICES + driver for driver in drivers_of_nodes(state))]
    if resource not in resources and state.node_count:
        raise UnknownResource(f"no node offers {resource!r}; there are {', '.join(resources)}")
    is_devices = resource.startswith(DEVICES)
    devices = DevicesOfNodes(state, resource.removeprefix(DEVICES)) if is_devices else None
    # All of one moment: between here and the cells there is no checkpoint.
    known = node_zones(state)
    names, rows = known.names[:limit], known.rows[:limit]
    if devices is not None:
        amounts = list(map(devices.count, names)), list(map(devices.reserved, names))
    else:
        amounts = _amounts(state, resource, rows)
    nodes: dict[str, Any] = {
        **_plain_columns(state, names, known.zones[:limit], rows),
        "capacity": {resource: amounts[0]},
        "requested": {resource: amounts[1]},
    }
    cells: list[Any] = []
    for start in range(0, len(names), _TOGETHER):
        checkpoint()
        part = names[start : start + _TOGETHER]
        cells += cells_of_nodes(state, part, resource) or [None] * len(part)
    nodes["cells"] = cells if cells.count(None) < len(cells) else None
    nodes["devices"] = None if devices is None else list(map(devices.marks, nodes["name"]))
    return {"count": state.node_count, "resources": resources, "nodes": nodes}


def _plain_columns(
    state: ClusterState, names: Sequence[str], zones: Sequence[str], rows: Rows
) -> dict[str, Any]:
    columns = state.columns
    taints = columns.taints.numbers[rows].tolist()
    lengths = {number: len(columns.taints.interner.values[number]) for number in set(taints)}
    return {
        "name": names,
        "zone": zones,
        "pods": columns.pod_count[rows].tolist(),
        "podLimit": columns.pod_limit[rows].tolist(),
        "unschedulable": columns.unschedulable[rows].tolist(),
        "taints": [lengths[number] for number in taints],
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
