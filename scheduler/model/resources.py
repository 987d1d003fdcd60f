"""A pod's requests, summed over containers as the kubelet and kube-scheduler sum them.

Sums are exact (nano units) and rounded once at the end, since Kubernetes rounds the sum and not
the parts. Amounts are capped at ``MAX_AMOUNT``: far beyond any machine, and small enough that a
node's sums and percentages stay within 64 bits whatever a pod's author writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from scheduler.model import quantity
from scheduler.model.meta import RawQuantity, ResourceList
from scheduler.model.pods import Container, ContainerStatus, Pod, ResourceRequirements
from scheduler.slices import paced

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

MAX_AMOUNT = 2**53

_NANO = 10**9
_MICRO = 10**6

# What scoring assumes of a container without requests (never used for feasibility).
DEFAULT_REQUESTS: Mapping[str, int] = {CPU: 100 * _MICRO, MEMORY: 200 * 1024 * 1024 * _NANO}

Amounts = dict[str, int]
"""Resource name to amount: milli-CPUs for cpu, bytes or counts for everything else."""

_Nanos = dict[str, int]


class AmountError(ValueError):
    """A quantity that cannot be read; the text starts with the path of the field."""


@lru_cache(maxsize=8192)
def nanos_of(text: RawQuantity) -> int:
    """A quantity in billionths. Raises QuantityError."""
    return quantity.parse(text).nanos


def _read(raw: ResourceList, path: str) -> _Nanos:
    amounts: _Nanos = {}
    for name, text in paced(raw.items()):
        try:
            nanos = nanos_of(text)
        except quantity.QuantityError as fault:
            raise AmountError(f"{path}[{name}]: {fault}") from None
        if nanos < 0:
            raise AmountError(f"{path}[{name}]: must not be negative: {text!r}")
        amounts[name] = nanos
    return amounts


def is_scalar(name: str) -> bool:
    """Whether a resource is counted per node beyond cpu, memory and ephemeral storage."""
    return "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_extended(name: str) -> bool:
    """Whether a resource is a vendor's own, such as ``example.com/gpu``."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def amounts_of(raw: ResourceList, path: str) -> Amounts:
    """A node's resource list in column units, with the resources that schedulers count."""
    return _in_units(_read(raw, path))


def _in_units(nanos: _Nanos) -> Amounts:
    return {
        name: min(-(-amount // (_MICRO if name == CPU else _NANO)), MAX_AMOUNT)
        for name, amount in paced(nanos.items())
        if name in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS) or is_scalar(name)
    }


def pod_requests(
    pod: Pod,
    *,
    use_status: bool,
    pod_level: bool = True,
    defaults: Mapping[str, int] | None = None,
) -> Amounts:
    """The pod's requests: containers side by side, init containers one after the other.

    ``use_status`` counts what the kubelet has allocated (in-place resize), ``pod_level`` lets
    ``spec.resources`` replace the sums, ``defaults`` fill in for containers without requests.
    """
    return _in_units(_total(pod, use_status, pod_level, defaults or {}))


def sizes_reported(pod: Pod) -> tuple[object, ...]:
    """All that ``use_status`` reads of a pod's status."""
    status = pod.status
    return (
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
        pod.condition("PodResizePending"),
    )


def reports_sizes(pod: Pod) -> bool:
    """Whether a kubelet has reported anything of that; every attempt asks."""
    status = pod.status
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources is not None
        or status.allocated_resources
        or (status.conditions and pod.condition("PodResizePending"))
    )


def nonzero_requests(pod: Pod) -> tuple[int, int]:
    """Milli-CPUs and bytes of memory that scoring books for a pod on its node."""
    defaults = dict(DEFAULT_REQUESTS)
    if _has_pod_level(pod):
        # A pod-level request covers all containers; only resources without one are assumed.
        stated = _total(pod, True, True, {})
        defaults = {name: amount for name, amount in defaults.items() if name not in stated}
    amounts = pod_requests(pod, use_status=True, defaults=defaults)
    return amounts.get(CPU, 0), amounts.get(MEMORY, 0)


def _total(pod: Pod, use_status: bool, pod_level: bool, defaults: Mapping[str, int]) -> _Nanos:
    total = _container_total(pod, use_status, defaults)
    if pod_level and pod.spec.resources is not None:
        total |= _pod_level_requests(pod, pod.spec.resources, use_status)
    _add(total, _read(pod.spec.overhead, "spec.overhead"))
    return total


def _container_total(pod: Pod, use_status: bool, defaults: Mapping[str, int]) -> _Nanos:
    statuses = _statuses(pod) if use_status else {}
    total: _Nanos = {}
    for i, container in enumerate(paced(pod.spec.containers)):
        requests = _container(pod, container, statuses, f"spec.containers[{i}]")
        _add(total, _fill(requests, defaults))
    sidecars: _Nanos = {}
    peak: _Nanos = {}
    for i, container in enumerate(paced(pod.spec.init_containers)):
        sidecar = container.restart_policy == "Always"
        path = f"spec.initContainers[{i}]"
        requests = _fill(_container(pod, container, statuses if sidecar else {}, path), defaults)
        if sidecar:
            _add(total, requests)
            _add(sidecars, requests)
            _raise_to(peak, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(peak, requests)
    _raise_to(total, peak)
    return total


def _container(
    pod: Pod, container: Container, statuses: Mapping[str, ContainerStatus], path: str
) -> _Nanos:
    requests = _read(container.resources.requests, f"{path}.resources.requests")
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return requests
    return _effective(pod, requests, status.resources, status.allocated_resources)


def _effective(
    pod: Pod, spec: _Nanos, actuated: ResourceRequirements, allocated: ResourceList
) -> _Nanos:
    """The largest of what is wanted, given and running, for as long as a resize may succeed."""
    pending = pod.condition("PodResizePending")
    infeasible = pending is not None and pending.reason == "Infeasible"
    peak = {} if infeasible else dict(spec)
    _raise_to(peak, _read(actuated.requests, "status.resources.requests"))
    _raise_to(peak, _read(allocated, "status.allocatedResources"))
    return peak


def _pod_level_requests(pod: Pod, level: ResourceRequirements, use_status: bool) -> _Nanos:
    spec = {
        name: amount
        for name, amount in _read(level.requests, "spec.resources.requests").items()
        if _pod_level_resource(name)
    }
    if not spec or not use_status or pod.status.resources is None:
        return spec
    effective = _effective(pod, spec, pod.status.resources, pod.status.allocated_resources)
    return {name: effective.get(name, 0) for name in spec}


def _has_pod_level(pod: Pod) -> bool:
    level = pod.spec.resources
    return level is not None and any(_pod_level_resource(name) for name in level.requests)


def _pod_level_resource(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    reported: Iterable[ContainerStatus] = (
        *pod.status.container_statuses,
        *pod.status.init_container_statuses,
    )
    return {status.name: status for status in reported}


def _fill(requests: _Nanos, defaults: Mapping[str, int]) -> _Nanos:
    return {**defaults, **requests} if defaults else requests


def _add(total: _Nanos, more: Mapping[str, int]) -> None:
    for name, amount in paced(more.items()):
        total[name] = total.get(name, 0) + amount


def _raise_to(total: _Nanos, floor: Mapping[str, int]) -> None:
    for name, amount in paced(floor.items()):
        total[name] = max(total.get(name, 0), amount)
