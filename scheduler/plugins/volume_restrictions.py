"""VolumeRestrictions: some disks and claims belong to one pod at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, SUCCESS, Code, Status, unresolvable
from scheduler.model.storage import PersistentVolumeClaim
from scheduler.model.volumes import ClaimUse
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle, Slot
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugins.names import VOLUME_RESTRICTIONS
from scheduler.plugins.volume_restrictions_facts import restrictions, restrictions_in_cluster
from scheduler.plugins.volumes.hints import after_claim, by_claim, claims_of
from scheduler.plugins.volumes.words import claim_not_found
from scheduler.queueing.columns import Indexed, Term, alike
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Rows
from scheduler.state.occupancy import disks_conflict

_EXCLUSIVE: Slot[tuple[str, ...]] = Slot("claims of one pod at a time")


class VolumeRestrictions:
    """Looks disks and claims up in the index of users; free for pods without them."""

    name = VOLUME_RESTRICTIONS
    observes = ("PersistentVolumeClaim",)
    DISK_TAKEN = Status(Code.UNSCHEDULABLE, ("node(s) had no available disk",), VOLUME_RESTRICTIONS)
    CLAIM_TAKEN = Status(
        Code.UNSCHEDULABLE,
        (
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
            " already in-use by another pod",
        ),
        VOLUME_RESTRICTIONS,
    )

    filter_reads = Reads(
        rows=frozenset({Aspect.DISKS}),
        cluster=frozenset({Aspect.CLAIM_USE}),
        keys=frozenset({Aspect.CLAIMS}),
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        self._objects = handle.state.objects

    def filter_key(self, pod: PodInfo) -> Key:
        """Its disks, and the claims that are missing or for one pod only, if there are any."""
        volumes = pod.volumes
        claims = tuple(filter(None, map(self._standing, volumes.claims)))
        return (volumes.disks, claims) if volumes.disks or claims else None

    def _standing(self, use: ClaimUse) -> tuple[str, str] | None:
        if use.ephemeral:
            return None
        claim = self._objects.get(PersistentVolumeClaim, use.key)
        if claim is None:
            return use.name, "missing"
        return (use.key, "exclusive") if "ReadWriteOncePod" in claim.spec.access_modes else None

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Find the claims that only one pod may use; skip pods that use nothing exclusive."""
        exclusive: list[str] = []
        for use in cycle.pod.volumes.claims:
            if use.ephemeral:
                continue
            claim = cycle.state.objects.get(PersistentVolumeClaim, use.key)
            if claim is None:
                return PreFilterResult(unresolvable(claim_not_found(use.name)))
            if "ReadWriteOncePod" in claim.spec.access_modes:
                exclusive.append(use.key)
        cycle.put(_EXCLUSIVE, tuple(exclusive))
        taken = any(map(cycle.state.volumes.claimed, exclusive))
        return PreFilterResult(SUCCESS if taken or cycle.pod.volumes.disks else SKIP)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes on which a disk is in use, then all nodes if a claim is in use."""
        volumes, exclusive = cycle.state.volumes, cycle.get(_EXCLUSIVE)
        taken = np.full(cycle.state.columns.capacity, any(map(volumes.claimed, exclusive)))
        codes = cycle.reject(taken, self.CLAIM_TAKEN)
        conflicts = list(chain.from_iterable(map(volumes.conflicts, cycle.pod.volumes.disks)))
        if conflicts:
            codes[conflicts] = cycle.state.statuses.code(self.DISK_TAKEN)
        return codes[rows]

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The claims and disks that are missing or in use."""
        return restrictions(cycle, rows, cycle.find(_EXCLUSIVE))

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """The same for the whole cluster."""
        return restrictions_in_cluster(cycle, rows, cycle.find(_EXCLUSIVE))

    def hints(self) -> Sequence[HintRegistration]:
        """A pod freed a disk or claim of this one, a node or a missing claim was added."""
        return (
            HintRegistration("Pod", Action.DELETE, self._after_delete, _by_volume),
            HintRegistration(
                "Node",
                Action.ADD,
                _after_node,
                alike(_after_node, lambda pod: bool(pod.volumes.disks)),
            ),
            HintRegistration("PersistentVolumeClaim", Action.ADD, after_claim, by_claim),
        )

    def _after_delete(self, pod: PodInfo, event: Event) -> Hint:
        gone = event.old
        if not isinstance(gone, PodInfo):
            return Hint.SKIP
        if disks_conflict(pod.volumes.disks, gone.volumes.disks):
            return Hint.QUEUE
        freed = {use.key for use in gone.volumes.claims}
        return Hint.QUEUE if any(use.key in freed for use in pod.volumes.claims) else Hint.SKIP


def _after_node(pod: PodInfo, event: Event) -> Hint:
    """A claim that another pod has, or that is missing, is so on every node."""
    return Hint.QUEUE if pod.volumes.disks else Hint.SKIP


def _by_volume() -> Indexed:
    return Indexed(_volumes_of, _volumes_freed)


def _volumes_of(pod: PodInfo) -> list[Term]:
    return [*claims_of(pod), *([[disk.identity]] for disk in pod.volumes.disks)]


def _volumes_freed(event: Event) -> Iterable[Hashable]:
    gone = event.old
    if not isinstance(gone, PodInfo):
        return ()
    claims = (use.key for use in gone.volumes.claims)
    return (*claims, *(disk.identity for disk in gone.volumes.disks))
