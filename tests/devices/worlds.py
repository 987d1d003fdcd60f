"""Random clusters with devices, and claims for them: small, and full of what is unusual."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from scheduler.model.devices import (
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict
from tests.devices.reference import Cluster

Json = dict[str, Any]

GPU, NIC = "gpu.example.com", "nic.example.com"
DRIVERS = (GPU, NIC)


class World:
    """One random cluster."""

    def __init__(self, random: Random, *, devices: int = 4, nodes: int = 3) -> None:
        self.random = random
        self.most = devices
        self.nodes = [
            from_dict(
                {"metadata": {"name": f"n{i}", "labels": {"zone": f"z{i % 2}"}}},
                Node,
            )
            for i in range(nodes)
        ]
        self.slices: list[ResourceSlice] = []
        self.partitioned = random.random() < 0.4
        self.shared = random.random() < 0.4
        for node in self.nodes:
            for driver in DRIVERS:
                if random.random() < 0.7:
                    self._pool(driver, node.name, {"nodeName": node.name})
        if random.random() < 0.3:
            self._pool(NIC, "net", self._anywhere())
        self.classes = {
            name: from_dict({"metadata": {"name": name}, "spec": spec}, DeviceClass)
            for name, spec in {
                "gpu": {"selectors": [_cel(f'device.driver == "{GPU}"')]},
                "nic": {"selectors": [_cel(f'device.driver == "{NIC}"')]},
                "any": {},
            }.items()
        }
        self.allocated = [self._allocated() for _ in range(random.randrange(3))]

    @property
    def cluster(self) -> Cluster:
        """What the reference reads."""
        return Cluster(self.slices, self.classes, self.allocated)

    def _anywhere(self) -> Json:
        choice = self.random.randrange(3)
        if choice == 0:
            return {"allNodes": True}
        if choice == 1:
            return {"nodeSelector": _in_zone(f"z{self.random.randrange(2)}")}
        return {"perDeviceNodeSelection": True}

    def _pool(self, driver: str, name: str, where: Json) -> None:
        random = self.random
        generation = random.choice((1, 1, 1, 2))
        count = random.choice((1, 1, 2))
        counters = driver == GPU and self.partitioned
        total = count + counters + (random.random() < 0.05)
        pool = {"name": name, "generation": generation, "resourceSliceCount": total}
        number = 0
        for i in range(count):
            devices = []
            for _ in range(random.randrange(self.most)):
                devices.append(self._device(driver, number, counters, where))
                number += random.random() > 0.03
            if random.random() < 0.04:  # it contradicts the other slices
                pool = {**pool, "resourceSliceCount": random.choice((1, 2, 3))}
            spec = {"driver": driver, "pool": pool, "devices": devices, **where}
            self._slice(f"{random.randrange(100):02}-{driver}-{name}-{i}", spec)
        if counters:
            sets = [
                {"name": f"b{i}", "counters": {"memory": {"value": random.choice(("2Gi", "4Gi"))}}}
                for i in range(2)
            ]
            spec = {"driver": driver, "pool": pool, "sharedCounters": sets, **where}
            self._slice(f"{driver}-{name}-counters", spec)
        if random.random() < 0.1:
            old = {**pool, "generation": generation - 1, "resourceSliceCount": 1}
            spec = {"driver": driver, "pool": old, "devices": [{"name": "old"}], **where}
            self._slice(f"{driver}-{name}-old", spec)

    def _slice(self, name: str, spec: Json) -> None:
        self.slices.append(from_dict({"metadata": {"name": name}, "spec": spec}, ResourceSlice))

    def _device(self, driver: str, number: int, counters: bool, where: Json) -> Json:
        random = self.random
        attributes: Json = {"serial": {"string": f"{driver}-{number}-{random.random()}"}}
        if random.random() < 0.9:
            attributes["model"] = {"string": random.choice("ab")}
        if random.random() < 0.8:
            attributes["example.com/numa"] = {"int": random.randrange(3)}
        device: Json = {"name": f"d{number}", "attributes": attributes}
        if random.random() < 0.15:
            device["taints"] = [{"key": "bad", "effect": random.choice(("NoSchedule", "None"))}]
        if self.shared and random.random() < 0.7:
            policy = random.choice(
                (
                    None,
                    {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "3Gi"}},
                    {"default": "1Gi", "validValues": ["1Gi", "2Gi"]},
                )
            )
            memory: Json = {"value": random.choice(("2Gi", "4Gi"))}
            if policy is not None:
                memory["requestPolicy"] = policy
            device["capacity"] = {"memory": memory}
            device["allowMultipleAllocations"] = random.random() < 0.7
        if counters and random.random() < 0.8:
            sets = random.sample(("b0", "b1"), random.choice((1, 1, 1, 2)))
            device["consumesCounters"] = [
                {"counterSet": each, "counters": {"memory": {"value": random.choice(_AMOUNTS)}}}
                for each in sets
            ]
        if "perDeviceNodeSelection" in where:
            device.update(
                random.choice(
                    (
                        {"allNodes": True},
                        {"nodeName": "n0"},
                        {"nodeSelector": _in_zone("z1")},
                    )
                )
            )
        if random.random() < 0.05:
            device["bindingConditions"] = ["ready"]
            device["bindingFailureConditions"] = ["failed"]
        return device

    def _allocated(self) -> AllocationResult:
        results = []
        for _ in range(self.random.randrange(1, 4)):
            slices = [each for each in self.slices if each.spec.devices]
            if slices:
                each = self.random.choice(slices)
                device = self.random.choice(each.spec.devices)
                result: Json = {
                    "request": "r",
                    "driver": each.spec.driver,
                    "pool": each.spec.pool.name,
                    "device": device.name,
                }
                if self.random.random() < 0.1:
                    result["adminAccess"] = True
                if device.allow_multiple_allocations:
                    result["shareID"] = str(self.random.random())
                    if device.capacity:
                        result["consumedCapacity"] = {"memory": "1Gi"}
                results.append(result)
        return from_dict({"devices": {"results": results}}, AllocationResult)

    # --- Claims -------------------------------------------------------------------------------

    def claims(self, *, most: int = 2) -> Sequence[ResourceClaim]:
        """Some claims of one pod."""
        return [self._claim(i) for i in range(self.random.randrange(1, most + 1))]

    def _claim(self, number: int) -> ResourceClaim:
        random = self.random
        requests = [self._request(f"r{i}") for i in range(random.choice((1, 1, 2, 2, 3)))]
        constraints = []
        while random.random() < 0.35:
            attribute = random.choice(("example.com/numa", f"{GPU}/model"))
            constraint: Json = {random.choice(("matchAttribute", "distinctAttribute")): attribute}
            if random.random() < 0.5:
                names = [each["name"] for each in requests]
                constraint["requests"] = random.sample(names, random.randrange(1, len(names) + 1))
            constraints.append(constraint)
        return from_dict(
            {
                "metadata": {"name": f"c{number}", "namespace": "default"},
                "spec": {"devices": {"requests": requests, "constraints": constraints}},
            },
            ResourceClaim,
        )

    def _request(self, name: str) -> Json:
        if self.random.random() < 0.25:
            count = self.random.randrange(1, 4)
            return {
                "name": name,
                "firstAvailable": [{"name": f"s{i}", **self._ask()} for i in range(count)],
            }
        ask = self._ask()
        if self.random.random() < 0.1:
            ask["adminAccess"] = True
        return {"name": name, "exactly": ask}

    def _ask(self) -> Json:
        random = self.random
        ask: Json = {
            "deviceClassName": random.choice(("gpu", "gpu", "nic", "any")),
            "allocationMode": "ExactCount",
            "count": random.choice((1, 1, 1, 2, 2, 3, 4)),
        }
        if random.random() < 0.15:
            ask["allocationMode"] = "All"
            del ask["count"]
        if random.random() < 0.4:
            ask["selectors"] = [_cel(random.choice(_SELECTORS))]
        if random.random() < 0.3:
            ask["tolerations"] = [{"operator": "Exists"}]
        if self.shared and random.random() < 0.4:
            ask["capacity"] = {"requests": {"memory": random.choice(_AMOUNTS)}}
        if random.random() < 0.02:
            ask["count"] = 20
            ask["allocationMode"] = "ExactCount"
        return ask


_AMOUNTS = ("512Mi", "1Gi", "2Gi", "3Gi")
_SELECTORS = (
    f'device.attributes["{GPU}"].?model.orValue("a") == "a"',
    'device.attributes["example.com"].?numa.orValue(0) > 0',
    "device.allowMultipleAllocations",
    # Fails for devices that do not say where they are.
    'device.attributes["example.com"].numa < 2',
)


def _cel(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _in_zone(zone: str) -> Json:
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
