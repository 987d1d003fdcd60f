"""DynamicResources: pods get devices with their node.

::

    PreEnqueue  do the pod's claims exist?
    PreFilter   which hold devices, which get some; extended resources that a class serves
    Filter      are there devices on the node for all of them?  (`judging`)
    PostFilter  take back what is out of reach                  (`deallocation`)
    Score       which alternatives would the node give?
    Reserve     take the devices, in memory                     (`ledger`)
    PreBind     write the claims, wait for the devices          (`binding`)
    Unreserve   give everything back
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from scheduler.cel import selectors_usage
from scheduler.config.plugin_args import DynamicResourcesArgs
from scheduler.devices import DeviceSelection
from scheduler.devices.budget import MOST_WORK
from scheduler.dra import device_facts
from scheduler.dra.binding import ClaimBinder, ClaimReservation, ClaimToBind
from scheduler.dra.deallocation import TakenBack, given_up, taken_back
from scheduler.dra.extended_resources import extended_resources
from scheduler.dra.hints import DeviceHints
from scheduler.dra.judging import DeviceJudge
from scheduler.dra.ledger import ledger_of
from scheduler.dra.names import PLUGIN, SPECIAL
from scheduler.dra.pod_claims import (
    UnusableClaimError,
    doomed_claims,
    reserved_for,
    usable_claims,
)
from scheduler.dra.pod_devices import PodDevices, Preparation, key_of
from scheduler.dra.shown import shown_allocation, shown_post_filter, shown_status
from scheduler.equivalence.reads import Key, Reads
from scheduler.model.devices import AllocationResult, ResourceClaim
from scheduler.model.events import Action, Event
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, SUCCESS, Status, error, unresolvable
from scheduler.model.workloads import pod_group_of
from scheduler.observe.logs import get_logger
from scheduler.plugin_api import Handle, PostFilterPreview, PostFilterResult, PreFilterResult
from scheduler.plugin_api.cycle import Cycle, Diagnosis, Slot
from scheduler.plugin_api.facts import MAX_NODES, Fact, Told
from scheduler.plugin_api.groups import IN_PASS
from scheduler.plugin_api.outlet import WriteError
from scheduler.plugin_api.scoring import normalize_by_max
from scheduler.plugin_api.traits import PluginTraits
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Rows, Scores

log = get_logger(__name__)

WORK_PER_SECOND = 500_000
"""What a search does in a second, as it counts: by work and not by time, so that a search always
ends the same way."""
RETRY_SECONDS = 5.0
"""After so long a pod is tried again whose claim could not be taken back."""

_DEVICES: Slot[PodDevices] = Slot("what the pod needs of devices")
_RESERVED: Slot[ClaimReservation] = Slot("claims of the pod that are being bound", lasting=True)
_READS = Reads(
    rows=frozenset({Aspect.DEVICES, Aspect.LABELS, Aspect.ALLOCATABLE}),
    cluster=frozenset({Aspect.DEVICE_CLASSES}),
    keys=frozenset({Aspect.RESOURCE_CLAIMS, Aspect.DEVICE_CLASSES}),
    own=True,
)


class DynamicResources:
    """Allocates devices to the claims of pods."""

    name = PLUGIN
    observes = ("ResourceClaim", "ResourceSlice", "DeviceClass")
    filter_reads = score_reads = _READS
    traits = PluginTraits(row_by_row=True, answers_for_class=True, skips_reserve=True)

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        args = args or DynamicResourcesArgs()
        state = handle.state
        self._handle = handle
        self._ledger = ledger_of(state)
        selection = DeviceSelection(handle.settings.devices.selection)
        most_work = _work(args.filter_timeout)
        self._judge = DeviceJudge(state, self._ledger, selection, most_work)
        self._preparation = Preparation(
            self._ledger, extended_resources(state), args.binding_timeout
        )
        self._binder = ClaimBinder(
            handle.profile,
            state,
            self._ledger,
            handle.write,
            handle.metrics,
            args.binding_timeout,
            handle.run.clock,
        )
        self._hints = DeviceHints(self._ledger, self._preparation)
        handle.metrics.caches.follow("device_selectors", selectors_usage)
        handle.metrics.caches.follow("devices", self._ledger.index.usage)

    # Queue

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Hold a pod until all its claims exist; not one that has to give claims up."""
        if not pod.pod.spec.resource_claims or doomed_claims(pod, self._ledger):
            return SUCCESS
        try:
            for _ in usable_claims(pod, self._ledger):
                pass
        except UnusableClaimError as verdict:
            return unresolvable(str(verdict))
        return SUCCESS

    def hints(self) -> Sequence[HintRegistration]:
        """Devices or claims have come or changed."""
        return self._hints.registrations()

    # Filter

    def concerns(self, pod: PodInfo) -> bool:
        """Whether the pod may need devices, for claims or for resources that a class serves."""
        return self._preparation.concerns(pod)

    def look_ahead(self, pod: PodInfo) -> None:
        """Search for devices on all nodes before the attempt, if that is not known."""
        devices = self._preparation.prepare(pod)
        if devices is None:
            return
        if isinstance(devices, PodDevices) and devices.left_over is None:
            self._judge.look_ahead(devices)

    def filter_key(self, pod: PodInfo) -> Key:
        """What the claims of the pod ask for, and where those can be used that hold devices."""
        devices = self._preparation.prepare(pod)
        if isinstance(devices, Status) and doomed_claims(pod, self._ledger):
            return devices, pod.uid  # PostFilter gives them up for each pod
        return None if devices is None else key_of(devices)

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Find the claims of the pod, and what they hold."""
        devices = self._preparation.prepare(cycle.pod)
        if devices is None:
            return PreFilterResult(SKIP)
        if isinstance(devices, Status):
            return PreFilterResult(devices)
        cycle.put(_DEVICES, devices)
        return PreFilterResult(SUCCESS)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes without devices for the pod, or where it cannot use those that it holds."""
        devices = cycle.find(_DEVICES)
        if devices is None:
            return np.zeros(len(rows), np.int32)
        return self._judge.codes(devices, rows)

    def filter_one(self, cycle: Cycle, row: int) -> int:
        """The same for one row."""
        devices = cycle.find(_DEVICES)
        return 0 if devices is None else self._judge.code(devices, row)

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """What each row lacks."""
        return device_facts.failures(self._ledger, self._judge, cycle, cycle.find(_DEVICES), rows)

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """What lacks everywhere."""
        return device_facts.cluster_facts(
            self._ledger, self._judge, cycle, cycle.find(_DEVICES), rows
        )

    # PostFilter

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Take a claim back that is out of reach; its change wakes the pod."""
        taken = self._taken_back(cycle, diagnosis)
        for claim in taken.give_up:
            write = self._binder.give_up(claim, cycle.pod)
            self._handle.run.spawn(self._take_back(cycle.pod, claim, write))
        if taken.candidates:
            write = self._binder.deallocate(taken.candidates[0])
            self._handle.run.spawn(self._take_back(cycle.pod, taken.candidates[0], write))
        elif taken.delete is not None:
            write = self._binder.delete(taken.delete)
            self._handle.run.spawn(self._take_back(cycle.pod, taken.delete, write))
        return PostFilterResult(taken.status, acted=taken.acts)

    def preview(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterPreview:
        """What ``post_filter`` would say; preemption is asked next."""
        taken = self._taken_back(cycle, diagnosis)
        return PostFilterPreview(taken.status.message if taken.acts else "")

    def _taken_back(self, cycle: Cycle, diagnosis: Diagnosis) -> TakenBack:
        doomed = doomed_claims(cycle.pod, self._ledger)
        if doomed:
            return given_up(doomed)
        return taken_back(cycle.state, self._judge, cycle.find(_DEVICES), diagnosis)

    async def _take_back(self, pod: PodInfo, claim: ResourceClaim, write: Any) -> None:
        """Write, and have the pod tried again if that failed; an event does so if it did not."""
        try:
            await write
        except WriteError as fault:
            key = claim.metadata.key
            log.warning(
                "Claim could not be deallocated, retrying later",
                claim=key,
                pod=pod.key,
                error=str(fault),
            )
            await asyncio.sleep(RETRY_SECONDS)
            self._handle.queue.activate([pod.key])

    # Score

    def score_key(self, pod: PodInfo) -> Key:
        """The same as for verdicts, if the pod's claims have alternatives, or by best fit."""
        devices = self._preparation.prepare(pod)
        if devices is None or not isinstance(devices, PodDevices) or not self._ranks(devices):
            return None
        return key_of(devices)

    def _ranks(self, devices: PodDevices) -> bool:
        return devices.ranks or self._judge.selection is DeviceSelection.BEST_FIT

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status:
        """Nothing to score in a cluster without devices."""
        return SKIP if cycle.find(_DEVICES) is None and self._ledger.empty else SUCCESS

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The earlier an alternative stands in its list, the better."""
        devices = cycle.find(_DEVICES)
        if devices is None or not self._ranks(devices):
            return np.zeros(len(rows), np.int64)
        return self._judge.scores(devices, rows)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """More is better."""
        return normalize_by_max(scores)

    # Reserve

    def reserve(self, cycle: Cycle, node: str) -> Status:
        """Take the devices that the pod's claims get on this node."""
        devices = cycle.find(_DEVICES)
        if devices is None or (row := cycle.state.row(node)) is None:
            return SUCCESS
        pod, group = cycle.pod, pod_group_of(cycle.pod.pod.metadata)
        given = self._given(devices, row)
        if given is None:
            return error("claim allocation not found for node")
        reservation = ClaimReservation([])
        cycle.put(_RESERVED, reservation)
        for each in devices.claims:
            allocation = given.get(each.claim.metadata.uid)
            if allocation is None and each.in_flight:
                allocation = each.allocation
            if allocation is not None:
                self._ledger.reserve(each.claim, allocation, pod, group)
            reservation.claims.append(ClaimToBind(each.claim, each.claim, allocation))
        resources = self._judge.resources_from_devices(devices, row)
        if resources:  # without any, the node's device plugins serve them all
            special = devices.special(resources)
            allocation = given[special.claim.metadata.uid]
            self._ledger.reserve(special.claim, allocation, pod, None)
            reservation.claims.append(
                ClaimToBind(special.claim, special.claim, allocation, True, special.mappings)
            )
        return SUCCESS

    def _given(self, devices: PodDevices, row: int) -> dict[str, AllocationResult] | None:
        """What claims get on a row, by uid; None if they get nothing any more."""
        claims, allocations = self._judge.allocate(devices, row)
        wanted = devices.to_allocate(self._judge.resources_from_devices(devices, row))
        if len(claims) != len(wanted):
            return None
        return {
            claim.metadata.uid: allocation
            for claim, allocation in zip(claims, allocations, strict=True)
        }

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Give back what was reserved, in memory and at the API server."""
        reservation = cycle.find(_RESERVED)
        if reservation is None:
            return
        cycle.drop(_RESERVED)
        pod = cycle.pod
        for each in reservation.claims:
            freed = self._ledger.release(each.reserved, pod)
            if freed is not None and cycle.find(IN_PASS) is None:
                self._tell_freed(freed.claim, freed.allocation)
            written = each.claim.metadata.name != SPECIAL
            if each.special and written:
                self._handle.run.spawn(self._delete(each.claim))
            elif reserved_for(each.claim, pod):
                self._handle.run.spawn(self._binder.unreserve(each.claim, pod))

    def _tell_freed(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Wake pods that may get the devices now, or share the claim."""
        held = replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=()))
        self._handle.queue.tell(Event("ResourceClaim", Action.UPDATE, held, claim, own=True))

    def _tell_overtaken(self, each: ClaimToBind) -> None:
        """Wake pods that share a claim which the watch has shown before its write was answered.

        They may have been tried in between, while the claim was still being allocated for them, and
        no other event will come.
        """
        shown = self._ledger.shown(each.claim)
        if each.allocation is not None and shown is not None:
            self._tell_freed(shown, each.allocation)

    async def _delete(self, claim: ResourceClaim) -> None:
        try:
            await self._binder.delete(claim)
        except WriteError as fault:  # the pod's next attempt finds it
            log.warning("Claim could not be deleted", claim=claim.metadata.key, error=str(fault))

    # PreBind

    def pre_bind_pre_flight(self, cycle: Cycle, node: str) -> Status:
        """Whether claims have to be written."""
        reservation = cycle.find(_RESERVED)
        return SUCCESS if reservation is not None and reservation.claims else SKIP

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        """Write the claims and wait for their devices."""
        reservation = cycle.find(_RESERVED)
        if reservation is None or not reservation.claims:
            return SUCCESS
        status = await self._binder.bind(reservation, cycle.pod, node)
        for each in reservation.claims:
            self._tell_overtaken(each)
            if each.special and status.ok and self._ledger.shown(each.claim) is None:
                self._handle.run.spawn(self._binder.confirm(each.claim))
        return status

    # Explanations

    def describe(self, cycle: Cycle, diagnosis: Diagnosis, rows: Rows) -> dict[str, Any]:
        """What claims would get on these rows, at most `MAX_NODES`, and what PostFilter would do.

        Nothing of a pod that has nothing to do with devices, in a cluster without any.
        """
        devices = cycle.find(_DEVICES)
        if devices is None and not cycle.pod.pod.spec.resource_claims and self._ledger.empty:
            return {}
        found: dict[str, Any] = {}
        held = self.pre_enqueue(cycle.pod)
        if not held.ok:
            found["preenqueue"] = shown_status(held)
        if devices is not None:
            shown = {row: self._shown(devices, row) for row in rows[:MAX_NODES].tolist()}
            allocations = {cycle.state.name(row): each for row, each in shown.items() if each}
            if allocations:
                found["allocations"] = allocations
        if not len(rows):
            found["postfilter"] = shown_post_filter(self._taken_back(cycle, diagnosis))
        return found

    def _shown(self, devices: PodDevices, row: int) -> list[dict[str, Any]]:
        node = self._handle.state.name(row)
        claims, allocations = self._judge.allocate(devices, row)
        resources = self._judge.resources_from_devices(devices, row)
        shown = []
        for claim, allocation in zip(claims, allocations, strict=True):
            special = devices.special(resources) if claim.metadata.name == SPECIAL else None
            shown.append(shown_allocation(claim, allocation, node, special))
        return shown


def _work(filter_timeout: float) -> int:
    """How much work a search may do on one node within the time-out; 0: as much as any may."""
    return min(MOST_WORK, int(filter_timeout * WORK_PER_SECOND)) if filter_timeout else MOST_WORK
