"""Devices: pools from slices, what claims hold, and the search for devices that serve claims.

- `index`: `DeviceIndex`, the way in: events, verdicts of all nodes, allocations.
- `inventory`: nodes, slices and claims in, what each node sees out.
- `grouping`: nodes whose devices are the same to a demand.
- `pools`: what a node sees of the slices that drivers publish.
- `shapes`: what devices have in common when only their names differ, interned.
- `selectors`: verdicts of CEL selectors, one per selector and distinct value of what it reads.
- `capacity`: how much of a shared device a request takes.
- `allocated`: what claims hold.
- `segments`: the devices that nodes see, as columns.
- `demand`: the claims of a pod, compiled; classes of devices that they cannot tell apart.
- `constraints`: attributes that must match or be distinct.
- `board`: the devices of one node, and what a search has taken of them.
- `search`: kube-scheduler's depth-first order, without its exponential detours.
- `pruning`: choices that cannot lead to a solution, found without trying them.
- `lookahead`: what later requests need, asked before earlier ones are tried in all ways.
- `budget`: how much work a search may do.
- `best_fit`: the order of candidates that leaves the least stranded.
- `results`: what is stored in a claim.
- `faults`: what goes wrong, said once for all nodes and pods that share an answer.
"""

from __future__ import annotations

from scheduler.devices.demand import Demand
from scheduler.devices.faults import DeviceError
from scheduler.devices.index import (
    INVALID_POOLS,
    NOTHING_FITS,
    DeviceIndex,
    DeviceSelection,
    Judgement,
)
from scheduler.devices.inventory import Touched
from scheduler.devices.search import SearchOutcome

__all__ = [
    "INVALID_POOLS",
    "NOTHING_FITS",
    "Demand",
    "DeviceError",
    "DeviceIndex",
    "DeviceSelection",
    "Judgement",
    "SearchOutcome",
    "Touched",
]
