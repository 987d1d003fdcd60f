"""VolumeZone: a volume with zone or region labels is only good for nodes with the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_SEPARATOR
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Requirement
from scheduler.model.status import SKIP, SUCCESS, Code, Status, unresolvable
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.model.volumes import DELAYED, class_of
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle, Slot
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugins.names import VOLUME_ZONE
from scheduler.plugins.volume_zone_facts import VolumePlace, places, places_in_cluster
from scheduler.plugins.volumes.hints import VolumeHints, after_claim, by_claim
from scheduler.plugins.volumes.words import (
    UnusableVolumesError,
    claim_not_found,
    class_not_found,
    volume_not_found,
)
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Mask, Rows
from scheduler.state.labels import LabelColumns
from scheduler.state.objects import ObjectStore

_GENERAL = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)

_PLACES: Slot[tuple[Requirement, ...]] = Slot("where the volumes are")


class VolumeZone:
    """Evaluates each label of a volume once per distinct value, like a node selector."""

    name = VOLUME_ZONE
    observes = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")
    ELSEWHERE = Status(Code.UNRESOLVABLE, ("node(s) had no available volume zone",), VOLUME_ZONE)

    filter_reads = Reads(
        rows=frozenset({Aspect.ZONE_LABELS}),
        keys=frozenset({Aspect.CLAIMS, Aspect.VOLUMES, Aspect.STORAGE_CLASSES}),
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        self._objects = handle.state.objects
        self._hints = VolumeHints(handle.state.objects)

    def filter_key(self, pod: PodInfo) -> Key:
        """The zones of its bound volumes, or why they are not known."""
        try:
            return self._places(pod) or None
        except UnusableVolumesError as verdict:
            return str(verdict)

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Find where the pod's bound volumes are; skip pods whose volumes do not say."""
        try:
            places = self._places(cycle.pod)
        except UnusableVolumesError as verdict:
            return PreFilterResult(unresolvable(str(verdict)))
        cycle.put(_PLACES, places)
        return PreFilterResult(SUCCESS if places else SKIP)

    def _places(self, pod: PodInfo) -> tuple[Requirement, ...]:
        places: list[Requirement] = []
        for use in pod.volumes.claims:
            if not use.ephemeral:
                volume = _volume(use.name, use.key, self._objects)
                places += places_of(volume) if volume else ()
        return tuple(places)

    def _places_by_claim(self, cycle: Cycle) -> list[VolumePlace] | None:
        """The places of each volume; None if PreFilter has rejected the pod."""
        if cycle.find(_PLACES) is None:
            return None
        found = []
        for use in cycle.pod.volumes.claims:
            volume = None if use.ephemeral else _volume(use.name, use.key, self._objects)
            if volume is not None:
                name, rows = volume.metadata.name, cycle.state.rows()
                for place in places_of(volume):
                    there = _is_in(place, cycle.state.columns.labels, rows)
                    found.append(VolumePlace(use.name, name, place, there))
        return found

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes in other places; a node without any such label is in a single-zone one."""
        labels = cycle.state.columns.labels
        elsewhere: Mask = np.zeros(len(rows), np.bool_)
        for place in cycle.get(_PLACES):
            elsewhere |= ~_is_in(place, labels, rows)
        placed: Mask = np.zeros(len(rows), np.bool_)
        for key in _LABELS:
            placed |= labels.column(key).ids[rows] != 0
        return cycle.reject(elsewhere & placed, self.ELSEWHERE)

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The places of the pod's volumes in which the node is not."""
        return places(cycle, rows, self._places_by_claim(cycle))

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """How many nodes are in each such place."""
        return places_in_cluster(cycle, rows, self._places_by_claim(cycle))

    def hints(self) -> Sequence[HintRegistration]:
        """A claim of the pod, a volume's labels, a class that binds late, or a node."""
        return (
            HintRegistration(
                "StorageClass", Action.ADD, self._after_class, alike(self._after_class)
            ),
            HintRegistration(
                "Node",
                Action.ADD | Action.NODE_LABEL,
                self._after_node,
                alike(self._after_node, lambda pod: pod.volumes.claims),
            ),
            HintRegistration(
                "PersistentVolumeClaim", Action.ADD | Action.UPDATE, after_claim, by_claim
            ),
            HintRegistration(
                "PersistentVolume",
                Action.ADD | Action.UPDATE,
                self._after_volume,
                self._hints.by_volume,
            ),
        )

    def _after_class(self, pod: PodInfo, event: Event) -> Hint:
        new = event.new
        late = isinstance(new, StorageClass) and new.volume_binding_mode == DELAYED
        return Hint.QUEUE if late else Hint.SKIP

    def _after_volume(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(new, PersistentVolume):
            return Hint.SKIP
        if isinstance(old, PersistentVolume) and places_of(old) == places_of(new):
            return Hint.SKIP
        name = new.metadata.name
        own = any(claim.spec.volume_name == name for claim in self._hints.claims(pod))
        return Hint.QUEUE if own else Hint.SKIP

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        """A node helps no pod whose volumes are in unknown zones."""
        node = event.new
        try:
            places = self._places(pod)
        except UnusableVolumesError:
            return Hint.SKIP
        if not isinstance(node, Node):
            return Hint.SKIP
        labels = node.metadata.labels
        unplaced = not any(key in labels for key in _LABELS)
        cured = unplaced or all(_has(labels, place) for place in places)
        return Hint.QUEUE if cured else Hint.SKIP


def _volume(name: str, key: str, objects: ObjectStore) -> PersistentVolume | None:
    """The volume of a claim; None if it gets one only when its pod has a node."""
    if not name:
        raise UnusableVolumesError("PersistentVolumeClaim had no name")
    claim = objects.get(PersistentVolumeClaim, key)
    if claim is None:
        raise UnusableVolumesError(claim_not_found(name))
    if claim.spec.volume_name:
        volume = objects.get(PersistentVolume, claim.spec.volume_name)
        if volume is None:
            raise UnusableVolumesError(volume_not_found(claim.spec.volume_name))
        return volume
    class_name = class_of(claim)
    if not class_name:
        raise UnusableVolumesError("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = objects.get(StorageClass, class_name)
    if storage_class is None:
        raise UnusableVolumesError(class_not_found(class_name))
    if storage_class.volume_binding_mode is None:
        raise UnusableVolumesError(f'VolumeBindingMode not set for StorageClass "{class_name}"')
    if storage_class.volume_binding_mode != DELAYED:
        raise UnusableVolumesError("PersistentVolume had no name")
    return None


def places_of(volume: PersistentVolume) -> list[Requirement]:
    """The zones and regions that a volume's labels name; a label that cannot be read is ignored."""
    places = []
    for key in _LABELS:
        if (text := volume.metadata.labels.get(key)) is not None:
            values = frozenset(value.strip() for value in text.split(ZONE_SEPARATOR))
            if "" not in values:
                places.append(Requirement(key, "In", values))
    return places


def _is_in(place: Requirement, labels: LabelColumns, rows: Rows) -> Mask:
    """Which rows are in a place; the old label of a volume may mean a node's new one."""
    column = labels.column(place.key)
    found = column.matches(place, rows)
    general = _GENERAL.get(place.key)
    if general is not None:
        today = labels.column(general).matches(Requirement(general, "In", place.values), rows)
        found = np.where(column.ids[rows] != 0, found, today)
    return found


def _has(labels: Mapping[str, str], place: Requirement) -> bool:
    """`_is_in` for the labels of one node."""
    key = place.key if place.key in labels else _GENERAL.get(place.key, place.key)
    return labels.get(key) in place.values
