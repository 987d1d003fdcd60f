"""What storage has on offer: volumes that no claim holds, and room for new ones.

Both are kept by storage class and change with the objects, so that a pod looks only at what its
claims may get.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

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
"""Any one of several conjunctions of label requirements; one without requirements always holds."""

STORAGE = "storage"
_ANYWHERE: Alternatives = ((),)


def reach(selector: NodeSelector | None) -> Alternatives:
    """The nodes that can use a volume, by labels alone; a term that cannot be read selects none."""
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


class Offer(msgspec.Struct, frozen=True):
    """A volume that some claim may get."""

    volume: PersistentVolume
    size: int
    """In nano-units, exactly."""
    nodes: Alternatives
    spot: tuple[str, str] | None
    """The one label and value that decide which nodes can use it, if it is as simple as that."""

    @property
    def order(self) -> tuple[int, str]:
        """Smallest first; names make the order of equals certain."""
        return self.size, self.volume.metadata.name


class Offers:
    """Volumes by class: those that are free, and those kept for a certain claim."""

    def __init__(self, objects: ObjectStore) -> None:
        self._shelves: dict[tuple[str, str], list[Offer]] = {}
        """By class and claim (empty: free); smallest first."""
        self._versions: dict[tuple[str, str], int] = {}
        """Of each shelf that is not empty."""
        self._changes = 0
        for key, volume in objects.all(PersistentVolume).items():
            self._changed(key, None, volume)
        objects.subscribe(PersistentVolume, self._changed)

    def free(self, class_name: str) -> Sequence[Offer]:
        """Free volumes of a class, smallest first."""
        return self._shelves.get((class_name, ""), ())

    def kept(self, class_name: str, claim_key: str) -> Sequence[Offer]:
        """Volumes of a class that name this claim, smallest first."""
        return self._shelves.get((class_name, claim_key), ())

    def versions(self, class_name: str, claim_key: str) -> tuple[int, int]:
        """Others whenever a volume comes, goes or changes that this claim may get; 0 for none."""
        of = self._versions.get
        return of((class_name, ""), 0), of((class_name, claim_key), 0)

    def _changed(
        self, key: str, old: PersistentVolume | None, new: PersistentVolume | None
    ) -> None:
        before, now = _placed(old), _placed(new)
        if before is not None and now is not None and old is not None and not differs(old, new):
            place, offer = now
            shelf = self._shelves[place]
            shelf[bisect_left(shelf, offer.order, key=_order)] = offer
            return
        self._changes += 1
        if before is not None:
            place, offer = before
            shelf = self._shelves[place]
            del shelf[bisect_left(shelf, offer.order, key=_order)]
            self._versions[place] = self._changes
            if not shelf:
                del self._shelves[place], self._versions[place]
        if now is not None:
            place, offer = now
            insort(self._shelves.setdefault(place, []), offer, key=_order)
            self._versions[place] = self._changes


def _placed(volume: PersistentVolume | None) -> tuple[tuple[str, str], Offer] | None:
    """A volume as it is offered, and on which shelf; None if nobody can get it."""
    place = shelf_of(volume) if volume is not None else None
    offer = offer_of(volume) if volume is not None and place is not None else None
    return (place, offer) if place is not None and offer is not None else None


def _order(offer: Offer) -> tuple[int, str]:
    return offer.order


def shelf_of(volume: PersistentVolume) -> tuple[str, str] | None:
    """Where a volume belongs: class and claim; None if nobody can get it."""
    reference, class_name = volume.spec.claim_ref, class_of(volume)
    if volume.metadata.deletion_timestamp is not None:
        return None
    if reference is not None:
        return class_name, f"{reference.namespace}/{reference.name}"
    return (class_name, "") if volume.status.phase == "Available" else None


def offer_of(volume: PersistentVolume) -> Offer | None:
    """A volume as it is offered; None if its size cannot be read."""
    affinity = volume.spec.node_affinity
    try:
        size = parse(volume.spec.capacity.get(STORAGE, 0)).nanos
    except QuantityError as fault:
        log.warning("Volume cannot be used", volume=volume.metadata.name, fault=str(fault))
        return None
    nodes = reach(affinity.required if affinity else None)
    return Offer(volume, size, nodes, _spot(nodes))


def _spot(nodes: Alternatives) -> tuple[str, str] | None:
    if len(nodes) == 1 and len(nodes[0]) == 1:
        (requirement,) = nodes[0]
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, next(iter(requirement.values))
    return None


class Room(msgspec.Struct, frozen=True):
    """Where volumes up to a size can be made."""

    limit: int
    nodes: tuple[Requirement, ...]


class Rooms:
    """Room for new volumes, by class."""

    def __init__(self, objects: ObjectStore) -> None:
        self._rooms: dict[str, dict[str, Room]] = {}
        self._versions: dict[str, int] = {}
        """Of each class that has rooms."""
        self._changes = 0
        for key, capacity in objects.all(CSIStorageCapacity).items():
            self._changed(key, None, capacity)
        objects.subscribe(CSIStorageCapacity, self._changed)

    def of(self, class_name: str, size: int) -> Iterator[tuple[Requirement, ...]]:
        """The nodes for which a volume of this size can be made, as label requirements."""
        for room in self._rooms.get(class_name, {}).values():
            if room.limit >= size:
                yield room.nodes

    def _changed(
        self, key: str, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None
    ) -> None:
        self._changes += 1
        if old is not None and (rooms := self._rooms.get(old.storage_class_name)):
            rooms.pop(key, None)
            self._versions[old.storage_class_name] = self._changes
            if not rooms:
                del self._rooms[old.storage_class_name], self._versions[old.storage_class_name]
        room = _room(new) if new is not None else None
        if new is not None and room is not None:
            self._rooms.setdefault(new.storage_class_name, {})[key] = room
            self._versions[new.storage_class_name] = self._changes

    def version(self, class_name: str) -> int:
        """Another one whenever the room of a class changes; 0 for a class without rooms."""
        return self._versions.get(class_name, 0)


def _room(capacity: CSIStorageCapacity) -> Room | None:
    limit = limit_of(capacity)
    if limit is None or capacity.node_topology is None:
        return None
    try:
        selector = compile_label_selector(capacity.node_topology, "nodeTopology")
        return Room(value(limit), selector.requirements)
    except (SelectorError, QuantityError) as fault:
        log.warning("Capacity ignored", capacity=capacity.metadata.key, fault=str(fault))
        return None


def limit_of(capacity: CSIStorageCapacity) -> RawQuantity | None:
    """The size of the largest volume that can be made, as far as it is known."""
    size = capacity.maximum_volume_size
    return size if size is not None else capacity.capacity
