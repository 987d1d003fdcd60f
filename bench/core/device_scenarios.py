"""Scenarios of ``make bench-micro`` with devices: 8 on each node, and a claim for each pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bench.core.worlds import CountingOutlet, World, a_node, a_pod
from scheduler.model.devices import ResourceClaim
from scheduler.model.objects import from_dict
from scheduler.plugin_api.outlet import ObjectRequest, Verb
from tests.builders import Json

DRIVER = "gpu.example.com"
DEVICES = 8
RESOURCE = "example.com/gpu"


class ClaimOutlet(CountingOutlet):
    """Also keeps claims, as far as creations and patches of them go."""

    def __init__(self) -> None:
        super().__init__()
        self._claims: dict[str, Json] = {}
        self.told = 0
        """How many pods have been told the name of their claim."""

    def keep(self, claim: Json) -> None:
        """A claim exists."""
        metadata = claim["metadata"]
        self._claims[f"{metadata['namespace']}/{metadata['name']}"] = claim

    async def send(self, request: ObjectRequest) -> Any:
        if request.kind == "Pod":
            self.told += 1
            return None
        if request.verb is Verb.CREATE:
            return self._create(dict(request.body))
        claim = self._claims[request.key]
        for part in ("metadata", "status"):
            claim[part] = {**claim.get(part, {}), **request.body.get(part, {})}
        version = int(claim["metadata"].get("resourceVersion") or 0)
        claim["metadata"]["resourceVersion"] = str(version + 1)
        return from_dict(claim, ResourceClaim)

    def _create(self, claim: Json) -> ResourceClaim:
        number = len(self._claims)
        name = f"{claim['metadata']['generateName']}{number}"
        named = {"name": name, "uid": f"uid-claim-{number}", "resourceVersion": "1"}
        claim = {**claim, "metadata": {**claim["metadata"], **named}}
        self.keep(claim)
        return from_dict(claim, ResourceClaim)


def devices_world(nodes: int) -> World:
    """Nodes with devices of two models; each has a serial number that nobody selects by."""
    world = World(outlet=ClaimOutlet())
    world.add(*(a_node(number) for number in range(nodes)))
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    served = {"selectors": [selector], "extendedResourceName": RESOURCE}
    world.add(_object("DeviceClass", {"name": "gpu"}, served))
    world.add(*(_slice(number) for number in range(nodes)))
    return world


def _object(kind: str, metadata: Json, spec: Json) -> Json:
    version = "resource.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _slice(number: int) -> Json:
    node = f"node-{number:05}"
    devices = [
        {
            "name": f"gpu-{i}",
            "attributes": {
                "model": {"string": "a100" if number % 3 else "h100"},
                "index": {"int": i},
                "serial": {"string": f"{number}-{i}"},
            },
        }
        for i in range(DEVICES)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return _object("ResourceSlice", {"name": f"slice-{node}"}, spec)


def pods_with_claims(world: World, count: int, *, alike: bool) -> Iterator[Json]:
    """Pods, each with a claim of its own for one device; the selectors are alike, or all differ."""
    outlet = world.outlet
    assert isinstance(outlet, ClaimOutlet)
    for number in range(count):
        claim = _claim(number, "" if alike else f"m{number}")
        outlet.keep(msgspec.json.decode(msgspec.json.encode(claim)))
        world.add(claim)
        pod = a_pod(f"new-{number}").obj()
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
        yield pod


def pods_with_extended_resources(count: int) -> Iterator[Json]:
    """Pods that ask for one device each by a resource that the class serves."""
    for number in range(count):
        pod = a_pod(f"new-{number}").obj()
        pod["spec"]["containers"][0]["resources"]["requests"][RESOURCE] = "1"
        yield pod


def _claim(number: int, other_than: str) -> Json:
    exactly: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    if other_than:
        model = f'device.attributes["{DRIVER}"].model != "{other_than}"'
        index = f'device.attributes["{DRIVER}"].index >= {number % 7}'
        exactly["selectors"] = [{"cel": {"expression": f"{index} && {model}"}}]
    metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-claim-{number}"}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return _object("ResourceClaim", metadata, spec)
