"""Extended resources that a DeviceClass serves, and the claim that a pod's requests become.

A pod that asks for ``example.com/gpu`` gets devices of the class that names this resource, on
nodes where no device plugin offers it. The scheduler itself makes the claim: in memory while nodes
are judged, at the API server before the pod is bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

import msgspec

from scheduler.dra.names import CLASS_PREFIX, EXTENDED_CLAIM, SPECIAL
from scheduler.model.devices import (
    EXACT_COUNT,
    ClaimMeta,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from scheduler.model.meta import OwnerReference
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Container, PodSpec
from scheduler.model.quantity import QuantityError
from scheduler.model.resources import is_extended, nanos_of
from scheduler.slices import paced
from scheduler.state.cache import ClusterState
from scheduler.state.objects import ObjectStore

_NANO = 10**9


class RequestMapping(msgspec.Struct, frozen=True, rename="camel"):
    """A container's resource and the request that its devices are for, for the pod's status."""

    container_name: str
    resource_name: str
    request_name: str


class ExtendedResources:
    """Which class serves which resource. Shared by all profiles of a cluster."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._classes: dict[str, set[str]] = {}
        """By explicit resource, the classes that name it."""
        for key, found in objects.all(DeviceClass).items():
            self._changed(key, None, found)
        objects.subscribe(DeviceClass, self._changed)

    def _changed(self, key: str, old: DeviceClass | None, new: DeviceClass | None) -> None:
        for device_class, join in ((old, False), (new, True)):
            name = device_class.spec.extended_resource_name if device_class is not None else None
            if not name:
                continue
            classes = self._classes.setdefault(name, set())
            if join:
                classes.add(key)
            else:
                classes.discard(key)
                if not classes:
                    del self._classes[name]

    def server(self, resource: str) -> DeviceClass | None:
        """The class that serves a resource: of several the newest, then the first by name."""
        if resource.startswith(CLASS_PREFIX):
            return self._objects.get(DeviceClass, resource.removeprefix(CLASS_PREFIX))
        if not is_extended(resource):
            return None
        known = (self._objects.get(DeviceClass, name) for name in self._classes.get(resource, ()))
        found = sorted((each for each in known if each is not None), key=_by_name)
        return max(found, key=_age, default=None)

    def served(self, pod: PodInfo) -> dict[str, DeviceClass]:
        """The resources of a pod that some class serves, sorted by name."""
        if not self.serves(pod.pod.spec):
            return {}
        return {
            name: server
            for name, amount in sorted(pod.fit_requests.items())
            if amount and (server := self.server(name)) is not None
        }

    def serves(self, spec: PodSpec) -> bool:
        """Whether a class serves something that a pod names, be it for nothing.

        Every pod is asked about, and sums are derived later, once for equal pods.
        """
        containers = spec.containers
        if spec.init_containers:
            containers = (*spec.init_containers, *containers)
        for container in containers if len(containers) == 1 else paced(containers):
            for name in container.resources.requests:
                # No class serves a resource without a domain, and most pods ask for no other.
                if "/" in name and self._is_served(name):
                    return True
        if not spec.overhead and spec.resources is None:
            return False
        others = (spec.overhead, spec.resources.requests if spec.resources is not None else {})
        return any(map(self._is_served, chain(*others)))

    def _is_served(self, name: str) -> bool:
        return name in self._classes or name.startswith(CLASS_PREFIX)


def extended_resources(state: ClusterState) -> ExtendedResources:
    """Those of a cluster; made by the first call."""
    return state.shared.get_or_make(ExtendedResources, partial(ExtendedResources, state.objects))


def _by_name(device_class: DeviceClass) -> str:
    return device_class.metadata.name


def _age(device_class: DeviceClass) -> str:
    return device_class.metadata.creation_timestamp or ""


def special_claim(pod: PodInfo, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    """The claim for extended resources, as it is before the API server names it."""
    metadata = pod.pod.metadata
    owner = OwnerReference("Pod", metadata.name, pod.uid, True, "v1")
    return ResourceClaim(
        metadata=ClaimMeta(
            name=SPECIAL,
            namespace=metadata.namespace,
            uid=f"{pod.uid}{SPECIAL}",
            owner_references=(owner,),
            annotations={EXTENDED_CLAIM: "true"},
        ),
        spec=ResourceClaimSpec(DeviceClaim(requests=tuple(requests))),
    )


def made_for(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether a claim was made for a pod's extended resources."""
    return claim.metadata.annotations.get(EXTENDED_CLAIM) == "true" and any(
        owner.controller and owner.uid == pod.uid and owner.name == pod.pod.metadata.name
        for owner in claim.metadata.owner_references
    )


def requests_and_mappings(
    pod: PodInfo, served: Mapping[str, DeviceClass]
) -> tuple[list[DeviceRequest], list[RequestMapping]]:
    """What the claim asks for if all these resources come from devices; sorted by request name."""
    spec = pod.pod.spec
    containers = (*spec.init_containers, *spec.containers)
    short = [
        number
        for number, container in enumerate(spec.init_containers)
        if container.restart_policy != "Always"
    ]
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(served):
        found = _OfResource(resource, served[resource].metadata.name, containers, short)
        requests += found.requests
        mappings += found.mappings
    return sorted(requests, key=lambda request: request.name), mappings


class _OfResource:
    """The requests for one resource.

    Containers that run all the time have requests of their own. Init containers run before them,
    one after the other, and use devices of later containers first; the largest rest serves all of
    them.
    """

    def __init__(
        self, resource: str, class_name: str, containers: Sequence[Container], short: Sequence[int]
    ) -> None:
        self._resource = resource
        self._class_name = class_name
        self._containers = containers
        lasting: list[DeviceRequest | None] = [None] * len(containers)
        self.mappings: list[RequestMapping] = []
        for number in range(len(containers)):
            if number not in short:
                lasting[number], names = self._request(number, ())
                self._map(number, names)
        largest: DeviceRequest | None = None
        rests: set[str] = set()
        of_rests: list[tuple[int, Sequence[str]]] = []
        for number in short:
            request, names = self._request(number, lasting[number:])
            of_rests.append((number, names))
            if request is not None:
                rests.add(request.name)
                if largest is None or _count(largest) < _count(request):
                    largest = request
        for number, used in of_rests:
            self._map(
                number, [largest.name if largest and name in rests else name for name in used]
            )
        self.requests = [each for each in chain((largest,), lasting) if each is not None]

    def _map(self, number: int, names: Sequence[str]) -> None:
        container = self._containers[number].name
        self.mappings += [RequestMapping(container, self._resource, name) for name in names]

    def _request(
        self, number: int, reusable: Sequence[DeviceRequest | None]
    ) -> tuple[DeviceRequest | None, list[str]]:
        """What a container needs besides requests that it can use, and all that it then uses."""
        asked = self._containers[number].resources.requests
        wanted = _whole(asked.get(self._resource, 0))
        names: list[str] = []
        if not wanted:
            return None, names
        for request in reusable:
            if request is not None:
                wanted -= _count(request)
                names.append(request.name)
                if wanted <= 0:
                    return None, names
        name = f"container-{number}-request-{sorted(asked).index(self._resource)}"
        exactly = ExactDeviceRequest(
            device_class_name=self._class_name, allocation_mode=EXACT_COUNT, count=wanted
        )
        return DeviceRequest(name, exactly), [*names, name]


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def _whole(quantity: str | float) -> int:
    """A quantity that is a whole number; 0 for others."""
    try:
        nanos = nanos_of(quantity)
    except QuantityError:
        return 0
    return nanos // _NANO if nanos > 0 and not nanos % _NANO else 0
