"""On which nodes a pod's claims can be satisfied: by bound, available or provisioned volumes.

All rows are matched together. An unbound claim gets, on each row, the smallest available volume
that matches and can be used there, small claims before large ones. If there is none, a volume must
be provisioned for that row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.model.csi_migration import migration_of, translated_affinity
from scheduler.model.limits import MOST_SELECTOR_ENTRIES, more_entries_than, selector_entries
from scheduler.model.quantity import value
from scheduler.model.resources import nanos_of
from scheduler.model.selectors import Requirement, Selector, compile_label_selector
from scheduler.model.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from scheduler.model.volumes import NO_PROVISIONER, SELECTED_NODE, class_of, promised_to
from scheduler.plugins.volumes.catalog import (
    STORAGE,
    Alternatives,
    AvailableVolume,
    AvailableVolumes,
    StorageCapacities,
    StorageSegment,
    usable_nodes,
)
from scheduler.plugins.volumes.dealing import NONE, Deal, first_of_each
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows
from scheduler.state.labels import LabelColumn, LabelColumns

Positions = NDArray[np.intp]

_NONE = NONE
_NOWHERE = -(2**63)


class PodClaims(msgspec.Struct, frozen=True):
    """A pod's claims, each once, in the pod's order."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    """``WaitForFirstConsumer``: bound once the pod has a node."""


class Plan(msgspec.Struct, frozen=True):
    """How delayed claims are bound on one node."""

    matches: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()


class _Choice(msgspec.Struct, frozen=True):
    """The number of the volume that one claim gets on each row, or none."""

    claim: PersistentVolumeClaim
    volumes: Sequence[AvailableVolume]
    picked: Positions


class PodVolumesByRow(msgspec.Struct, frozen=True):
    """For each row the reasons against the pod, and the volumes that it would get."""

    node_conflict: Mask
    """The node affinity of a bound volume excludes the node."""
    missing: Mask
    """The volume of a bound claim does not exist."""
    no_volume: Mask
    """No volume matches a claim, and none can be provisioned."""
    no_capacity: Mask
    """There is too little capacity to provision a volume."""
    choices: tuple[_Choice, ...]

    def plan(self, position: int) -> Plan:
        """The plan for the row at a position."""
        matches, provisions = [], []
        for choice in self.choices:
            number = int(choice.picked[position])
            if number == _NONE:
                provisions.append(choice.claim)
            else:
                matches.append((choice.claim, choice.volumes[number].volume))
        return Plan(tuple(matches), tuple(provisions))


class VolumeSearch:
    """Finds volumes for one pod on some rows, in the state as it is now."""

    def __init__(
        self,
        state: ClusterState,
        volumes: AvailableVolumes,
        capacities: StorageCapacities,
        rows: Rows,
    ) -> None:
        self._state = state
        self._available = volumes
        self._capacities = capacities
        self._rows = rows
        self._nodes = _NodeFinder(state.columns.labels, rows)
        self._nothing: Positions = np.full(len(rows), _NONE)
        self._possible: dict[Hashable, tuple[Mask, Mask]] = {}
        """Where volumes can be provisioned, by class and size."""
        self._largest: dict[str, Positions] = {}
        """The largest volume of a class on each row, where drivers say so."""

    def find(self, claims: PodClaims) -> PodVolumesByRow:
        """Find volumes for all rows. Raises TranslationError, QuantityError, SelectorError."""
        node_conflict, missing = self._check_bound(claims.bound)
        no_volume, no_capacity = self._nowhere(), self._nowhere()
        pinned = [claim for claim in claims.delayed if _pinned(claim)]
        for claim in pinned:
            row = self._state.row(claim.metadata.annotations[SELECTED_NODE])
            no_volume |= self._rows != (_NONE if row is None else row)
        choices = [_Choice(claim, (), self._nothing) for claim in pinned]
        choices += self._match([claim for claim in claims.delayed if not _pinned(claim)])
        everywhere = set()
        for choice in choices:
            # Equal claims that are provisioned on all rows are looked at once.
            if choice.picked is self._nothing:
                if (wanted := _provisioned(choice.claim)) in everywhere:
                    continue
                everywhere.add(wanted)
            # Only the first reason on a row counts.
            needed = (choice.picked == _NONE) & ~no_volume & ~no_capacity
            if needed.any():
                possible, with_capacity = self.provision(choice.claim)
                no_volume |= needed & ~possible
                no_capacity |= needed & possible & ~with_capacity
        return PodVolumesByRow(node_conflict, missing, no_volume, no_capacity, tuple(choices))

    def _nowhere(self) -> Mask:
        return np.zeros(len(self._rows), np.bool_)

    # Bound claims

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim]) -> tuple[Mask, Mask]:
        usable = ~self._nowhere()
        for claim in claims:
            volume = self._state.objects.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                return ~usable, usable
            usable &= self.usable_on(volume, usable)
        return ~usable, self._nowhere()

    def usable_on(self, volume: PersistentVolume, asked: Mask) -> Mask:
        """Where a volume can be used; only ``asked`` rows need the translation to CSI."""
        affinity = volume.spec.node_affinity
        mask = self._nodes.mask(usable_nodes(affinity.required if affinity else None))
        migration = migration_of(volume.spec)
        if migration is None:
            return mask
        migrated = self._state.attachments.migrated(migration.plugin)[self._rows] & asked
        if migrated.any():
            mask = np.where(
                migrated, self._nodes.mask(usable_nodes(translated_affinity(volume))), mask
            )
        return mask

    # Claims that may get an available volume

    def _match(self, claims: Sequence[PersistentVolumeClaim]) -> list[_Choice]:
        in_order = sorted(claims, key=requested)
        by_class: dict[str, list[PersistentVolumeClaim]] = {}
        found: dict[str, _Choice] = {}
        for claim in in_order:
            named = self._named(claim)
            if named is None:
                by_class.setdefault(class_of(claim), []).append(claim)
            else:
                mask = self._nodes.mask(named.nodes)
                picked = np.where(mask, 0, _NONE)
                found[claim.metadata.key] = _Choice(claim, (named,), picked)
        for class_name, alike in by_class.items():
            for choice in self._deal(self._available.free(class_name), alike):
                found[choice.claim.metadata.key] = choice
        return [found[claim.metadata.key] for claim in in_order]

    def _named(self, claim: PersistentVolumeClaim) -> AvailableVolume | None:
        """The volume whose ``claimRef`` names a claim: it gets that one or none."""
        class_name, required = class_of(claim), ClaimRequirements(claim)
        for available in self._available.prebound(class_name, claim.metadata.key):
            if promised_to(available.volume, claim) and required.fits(available):
                return available
        return None

    def _deal(
        self, volumes: Sequence[AvailableVolume], claims: Sequence[PersistentVolumeClaim]
    ) -> list[_Choice]:
        """Free volumes for claims of their class, which are sorted by size."""
        required = [ClaimRequirements(claim) for claim in claims]
        if not volumes:
            return [_Choice(claim, volumes, self._nothing) for claim in claims]
        if len(claims) == 1:
            picked = first_of_each(self._nodes, volumes, required[0].suits, len(self._rows))
            return [_Choice(claims[0], volumes, picked)]
        wishes = suitable(volumes, required)
        deal = Deal(self._nodes, volumes, wishes)
        return [
            _Choice(claim, volumes, deal.pick(suits))
            for claim, suits in zip(claims, wishes, strict=True)
        ]

    # Claims for which a volume is provisioned

    def provision(self, claim: PersistentVolumeClaim) -> tuple[Mask, Mask]:
        """Where a volume can be provisioned for a claim, and where there is capacity for it."""
        wanted = _provisioned(claim)
        known = self._possible.get(wanted)
        if known is None:
            known = self._possible[wanted] = self._provision(claim)
        return known

    def _provision(self, claim: PersistentVolumeClaim) -> tuple[Mask, Mask]:
        objects = self._state.objects
        storage_class = objects.get(StorageClass, class_of(claim))
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return self._nowhere(), self._nowhere()
        allowed = self._nodes.mask(_allowed(storage_class.allowed_topologies))
        size = claim.spec.resources.requests.get(STORAGE)
        driver = objects.get(CSIDriver, storage_class.provisioner)
        if size is None or driver is None or not driver.spec.storage_capacity:
            return allowed, ~self._nowhere()
        most = self._largest.get(storage_class.metadata.name)
        if most is None:
            segments = self._capacities.of(storage_class.metadata.name)
            most = self._largest[storage_class.metadata.name] = self._largest_volumes(segments)
        return allowed, most >= value(size)

    def _largest_volumes(self, segments: Iterable[StorageSegment]) -> Positions:
        """For each row the size of the largest volume of a class that can be provisioned there."""
        largest: Positions = np.full(len(self._rows), _NOWHERE)
        by_label: dict[str, dict[str, int]] = {}
        for segment in segments:
            if segment.label is None:
                at = self._nodes.positions((segment.nodes,))
                largest[at] = np.maximum(largest[at], segment.limit)
            else:
                key, label = segment.label
                values = by_label.setdefault(key, {})
                values[label] = max(segment.limit, values.get(label, _NOWHERE))
        for key, values in by_label.items():
            largest = np.maximum(largest, self._nodes.spread(key, values, _NOWHERE))
        return largest


def _pinned(claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is being provisioned for a claim, for one node."""
    return SELECTED_NODE in claim.metadata.annotations


def _provisioned(claim: PersistentVolumeClaim) -> Hashable:
    """What decides where a volume can be provisioned for a claim."""
    return class_of(claim), claim.spec.resources.requests.get(STORAGE)


def requested(claim: PersistentVolumeClaim) -> int:
    """The size that a claim requests, in nano-units. Raises QuantityError."""
    return nanos_of(claim.spec.resources.requests.get(STORAGE, 0))


class ClaimRequirements:
    """What a claim requires of a volume. Raises QuantityError, SelectorError."""

    def __init__(self, claim: PersistentVolumeClaim) -> None:
        self._spec = claim.spec
        self.size = requested(claim)
        self._modes = frozenset(claim.spec.access_modes)

    @cached_property
    def _selector(self) -> Selector:
        written = self._spec.selector
        return compile_label_selector(written, "spec.selector") if written else Selector()

    @property
    def but_size(self) -> Hashable:
        """All that is required but the size: equal for claims that the same volumes suit."""
        spec = self._spec
        written = spec.selector
        selector = msgspec.json.encode(written) if written else b""
        return self._modes, selector, spec.volume_mode, spec.volume_attributes_class_name

    def fits(self, available: AvailableVolume) -> bool:
        """Whether the claim can get a volume whose ``claimRef`` names it."""
        volume = available.volume.spec
        return (
            available.size >= self.size
            and volume.volume_mode == self._spec.volume_mode
            and volume.volume_attributes_class_name == self._spec.volume_attributes_class_name
        )

    def suits(self, available: AvailableVolume) -> bool:
        """Whether the claim can get a free volume."""
        return (
            self.fits(available)
            and self._modes.issubset(available.volume.spec.access_modes)
            and self._selector.matches(available.volume.metadata.labels)
        )


def too_long_selector(claims: Sequence[PersistentVolumeClaim]) -> tuple[str, int] | None:
    """The unbound claim with the longest selector, and its entries, if all have too many.

    Each is compared with all free volumes of its class. Where there are too many requirements, the
    values in them are counted for one claim alone.
    """
    if not more_entries_than(MOST_SELECTOR_ENTRIES, *(claim.spec.selector for claim in claims)):
        return None
    many = sum(map(_requirements, claims)) > MOST_SELECTOR_ENTRIES
    longest = max(claims, key=_requirements if many else _entries)
    return longest.metadata.name, _entries(longest)


def _requirements(claim: PersistentVolumeClaim) -> int:
    selector = claim.spec.selector
    return len(selector.match_labels) + len(selector.match_expressions) if selector else 0


def _entries(claim: PersistentVolumeClaim) -> int:
    return selector_entries(claim.spec.selector)


def suitable(
    volumes: Sequence[AvailableVolume], required: Sequence[ClaimRequirements]
) -> list[Mask]:
    """Which volumes, the smallest first, suit each claim, likewise sorted.

    Volumes are compared once with claims that differ in their size.
    """
    known: dict[Hashable, Mask] = {}
    found = []
    for each in required:
        alike = known.get(each.but_size)
        if alike is None:  # those that are too small for it are so for all later ones
            suits = [each.suits(available) for available in volumes]
            alike = known[each.but_size] = np.array(suits, np.bool_)
        large = bisect_left(volumes, each.size, key=_size)
        found.append(alike & (np.arange(len(volumes)) >= large))
    return found


def _size(available: AvailableVolume) -> int:
    return available.size


def _allowed(terms: Sequence[TopologySelectorTerm]) -> Alternatives:
    """The nodes that a storage class allows; no terms: all; an empty term: none."""
    if not terms:
        return ((),)
    return tuple(
        tuple(
            Requirement(expression.key, "In", frozenset(expression.values))
            for expression in term.match_label_expressions
        )
        for term in terms
        if term.match_label_expressions
    )


class _NodeFinder:
    """Which of some rows satisfy label requirements, for many requirements and the same rows.

    Caches each result, and finds rows by the value of a label with a binary search.
    """

    def __init__(self, labels: LabelColumns, rows: Rows) -> None:
        self._labels = labels
        self._rows = rows
        self._sorted: dict[str, tuple[LabelColumn, Positions, NDArray[np.int32]]] = {}
        self._known: dict[Alternatives, Positions] = {}
        self._masks: dict[Alternatives, Mask] = {}

    def mask(self, alternatives: Alternatives) -> Mask:
        """Whether each row satisfies one of the alternatives; not to be written to."""
        known = self._masks.get(alternatives)
        if known is None:
            known = self._masks[alternatives] = np.zeros(len(self._rows), np.bool_)
            known[self.positions(alternatives)] = True
        return known

    def positions(self, alternatives: Alternatives) -> Positions:
        """The positions in ``rows`` that satisfy one of the alternatives, each once."""
        known = self._known.get(alternatives)
        if known is None:
            found = [self._satisfying(requirements) for requirements in alternatives]
            if len(found) == 1:
                known = found[0]
            else:
                known = np.unique(np.concatenate(found)) if found else np.zeros(0, np.intp)
            self._known[alternatives] = known
        return known

    def spread(self, key: str, numbers: Mapping[str, int], default: int) -> Positions:
        """For each row the number that belongs to the value of its label."""
        column = self._labels.column(key)
        by_value = np.full(len(column.values), default)
        for text, number in numbers.items():
            if (id_ := column.values.find(text)) is not None:
                by_value[id_] = number
        return by_value[column.ids[self._rows]]

    def _satisfying(self, requirements: tuple[Requirement, ...]) -> Positions:
        first = next((r for r in requirements if r.operator == "In"), None)
        if first is None:
            return np.flatnonzero(self._labels.satisfy(requirements, self._rows))
        found = self._with_values(first)
        rest = [requirement for requirement in requirements if requirement is not first]
        return found[self._labels.satisfy(rest, self._rows[found])] if rest else found

    def _with_values(self, requirement: Requirement) -> Positions:
        column, order, ids = self._sorted.get(requirement.key) or self._sort(requirement.key)
        found = [
            order[np.searchsorted(ids, number) : np.searchsorted(ids, number, "right")]
            for value in requirement.values
            if (number := column.values.find(value)) is not None
        ]
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def _sort(self, key: str) -> tuple[LabelColumn, Positions, NDArray[np.int32]]:
        column = self._labels.column(key)
        ids = column.ids[self._rows]
        order = np.argsort(ids, kind="stable")
        self._sorted[key] = column, order, ids[order]
        return self._sorted[key]
