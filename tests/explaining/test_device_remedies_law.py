"""The law of remedies for devices: each lets the pod in when followed to the letter; no less does.

A claim goes, or is given back, with the last pod that used it: that is one change.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.simulation import explain
from tests.builders import Json, make_node, make_pod
from tests.explaining.support import fits

GPU, NIC = "gpu.example.com", "nic.example.com"
MOST = 10
SELECTORS = (
    f'device.attributes["{GPU}"].?model.orValue("a") == "a"',
    f'device.attributes["{GPU}"].?model.orValue("a") == "c"',
    'device.attributes["example.com"].?numa.orValue(0) > 0',
    # Fails for devices that do not say where they are.
    'device.attributes["example.com"].numa < 2',
)


class Devices:
    """A random cluster with devices, some of them held, and a pod that wants some."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.shared = self.random.random() < 0.4
        self.objects: list[Json] = [
            *({"kind": "DeviceClass", **each} for each in (_class("gpu", GPU), _class("nic", NIC)))
        ]
        self.free: list[tuple[str, Json]] = []
        for number in range(self.random.randrange(1, 4)):
            self._node(f"n{number}")
        for number in range(self.random.randrange(5)):
            self._neighbour(f"p{number}")
        self.pod = self._wanting()

    def _node(self, name: str) -> None:
        random = self.random
        self.objects.append(make_node(name).cpu(random.choice((1, 4))).obj())
        for driver in (GPU, NIC):
            if random.random() < 0.3:
                continue
            devices = [self._device(f"d{i}") for i in range(random.randrange(1, 4))]
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": driver, "nodeName": name, "pool": pool, "devices": devices}
            metadata = {"name": f"{name}-{driver}"}
            self.objects.append({"kind": "ResourceSlice", "metadata": metadata, "spec": spec})
            where = {"driver": driver, "pool": name}
            whole = [each for each in devices if not each.get("allowMultipleAllocations")]
            self.free += [(name, {**where, "device": each["name"]}) for each in whole]

    def _device(self, name: str) -> Json:
        random = self.random
        attributes: Json = {"model": {"string": random.choice("ab")}}
        if random.random() < 0.8:
            attributes["example.com/numa"] = {"int": random.randrange(3)}
        device: Json = {"name": name, "attributes": attributes}
        if random.random() < 0.25:
            device["taints"] = [{"key": random.choice(("bad", "old")), "effect": "NoSchedule"}]
        if self.shared:
            device["allowMultipleAllocations"] = True
            device["capacity"] = {"memory": {"value": random.choice(("2Gi", "4Gi"))}}
        return device

    def _neighbour(self, name: str) -> None:
        """A pod that holds devices, by a claim of its own or one that is there anyway."""
        random = self.random
        if not self.free:
            return
        node, result = self.free.pop(random.randrange(len(self.free)))
        used = random.random() < 0.85
        claim = _claim(f"{name}-claim", [_request("r", _ask("gpu"))])
        allocation = {"devices": {"results": [{"request": "r", **result}]}}
        claim["status"] = {"allocation": allocation}
        if used:
            consumer = {"resource": "pods", "name": name, "uid": f"uid-{name}"}
            claim["status"]["reservedFor"] = [consumer]
            entry = {"name": "c", "resourceClaimName": f"{name}-claim"}
            pod = make_pod(name).on(node).cpu("200m").priority(random.choice((0, 0, 100)))
            if random.random() < 0.15:
                pod.deleting()
            if random.random() < 0.5:
                owner = {"kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
                claim["metadata"]["ownerReferences"] = [{"apiVersion": "v1", **owner}]
            self.objects.append(pod.spec(resourceClaims=[entry]).obj())
        self.objects.append(claim)

    def _wanting(self) -> Json:
        random = self.random
        pod = make_pod("wanting").cpu(random.choice(("100m", "100m", "2")))
        if random.random() < 0.2:
            self.objects[0]["spec"]["extendedResourceName"] = "example.com/gpu"
            return pod.request("example.com/gpu", random.choice((1, 2, 4))).obj()
        requests = [self._request(f"r{i}") for i in range(random.choice((1, 1, 2)))]
        claim = _claim("wanted", requests)
        if random.random() < 0.3:
            word = random.choice(("matchAttribute", "distinctAttribute"))
            claim["spec"]["devices"]["constraints"] = [{word: "example.com/numa"}]
        self.objects.append(claim)
        name = random.choice(("wanted",) * 12 + ("wantde",))
        return pod.spec(resourceClaims=[{"name": "c", "resourceClaimName": name}]).obj()

    def _request(self, name: str) -> Json:
        if self.random.random() < 0.15:
            alternatives = [{"name": f"s{i}", **self._asked()} for i in range(2)]
            return {"name": name, "firstAvailable": alternatives}
        return _request(name, self._asked())

    def _asked(self) -> Json:
        random = self.random
        ask = _ask(random.choice(("gpu", "gpu", "gpu", "nic", "gqu")))
        ask["count"] = random.choice((1, 1, 2, 3, 5))
        if random.random() < 0.1:
            ask["allocationMode"] = "All"
            del ask["count"]
        if random.random() < 0.5:
            chosen = random.sample(SELECTORS, random.choice((1, 1, 2)))
            ask["selectors"] = [{"cel": {"expression": each}} for each in chosen]
        if self.shared and random.random() < 0.6:
            amount = random.choice(("1Gi", "3Gi", "5Gi"))
            ask["capacity"] = {"requests": {"memory": amount}}
        return ask


def _class(name: str, driver: str) -> Json:
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {"metadata": {"name": name}, "spec": {"selectors": [selector]}}


def _claim(name: str, requests: list[Json]) -> Json:
    metadata = {"name": name, "namespace": "default"}
    spec = {"devices": {"requests": requests}}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def _request(name: str, ask: Json) -> Json:
    return {"name": name, "exactly": ask}


def _ask(of: str) -> Json:
    return {"deviceClassName": of, "allocationMode": "ExactCount", "count": 1}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_every_remedy_lets_the_pod_in_and_nothing_less_does(seed: int) -> None:
    made = Devices(seed)
    check(made.objects, made.pod)


def check(objects: list[Json], pod: Json) -> None:
    answer = explain(objects, pod)
    remedies = answer["remedies"]
    if answer["fit"]:
        assert remedies == []
    assert len(remedies) <= MOST
    assert explain(objects, pod)["remedies"] == remedies
    for remedy in remedies:
        opens, changes = remedy["opens"], remedy["changes"]
        assert opens, remedy
        assert fits(objects, pod, changes) == opens, remedy
        for less, why in _less(objects, pod, changes):
            left = fits(objects, pod, less)
            assert not set(left) & set(opens), (why, left, remedy)


def _less(
    objects: list[Json], pod: Json, changes: Sequence[Json]
) -> Iterator[tuple[list[Json], str]]:
    """Smaller remedies of the same kinds."""
    for number, change in enumerate(changes):
        others = [*changes[:number], *changes[number + 1 :]]
        name = change.get("name", "an object")
        if change["op"] == "delete" and change["kind"] == "Pod":
            # Its claims stay with it.
            yield [each for each in others if not _used_by(objects, each, name)], f"with {name}"
        elif change["op"] == "patch" and change["kind"] == "ResourceClaim":
            if "spec" in change["patch"]:
                yield others, f"without the change of {name}"
                yield from _smaller_claims(objects, change, others)
        elif change["op"] == "delete" and _users(objects, name):
            continue
        else:
            yield others, f"without {change['op']} of {name}"
    yield from _smaller_pods(pod, changes)


def _smaller_claims(
    objects: list[Json], change: Json, others: list[Json]
) -> Iterator[tuple[list[Json], str]]:
    """One device, or one unit of a share, more."""
    old = _by_name(objects, change["name"])["spec"]["devices"]["requests"]
    new = change["patch"]["spec"]["devices"].get("requests", [])
    for place, (before, after) in enumerate(zip(old, new, strict=bool(new))):
        for path in _parts(before):
            was, now = _at(before, path), _at(after, path)
            if was.get("count") != now.get("count"):
                more = copy.deepcopy(change)
                ask = _at(more["patch"]["spec"]["devices"]["requests"][place], path)
                ask["count"] += 1
                yield [more, *others], f"count {ask['count']}"
            amounts = now.get("capacity", {}).get("requests", {})
            for key, amount in amounts.items():
                if amount != was["capacity"]["requests"][key]:
                    more = copy.deepcopy(change)
                    ask = _at(more["patch"]["spec"]["devices"]["requests"][place], path)
                    ask["capacity"]["requests"][key] = f"{int(amount[:-2]) + 1}{amount[-2:]}"
                    yield [more, *others], f"{key} above {amount}"


def _parts(request: Json) -> list[tuple[Any, ...]]:
    if "exactly" in request:
        return [("exactly",)]
    return [("firstAvailable", i) for i in range(len(request["firstAvailable"]))]


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _smaller_pods(pod: Json, changes: Sequence[Json]) -> Iterator[tuple[list[Json], str]]:
    """One more of an extended resource."""
    for number, change in enumerate(changes):
        if change["op"] != "patch" or change["kind"] != "Pod":
            continue
        others = [*changes[:number], *changes[number + 1 :]]
        for place, container in enumerate(change["patch"]["spec"].get("containers", [])):
            for name, amount in container["resources"]["requests"].items():
                if "/" in name:
                    more = copy.deepcopy(change)
                    asked = more["patch"]["spec"]["containers"][place]["resources"]["requests"]
                    asked[name] = str(int(amount) + 1)
                    if asked[name] <= str(_asked_of(pod, place, name)):
                        yield [more, *others], f"{name} {asked[name]}"


def _asked_of(pod: Json, place: int, name: str) -> Any:
    return pod["spec"]["containers"][place]["resources"]["requests"][name]


def _by_name(objects: list[Json], name: str) -> Json:
    (found,) = [
        each
        for each in objects
        if each["kind"] == "ResourceClaim" and each["metadata"]["name"] == name
    ]
    return found


def _users(objects: list[Json], claim: str) -> list[str]:
    status = _by_name(objects, claim).get("status", {})
    return [each["name"] for each in status.get("reservedFor", ())]


def _used_by(objects: list[Json], change: Json, pod: str) -> bool:
    return change.get("kind") == "ResourceClaim" and pod in _users(objects, change["name"])
