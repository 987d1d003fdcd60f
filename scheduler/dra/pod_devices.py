"""What a pod needs of devices, as PreFilter finds it: which claims hold some, which get some."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from scheduler import machine
from scheduler.devices.demand import demand_key
from scheduler.dra import messages
from scheduler.dra.conditions import Readiness, readiness
from scheduler.dra.extended_resources import (
    ExtendedResources,
    RequestMapping,
    requests_and_mappings,
    special_claim,
)
from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.pod_claims import UnusableClaimError, reserved_for, usable_claims
from scheduler.model.devices import AllocationResult, DeviceClass, ResourceClaim
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import NodeMatcher, SelectorError, compile_node_selector
from scheduler.model.status import Status, error, unresolvable
from scheduler.model.workloads import pod_group_of

HIGHEST = 8
"""What the first alternative of a request is worth; each further one is worth one less."""


class PodClaim(msgspec.Struct, frozen=True):
    """A claim of a pod."""

    claim: ResourceClaim
    allocation: AllocationResult | None = None
    """What it holds; None if it gets something with the pod's node."""
    in_flight: bool = False
    """The allocation is that of another member of the pod's group, and not written yet."""
    matcher: NodeMatcher | None = None
    """Where what it holds can be used; None: everywhere."""
    readiness: Readiness = Readiness.READY

    @property
    def usable(self) -> bool:
        """Whether its devices are ready, or may become so."""
        return self.readiness not in (Readiness.FAILED, Readiness.LATE)


class SpecialClaim(msgspec.Struct, frozen=True):
    """The claim for those extended resources that a node gives as devices."""

    claim: ResourceClaim
    mappings: Sequence[RequestMapping]


class PodDevices:
    """The claims of a pod, and its extended resources that some class serves."""

    def __init__(
        self,
        pod: PodInfo,
        claims: Sequence[PodClaim],
        served: Mapping[str, DeviceClass],
        left_over: ResourceClaim | None,
    ) -> None:
        self.pod = pod
        self.claims = claims
        self.served = served
        """Resources in order, and the classes that serve them."""
        self.left_over = left_over
        """A claim for extended resources that an earlier attempt wrote; it has to go first."""
        self.wanting = [each.claim for each in claims if each.allocation is None]
        self.key: Hashable = None
        """What verdicts depend on (`key_of`), once it has been looked up."""
        self._specials: dict[tuple[str, ...], SpecialClaim] = {}

    @property
    def limiting(self) -> list[PodClaim]:
        """Claims that hold devices which not all nodes can use, or which are not ready in time."""
        return [
            each
            for each in self.claims
            if each.allocation is not None and (each.matcher is not None or not each.usable)
        ]

    def special(self, resources: tuple[str, ...]) -> SpecialClaim:
        """The claim for some of the served resources, on nodes where these come from devices."""
        found = self._specials.get(resources)
        if found is None:
            served = {name: self.served[name] for name in resources}
            requests, mappings = requests_and_mappings(self.pod, served)
            found = SpecialClaim(special_claim(self.pod, requests), mappings)
            self._specials[resources] = found
        return found

    def to_allocate(self, resources: tuple[str, ...]) -> list[ResourceClaim]:
        """The claims that get devices on nodes where these resources come from devices.

        A pod with claims of its own has one for extended resources too, if only an empty one.
        """
        if not self.served or not (resources or self.claims):
            return self.wanting
        return [*self.wanting, self.special(resources).claim]

    @property
    def awaited(self) -> bool:
        """Whether some device is to be made ready by its driver."""
        return any(each.readiness is Readiness.PENDING for each in self.claims)

    def held_score(self) -> int:
        """What the alternatives are worth that were chosen before."""
        return sum(_score(each.claim, each.allocation) for each in self.claims if each.allocation)

    @property
    def ranks(self) -> bool:
        """Whether some claim has alternatives: nodes are then scored."""
        return any(
            request.first_available
            for each in self.claims
            for request in each.claim.spec.devices.requests or ()
        )


def _score(claim: ResourceClaim, allocation: AllocationResult) -> int:
    taken = {result.request for result in allocation.devices.results}
    return sum(
        HIGHEST - number
        for request in claim.spec.devices.requests or ()
        if request.exactly is None
        for number, each in enumerate(request.first_available)
        if f"{request.name}/{each.name}" in taken
    )


class Preparation:
    """Looks at a pod before nodes."""

    def __init__(
        self, ledger: DeviceLedger, extended: ExtendedResources, binding_timeout: float
    ) -> None:
        self._ledger = ledger
        self._extended = extended
        self._binding_timeout = binding_timeout
        self._last: tuple[PodInfo | None, int, PodDevices | Status | None] = (None, 0, None)
        """The pod that was looked at last, at which version of the ledger, and what it needs."""

    def concerns(self, pod: PodInfo) -> bool:
        """Whether the pod may need something, by its spec and the classes that there are."""
        spec = pod.pod.spec
        return bool(spec.resource_claims) or self._extended.serves(spec)

    def prepare(self, pod: PodInfo) -> PodDevices | Status | None:
        """What the pod needs; None if nothing, a verdict if it cannot be placed anywhere.

        An attempt asks several times. Only devices that are awaited depend on the time.
        """
        if not self.concerns(pod):
            return None
        known, version, found = self._last
        if known is not pod or version != self._ledger.version:
            found = self._looked_at(pod)
            awaited = isinstance(found, PodDevices) and found.awaited
            self._last = (None if awaited else pod, self._ledger.version, found)
        return found

    def _looked_at(self, pod: PodInfo) -> PodDevices | Status | None:
        served = self._extended.served(pod)
        try:
            found = list(usable_claims(pod, self._ledger))
        except UnusableClaimError as verdict:
            return unresolvable(str(verdict))
        if not found and not served:
            return None
        left_over = self._ledger.left_over(pod) if served else None
        claims = []
        for claim in found:
            looked_at = self._look_at(pod, claim)
            if isinstance(looked_at, Status):
                return looked_at
            claims.append(looked_at)
        if (
            left_over is not None
            and left_over.status.allocation is None
            and self._ledger.in_flight(left_over) is not None
        ):
            return unresolvable(messages.in_the_process(left_over))
        return PodDevices(pod, claims, served, left_over)

    def _look_at(self, pod: PodInfo, claim: ResourceClaim) -> PodClaim | Status:
        allocation = claim.status.allocation
        if allocation is not None:
            return self._holding(claim, allocation)
        flight = self._ledger.in_flight(claim)
        if flight is not None:
            group = pod_group_of(pod.pod.metadata)
            if group is None or group != flight.group:
                return unresolvable(messages.in_the_process(claim))
            return self._holding(claim, flight.allocation, in_flight=True)
        return self._missing_class(claim) or PodClaim(claim)

    def _holding(
        self, claim: ResourceClaim, allocation: AllocationResult, *, in_flight: bool = False
    ) -> PodClaim | Status:
        try:
            path = "status.allocation.nodeSelector"
            terms = compile_node_selector(allocation.node_selector, path)
        except SelectorError as fault:
            return error(f"claim {claim.metadata.key}: {fault}")
        matcher = None if terms is None else NodeMatcher(terms=terms)
        ready = Readiness.READY
        if not in_flight:
            ready = readiness(claim, self._binding_timeout, machine.utc_now())
        return PodClaim(claim, allocation, in_flight, matcher, ready)

    def _missing_class(self, claim: ResourceClaim) -> Status | None:
        for request in claim.spec.devices.requests or ():
            if request.exactly is not None:
                named = {request.name: request.exactly.device_class_name}
            elif request.first_available:
                named = {
                    f"{request.name}/{each.name}": each.device_class_name
                    for each in request.first_available
                }
            else:
                key = claim.metadata.key
                text = f"resource claim {key}, request {request.name}: unknown request type"
                return unresolvable(text)
            for name, device_class in named.items():
                if not device_class:
                    return error(f"request {name}: unsupported request type")
                if self._ledger.device_class(device_class) is None:
                    text = f"request {name}: device class {device_class} does not exist"
                    return unresolvable(text)
        return None


def key_of(devices: PodDevices | Status | None) -> Hashable:
    """What verdicts and scores depend on besides nodes and devices; None for nothing.

    A claim that PostFilter may take back is in its pod's key, because that is done for each pod.
    There is no checkpoint, such as compiling claims has: keys of a pod are of one moment.
    """
    if devices is None:
        return None
    if isinstance(devices, Status):
        return devices
    if devices.left_over is not None:
        return "left-over", devices.left_over.metadata.uid
    if devices.key is None:
        devices.key = _key(devices)
    return devices.key


def _key(devices: PodDevices) -> Hashable:
    held = tuple(
        (each.matcher, each.readiness.value, _takes_back(each, devices.pod))
        for each in devices.claims
        if each.allocation is not None
    )
    asked = tuple(
        (name, server.metadata.name, _containers(devices.pod, name))
        for name, server in devices.served.items()
    )
    wanted = demand_key(devices.wanting) if devices.wanting else None
    return wanted, held, devices.held_score(), asked, bool(devices.claims)


def _takes_back(each: PodClaim, pod: PodInfo) -> str:
    """The uid of a claim that PostFilter may deallocate."""
    return each.claim.metadata.uid if may_deallocate(each, pod) else ""


def may_deallocate(each: PodClaim, pod: PodInfo) -> bool:
    """Whether no other pod uses what a claim holds."""
    users = each.claim.status.reserved_for
    return not each.in_flight and (not users or (len(users) == 1 and reserved_for(each.claim, pod)))


def _containers(pod: PodInfo, resource: str) -> Hashable:
    """What decides about the requests for a resource: who asks for how much, and its place."""
    spec = pod.pod.spec
    return tuple(
        (
            container.resources.requests.get(resource),
            sorted(container.resources.requests).index(resource)
            if resource in container.resources.requests
            else -1,
            number < len(spec.init_containers) and container.restart_policy != "Always",
        )
        for number, container in enumerate((*spec.init_containers, *spec.containers))
    )
