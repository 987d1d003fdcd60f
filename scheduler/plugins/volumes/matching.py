"""Where a pod's claims can be satisfied: by the volumes they have, by free ones, by new ones.

Rows are judged together. A claim without a volume gets, on each row, the smallest free volume that
suits it and can be used there, small claims before large ones; if there is none, a new volume must
be possible on that row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from scheduler.model.csi_migration import migration_of, translated_affinity
from scheduler.model.quantity import parse, value
from scheduler.model.selectors import Requirement, Selector, compile_label_selector
from scheduler.model.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from scheduler.model.volumes import NO_PROVISIONER, SELECTED_NODE, class_of, promised_to
from scheduler.plugins.volumes.catalog import STORAGE, Alternatives, Offer, Offers, Rooms, reach
from scheduler.plugins.volumes.nodes import NodeFinder, Positions
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows

_NONE = -1


class PodClaims(msgspec.Struct, frozen=True):
    """A pod's claims, each once, in the pod's order."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    """Without a volume until the pod has a node."""


class Plan(msgspec.Struct, frozen=True):
    """How delayed claims are to be satisfied on a certain node."""

    matches: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()


class _Choice(msgspec.Struct, frozen=True):
    """What one claim gets on each row: the number of an offer, or none."""

    claim: PersistentVolumeClaim
    offers: Sequence[Offer]
    picked: Positions

    def ids(self) -> Positions:
        """What it gets on each row, in a way that can be compared; 0 for nothing new."""
        # The last is what _NONE points at.
        return np.array([*map(id, self.offers), 0])[self.picked]


class Outlook(msgspec.Struct, frozen=True):
    """For each row, what stands against the pod; where nothing does, what it would get."""

    out_of_reach: Mask
    """A volume that a claim has cannot be used there."""
    missing: Mask
    """A volume that a claim has does not exist."""
    unbindable: Mask
    """A claim finds no volume, and none can be made."""
    cramped: Mask
    """There is no room to make a volume."""
    choices: tuple[_Choice, ...]

    def plan(self, position: int) -> Plan:
        """What is to be done for the pod to run on the row at a position."""
        matches, provisions = [], []
        for choice in self.choices:
            number = int(choice.picked[position])
            if number == _NONE:
                provisions.append(choice.claim)
            else:
                matches.append((choice.claim, choice.offers[number].volume))
        return Plan(tuple(matches), tuple(provisions))


class Search:
    """One look for volumes, for one pod, on some rows. Reads the state as it is now."""

    def __init__(self, state: ClusterState, offers: Offers, rooms: Rooms, rows: Rows) -> None:
        self._state = state
        self._offers = offers
        self._rooms = rooms
        self._rows = rows
        self._nodes = NodeFinder(state.columns.labels, rows)

    def look(self, claims: PodClaims) -> Outlook:
        """Judge all rows. Raises TranslationError, QuantityError, SelectorError."""
        out_of_reach, missing = self._check_bound(claims.bound)
        unbindable, cramped = self._nowhere(), self._nowhere()
        pinned = [claim for claim in claims.delayed if _pinned(claim)]
        for claim in pinned:
            row = self._state.row(claim.metadata.annotations[SELECTED_NODE])
            unbindable |= self._rows != (_NONE if row is None else row)
        nothing = np.full(len(self._rows), _NONE)
        choices = [_Choice(claim, (), nothing) for claim in pinned]
        choices += self._match([claim for claim in claims.delayed if not _pinned(claim)])
        for choice in choices:
            # Only the first obstacle on a row counts.
            needed = (choice.picked == _NONE) & ~unbindable & ~cramped
            if needed.any():
                possible, roomy = self._provision(choice.claim)
                unbindable |= needed & ~possible
                cramped |= needed & possible & ~roomy
        return Outlook(out_of_reach, missing, unbindable, cramped, tuple(choices))

    def _nowhere(self) -> Mask:
        return np.zeros(len(self._rows), np.bool_)

    # Claims that have a volume

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim]) -> tuple[Mask, Mask]:
        within_reach = ~self._nowhere()
        for claim in claims:
            volume = self._state.objects.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                return ~within_reach, within_reach
            within_reach &= self._within_reach(volume, within_reach)
        return ~within_reach, self._nowhere()

    def _within_reach(self, volume: PersistentVolume, asked: Mask) -> Mask:
        """Where a volume can be used; a translation that fails matters only where it is asked."""
        affinity = volume.spec.node_affinity
        mask = self._nodes.mask(reach(affinity.required if affinity else None))
        migration = migration_of(volume.spec)
        if migration is None:
            return mask
        migrated = self._state.attachments.migrated(migration.plugin)[self._rows] & asked
        if migrated.any():
            mask = np.where(migrated, self._nodes.mask(reach(translated_affinity(volume))), mask)
        return mask

    # Claims that may get a free volume

    def _match(self, claims: Sequence[PersistentVolumeClaim]) -> list[_Choice]:
        choices: list[_Choice] = []
        for claim in sorted(claims, key=requested):
            offers = self._suitable(claim)
            choices.append(_Choice(claim, offers, self._pick(offers, choices)))
        return choices

    def _pick(self, offers: Sequence[Offer], earlier: Sequence[_Choice]) -> Positions:
        """The first offer for each row that is good there and not given to an earlier claim.

        Offers that are good for the same nodes are alternatives to each other: as many as there are
        claims will do, and the rest need no look.
        """
        depth = len(earlier) + 1
        spots: dict[str, dict[str, list[int]]] = {}
        others: dict[Alternatives, list[int]] = {}
        for number, offer in enumerate(offers):
            if offer.spot is None:
                peers = others.setdefault(offer.nodes, [])
            else:
                peers = spots.setdefault(offer.spot[0], {}).setdefault(offer.spot[1], [])
            if len(peers) < depth:
                peers.append(number)
        none = len(offers)
        ids = np.array([*map(id, offers), 0])
        taken = [choice.ids() for choice in earlier]
        picked = np.full(len(self._rows), none)
        for level in range(depth):
            for found in self._candidates(spots, others, level, none):
                for given in taken:
                    found[ids[found] == given] = none
                np.minimum(picked, found, out=picked)
        picked[picked == none] = _NONE
        return picked

    def _candidates(
        self,
        spots: Mapping[str, Mapping[str, Sequence[int]]],
        others: Mapping[Alternatives, Sequence[int]],
        level: int,
        none: int,
    ) -> Iterator[Positions]:
        """The number of an offer for each row, once for each label and each set of nodes."""
        for key, values in spots.items():
            numbers = {value: peers[level] for value, peers in values.items() if len(peers) > level}
            yield self._nodes.spread(key, numbers, none)
        for nodes, peers in others.items():
            if len(peers) > level:
                yield np.where(self._nodes.mask(nodes), peers[level], none)

    def _suitable(self, claim: PersistentVolumeClaim) -> Sequence[Offer]:
        """Offers for a claim, best first; one that is kept for it excludes all others."""
        class_name, wish = class_of(claim), Wish(claim)
        for offer in self._offers.kept(class_name, claim.metadata.key):
            if promised_to(offer.volume, claim) and wish.fits(offer):
                return [offer]
        return [offer for offer in self._offers.free(class_name) if wish.suits(offer)]

    # Claims that need a new volume

    def _provision(self, claim: PersistentVolumeClaim) -> tuple[Mask, Mask]:
        """Where a volume can be made for a claim, and where there is room for it."""
        objects = self._state.objects
        storage_class = objects.get(StorageClass, class_of(claim))
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return self._nowhere(), self._nowhere()
        allowed = self._nodes.mask(_allowed(storage_class.allowed_topologies))
        size = claim.spec.resources.requests.get(STORAGE)
        driver = objects.get(CSIDriver, storage_class.provisioner)
        if size is None or driver is None or not driver.spec.storage_capacity:
            return allowed, ~self._nowhere()
        roomy = self._nowhere()
        for nodes in self._rooms.of(storage_class.metadata.name, value(size)):
            roomy[self._nodes.positions((nodes,))] = True
        return allowed, roomy


def _pinned(claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is being made for a claim, for a certain node."""
    return SELECTED_NODE in claim.metadata.annotations


def requested(claim: PersistentVolumeClaim) -> int:
    """How much a claim asks for, in nano-units. Raises QuantityError."""
    return parse(claim.spec.resources.requests.get(STORAGE, 0)).nanos


class Wish:
    """What a claim asks of a volume. Raises QuantityError, SelectorError."""

    def __init__(self, claim: PersistentVolumeClaim) -> None:
        self._spec = claim.spec
        self._size = requested(claim)
        self._modes = frozenset(claim.spec.access_modes)

    @cached_property
    def _selector(self) -> Selector:
        written = self._spec.selector
        return compile_label_selector(written, "spec.selector") if written else Selector()

    def fits(self, offer: Offer) -> bool:
        """Whether the claim can have a volume that is kept for it."""
        volume = offer.volume.spec
        return (
            offer.size >= self._size
            and volume.volume_mode == self._spec.volume_mode
            and volume.volume_attributes_class_name == self._spec.volume_attributes_class_name
        )

    def suits(self, offer: Offer) -> bool:
        """Whether the claim can have a free volume."""
        return (
            self.fits(offer)
            and self._modes.issubset(offer.volume.spec.access_modes)
            and self._selector.matches(offer.volume.metadata.labels)
        )


def _allowed(terms: Sequence[TopologySelectorTerm]) -> Alternatives:
    """The nodes that a class allows; no terms allow all, an empty one none."""
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
