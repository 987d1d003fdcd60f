"""The devices of a node for people: which claims they are reserved for, and what claims report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.dra.ledger import DeviceLedger
from scheduler.model.devices import AllocationResult, ResourceClaim, ResourceSlice
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState

MAX_DEVICES = 1000
"""Of one node: so many are shown one by one."""
MAX_DEVICES_ON_MAP = 64
"""The same on a map of all nodes."""

RESERVED, REPORTED = 1, 2
"""How a device is marked on a map: counted for a claim by us, said to be a claim's by the claim."""

DeviceName = tuple[str, str, str]
"""Driver, pool and device."""


def describe_devices(state: ClusterState, node: str) -> list[dict[str, Any]]:
    """The devices that a node's own slices list. O(slices and claims); yields to the loop."""
    ledger = state.shared.get(DeviceLedger)
    if ledger is None:
        return []
    found: dict[DeviceName, dict[str, Any]] = {}
    for piece in _newest(state, node=node):
        pool = piece.spec.pool.name
        for device in piece.spec.devices:
            if len(found) < MAX_DEVICES:
                found[piece.spec.driver, pool, device.name] = {
                    "driver": piece.spec.driver,
                    "pool": pool,
                    "device": device.name,
                    "reported": [],
                    "reserved": [],
                    "taints": [f"{taint.key}:{taint.effect}" for taint in device.taints],
                }
    if found:
        _add_claims(state, ledger, found)
    return [found[name] for name in sorted(found)]


def drivers_of_nodes(state: ClusterState) -> list[str]:
    """The drivers of devices that belong to single nodes, by name. O(slices)."""
    if state.shared.get(DeviceLedger) is None:
        return []
    found: set[str] = set()
    for piece in list(state.objects.all(ResourceSlice).values()):
        checkpoint()
        if piece.spec.node_name and piece.spec.devices:
            found.add(piece.spec.driver)
    return sorted(found)


class DevicesOfNodes:
    """The devices of one driver, for a map: how many each node has, and which are taken.

    Made once for all nodes: O(slices and claims), and yields to the event loop. Devices that belong
    to no single node are not on it. A claim with admin access takes nothing.
    """

    def __init__(self, state: ClusterState, driver: str) -> None:
        self._marks: dict[str, dict[DeviceName, int]] = {}
        """By node and device."""
        ledger = state.shared.get(DeviceLedger)
        if ledger is None:
            return
        nodes: dict[DeviceName, str] = {}
        for piece in _newest(state, driver=driver):
            node, pool = piece.spec.node_name or "", piece.spec.pool.name
            for device in piece.spec.devices:
                name = (driver, pool, device.name)
                nodes[name] = node
                self._marks.setdefault(node, {})[name] = 0
        for _, field, name in _counted(state, ledger) if nodes else ():
            if name in nodes:
                self._marks[nodes[name]][name] |= RESERVED if field == "reserved" else REPORTED

    def count(self, node: str) -> int:
        """How many devices a node has."""
        return len(self._marks.get(node, ()))

    def reserved(self, node: str) -> int:
        """How many of them we count for some claim."""
        return sum(1 for marks in self._marks.get(node, {}).values() if marks & RESERVED)

    def marks(self, node: str) -> list[int] | None:
        """`RESERVED` and `REPORTED` of each, by name, the first of many; None: it has none."""
        own = self._marks.get(node)
        return None if own is None else [own[name] for name in sorted(own)][:MAX_DEVICES_ON_MAP]


def _newest(state: ClusterState, *, node: str = "", driver: str = "") -> list[ResourceSlice]:
    """The slices of the newest generation of each pool of single nodes: of one, or of a driver."""
    own: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in list(state.objects.all(ResourceSlice).values()):
        checkpoint()
        spec = piece.spec
        asked = spec.node_name == node if node else spec.node_name and spec.driver == driver
        if asked:
            own.setdefault((spec.driver, spec.pool.name), []).append(piece)
    newest: list[ResourceSlice] = []
    for pieces in own.values():
        last = max(piece.spec.pool.generation for piece in pieces)
        newest += [piece for piece in pieces if piece.spec.pool.generation == last]
    return newest


def _add_claims(
    state: ClusterState, ledger: DeviceLedger, found: dict[DeviceName, dict[str, Any]]
) -> None:
    for key, field, name in _counted(state, ledger, admin=True):
        if name in found:
            found[name][field].append(key)


def _counted(
    state: ClusterState, ledger: DeviceLedger, *, admin: bool = False
) -> Iterator[tuple[str, str, DeviceName]]:
    """Claims with what the watch shows as theirs (reported), and what we count (reserved)."""
    for key, watched in list(state.objects.all(ResourceClaim).items()):
        checkpoint()
        flying, newest = ledger.in_flight(watched), ledger.claim(key) or watched
        counted = flying.allocation if flying is not None else newest.status.allocation
        for field, allocation in (("reported", watched.status.allocation), ("reserved", counted)):
            for name in _names(allocation, admin):
                yield key, field, name


def _names(allocation: AllocationResult | None, admin: bool) -> Iterator[DeviceName]:
    for result in allocation.devices.results if allocation is not None else ():
        if admin or not result.admin_access:
            yield result.driver, result.pool, result.device
