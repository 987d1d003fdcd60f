"""The devices of a node for people: which claims they are reserved for, and what claims report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.dra.ledger import DeviceLedger
from scheduler.model.devices import AllocationResult, ResourceClaim, ResourceSlice
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState

MAX_DEVICES = 1000

DeviceName = tuple[str, str, str]
"""Driver, pool and device."""


def describe_devices(state: ClusterState, node: str) -> list[dict[str, Any]]:
    """The devices that a node's own slices list. O(slices and claims); yields to the loop."""
    ledger = state.shared.get(DeviceLedger)
    if ledger is None:
        return []
    found: dict[DeviceName, dict[str, Any]] = {}
    for piece in _newest(state, node):
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


def _newest(state: ClusterState, node: str) -> list[ResourceSlice]:
    """The slices of the newest generation of each of the node's pools."""
    own: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in list(state.objects.all(ResourceSlice).values()):
        checkpoint()
        if piece.spec.node_name == node:
            own.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
    newest: list[ResourceSlice] = []
    for pieces in own.values():
        last = max(piece.spec.pool.generation for piece in pieces)
        newest += [piece for piece in pieces if piece.spec.pool.generation == last]
    return newest


def _add_claims(
    state: ClusterState, ledger: DeviceLedger, found: dict[DeviceName, dict[str, Any]]
) -> None:
    """What the watch shows as allocated (reported), and what we count (reserved)."""
    for key, watched in list(state.objects.all(ResourceClaim).items()):
        checkpoint()
        flying, newest = ledger.in_flight(watched), ledger.claim(key) or watched
        counted = flying.allocation if flying is not None else newest.status.allocation
        for field, allocation in (("reported", watched.status.allocation), ("reserved", counted)):
            for name in _names(allocation):
                if name in found:
                    found[name][field].append(key)


def _names(allocation: AllocationResult | None) -> Iterator[DeviceName]:
    for result in allocation.devices.results if allocation is not None else ():
        yield result.driver, result.pool, result.device
