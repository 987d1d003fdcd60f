"""What of a pod the kubelet's managers look at: exclusive CPUs, pinned memory, devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from scheduler.model import quantity
from scheduler.model.meta import ResourceList
from scheduler.model.pods import Container, Pod

Role = Literal["init", "sidecar", "app"]


class ContainerDemand(msgspec.Struct, frozen=True):
    """One container, in whole CPUs, bytes and counts."""

    name: str
    role: Role
    cpus: int = 0
    memory: dict[str, int] = {}
    devices: dict[str, int] = {}
    """Everything limited that might be a device; the device manager decides which are."""


class PodDemand(msgspec.Struct, frozen=True):
    """A pod's containers in the order in which they are admitted: init containers, then apps."""

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerDemand, ...]

    @property
    def cpus(self) -> int:
        """Exclusive CPUs of the whole pod, at its peak."""
        return _peak((c.role, {"cpu": c.cpus}) for c in self.containers).get("cpu", 0)

    @property
    def memory(self) -> dict[str, int]:
        """Pinned memory of the whole pod, at its peak; what only init containers need is left out.

        The latter is what the kubelet does: it sums up by the names that app containers use.
        """
        peak = _peak((c.role, c.memory) for c in self.containers)
        named = {name for c in self.containers if c.role == "app" for name in c.memory}
        return {name: amount for name, amount in peak.items() if name in named}

    @property
    def devices(self) -> dict[str, int]:
        """Devices of the whole pod, at its peak."""
        return _peak((c.role, c.devices) for c in self.containers)


def _peak(containers: Iterable[tuple[Role, Mapping[str, int]]]) -> dict[str, int]:
    """Apps and sidecars side by side; each init container beside the sidecars before it."""
    steady: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for role, amounts in containers:
        for name, amount in amounts.items():
            if role == "init":
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + amount)
                continue
            steady[name] = steady.get(name, 0) + amount
            if role == "sidecar":
                sidecars[name] = sidecars.get(name, 0) + amount
    return {name: max(steady.get(name, 0), peak.get(name, 0)) for name in steady | peak}


def demand_of(pod: Pod) -> PodDemand:
    """Read a pod; amounts must be valid, as the API server makes sure they are."""
    metadata, spec = pod.metadata, pod.spec
    # With resources of the pod as a whole, the CPU and memory managers leave all containers alone.
    pinned = is_guaranteed(pod) and spec.resources is None
    containers = [
        *((_role(each), each) for each in spec.init_containers),
        *(("app", each) for each in spec.containers),
    ]
    return PodDemand(
        metadata.uid or metadata.key,
        metadata.namespace,
        metadata.name,
        tuple(_container(role, each, pinned) for role, each in containers),
    )


def _role(container: Container) -> Role:
    return "sidecar" if container.restart_policy == "Always" else "init"


def _container(role: str, container: Container, pinned: bool) -> ContainerDemand:
    requests = container.resources.requests
    return ContainerDemand(
        container.name,
        role,  # type: ignore[arg-type]  # one of the three words
        _whole_cpus(requests) if pinned else 0,
        {n: quantity.value(a) for n, a in requests.items() if _is_memory(n)} if pinned else {},
        {n: quantity.value(a) for n, a in container.resources.limits.items() if "/" in n},
    )


def _is_memory(name: str) -> bool:
    return name == "memory" or name.startswith("hugepages-")


def _whole_cpus(requests: ResourceList) -> int:
    millis = quantity.milli_value(requests.get("cpu", 0))
    return 0 if millis % 1000 else millis // 1000


def is_guaranteed(pod: Pod) -> bool:
    """Whether every container (or the pod as a whole) limits cpu and memory to what it requests."""
    if pod.spec.resources is not None:
        owners = [pod.spec.resources]
    else:
        listed = (*pod.spec.containers, *pod.spec.init_containers)
        owners = [container.resources for container in listed]
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    for owner in owners:
        limited = _compute(owner.limits)
        if len(limited) < 2:
            return False
        _add(limits, limited)
        _add(requests, _compute(owner.requests))
    return bool(owners) and requests == limits


def _compute(amounts: ResourceList) -> dict[str, int]:
    read = {name: quantity.parse(amounts.get(name, 0)).nanos for name in ("cpu", "memory")}
    return {name: amount for name, amount in read.items() if amount > 0}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
