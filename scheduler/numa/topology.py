"""A NodeResourceTopology object as the scheduler understands it: cells, policy, fingerprint.

Both versions of the API are read: the older one says the policy in ``topologyPolicies`` alone, the
newer one in attributes, which win. No object can make this fail: fields that cannot be read count
as absent, and zones that are no NUMA cells are skipped.
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
"""Far more than a kubelet can align; one object must not widen the columns of all nodes."""
DEFAULT_MAX_CELLS = 8
"""The kubelet's default for ``max-allowable-numa-nodes``."""
_HIGHEST_MAX_CELLS = 1024
_CELL_NAME = re.compile(r"node-\+?([0-9]{1,9})")
_LONGEST_TEXT = 256
"""Longer names of cells and longer amounts are not read, so that caches of them stay small."""
_NUMBER = re.compile(r"\+?[0-9]{1,9}")


class ManagerPolicy(enum.Enum):
    """The policy of a kubelet's Topology Manager."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE = "single-numa-node"


class ManagerScope(enum.Enum):
    """The scope of the Topology Manager: it aligns each container, or the pod as a whole."""

    CONTAINER = "container"
    POD = "pod"


_DEPRECATED: Mapping[str, tuple[ManagerPolicy, ManagerScope]] = {
    f"{word}{level}Level": (policy, scope)
    for word, policy in (
        ("SingleNUMANode", ManagerPolicy.SINGLE),
        ("Restricted", ManagerPolicy.RESTRICTED),
        ("BestEffort", ManagerPolicy.BEST_EFFORT),
    )
    for level, scope in (("Container", ManagerScope.CONTAINER), ("Pod", ManagerScope.POD))
}


class Cell(msgspec.Struct, frozen=True):
    """One NUMA cell: what it has, what pods may get, and what is left of that."""

    id: int
    capacity: Amounts
    allocatable: Amounts
    available: Amounts
    costs: Mapping[int, int]
    """Distances to other cells, as far as the object gives them."""

    @property
    def name(self) -> str:
        """The name of its zone in the object."""
        return f"node-{self.id}"


class Topology(msgspec.Struct, frozen=True):
    """One version of a node's object. Cells are in the order of their ids."""

    policy: ManagerPolicy = ManagerPolicy.NONE
    scope: ManagerScope = ManagerScope.CONTAINER
    max_cells: int = DEFAULT_MAX_CELLS
    cells: tuple[Cell, ...] = ()
    fingerprint: str = ""
    method: str = ALL

    @property
    def enforced(self) -> bool:
        """Whether the kubelet refuses pods that it cannot align."""
        return self.policy in (ManagerPolicy.SINGLE, ManagerPolicy.RESTRICTED)

    def same_machine(self, other: Topology) -> bool:
        """Whether both differ at most in what is available, and in the fingerprint."""
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
    """Read a NodeResourceTopology."""
    policy, scope, max_cells = _manager(nrt.topology_policies, nrt.attributes)
    text, method = _fingerprint(nrt)
    return Topology(policy, scope, max_cells, _cells(nrt.zones), text, method)


def _manager(
    deprecated: Iterable[str], attributes: Iterable[TopologyAttribute]
) -> tuple[ManagerPolicy, ManagerScope, int]:
    first = next(iter(deprecated), "")
    policy, scope = _DEPRECATED.get(first, (ManagerPolicy.NONE, ManagerScope.CONTAINER))
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


_POLICIES = {policy.value: policy for policy in ManagerPolicy}
_SCOPES = {scope.value: scope for scope in ManagerScope}


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
