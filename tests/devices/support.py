"""Small indexes and claims for tests of one thing each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.devices import DeviceIndex, DeviceSelection, SearchOutcome
from scheduler.model.devices import (
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict

DRIVER = "gpu.example.com"
Json = dict[str, Any]


def index_of(*nodes: str, **settings: Any) -> DeviceIndex:
    """An index with nodes and the class ``gpu``, which selects by driver."""
    index = DeviceIndex(**settings)
    for row, name in enumerate(nodes or ("n0",)):
        index.set_node(row, from_dict({"metadata": {"name": name}}, Node))
    expression = f'device.driver == "{DRIVER}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    index.set_class("gpu", from_dict({"metadata": {"name": "gpu"}, "spec": spec}, DeviceClass))
    return index


def slice_of(node: str, devices: Sequence[Json] = (), **spec: Any) -> ResourceSlice:
    """The slice of a node, with all devices of its pool unless told otherwise."""
    name = spec.pop("name", f"slice-{node}")
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
    whole = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices), **spec}
    return from_dict({"metadata": {"name": name}, "spec": whole}, ResourceSlice)


def device(name: str, **fields: Any) -> Json:
    """A device; attributes are given by bare name and value."""
    attributes = {
        key: {"bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string":
              value}
        for key, value in fields.pop("attributes", {}).items()
    }  # fmt: skip
    return {"name": name, "attributes": attributes, **fields}


def partition(board: int, profile: str, number: int, units: int) -> Json:
    """A partition of a board that takes some of its units."""
    return device(
        f"b{board}-{profile}-{number}",
        attributes={"profile": profile},
        consumesCounters=[
            {"counterSet": f"b{board}", "counters": {"units": {"value": str(units)}}}
        ],
    )


def boards(node: str, count: int) -> list[ResourceSlice]:
    """Boards of 8 units, to be had whole, in halves, quarters or eighths."""
    profiles = {"whole": 8, "half": 4, "quarter": 2, "eighth": 1}
    devices = [
        partition(board, profile, i, units)
        for board in range(count)
        for profile, units in profiles.items()
        for i in range(8 // units)
    ]
    sets = [{"name": f"b{board}", "counters": {"units": {"value": "8"}}} for board in range(count)]
    pool = {"resourceSliceCount": 2}
    return [
        slice_of(node, devices, pool=pool),
        slice_of(node, name=f"counters-{node}", sharedCounters=sets, pool=pool),
    ]


def ask(name: str = "r", expression: str = "", **fields: Any) -> Json:
    """One request."""
    selectors = [{"cel": {"expression": expression}}] if expression else []
    exactly = {"deviceClassName": "gpu", "selectors": selectors, **fields}
    return {"name": name, "exactly": exactly}


def profile(name: str, wanted: str, **fields: Any) -> Json:
    """A request for partitions by profile."""
    return ask(name, f'device.attributes["{DRIVER}"].profile == "{wanted}"', **fields)


def claim(*requests: Json, constraints: Sequence[Json] = (), name: str = "c") -> ResourceClaim:
    """A claim."""
    devices = {"requests": list(requests) or [ask()], "constraints": list(constraints)}
    return from_dict(
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}},
        ResourceClaim,
    )


def outcome(index: DeviceIndex, *claims: ResourceClaim, row: int = 0) -> SearchOutcome:
    """What claims find on one node."""
    return index.judge(claims, (row,)).outcomes[0]


def names(
    index: DeviceIndex,
    *claims: ResourceClaim,
    row: int = 0,
    selection: DeviceSelection = DeviceSelection.FIRST_FIT,
) -> list[str]:
    """The names of the devices that claims get on one node."""
    found = index.allocate(claims, row, selection)
    assert found is not None
    return [each.device for allocation in found for each in allocation.devices.results]


def hold(index: DeviceIndex, key: str, node: str, *devices: str, **fields: Any) -> None:
    """Have a claim hold devices of a node's pool."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": node, "device": each, **fields}
        for each in devices
    ]
    index.set_claim(key, from_dict({"devices": {"results": results}}, AllocationResult))
