"""Carries out the plan for a pod's claims: assume, write, wait for the PV controller, or undo.

The PV controller binds claims. A scheduler only requests it: the volume's ``claimRef`` names the
claim, or the claim's annotation names the node for which a volume is to be provisioned. The binder
then waits until the claim is bound, or cannot be bound any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from scheduler.model.csi_migration import TranslationError, migration_of, translated_affinity
from scheduler.model.events import Action, Event
from scheduler.model.nodes import CSINode, Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error
from scheduler.model.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim
from scheduler.model.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE, fully_bound, promised_to
from scheduler.plugin_api.outlet import Outlet, WriteError
from scheduler.plugins.volumes.catalog import usable_nodes
from scheduler.plugins.volumes.matching import Plan
from scheduler.plugins.volumes.words import claim_not_found, volume_not_found
from scheduler.state.attachments import migrated_on
from scheduler.state.cache import ClusterState

LONGEST_NAP_SECONDS = 1.0
"""Deleted pods and nodes cause no event of volumes, so they are checked this often."""

_Thing = PersistentVolume | PersistentVolumeClaim


class ClaimChange(msgspec.Struct):
    """The change for one claim."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None
    """The volume that it gets; None if one is provisioned."""
    new: _Thing
    """The changed volume, or else the changed claim."""
    patch: dict[str, Any] | None
    """The request that changes it; None if it needs no change."""
    written: bool = False

    @property
    def old(self) -> _Thing:
        """The volume, or else the claim, before the change."""
        return self.volume or self.claim


class Reservation(msgspec.Struct):
    """What is assumed for one pod."""

    changes: list[ClaimChange] = []


class BindingError(Exception):
    """The claims cannot be bound as planned; the pod must be scheduled again."""


class Binder:
    """All reservations of a profile. The calls for one pod come in order."""

    def __init__(self, state: ClusterState, outlet: Outlet, timeout: float) -> None:
        self._state = state
        self._outlet = outlet
        self._timeout = timeout
        self._waiting: dict[tuple[type, str], set[asyncio.Event]] = {}
        state.objects.subscribe(PersistentVolume, self._volume_changed)
        state.objects.subscribe(PersistentVolumeClaim, self._claim_changed)

    def assume(self, plan: Plan, node: str) -> Reservation:
        """Assume the changed volumes and claims in the object store."""
        changes = [_match(claim, volume) for claim, volume in plan.matches]
        changes += [_provision(claim, node) for claim in plan.provisions]
        for change in changes:
            if change.patch is not None:
                self._state.objects.assume(change.old.metadata.key, change.new)
        return Reservation(changes)

    def forget(self, reservation: Reservation) -> list[Event]:
        """Undo ``assume``, except for what was written already. Returns the events of that."""
        undone = []
        for change in reservation.changes:
            if change.patch is None or change.written:
                continue
            kind, key = type(change.new), change.old.metadata.key
            self._state.objects.forget(key, change.new)
            now = self._state.objects.get(kind, key)
            if now is not None and now is not change.new:
                undone.append(Event(kind.__name__, Action.UPDATE, change.new, now, own=True))
        return undone

    async def bind(self, reservation: Reservation, pod: PodInfo, node: str) -> Status:
        """Write what was assumed, and wait until all claims are bound, or cannot be."""
        try:
            for change in reservation.changes:
                await self._write(change)
        except WriteError as fault:
            return error(str(fault))
        try:
            async with asyncio.timeout(self._timeout):
                while not self._bound(reservation, pod, node):
                    await self._something_new(reservation)
        except TimeoutError:
            return error("binding volumes: context deadline exceeded")
        except BindingError as verdict:
            return error(f"binding volumes: {verdict}")
        return SUCCESS

    async def _write(self, change: ClaimChange) -> None:
        if change.patch is not None:
            old = change.old
            await self._outlet.patch(type(old).__name__, old.metadata.key, change.patch)
            change.written = True

    # Waiting

    def _volume_changed(self, key: str, old: object, new: object) -> None:
        self._wake(PersistentVolume, key)

    def _claim_changed(self, key: str, old: object, new: object) -> None:
        self._wake(PersistentVolumeClaim, key)

    def _wake(self, kind: type, key: str) -> None:
        for event in self._waiting.get((kind, key), ()):
            event.set()

    async def _something_new(self, reservation: Reservation) -> None:
        """Wait until an object of the reservation has changed, or for a moment."""
        changed = asyncio.Event()
        keys = set(self._watched(reservation))
        for key in keys:
            self._waiting.setdefault(key, set()).add(changed)
        try:
            async with asyncio.timeout(LONGEST_NAP_SECONDS):
                await changed.wait()
        except TimeoutError:
            return
        finally:
            for key in keys:
                self._waiting[key].discard(changed)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _watched(self, reservation: Reservation) -> Iterator[tuple[type, str]]:
        for change in reservation.changes:
            yield PersistentVolumeClaim, change.claim.metadata.key
            if change.volume is not None:
                yield PersistentVolume, change.volume.metadata.name
            claim = self._claim(change)
            if claim is not None and claim.spec.volume_name:
                yield PersistentVolume, claim.spec.volume_name

    # Checks against what the API server has, not what is assumed

    def _claim(self, change: ClaimChange) -> PersistentVolumeClaim | None:
        return self._state.objects.confirmed(PersistentVolumeClaim, change.claim.metadata.key)

    def _bound(self, reservation: Reservation, pod: PodInfo, name: str) -> bool:
        """Whether all claims are bound. Raises BindingError if they will never be."""
        node = self._state.node(name)
        if node is None:
            raise BindingError(f'failed to get node "{name}": node "{name}" not found')
        if self._state.pod(pod.uid) is None:
            pod_name = pod.pod.metadata.name
            raise BindingError(f'pod does not exist any more: pod "{pod_name}" not found')
        return all(
            self._provided(change, node)
            if change.volume is None
            else self._matched(change, change.volume, node)
            for change in reservation.changes
        )

    def _on_its_way(self, change: ClaimChange, current: _Thing) -> bool:
        """Whether the watch has yet to report what was written for this claim."""
        same_version = current.metadata.resource_version == change.old.metadata.resource_version
        if not same_version or current == change.new:
            return False
        seen = self._state.objects.get(type(current), current.metadata.key)
        return change.written or seen is not current

    def _matched(self, change: ClaimChange, old: PersistentVolume, node: Node) -> bool:
        name = old.metadata.name
        volume = self._state.objects.confirmed(PersistentVolume, name)
        if volume is None:
            raise BindingError(f"failed to check binding: {volume_not_found(name)}")
        claim = self._claim(change)
        if claim is None:
            missing = claim_not_found(change.claim.metadata.name)
            raise BindingError(f"failed to check binding: {missing}")
        if self._on_its_way(change, volume):
            return False
        self._check_reach(volume, node)
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            raise BindingError(f'ClaimRef got reset for pv "{name}"')
        return fully_bound(claim)

    def _provided(self, change: ClaimChange, node: Node) -> bool:
        name = change.claim.metadata.name
        claim = self._claim(change)
        if claim is None:
            raise BindingError(f"failed to check provisioning pvc: {claim_not_found(name)}")
        if self._on_its_way(change, claim):
            return False
        if not claim.metadata.annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != node.name:
            # The provisioner failed on that node and requests another one.
            raise BindingError(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = self._state.objects.confirmed(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                return False
            self._check_reach(volume, node)
        return fully_bound(claim)

    def _check_reach(self, volume: PersistentVolume, node: Node) -> None:
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity else None
        migration = migration_of(volume.spec)
        csi_node = self._state.objects.get(CSINode, node.name)
        if migration is not None and migration.plugin in migrated_on(csi_node):
            try:
                required = translated_affinity(volume)
            except TranslationError as fault:
                raise BindingError(f"failed to translate pv to csi: {fault}") from fault
        labels = node.metadata.labels
        if not any(
            all(requirement.accepts(labels.get(requirement.key)) for requirement in alternative)
            for alternative in usable_nodes(required)
        ):
            raise BindingError(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.name}":'
                " no matching NodeSelectorTerms"
            )


def _match(claim: PersistentVolumeClaim, volume: PersistentVolume) -> ClaimChange:
    """Bind a volume to a claim, as the PV controller would."""
    wanted, given = claim.metadata, volume.spec.claim_ref
    annotations = dict(volume.metadata.annotations)
    if not promised_to(volume, claim):
        annotations.setdefault(BOUND_BY_CONTROLLER, "yes")
    if given is not None and given.uid == wanted.uid and annotations == volume.metadata.annotations:
        return ClaimChange(claim, volume, volume, None)
    reference = ObjectReference("PersistentVolumeClaim", wanted.namespace, wanted.name, wanted.uid)
    new = msgspec.structs.replace(
        volume,
        metadata=msgspec.structs.replace(volume.metadata, annotations=annotations),
        spec=msgspec.structs.replace(volume.spec, claim_ref=reference),
    )
    patch = {
        "metadata": {
            "resourceVersion": volume.metadata.resource_version,
            "annotations": annotations,
        },
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": reference.kind,
                "namespace": reference.namespace,
                "name": reference.name,
                "uid": reference.uid,
                "resourceVersion": wanted.resource_version,
            }
        },
    }
    return ClaimChange(claim, volume, new, patch)


def _provision(claim: PersistentVolumeClaim, node: str) -> ClaimChange:
    """Request a volume that can be used on a node."""
    metadata = claim.metadata
    if metadata.annotations.get(SELECTED_NODE) == node:
        return ClaimChange(claim, None, claim, None)
    annotations = {**metadata.annotations, SELECTED_NODE: node}
    new = msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(metadata, annotations=annotations)
    )
    patch = {
        "metadata": {
            "resourceVersion": metadata.resource_version,
            "annotations": {SELECTED_NODE: node},
        }
    }
    return ClaimChange(claim, None, new, patch)
