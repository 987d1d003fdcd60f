"""What a kubelet pins for a pod: the amounts that must come from one NUMA cell, as it counts them.

Only *exclusive* resources are pinned: whole CPUs of Guaranteed pods, memory and huge pages of
Guaranteed pods (by the static memory manager), and devices of pods of any class. Shared CPUs and
the memory of other pods come from wherever they are free. When a pod states resources as a whole
(``spec.resources``), the kubelet pins none of its CPUs and memory.

Containers are admitted one after the other, init containers first. What a plain init container
held is taken over by those after it; sidecars keep theirs.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from scheduler.model.meta import ResourceList
from scheduler.model.pods import Container, Pod, ResourceRequirements
from scheduler.model.quantity import QuantityError
from scheduler.model.resources import (
    CPU,
    MAX_AMOUNT,
    MEMORY,
    AmountError,
    Amounts,
    is_extended,
    nanos_of,
)

_HUGEPAGES = "hugepages-"
_MILLI = 1000
_MICRO = 10**6
_NANO = 10**9


class Role(enum.Enum):
    """When a container runs; the values are the words of verdicts."""

    INIT = "init container"
    SIDECAR = "sidecar container"
    APP = "container"
    POD = "pod"


class Need(msgspec.Struct, frozen=True):
    """What one cell must give to one container, or (role ``POD``) to the whole pod at its peak."""

    role: Role
    amounts: tuple[tuple[str, int], ...]
    """By resource name; milli-CPUs, bytes, counts. Never zero."""


class Pinning(msgspec.Struct, frozen=True):
    """All that a kubelet pins for a pod. Equal values are treated equally everywhere."""

    guaranteed: bool = False
    containers: tuple[Need, ...] = ()
    """Those that need a cell, in the order of their admission: for the container scope."""
    pod: tuple[Need, ...] = ()
    """At most one need: for the pod scope."""
    shown: tuple[tuple[str, int], ...] = ()
    """What agents see of it while it runs: that of sidecars and app containers."""
    hidden: tuple[tuple[str, int], ...] = ()
    """What init containers held beyond that. The kubelet keeps it for as long as the pod lives,
    but shows that to no agent."""
    fault: str = ""
    """Why an amount could not be read, starting with its field; nothing is pinned then."""

    def needs(self, *, whole_pod: bool) -> tuple[Need, ...]:
        """What is aligned one after the other in a scope."""
        return self.pod if whole_pod else self.containers

    @property
    def pins(self) -> bool:
        """Whether there is anything to align."""
        return bool(self.containers)


NOTHING_PINNED = Pinning()


def is_memory(name: str) -> bool:
    """Whether the memory manager looks after a resource."""
    return name == MEMORY or name.startswith(_HUGEPAGES)


def pinning_of(pod: Pod) -> Pinning:
    """What a kubelet would pin for a pod; never raises."""
    try:
        return _read(pod)
    except AmountError as fault:
        return Pinning(fault=str(fault))


def _read(pod: Pod) -> Pinning:
    guaranteed = is_guaranteed(pod)
    managed = guaranteed and pod.spec.resources is None
    read = [
        (role, _pinned(container.resources, managed, path))
        for role, container, path in _in_order(pod)
    ]
    needs = tuple(Need(role, tuple(sorted(amounts.items()))) for role, amounts in read if amounts)
    if not needs:
        return Pinning(guaranteed=True) if guaranteed else NOTHING_PINNED
    steady = _sum(amounts for role, amounts in read if role is not Role.INIT)
    peak = _peak(read, steady)
    hidden = {
        name: amount - steady.get(name, 0)
        for name, amount in peak.items()
        if amount > steady.get(name, 0)
    }
    # The memory manager adds up only what app containers name as well.
    named = {name for role, amounts in read if role is Role.APP for name in amounts}
    whole = {name: n for name, n in peak.items() if name in named or not is_memory(name)}
    return Pinning(
        guaranteed,
        needs,
        (Need(Role.POD, tuple(sorted(whole.items()))),) if whole else (),
        tuple(sorted(steady.items())),
        tuple(sorted(hidden.items())),
    )


def _in_order(pod: Pod) -> Iterator[tuple[Role, Container, str]]:
    """The containers in the order of their admission, each with the path of its resources."""
    for i, container in enumerate(pod.spec.init_containers):
        role = Role.SIDECAR if container.restart_policy == "Always" else Role.INIT
        yield role, container, f"spec.initContainers[{i}].resources"
    for i, container in enumerate(pod.spec.containers):
        yield Role.APP, container, f"spec.containers[{i}].resources"


def _pinned(resources: ResourceRequirements, managed: bool, path: str) -> Amounts:
    """What is exclusive in a container; ``managed``: CPUs and memory are pinned at all."""
    amounts: Amounts = {}
    for name in resources.limits | resources.requests:
        exclusive = name == CPU or is_memory(name) if managed else False
        if exclusive or is_extended(name):
            amount = _amount(resources, name, path)
            # Shared CPUs are not pinned, and a container that requests half a CPU gets shared ones.
            amounts[name] = 0 if name == CPU and amount % _MILLI else amount
    return {name: min(amount, MAX_AMOUNT) for name, amount in amounts.items() if amount > 0}


def _amount(resources: ResourceRequirements, name: str, path: str) -> int:
    """What is requested of a resource; a limit alone counts as the request."""
    if name in resources.requests:
        nanos = _nanos(resources.requests, name, f"{path}.requests")
    else:
        nanos = _nanos(resources.limits, name, f"{path}.limits")
    return -(-nanos // (_MICRO if name == CPU else _NANO))


def _nanos(raw: ResourceList, name: str, path: str) -> int:
    text = raw[name]
    try:
        nanos = nanos_of(text)
    except QuantityError as fault:
        raise AmountError(f"{path}[{name}]: {fault}") from None
    if nanos < 0:
        raise AmountError(f"{path}[{name}]: must not be negative: {text!r}")
    return nanos


def _sum(parts: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = min(total.get(name, 0) + amount, MAX_AMOUNT)
    return total


def _peak(containers: Iterable[tuple[Role, Amounts]], steady: Amounts) -> Amounts:
    """The most that is held at once: each init container runs beside the sidecars before it."""
    peak, sidecars = dict(steady), Amounts()
    for role, amounts in containers:
        if role is Role.SIDECAR:
            sidecars = _sum((sidecars, amounts))
        elif role is Role.INIT:
            for name, amount in _sum((sidecars, amounts)).items():
                peak[name] = max(peak.get(name, 0), amount)
    return peak


def is_guaranteed(pod: Pod) -> bool:
    """Whether the pod is of the class Guaranteed: limits for all CPU and memory, all requested.

    Raises AmountError.
    """
    if pod.spec.resources is not None:
        owners = [(pod.spec.resources, "spec.resources")]
    else:
        owners = [(container.resources, path) for _, container, path in _in_order(pod)]
    requested: Amounts = {}
    limited: Amounts = {}
    for owner, path in owners:
        limits = _compute(owner.limits, f"{path}.limits")
        if len(limits) < 2:
            return False
        requests = _compute(owner.requests, f"{path}.requests")
        for name, amount in limits.items():
            asked = requests.get(name, 0) if name in owner.requests else amount
            limited[name] = limited.get(name, 0) + amount
            requested[name] = requested.get(name, 0) + asked
    return bool(owners) and requested == limited


def _compute(raw: ResourceList, path: str) -> Amounts:
    nanos = {name: _nanos(raw, name, path) for name in (CPU, MEMORY) if name in raw}
    return {name: amount for name, amount in nanos.items() if amount > 0}
