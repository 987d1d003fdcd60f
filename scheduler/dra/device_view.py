"""The devices of a node for people: which claims they are reserved for, and what claims report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.devices.capacity import amount_of
from scheduler.dra.ledger import DeviceLedger
from scheduler.model.devices import AllocationResult, ResourceClaim, ResourceSlice
from scheduler.model.meta import RawQuantity
from scheduler.model.quantity import QuantityError
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState

MAX_DEVICES = 1000
"""Of one node: so many are shown one by one."""
MAX_DEVICES_ON_MAP = 64
"""The same on a map of all nodes."""

RESERVED, REPORTED, EXCLUDED = 1, 2, 4
"""How a device is marked on a map: counted for a claim by us, said to be a claim's by the claim;
free, and yet not to be had, as others have what it takes of shared counters."""

DeviceName = tuple[str, str, str]
"""Driver, pool and device."""


def describe_devices(state: ClusterState, node: str) -> list[dict[str, Any]]:
    """The devices that a node's own slices list. O(slices and claims); yields to the loop."""
    ledger = state.shared.get(DeviceLedger)
    if ledger is None:
        return []
    found: dict[DeviceName, dict[str, Any]] = {}
    pieces = _newest(state, node=node)
    for piece in pieces:
        pool = piece.spec.pool.name
        for device in piece.spec.devices:
            if len(found) < MAX_DEVICES:
                found[piece.spec.driver, pool, device.name] = {
                    "driver": piece.spec.driver,
                    "pool": pool,
                    "device": device.name,
                    "reported": [],
                    "reserved": [],
                    "excluded": False,
                    "taints": [f"{taint.key}:{taint.effect}" for taint in device.taints],
                }
    if found:
        taken = _add_claims(state, ledger, found)
        for name in _excluded(pieces, taken):
            if name in found:
                found[name]["excluded"] = True
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
        pieces = _newest(state, driver=driver)
        for piece in pieces:
            node, pool = piece.spec.node_name or "", piece.spec.pool.name
            for device in piece.spec.devices:
                name = (driver, pool, device.name)
                nodes[name] = node
                self._marks.setdefault(node, {})[name] = 0
        taken: set[DeviceName] = set()
        for _, field, name in _counted(state, ledger) if nodes else ():
            if name in nodes:
                self._marks[nodes[name]][name] |= RESERVED if field == "reserved" else REPORTED
                if field == "reserved":
                    taken.add(name)
        for name in _excluded(pieces, taken):
            self._marks[nodes[name]][name] |= EXCLUDED

    def count(self, node: str) -> int:
        """How many devices a node has."""
        return len(self._marks.get(node, ()))

    def reserved(self, node: str) -> int:
        """How many of them we count for some claim."""
        return sum(1 for marks in self._marks.get(node, {}).values() if marks & RESERVED)

    def marks(self, node: str) -> list[int] | None:
        """The marks of each, by name, the first of many; None: it has none."""
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
) -> set[DeviceName]:
    """Name the claims of each device; returns the devices that no other claim can have."""
    for key, field, name in _counted(state, ledger, admin=True):
        if name in found:
            found[name][field].append(key)
    counted = _counted(state, ledger)
    return {name for _, field, name in counted if field == "reserved" and name in found}


def _excluded(pieces: list[ResourceSlice], taken: set[DeviceName]) -> Iterator[DeviceName]:
    """Devices that nobody has and nobody can have: others have used up some counter they take of.

    O(devices). Amounts that cannot be read count for nothing: the filter says what is wrong.
    """
    left: dict[tuple[str, str, str, str], int] = {}
    takes: dict[DeviceName, dict[tuple[str, str, str, str], int]] = {}
    for piece in pieces:
        checkpoint()
        driver, pool = piece.spec.driver, piece.spec.pool.name
        for counters in piece.spec.shared_counters:
            for counter, amount in counters.counters.items():
                left[driver, pool, counters.name, counter] = _nanos(amount.value)
        for device in piece.spec.devices:
            for consumed in device.consumes_counters:
                own = takes.setdefault((driver, pool, device.name), {})
                for counter, amount in consumed.counters.items():
                    key = (driver, pool, consumed.counter_set, counter)
                    own[key] = own.get(key, 0) + _nanos(amount.value)
    for name in taken & takes.keys():
        for key, nanos in takes[name].items():
            left[key] = left.get(key, 0) - nanos
    for name, own in takes.items():
        if name not in taken and any(nanos > left.get(key, 0) for key, nanos in own.items()):
            yield name


def _nanos(amount: RawQuantity) -> int:
    try:
        return amount_of(amount).nanos
    except QuantityError:
        return 0


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
