"""Writes what was reserved for a pod to its claims, and waits until the devices are ready.

For each claim, in order: add the finalizer that protects what is allocated, then write the
allocation and the pod as a consumer. That of extended resources is created first, and has the
finalizer from the start: kube-scheduler adds it by another write. Every write names the version of
the claim that it is about. After a conflict the claim is read and all checks are made again. A
claim that holds the very allocation that was to be written has it from an earlier request of ours
whose answer was lost, or from another member of the pod's group: only the consumer is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from scheduler import machine
from scheduler.dra.conditions import (
    DeviceBindingError,
    check_ready,
    has_conditions,
    is_late,
)
from scheduler.dra.extended_resources import RequestMapping
from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.names import EXTENDED_CLAIM, FINALIZER
from scheduler.dra.pod_claims import reserved_for
from scheduler.model.devices import AllocationResult, ResourceClaim
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.plugin_api.outlet import ObjectRequest, Outlet, Verb, WriteError
from scheduler.state.cache import ClusterState

log = get_logger(__name__)

KIND = "ResourceClaim"
BINDING_CONDITIONS_PENDING = "BindingConditionsPending"
"""The reason of the event when a pod waits for its devices."""
CONFLICTS = 5
"""How often a write is tried that conflicts."""
CONFLICT_SECONDS = 0.01
POLL_SECONDS = 5.0
"""How often binding conditions are checked at least; changes of claims are seen at once."""
GONE_SECONDS = 1.0
"""How often it is checked that the pod still exists."""
CONFIRM_SECONDS = 120.0
"""How long the watch may take to show a claim that was made here."""
DOUBT_SECONDS = 2.0
"""How often a claim is read of which it is not known whether it was written."""


class ClaimBindingError(Exception):
    """A claim cannot be written as planned; the pod must be scheduled again."""


class ClaimToBind(msgspec.Struct):
    """One claim of a pod that is being bound."""

    reserved: ResourceClaim
    """As it was when the node was chosen."""
    claim: ResourceClaim
    """The newest version."""
    allocation: AllocationResult | None = None
    """What it is to get; None if it holds what it needs already."""
    special: bool = False
    """It is for extended resources, and made here."""
    mappings: Sequence[RequestMapping] = ()


class ClaimReservation(msgspec.Struct):
    """All claims of a pod that is being bound."""

    claims: list[ClaimToBind]


class ClaimBinder:
    """Writes the claims of a profile's pods."""

    def __init__(
        self,
        profile: str,
        state: ClusterState,
        ledger: DeviceLedger,
        outlet: Outlet,
        metrics: Metrics,
        timeout: float,
        clock: Callable[[], float],
    ) -> None:
        self._profile = profile
        self._state = state
        self._ledger = ledger
        self._outlet = outlet
        self._timeout = timeout
        self._clock = clock
        self._creates = Children(metrics.resourceclaim_creates)
        self._waited = Children(metrics.binding_conditions_wait)
        self._awaited = Children(metrics.binding_conditions_allocations)
        self._watching: dict[str, set[asyncio.Event]] = {}
        """By the key of a claim, who waits for a change of it."""
        state.objects.subscribe(ResourceClaim, self._changed)

    async def bind(self, reservation: ClaimReservation, pod: PodInfo, node: str) -> Status:
        """Write all claims, then wait for their devices."""
        try:
            for each in reservation.claims:
                if not reserved_for(each.claim, pod):
                    await self._bind_claim(each, pod)
        except (WriteError, ClaimBindingError) as fault:
            return error(str(fault))
        if not any(has_conditions(each.claim) for each in reservation.claims):
            return SUCCESS
        note = f"waiting for binding conditions for device on node {node}"
        self._outlet.record_event(pod, "Normal", BINDING_CONDITIONS_PENDING, "Scheduling", note)
        return await self._wait(reservation, pod)

    # Writing

    async def _bind_claim(self, each: ClaimToBind, pod: PodInfo) -> None:
        if each.special:
            await self._create(each, pod)
        else:
            each.claim = self._ledger.claim(each.claim.metadata.key) or each.claim
        await self._write_until_it_holds(each, pod)
        self._ledger.wrote(each.reserved, each.claim)
        if each.special:
            await self._tell_pod(each, pod)

    async def _create(self, each: ClaimToBind, pod: PodInfo) -> None:
        metadata = pod.pod.metadata
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": KIND,
            "metadata": {
                "generateName": f"{metadata.name}-extended-resources-",
                "namespace": metadata.namespace,
                "annotations": {EXTENDED_CLAIM: "true"},
                "finalizers": [FINALIZER],
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": metadata.name,
                        "uid": pod.uid,
                        "controller": True,
                    }
                ],
            },
            "spec": plain(each.reserved.spec),
        }
        request = ObjectRequest(Verb.CREATE, KIND, f"{metadata.namespace}/", body)
        try:
            each.claim = await self._outlet.send(request)
        except WriteError as fault:
            self._creates["failure",].inc()
            text = f"create claim for extended resources {metadata.namespace}/: {fault}"
            raise ClaimBindingError(text) from fault
        self._creates["success",].inc()

    async def _write_until_it_holds(self, each: ClaimToBind, pod: PodInfo) -> None:
        for attempt in range(CONFLICTS):
            try:
                await self._write(each, pod)
                return
            except WriteError as fault:
                if not fault.conflict or attempt == CONFLICTS - 1:
                    raise
            await asyncio.sleep(CONFLICT_SECONDS)
            each.claim = await self._read(each)

    async def _read(self, each: ClaimToBind) -> ResourceClaim:
        key = each.claim.metadata.key
        try:
            found: ResourceClaim = await self._outlet.send(ObjectRequest(Verb.GET, KIND, key))
        except WriteError as fault:
            raise ClaimBindingError(f"get updated claim {key} after conflict: {fault}") from fault
        if found.metadata.uid != each.claim.metadata.uid:
            raise ClaimBindingError(f"claim {key} got deleted in the meantime")
        return found

    async def _write(self, each: ClaimToBind, pod: PodInfo) -> None:
        """Write one claim; raises WriteError with ``conflict`` if it has changed."""
        key = each.claim.metadata.key
        if each.claim.metadata.deletion_timestamp is not None:
            raise ClaimBindingError(f"claim {key} got deleted in the meantime")
        allocation = each.allocation
        if allocation is not None and each.claim.status.allocation is not None:
            if not _same(each.claim.status.allocation, allocation):
                raise ClaimBindingError(f"claim {key} got allocated elsewhere in the meantime")
            allocation = None
        if allocation is None and each.claim.status.allocation is None:
            raise ClaimBindingError(f"claim {key} got deallocated elsewhere in the meantime")
        if reserved_for(each.claim, pod):
            return
        if allocation is not None:
            if FINALIZER not in each.claim.metadata.finalizers:
                await self._add_finalizer(each)
            stamp = machine.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
            allocation = msgspec.structs.replace(allocation, allocation_timestamp=stamp)
        await self._add_consumer(each, pod, allocation)

    async def _add_finalizer(self, each: ClaimToBind) -> None:
        finalizers = [*each.claim.metadata.finalizers, FINALIZER]
        patch = _versioned(each.claim, {"finalizers": finalizers})
        try:
            each.claim = await self._patch(each.claim, patch)
        except WriteError as fault:
            text = f"add finalizer to claim {each.claim.metadata.key}: {fault}"
            raise _worded(text, fault) from fault

    async def _add_consumer(
        self, each: ClaimToBind, pod: PodInfo, allocation: AllocationResult | None
    ) -> None:
        status: dict[str, Any] = {}
        if allocation is not None:
            status["allocation"] = plain(allocation)
        consumer = {"resource": "pods", "name": pod.pod.metadata.name, "uid": pod.uid}
        known = [plain(other) for other in each.claim.status.reserved_for]
        status["reservedFor"] = [*known, consumer]
        patch = {**_versioned(each.claim), "status": status}
        try:
            each.claim = await self._patch(each.claim, patch, "status")
        except WriteError as fault:
            if fault.unknown and await self._happened(each, pod):
                return
            key = each.claim.metadata.key
            text = f"add reservation to claim {key}: {fault}"
            if allocation is not None:
                text = f"add allocation and reservation to claim {key}: {fault}"
            raise _worded(text, fault) from fault

    async def _happened(self, each: ClaimToBind, pod: PodInfo) -> bool:
        """Read a claim until it says whether it was written.

        Its devices stay reserved meanwhile: they may be the claim's by now.
        """
        key = each.claim.metadata.key
        while True:
            try:
                found = await self._outlet.send(ObjectRequest(Verb.GET, KIND, key))
            except WriteError as fault:
                if fault.gone:
                    return False
                log.debug("It is not known whether a claim was written", claim=key)
                await asyncio.sleep(DOUBT_SECONDS)
                continue
            if found.metadata.uid == each.claim.metadata.uid and reserved_for(found, pod):
                each.claim = found
                return True
            return False

    async def _patch(
        self, claim: ResourceClaim, patch: dict[str, Any], subresource: str = ""
    ) -> ResourceClaim:
        request = ObjectRequest(Verb.MERGE, KIND, claim.metadata.key, patch, subresource)
        found: ResourceClaim = await self._outlet.send(request)
        return found

    async def _tell_pod(self, each: ClaimToBind, pod: PodInfo) -> None:
        """Name the claim of extended resources in the pod's status, for its kubelet."""
        said = {
            "requestMappings": [plain(mapping) for mapping in each.mappings],
            "resourceClaimName": each.claim.metadata.name,
        }
        patch = {
            "metadata": {"uid": pod.uid},
            "status": {"extendedResourceClaimStatus": said},
        }
        request = ObjectRequest(Verb.STRATEGIC, "Pod", pod.key, patch, "status")
        try:
            await self._outlet.send(request)
        except WriteError as fault:
            text = f"update pod {pod.key} ExtendedResourceClaimStatus: {fault}"
            raise _worded(text, fault) from fault

    # Undoing

    async def unreserve(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Remove a pod from the consumers of a claim; its next attempt tries again what failed."""
        try:
            await self.give_up(claim, pod)
        except WriteError as fault:
            key = claim.metadata.key
            log.warning("Claim could not be unreserved", claim=key, pod=pod.key, error=str(fault))

    async def give_up(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Remove a pod from the consumers of a claim; raises WriteError."""
        patch = {
            "metadata": {"uid": claim.metadata.uid},
            "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]},
        }
        request = ObjectRequest(Verb.STRATEGIC, KIND, claim.metadata.key, patch, "status")
        try:
            found = await self._outlet.send(request)
        except WriteError as fault:
            if not fault.gone:
                raise
            return
        self._ledger.wrote(claim, found)

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim that was made for extended resources; raises WriteError."""
        key = claim.metadata.key
        for attempt in range(CONFLICTS):
            left = [each for each in claim.metadata.finalizers if each != FINALIZER]
            try:
                claim = await self._patch(claim, _versioned(claim, {"finalizers": left}))
                break
            except WriteError as fault:
                if fault.gone:
                    self._ledger.deleted(claim.metadata.uid, key)
                    return
                if not fault.conflict or attempt == CONFLICTS - 1:
                    raise
            await asyncio.sleep(CONFLICT_SECONDS)
            claim = await self._outlet.send(ObjectRequest(Verb.GET, KIND, key))
        body = {"preconditions": {"uid": claim.metadata.uid}}
        try:
            await self._outlet.send(ObjectRequest(Verb.DELETE, KIND, key, body))
        except WriteError as fault:
            if not fault.gone:
                raise
        self._ledger.deleted(claim.metadata.uid, key)

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take back what a claim holds; raises WriteError."""
        status = {"allocation": None, "reservedFor": None, "devices": None}
        patch = {**_versioned(claim), "status": status}
        self._ledger.wrote(claim, await self._patch(claim, patch, "status"))

    async def confirm(self, claim: ResourceClaim) -> None:
        """See that the watch shows a claim that was made here; forget it if it is gone.

        One that is deleted while a watch is down is never shown, and would hold its devices.
        """
        key = claim.metadata.key
        shown = asyncio.Event()
        self._watching.setdefault(key, set()).add(shown)
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                while self._state.objects.get(ResourceClaim, key) is None:
                    await shown.wait()
                    shown.clear()
        except TimeoutError:
            try:
                await self._outlet.send(ObjectRequest(Verb.GET, KIND, key))
            except WriteError as fault:
                if fault.gone:
                    self._ledger.deleted(claim.metadata.uid, key)
        finally:
            self._watching[key].discard(shown)
            if not self._watching[key]:
                del self._watching[key]

    # Waiting

    def _changed(self, key: str, old: object, new: object) -> None:
        for event in self._watching.get(key, ()):
            event.set()

    async def _wait(self, reservation: ClaimReservation, pod: PodInfo) -> Status:
        began = self._clock()
        result, verdict = "success", SUCCESS
        try:
            async with asyncio.timeout(self._timeout):
                while not self._ready(reservation, pod):
                    await self._something_new(reservation, pod)
        except TimeoutError:
            result = "timeout"
            verdict = error("device binding timeout: context deadline exceeded")
        except DeviceBindingError as fault:
            result, verdict = "failed", error(str(fault))
        except _DeviceTimeoutError as fault:
            result, verdict = "timeout", error(str(fault))
        except ClaimBindingError as fault:
            result, verdict = "error", error(str(fault))
        self._observe(reservation, self._clock() - began, result)
        return verdict

    def _ready(self, reservation: ClaimReservation, pod: PodInfo) -> bool:
        for each in reservation.claims:
            key = each.claim.metadata.key
            claim = self._ledger.claim(key)
            if claim is None:
                raise ClaimBindingError(f'could not find ResourceClaim "{key}"')
            each.claim = claim
            if not check_ready(claim):
                if is_late(claim, self._timeout, machine.utc_now()):
                    name = claim.metadata.name
                    raise _DeviceTimeoutError(f"device binding timeout: claim={name}")
                return False
        return True

    async def _something_new(self, reservation: ClaimReservation, pod: PodInfo) -> None:
        """Wait until a claim has changed, or for a while; raises if the pod is gone."""
        changed = asyncio.Event()
        keys = {each.claim.metadata.key for each in reservation.claims}
        for key in keys:
            self._watching.setdefault(key, set()).add(changed)
        try:
            for _ in range(int(POLL_SECONDS / GONE_SECONDS)):
                try:
                    async with asyncio.timeout(GONE_SECONDS):
                        await changed.wait()
                        return
                except TimeoutError:
                    if self._state.pod(pod.uid) is None:
                        raise ClaimBindingError("the pod is gone") from None
        finally:
            for key in keys:
                self._watching[key].discard(changed)
                if not self._watching[key]:
                    del self._watching[key]

    def _observe(self, reservation: ClaimReservation, seconds: float, result: str) -> None:
        for each in reservation.claims:
            allocation = each.claim.status.allocation
            for device in allocation.devices.results if allocation is not None else ():
                self._waited[self._profile, device.driver, result].observe(seconds)
                if device.binding_conditions:
                    self._awaited[self._profile, device.driver, result].inc()


def plain(value: Any) -> Any:
    """What JSON makes of a value: lists, not tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))


class _DeviceTimeoutError(Exception):
    """The devices of a claim are not ready in time."""


def _versioned(claim: ResourceClaim, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """A patch of one version of a claim."""
    metadata = claim.metadata
    said = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return {"metadata": {**said, **(more or {})}}


def _worded(text: str, fault: WriteError) -> WriteError:
    return WriteError(text, conflict=fault.conflict, gone=fault.gone)


def _same(held: AllocationResult, wanted: AllocationResult) -> bool:
    """Whether a claim holds the devices that it was to get, in the same shares."""
    return [_identity(each) for each in held.devices.results] == [
        _identity(each) for each in wanted.devices.results
    ]


def _identity(result: Any) -> tuple[str | None, ...]:
    return result.request, result.driver, result.pool, result.device, result.share_id
