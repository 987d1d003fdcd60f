"""NodeVolumeLimits: a node can attach only so many volumes of a CSI driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.csi_migration import TranslationError, migration_of
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import CSINode
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, SUCCESS, Code, Status
from scheduler.model.storage import PersistentVolumeClaim, VolumeAttachment
from scheduler.model.volumes import made_for
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugins.names import NODE_VOLUME_LIMITS
from scheduler.plugins.node_volume_limits_facts import limits_in_cluster, limits_reached
from scheduler.plugins.volumes.hints import after_claim, by_claim
from scheduler.plugins.volumes.words import UnusableVolumesError, claim_not_found, not_owner
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.attachments import Attachable, claimed_volume, inline_volumes, limits_of
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Mask, Rows
from scheduler.state.objects import ObjectStore


class NodeVolumeLimits:
    """Compares counts with limits, driver by driver; counts are kept by the state."""

    name = NODE_VOLUME_LIMITS
    observes = (
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "VolumeAttachment",
    )
    FULL = Status(Code.UNSCHEDULABLE, ("node(s) exceed max volume count",), NODE_VOLUME_LIMITS)

    filter_reads = Reads(
        rows=frozenset({Aspect.ATTACHED, Aspect.NODE_DRIVERS}),
        keys=frozenset({Aspect.CLAIMS, Aspect.VOLUMES, Aspect.STORAGE_CLASSES, Aspect.ATTACHED}),
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        self._objects = handle.state.objects
        self._attachments = handle.state.attachments

    def filter_key(self, pod: PodInfo) -> Key:
        """What it would attach, or why that cannot be told.

        Of volumes that no pod on a node uses only the number matters, so that pods of which each
        has a volume of its own are alike.
        """
        if not pod.volumes.attachable:
            return None
        try:
            wanted = _wanted(pod, self._objects)
        except (UnusableVolumesError, TranslationError) as verdict:
            return str(verdict)
        used = frozenset(volume for volume in wanted if self._attachments.users(volume))
        unused = _by_driver(wanted - used)
        return (used, frozenset(unused.items())) if wanted else None

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Skip pods that attach nothing."""
        return PreFilterResult(SUCCESS if cycle.pod.volumes.attachable else SKIP)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes that some driver's volumes would push over its limit.

        An inline volume that its driver cannot serve is a fault, as in kube-scheduler, unless no
        node here has drivers at all.
        """
        try:
            wanted = _wanted(cycle.pod, cycle.state.objects)
        except UnusableVolumesError as verdict:
            status = Status(Code.UNRESOLVABLE, (str(verdict),), NODE_VOLUME_LIMITS)
            return cycle.reject(np.ones(len(rows), np.bool_), status)
        except TranslationError:
            if any(_has_drivers(cycle.state, row) for row in rows.tolist()):
                raise
            return np.zeros(len(rows), np.int32)
        attachments = cycle.state.attachments
        full: Mask = np.zeros(len(rows), np.bool_)
        for driver, number in _by_driver(wanted).items():
            new = np.full(cycle.state.columns.capacity, number)
            for volume in wanted:
                # A volume that another pod uses there is attached already; few are used at all.
                if volume.driver == driver and (users := attachments.users(volume)):
                    new[list(users)] -= 1
            sums = attachments.counts(driver) + new
            full |= ((new > 0) & (sums > attachments.limits(driver)))[rows]
        return cycle.reject(full, self.FULL)

    def filter_one(self, cycle: Cycle, row: int) -> int:
        """The same for one row; only a full node takes the long way."""
        attachments = cycle.state.attachments
        try:
            wanted = _wanted(cycle.pod, cycle.state.objects)
        except (UnusableVolumesError, TranslationError):
            return int(self.filter(cycle, np.array([row]))[0])
        new = _by_driver(v for v in wanted if row not in attachments.users(v))
        for driver, number in new.items():
            if attachments.counts(driver).item(row) + number > attachments.limits(driver).item(row):
                return int(self.filter(cycle, np.array([row]))[0])
        return 0

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The drivers whose limit the pod would exceed, with their counts."""
        return limits_reached(cycle, rows, self._attaching(cycle))

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """How many nodes have reached the limit of each driver."""
        return limits_in_cluster(cycle, rows, self._attaching(cycle))

    @staticmethod
    def _attaching(cycle: Cycle) -> set[Attachable] | None:
        """What the pod would attach; None if that cannot be told."""
        try:
            return _wanted(cycle.pod, cycle.state.objects)
        except (UnusableVolumesError, TranslationError):
            return None

    def hints(self) -> Sequence[HintRegistration]:
        """More may be attached, less is attached, or a claim that was missing came."""
        return (
            HintRegistration("CSINode", Action.ADD),
            HintRegistration(
                "CSINode", Action.UPDATE, self._after_csi_node, alike(self._after_csi_node)
            ),
            HintRegistration("Pod", Action.DELETE, self._after_delete, alike(self._after_delete)),
            HintRegistration("PersistentVolumeClaim", Action.ADD, after_claim, by_claim),
            HintRegistration(
                "VolumeAttachment",
                Action.DELETE,
                self._after_detachment,
                alike(self._after_detachment, _detached),
            ),
        )

    def _after_csi_node(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(old, CSINode) or not isinstance(new, CSINode):
            return Hint.QUEUE
        limits = limits_of(old)
        grown = any(limit > limits.get(driver, 0) for driver, limit in limits_of(new).items())
        # A driver that no longer sets a limit has room for any number.
        lifted = limits.keys() - limits_of(new).keys()
        return Hint.QUEUE if grown or lifted else Hint.SKIP

    def _after_delete(self, pod: PodInfo, event: Event) -> Hint:
        gone = event.old
        if not isinstance(gone, PodInfo) or not gone.volumes.attachable:
            return Hint.SKIP
        placed = gone.node_name or gone.pod.status.nominated_node_name
        return Hint.QUEUE if placed else Hint.SKIP

    def _after_detachment(self, pod: PodInfo, event: Event) -> Hint:
        gone = event.old
        if pod.volumes.claims:
            return Hint.QUEUE
        attacher = gone.spec.attacher if isinstance(gone, VolumeAttachment) else ""
        return Hint.QUEUE if attacher in _drivers(pod) else Hint.SKIP


def _detached(pod: PodInfo) -> frozenset[str] | None:
    """Whose detachments may help a pod; None for those of all drivers."""
    return None if pod.volumes.claims else _drivers(pod)


def _drivers(pod: PodInfo) -> frozenset[str]:
    found = (migration_of(volume) for volume in pod.volumes.inline)
    return frozenset(migration.driver for migration in found if migration)


def _by_driver(volumes: Iterable[Attachable]) -> dict[str, int]:
    """How many volumes each driver has; a ``Counter`` takes several times as long for a few."""
    numbers: dict[str, int] = {}
    for volume in volumes:
        numbers[volume.driver] = numbers.get(volume.driver, 0) + 1
    return numbers


def _has_drivers(state: ClusterState, row: int) -> bool:
    return state.objects.get(CSINode, state.name(row)) is not None


def _wanted(pod: PodInfo, objects: ObjectStore) -> set[Attachable]:
    """All that a pod to be placed would attach: it cannot run without any of its claims."""
    volumes = inline_volumes(pod)
    for use in pod.volumes.claims:
        claim = objects.get(PersistentVolumeClaim, use.key)
        if claim is None:
            raise UnusableVolumesError(f"looking up PVC {use.key}: {claim_not_found(use.name)}")
        if use.ephemeral and not made_for(claim, pod.pod, pod.uid):
            raise UnusableVolumesError(not_owner(use, pod.key))
        volume = claimed_volume(claim, objects.get)
        if volume is not None:
            volumes.add(volume)
    return volumes
