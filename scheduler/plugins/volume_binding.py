"""VolumeBinding: filters nodes where a pod's claims cannot be satisfied, and binds the claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.config.plugin_args import VolumeBindingArgs
from scheduler.equivalence.reads import Key, Reads
from scheduler.model.csi_migration import migration_of
from scheduler.model.events import Action
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, SUCCESS, Code, Status, error, unresolvable
from scheduler.model.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.model.volumes import DELAYED, ClaimUse, class_of, fully_bound, made_for
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle, Slot
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugin_api.groups import IN_PASS
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import VOLUME_BINDING
from scheduler.plugins.volume_binding_facts import Searched, unusable, unusable_in_cluster
from scheduler.plugins.volumes.binder import Binder, Reservation
from scheduler.plugins.volumes.catalog import AvailableVolumes, StorageCapacities
from scheduler.plugins.volumes.hints import VolumeHints, after_claim, by_claim
from scheduler.plugins.volumes.matching import (
    PodClaims,
    PodVolumesByRow,
    VolumeSearch,
    too_long_selector,
)
from scheduler.plugins.volumes.versions import Versions
from scheduler.plugins.volumes.words import (
    UnusableVolumesError,
    claim_not_found,
    not_owner,
    selectors_too_long,
)
from scheduler.queueing.columns import ColumnFactory, HintFunction, alike
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Rows
from scheduler.state.objects import ObjectStore

REASONS = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
"""In the order of the message; several may hold for a node."""

_CLAIMS: Slot[PodClaims] = Slot("claims of the pod")
_RESERVED: Slot[Reservation] = Slot("volumes assumed for the pod", lasting=True)


class VolumeBinding:
    """Judges rows by the pod's claims, then has the PV controller bind them."""

    name = VOLUME_BINDING
    traits = PluginTraits(skips_reserve=True)
    observes = (
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
    )
    filter_reads = Reads(
        rows=frozenset({Aspect.LABELS, Aspect.NODE_DRIVERS}),
        keys=frozenset(
            {
                Aspect.VOLUMES,
                Aspect.CLAIMS,
                Aspect.STORAGE_CLASSES,
                Aspect.DRIVERS,
                Aspect.STORAGE_CAPACITIES,
            }
        ),
    )
    IMMEDIATE = unresolvable("pod has unbound immediate PersistentVolumeClaims")

    def __init__(self, args: VolumeBindingArgs | None, handle: Handle) -> None:
        timeout = (args or VolumeBindingArgs()).bind_timeout_seconds
        self._handle = handle
        objects = self._objects = handle.state.objects
        self._available = AvailableVolumes(objects)
        self._capacities = StorageCapacities(objects)
        self._versions = Versions(
            objects, PersistentVolumeClaim, PersistentVolume, StorageClass, CSIDriver
        )
        self._binder = Binder(handle.state, handle.write, timeout)
        self._hints = VolumeHints(objects)

    def filter_key(self, pod: PodInfo) -> Key:
        """Of each claim, what decides where it can be used or bound."""
        uses = dict.fromkeys(pod.volumes.claims)
        return tuple(self._claim_key(use, pod) for use in uses) if uses else None

    def _claim_key(self, use: ClaimUse, pod: PodInfo) -> Key:
        """The node affinity of its volume, or the versions of all that it may be bound to."""
        try:
            claim = _claim(use, pod, self._objects)
            if fully_bound(claim):
                return self._nodes_key(claim.spec.volume_name)
            if not _is_delayed(claim, self._objects):
                return "immediate"
        except UnusableVolumesError as verdict:
            return str(verdict)
        name, version = class_of(claim), self._versions.of
        storage_class = self._objects.get(StorageClass, name)
        return (
            use.key,
            version(PersistentVolumeClaim, use.key),
            version(StorageClass, name),
            version(CSIDriver, storage_class.provisioner if storage_class else ""),
            self._available.versions(name, use.key),
            self._capacities.version(name),
        )

    def _nodes_key(self, name: str) -> Key:
        volume = self._objects.get(PersistentVolume, name)
        if volume is None:
            return "missing"
        if migration_of(volume.spec) is not None:  # what it is translated to depends on all of it
            return name, self._versions.of(PersistentVolume, name)
        return volume.spec.node_affinity, ""

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Find the pod's claims; reject the pod if one is unbound and its binding is immediate."""
        uses = dict.fromkeys(cycle.pod.volumes.claims)
        if not uses:
            return PreFilterResult(SKIP)
        bound: list[PersistentVolumeClaim] = []
        unbound: list[PersistentVolumeClaim] = []
        try:
            for use in uses:
                claim = _claim(use, cycle.pod, self._objects)
                (bound if fully_bound(claim) else unbound).append(claim)
        except UnusableVolumesError as verdict:
            return PreFilterResult(unresolvable(str(verdict)))
        try:
            delayed = [_is_delayed(claim, self._objects) for claim in unbound]
        except UnusableVolumesError as fault:
            return PreFilterResult(error(str(fault)))
        if not all(delayed):
            return PreFilterResult(self.IMMEDIATE)
        if (too_long := too_long_selector(unbound)) is not None:
            return PreFilterResult(unresolvable(selectors_too_long(*too_long)))
        cycle.put(_CLAIMS, PodClaims(tuple(bound), tuple(unbound)))
        return PreFilterResult(SUCCESS)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes that cannot use a bound volume, or where an unbound claim finds none."""
        found = self._find(cycle, rows)
        facts = (found.node_conflict, found.no_volume, found.no_capacity, found.missing)
        kinds = sum(fact.astype(np.int32) << bit for bit, fact in enumerate(facts))
        codes: Codes = np.zeros(1 << len(facts), np.int32)
        for kind in np.unique(kinds):
            reasons = tuple(text for bit, text in enumerate(REASONS) if kind >> bit & 1)
            if reasons:
                status = Status(Code.UNRESOLVABLE, reasons, VOLUME_BINDING)
                codes[kind] = cycle.state.statuses.code(status)
        verdicts: Codes = codes[kinds]
        return verdicts

    def _find(self, cycle: Cycle, rows: Rows) -> PodVolumesByRow:
        search = VolumeSearch(cycle.state, self._available, self._capacities, rows)
        return search.find(cycle.get(_CLAIMS))

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The claims that cannot be used or bound on a row, and why."""
        return unusable(cycle, rows, self._searched(cycle, rows))

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """The same for the whole cluster."""
        return unusable_in_cluster(cycle, rows, self._searched(cycle, rows))

    def _searched(self, cycle: Cycle, rows: Rows) -> Searched | None:
        """What was found for each claim; None if PreFilter has rejected the pod."""
        claims = cycle.find(_CLAIMS)
        if claims is None:
            return None
        search = VolumeSearch(cycle.state, self._available, self._capacities, rows)
        return Searched(search, claims, search.find(claims))

    def reserve(self, cycle: Cycle, node: str) -> Status:
        """Assume the volumes that the pod gets on this node."""
        row = cycle.state.row(node)
        if self.name in cycle.skipped["filter"] or row is None:
            return SUCCESS
        if cycle.get(_CLAIMS).delayed:
            plan = self._find(cycle, np.array([row])).plan(0)
            cycle.put(_RESERVED, self._binder.assume(plan, node))
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Forget what was assumed and not written, and wake pods that may get it now.

        Not in the pass of a gang: no other pod was attempted meanwhile.
        """
        reservation = cycle.find(_RESERVED)
        undone = self._binder.forget(reservation) if reservation is not None else ()
        if cycle.find(IN_PASS) is None:
            for event in undone:
                self._handle.queue.tell(event)

    def pre_bind_pre_flight(self, cycle: Cycle, node: str) -> Status:
        """Whether claims have to be bound."""
        reservation = cycle.find(_RESERVED)
        return SUCCESS if reservation is not None and reservation.changes else SKIP

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        """Write what was assumed and wait until the claims are bound."""
        reservation = cycle.find(_RESERVED)
        if reservation is None or not reservation.changes:
            return SUCCESS
        return await self._binder.bind(reservation, cycle.pod, node)

    def hints(self) -> Sequence[HintRegistration]:
        """Events of the pod's own claims, and of nodes where these may be used."""
        came_or_changed = Action.ADD | Action.UPDATE
        hints = self._hints
        return (
            HintRegistration(
                "StorageClass", came_or_changed, hints.after_class, _alike(hints.after_class)
            ),
            HintRegistration("PersistentVolumeClaim", came_or_changed, after_claim, by_claim),
            HintRegistration(
                "PersistentVolume",
                came_or_changed | Action.DELETE,
                hints.after_volume,
                hints.by_volume,
            ),
            HintRegistration(
                "Node",
                Action.ADD | Action.NODE_LABEL,
                hints.after_node,
                _alike(hints.after_node),
            ),
            HintRegistration(
                "CSINode", came_or_changed, hints.after_csi_node, _alike(hints.after_csi_node)
            ),
            HintRegistration(
                "CSIDriver", Action.UPDATE, hints.after_driver, _alike(hints.after_driver)
            ),
            HintRegistration(
                "CSIStorageCapacity",
                came_or_changed,
                hints.after_capacity,
                _alike(hints.after_capacity),
            ),
        )


def _alike(hint: HintFunction) -> ColumnFactory:
    """Ask once for pods with the same claims."""
    return alike(hint, lambda pod: pod.volumes.claims)


def _claim(use: ClaimUse, pod: PodInfo, objects: ObjectStore) -> PersistentVolumeClaim:
    """A claim in a state in which a pod can use it, now or later."""
    claim = objects.get(PersistentVolumeClaim, use.key)
    if claim is None and use.ephemeral:
        raise UnusableVolumesError(
            "waiting for ephemeral volume controller to create the persistentvolumeclaim"
            f' "{use.name}"'
        )
    if claim is None:
        raise UnusableVolumesError(claim_not_found(use.name))
    if claim.status.phase == "Lost":
        raise UnusableVolumesError(
            f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume'
            f' "{claim.spec.volume_name}"'
        )
    if claim.metadata.deletion_timestamp is not None:
        raise UnusableVolumesError(f'persistentvolumeclaim "{use.name}" is being deleted')
    if use.ephemeral and not made_for(claim, pod.pod, pod.uid):
        raise UnusableVolumesError(not_owner(use, pod.key))
    return claim


def _is_delayed(claim: PersistentVolumeClaim, objects: ObjectStore) -> bool:
    """Whether an unbound claim waits for its pod's node; one that names a volume does not."""
    class_name = class_of(claim)
    storage_class = objects.get(StorageClass, class_name) if class_name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise UnusableVolumesError(f'VolumeBindingMode not set for StorageClass "{class_name}"')
    return storage_class.volume_binding_mode == DELAYED and not claim.spec.volume_name
