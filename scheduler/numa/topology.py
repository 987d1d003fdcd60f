"""A NodeResourceTopology object as the scheduler understands it: cells, policy, fingerprint.

Both versions of the API are read: the older one says the policy in ``topologyPolicies`` alone, the
newer one in attributes, which win. Nothing in an object can make this fail: what cannot be
understood counts as absent, and a zone that is no NUMA cell is passed over.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from scheduler.model import quantity
from scheduler.model.meta import RawQuantity
from scheduler.model.nodes import NodeResourceTopology, TopologyAttribute, TopologyZone
from scheduler.model.resources import CPU, MAX_AMOUNT, Amounts
from scheduler.numa.fingerprint import ALL

POLICY_ATTRIBUTE = "topologyManagerPolicy"
SCOPE_ATTRIBUTE = "topologyManagerScope"
MAX_CELLS_ATTRIBUTE = "topologyManagerMaxNUMANodes"
FINGERPRINT_ATTRIBUTE = "nodeTopologyPodsFingerprint"
FINGERPRINT_METHOD_ATTRIBUTE = "nodeTopologyPodsFingerprintMethod"
FINGERPRINT_ANNOTATION = "topology.node.k8s.io/fingerprint"

CELL_TYPE = "Node"
MAX_CELLS = 128
"""Far more than a kubelet can align; one object must not make columns wide for all nodes."""
DEFAULT_MAX_CELLS = 8
"""What a kubelet aligns unless told otherwise."""
_HIGHEST_MAX_CELLS = 1024
_CELL_NAME = re.compile(r"node-\+?([0-9]{1,9})")
_LONGEST_TEXT = 256
"""No name of a cell, and no amount, is longer; what is remembered of longer ones would add up."""
_NUMBER = re.compile(r"\+?[0-9]{1,9}")


class Policy(enum.Enum):
    """What a kubelet's Topology Manager insists on."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE = "single-numa-node"


class Scope(enum.Enum):
    """What it aligns: each container, or the pod as a whole."""

    CONTAINER = "container"
    POD = "pod"


_DEPRECATED: Mapping[str, tuple[Policy, Scope]] = {
    f"{word}{level}Level": (policy, scope)
    for word, policy in (
        ("SingleNUMANode", Policy.SINGLE),
        ("Restricted", Policy.RESTRICTED),
        ("BestEffort", Policy.BEST_EFFORT),
    )
    for level, scope in (("Container", Scope.CONTAINER), ("Pod", Scope.POD))
}


class Cell(msgspec.Struct, frozen=True):
    """One NUMA cell: what it has in all, what pods may get, and what is left of that."""

    id: int
    capacity: Amounts
    allocatable: Amounts
    available: Amounts
    costs: Mapping[int, int]
    """Distances to other cells, as far as they are known."""

    @property
    def name(self) -> str:
        """As the zone is called in the object."""
        return f"node-{self.id}"


class Topology(msgspec.Struct, frozen=True):
    """What one version of a node's object says. Cells are in the order of their ids."""

    policy: Policy = Policy.NONE
    scope: Scope = Scope.CONTAINER
    max_cells: int = DEFAULT_MAX_CELLS
    cells: tuple[Cell, ...] = ()
    fingerprint: str = ""
    method: str = ALL

    @property
    def aligns(self) -> bool:
        """Whether the kubelet refuses pods that it cannot align."""
        return self.policy in (Policy.SINGLE, Policy.RESTRICTED)

    def like(self, other: Topology) -> bool:
        """Whether both describe the same machine and manager, whatever is in use."""
        return (
            (self.policy, self.scope, self.max_cells)
            == (other.policy, other.scope, other.max_cells)
            and len(self.cells) == len(other.cells)
            and all(
                mine.id == theirs.id
                and mine.allocatable == theirs.allocatable
                and mine.capacity == theirs.capacity
                for mine, theirs in zip(self.cells, other.cells, strict=True)
            )
        )


def topology_of(nrt: NodeResourceTopology) -> Topology:
    """Read an object."""
    policy, scope, max_cells = _manager(nrt.topology_policies, nrt.attributes)
    text, method = _fingerprint(nrt)
    return Topology(policy, scope, max_cells, _cells(nrt.zones), text, method)


def _manager(
    deprecated: Iterable[str], attributes: Iterable[TopologyAttribute]
) -> tuple[Policy, Scope, int]:
    first = next(iter(deprecated), "")
    policy, scope = _DEPRECATED.get(first, (Policy.NONE, Scope.CONTAINER))
    max_cells = DEFAULT_MAX_CELLS
    for attribute in attributes:
        value = attribute.value
        if attribute.name == POLICY_ATTRIBUTE and value in _POLICIES:
            policy = _POLICIES[value]
        elif attribute.name == SCOPE_ATTRIBUTE and value in _SCOPES:
            scope = _SCOPES[value]
        elif attribute.name == MAX_CELLS_ATTRIBUTE and _NUMBER.fullmatch(value) and int(value) > 1:
            max_cells = min(int(value), _HIGHEST_MAX_CELLS)
    return policy, scope, max_cells


_POLICIES = {policy.value: policy for policy in Policy}
_SCOPES = {scope.value: scope for scope in Scope}


def _fingerprint(nrt: NodeResourceTopology) -> tuple[str, str]:
    """The fingerprint and its method; an attribute wins, even if it is empty."""
    given: dict[str, str] = {}
    for attribute in nrt.attributes:
        given.setdefault(attribute.name, attribute.value)
    if FINGERPRINT_ATTRIBUTE in given:
        return given[FINGERPRINT_ATTRIBUTE], given.get(FINGERPRINT_METHOD_ATTRIBUTE, ALL)
    return nrt.metadata.annotations.get(FINGERPRINT_ANNOTATION, ""), ALL


def _cells(zones: Iterable[TopologyZone]) -> tuple[Cell, ...]:
    cells: dict[int, Cell] = {}
    for zone in zones:
        number = cell_id(zone.name)
        if zone.type == CELL_TYPE and number is not None and number not in cells:
            cells[number] = _cell(number, zone)
    return tuple(cells[number] for number in sorted(cells)[:MAX_CELLS])


def cell_id(name: str) -> int | None:
    """The id in a zone's name; None if it is not the name of a cell."""
    return _cell_id(name) if len(name) <= _LONGEST_TEXT else None


@lru_cache(maxsize=1024)
def _cell_id(name: str) -> int | None:
    match = _CELL_NAME.fullmatch(name)
    return int(match[1]) if match else None


def _cell(number: int, zone: TopologyZone) -> Cell:
    capacity, allocatable, available = Amounts(), Amounts(), Amounts()
    for resource in zone.resources:
        name = resource.name
        whole = name == CPU
        capacity[name] = _amount(whole, resource.capacity)
        allocatable[name] = _amount(whole, resource.allocatable)
        available[name] = _amount(whole, resource.available)
    costs = ((cell_id(cost.name), cost.value) for cost in zone.costs)
    known = {other: value for other, value in costs if other is not None}
    return Cell(number, capacity, allocatable, available, known)


def _amount(milli: bool, text: RawQuantity) -> int:
    """An amount in the unit of columns; what cannot be read, or is negative, counts as none."""
    if isinstance(text, str) and len(text) > _LONGEST_TEXT:
        return 0
    return _short_amount(milli, text)


@lru_cache(maxsize=8192)
def _short_amount(milli: bool, text: RawQuantity) -> int:
    try:
        nanos = quantity.parse(text).nanos
    except quantity.QuantityError:
        return 0
    # One below the cap: a request at the cap fits nowhere.
    return min(max(0, nanos // (10**6 if milli else 10**9)), MAX_AMOUNT - 1)


def describe(name: str, amount: int) -> str:
    """An amount as people write it."""
    if name == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    return str(amount)
