"""Available volumes, and capacity for new ones.

Both are indexed by storage class and follow the objects, so that a pod costs only what its claims
may get.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

import msgspec

from scheduler.model.meta import RawQuantity
from scheduler.model.nodes import NodeSelector
from scheduler.model.quantity import QuantityError, parse, value
from scheduler.model.selectors import (
    Requirement,
    SelectorError,
    compile_label_selector,
    compile_node_term,
)
from scheduler.model.storage import CSIStorageCapacity, PersistentVolume
from scheduler.model.volumes import class_of
from scheduler.observe.logs import get_logger
from scheduler.plugins.volumes.versions import differs
from scheduler.state.objects import ObjectStore

log = get_logger(__name__)

Alternatives = tuple[tuple[Requirement, ...], ...]
"""Alternative conjunctions of label requirements; one without requirements always holds."""

STORAGE = "storage"
_ANYWHERE: Alternatives = ((),)


def usable_nodes(selector: NodeSelector | None) -> Alternatives:
    """The nodes that can use a volume, by labels alone; an invalid term selects none."""
    if selector is None:
        return _ANYWHERE
    alternatives = []
    for term in selector.node_selector_terms or ():
        if term.match_expressions or term.match_fields:
            try:
                alternatives.append(compile_node_term(term, "nodeAffinity").labels)
            except SelectorError:
                continue
    return tuple(alternatives)


class AvailableVolume(msgspec.Struct, frozen=True):
    """A volume that is free, or names its claim."""

    volume: PersistentVolume
    size: int
    """In nano-units, exactly."""
    nodes: Alternatives
    label: tuple[str, str] | None
    """The label and value of the nodes that can use it, if its affinity has just one."""

    @property
    def order(self) -> tuple[int, str]:
        """Smallest first, then by name."""
        return self.size, self.volume.metadata.name


class AvailableVolumes:
    """Volumes by storage class: those that are free, and those whose ``claimRef`` names a claim."""

    def __init__(self, objects: ObjectStore) -> None:
        self._by_claim: dict[tuple[str, str], list[AvailableVolume]] = {}
        """By class and claim (empty: free); smallest first."""
        self._versions: dict[tuple[str, str], int] = {}
        """Of each entry of ``_by_claim``."""
        self._changes = 0
        for key, volume in objects.all(PersistentVolume).items():
            self._changed(key, None, volume)
        objects.subscribe(PersistentVolume, self._changed)

    def free(self, class_name: str) -> Sequence[AvailableVolume]:
        """Free volumes of a class, smallest first."""
        return self._by_claim.get((class_name, ""), ())

    def prebound(self, class_name: str, claim_key: str) -> Sequence[AvailableVolume]:
        """Volumes of a class that name this claim, smallest first."""
        return self._by_claim.get((class_name, claim_key), ())

    def versions(self, class_name: str, claim_key: str) -> tuple[int, int]:
        """Change whenever a volume that this claim may get does; 0 if there is none."""
        of = self._versions.get
        return of((class_name, ""), 0), of((class_name, claim_key), 0)

    def _changed(
        self, key: str, old: PersistentVolume | None, new: PersistentVolume | None
    ) -> None:
        before, now = _entry(old), _entry(new)
        if before is not None and now is not None and old is not None and not differs(old, new):
            place, available = now
            listed = self._by_claim[place]
            listed[bisect_left(listed, available.order, key=_order)] = available
            return
        self._changes += 1
        if before is not None:
            place, available = before
            listed = self._by_claim[place]
            del listed[bisect_left(listed, available.order, key=_order)]
            self._versions[place] = self._changes
            if not listed:
                del self._by_claim[place], self._versions[place]
        if now is not None:
            place, available = now
            insort(self._by_claim.setdefault(place, []), available, key=_order)
            self._versions[place] = self._changes


def _entry(volume: PersistentVolume | None) -> tuple[tuple[str, str], AvailableVolume] | None:
    """A volume with its class and claim; None if no claim can get it."""
    place = class_and_claim_of(volume) if volume is not None else None
    available = available_volume(volume) if volume is not None and place is not None else None
    return (place, available) if place is not None and available is not None else None


def _order(available: AvailableVolume) -> tuple[int, str]:
    return available.order


def class_and_claim_of(volume: PersistentVolume) -> tuple[str, str] | None:
    """Storage class and claim (empty: free) of a volume; None if no claim can get it."""
    reference, class_name = volume.spec.claim_ref, class_of(volume)
    if volume.metadata.deletion_timestamp is not None:
        return None
    if reference is not None:
        return class_name, f"{reference.namespace}/{reference.name}"
    return (class_name, "") if volume.status.phase == "Available" else None


def available_volume(volume: PersistentVolume) -> AvailableVolume | None:
    """A volume with what claims are compared with; None if its size is invalid."""
    affinity = volume.spec.node_affinity
    try:
        size = parse(volume.spec.capacity.get(STORAGE, 0)).nanos
    except QuantityError as fault:
        log.warning("Volume cannot be used", volume=volume.metadata.name, fault=str(fault))
        return None
    nodes = usable_nodes(affinity.required if affinity else None)
    return AvailableVolume(volume, size, nodes, _single_label(nodes))


def _single_label(nodes: Alternatives) -> tuple[str, str] | None:
    if len(nodes) == 1 and len(nodes[0]) == 1:
        (requirement,) = nodes[0]
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, next(iter(requirement.values))
    return None


class StorageSegment(msgspec.Struct, frozen=True):
    """The topology segment of one CSIStorageCapacity, and the largest volume that fits it."""

    limit: int
    nodes: tuple[Requirement, ...]
    label: tuple[str, str] | None
    """The label and value of the nodes, if it is just one."""


class StorageCapacities:
    """The CSIStorageCapacity objects by storage class."""

    def __init__(self, objects: ObjectStore) -> None:
        self._capacities: dict[str, dict[str, StorageSegment]] = {}
        self._versions: dict[str, int] = {}
        """Of each class with capacities."""
        self._changes = 0
        for key, capacity in objects.all(CSIStorageCapacity).items():
            self._changed(key, None, capacity)
        objects.subscribe(CSIStorageCapacity, self._changed)

    def of(self, class_name: str) -> Iterable[StorageSegment]:
        """The segments of a class."""
        return self._capacities.get(class_name, {}).values()

    def _changed(
        self, key: str, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None
    ) -> None:
        self._changes += 1
        if old is not None and (capacities := self._capacities.get(old.storage_class_name)):
            capacities.pop(key, None)
            self._versions[old.storage_class_name] = self._changes
            if not capacities:
                del self._capacities[old.storage_class_name], self._versions[old.storage_class_name]
        segment = _segment(new) if new is not None else None
        if new is not None and segment is not None:
            self._capacities.setdefault(new.storage_class_name, {})[key] = segment
            self._versions[new.storage_class_name] = self._changes

    def version(self, class_name: str) -> int:
        """Changes whenever the capacity of a class changes; 0 for a class without any."""
        return self._versions.get(class_name, 0)


def _segment(capacity: CSIStorageCapacity) -> StorageSegment | None:
    limit = limit_of(capacity)
    if limit is None or capacity.node_topology is None:
        return None
    try:
        selector = compile_label_selector(capacity.node_topology, "nodeTopology")
        nodes = selector.requirements
        return StorageSegment(value(limit), nodes, _single_label((nodes,)))
    except (SelectorError, QuantityError) as fault:
        log.warning(
            "CSIStorageCapacity is invalid, ignored",
            capacity=capacity.metadata.key,
            fault=str(fault),
        )
        return None


def limit_of(capacity: CSIStorageCapacity) -> RawQuantity | None:
    """The size of the largest volume that can be provisioned, if the driver says."""
    size = capacity.maximum_volume_size
    return size if size is not None else capacity.capacity
