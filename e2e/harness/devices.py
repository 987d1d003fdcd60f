"""Devices for claims: what drivers publish, what users ask for, and whether it adds up.

`ledger` judges from the API alone: the allocations that claims have, the slices there are, the pods
that use them.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from e2e.harness.client import ApiClient, ApiError
from e2e.harness.objects import Json, is_bound
from scheduler.model.quantity import parse

GPU = "gpu.example.com"
NIC = "nic.example.com"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_VERSION = "resource.k8s.io/v1"


def claims_in(namespace: str) -> str:
    """The path of a namespace's claims."""
    return f"/apis/{_VERSION}/namespaces/{namespace}/resourceclaims"


def device_class(name: str, expression: str = "", **spec: Any) -> Json:
    """A class; without an expression, of the devices of the driver for GPUs."""
    selected = expression or f'device.driver == "{GPU}"'
    return {
        "apiVersion": _VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": selected}}], **spec},
    }


def request(class_name: str, name: str = "gpu", expression: str = "", **more: Any) -> Json:
    """A request for one device, or for what ``more`` says."""
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {
        "name": name,
        "exactly": {"deviceClassName": class_name, "selectors": selectors, **more},
    }


def claim(name: str, *requests: Json, **devices: Any) -> Json:
    """A claim that users make themselves."""
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def claim_template(name: str, *requests: Json, **devices: Any) -> Json:
    """A template of claims."""
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": claim(name, *requests, **devices)["spec"]},
    }


def by_template(name: str) -> Json:
    """A pod's spec with a claim from that template."""
    return _with_claim({"resourceClaimTemplateName": name})


def by_claim(name: str) -> Json:
    """A pod's spec with that claim."""
    return _with_claim({"resourceClaimName": name})


def _with_claim(source: Json) -> Json:
    return {"resourceClaims": [{"name": "device", **source}]}


def left_behind(pod: Json, class_name: str) -> Json:
    """A claim for a pod's extended resources, as an attempt leaves it that ends too early."""
    name = pod["metadata"]["name"]
    found = claim(f"{name}-extended-resources-left", request(class_name, "container-0-request-0"))
    found["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": name,
                "uid": pod["metadata"]["uid"],
                "controller": True,
            }
        ],
    }
    return found


def resource_slice(
    node: str,
    devices: Iterable[Json] = (),
    *,
    driver: str = GPU,
    part: str = "devices",
    count: int = 1,
    generation: int = 1,
    **spec: Any,
) -> Json:
    """A slice of the node's pool."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    content = {"sharedCounters": spec["counters"]} if "counters" in spec else {}
    listed = list(devices)
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver.partition('.')[0]}-{part}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": pool,
            **({"devices": listed} if listed else {}),
            **content,
        },
    }


def gpu(name: str, memory: str = "80Gi", architecture: str = "hopper", **more: Any) -> Json:
    """A whole device."""
    return {
        "name": name,
        "attributes": {"architecture": {"string": architecture}},
        "capacity": {"memory": {"value": memory}},
        **more,
    }


_PROFILES = {"whole": (1, 8), "half": (2, 4), "quarter": (4, 2)}


def board(node: str, boards: int = 1, generation: int = 1) -> list[Json]:
    """The slices of boards that may be taken whole, by halves or by quarters."""
    counters = [
        {"name": f"board-{number}", "counters": {"parts": {"value": "8"}}}
        for number in range(boards)
    ]
    devices = [
        {
            "name": f"board-{number}-{profile}-{part}",
            "attributes": {"profile": {"string": profile}},
            "consumesCounters": [
                {"counterSet": f"board-{number}", "counters": {"parts": {"value": str(parts)}}}
            ],
        }
        for number in range(boards)
        for profile, (pieces, parts) in _PROFILES.items()
        for part in range(pieces)
    ]
    return [
        resource_slice(node, part="counters", count=2, generation=generation, counters=counters),
        resource_slice(node, devices, count=2, generation=generation),
    ]


@asynccontextmanager
async def annotating(api: ApiClient, namespace: str) -> AsyncIterator[None]:
    """Somebody writes to all claims all the time, so that writes of others meet conflicts."""

    async def write() -> None:
        number = 0
        while True:
            number += 1
            note = {"metadata": {"annotations": {"example.com/note": str(number)}}}
            names = [each["metadata"]["name"] for each in await api.items(claims_in(namespace))]
            with contextlib.suppress(ApiError):
                await asyncio.gather(
                    *(api.patch(f"{claims_in(namespace)}/{name}", note) for name in names)
                )
            await asyncio.sleep(0)

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Device(NamedTuple):
    """The name of a device in the cluster."""

    driver: str
    pool: str
    name: str


class Ledger(NamedTuple):
    """What is wrong with the allocations of a cluster; all empty when it adds up."""

    taken_twice: list[Device]
    overdrawn: list[str]
    """Capacities and counters of which more is taken than there is."""
    reserved_for_nobody: list[str]
    without_reservation: list[str]
    """Bound pods with a claim that is not allocated, or not reserved for them."""
    elsewhere: list[str]
    """Bound pods whose devices are on another node."""


async def ledger(api: ApiClient, namespace: str) -> Ledger:
    """Judge all allocations of a namespace, in one look at claims, slices and pods."""
    pods = {
        each["metadata"]["uid"]: each
        for each in await api.items(f"/api/v1/namespaces/{namespace}/pods")
    }
    claims = await api.items(claims_in(namespace))
    slices = await api.items(SLICES)
    return Ledger(
        _taken_twice(claims),
        [*_over_capacity(claims, slices), *_over_counters(claims, slices)],
        [
            f"{each['metadata']['name']} for {user['name']}"
            for each in claims
            for user in _users(each)
            if user["uid"] not in pods
        ],
        [name for pod in pods.values() if is_bound(pod) for name in _unreserved(pod, claims)],
        [name for pod in pods.values() if is_bound(pod) for name in _elsewhere(pod, claims)],
    )


def results_of(claim: Json) -> list[Json]:
    """The devices that a claim has."""
    allocation = claim.get("status", {}).get("allocation") or {}
    found: list[Json] = allocation.get("devices", {}).get("results") or []
    return found


def claims_of(pod: Json) -> list[str]:
    """The names of a pod's claims, that of its extended resources included."""
    status = pod.get("status", {})
    made = {
        each["name"]: each.get("resourceClaimName")
        for each in status.get("resourceClaimStatuses") or ()
    }
    found = [
        each.get("resourceClaimName") or made.get(each["name"])
        for each in pod["spec"].get("resourceClaims") or ()
    ]
    special = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return [name for name in (*found, special) if name]


def _users(claim: Json) -> list[Json]:
    return claim.get("status", {}).get("reservedFor") or []


def _device(result: Json) -> Device:
    return Device(result["driver"], result["pool"], result["device"])


def _taken_twice(claims: list[Json]) -> list[Device]:
    alone = Counter(
        _device(result)
        for each in claims
        for result in results_of(each)
        if not result.get("shareID") and not result.get("adminAccess")
    )
    shared = {
        _device(result) for each in claims for result in results_of(each) if result.get("shareID")
    }
    return [device for device, count in alone.items() if count > 1 or device in shared]


def _published(slices: list[Json]) -> dict[Device, Json]:
    """Every device of the newest generation of its pool."""
    newest: dict[tuple[str, str], int] = {}
    for each in slices:
        pool = (each["spec"]["driver"], each["spec"]["pool"]["name"])
        newest[pool] = max(newest.get(pool, 0), each["spec"]["pool"]["generation"])
    return {
        Device(each["spec"]["driver"], each["spec"]["pool"]["name"], device["name"]): device
        for each in slices
        for device in each["spec"].get("devices") or ()
        if each["spec"]["pool"]["generation"]
        == newest[each["spec"]["driver"], each["spec"]["pool"]["name"]]
    }


def _over_capacity(claims: list[Json], slices: list[Json]) -> list[str]:
    published, taken = _published(slices), Counter[tuple[Device, str]]()
    for each in claims:
        for result in results_of(each):
            for name, amount in (result.get("consumedCapacity") or {}).items():
                taken[_device(result), name] += parse(amount).nanos
    return [
        f"{device} {name}"
        for (device, name), amount in taken.items()
        if device in published
        and amount > parse(published[device]["capacity"][name]["value"]).nanos
    ]


def _over_counters(claims: list[Json], slices: list[Json]) -> list[str]:
    published, taken = _published(slices), Counter[tuple[str, str, str, str]]()
    devices = {
        _device(result)
        for each in claims
        for result in results_of(each)
        if not result.get("adminAccess")
    }
    for device in devices & published.keys():
        for used in published[device].get("consumesCounters") or ():
            for name, counter in used["counters"].items():
                key = (device.driver, device.pool, used["counterSet"], name)
                taken[key] += parse(counter["value"]).nanos
    there = {
        (each["spec"]["driver"], each["spec"]["pool"]["name"], group["name"], name): parse(
            counter["value"]
        ).nanos
        for each in slices
        for group in each["spec"].get("sharedCounters") or ()
        for name, counter in group["counters"].items()
    }
    return [" ".join(key) for key, amount in taken.items() if amount > there.get(key, 0)]


def _unreserved(pod: Json, claims: list[Json]) -> list[str]:
    by_name = {each["metadata"]["name"]: each for each in claims}
    return [
        f"{pod['metadata']['name']}: {name}"
        for name in claims_of(pod)
        if name not in by_name
        or not results_of(by_name[name])
        or pod["metadata"]["uid"] not in {user["uid"] for user in _users(by_name[name])}
    ]


def _elsewhere(pod: Json, claims: list[Json]) -> list[str]:
    """Pools are named after their nodes here."""
    by_name = {each["metadata"]["name"]: each for each in claims}
    return [
        f"{pod['metadata']['name']}: {result['pool']}"
        for name in claims_of(pod)
        if name in by_name
        for result in results_of(by_name[name])
        if result["pool"] != pod["spec"]["nodeName"]
    ]
