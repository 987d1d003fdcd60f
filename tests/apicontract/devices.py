"""Claims, templates, slices and classes of devices: defaults, rules, and the status of a claim."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.apicontract.client import STRATEGIC, Body, Client

GROUP = "/apis/resource.k8s.io/v1"
SLICES = f"{GROUP}/resourceslices"
CLASSES = f"{GROUP}/deviceclasses"
FINALIZER = "resource.kubernetes.io/delete-protection"


def claims_in(namespace: str) -> str:
    return f"{GROUP}/namespaces/{namespace}/resourceclaims"


def a_claim(name: str, **asked: Any) -> Body:
    exactly = {"deviceClassName": "gpu.example.com", **asked}
    requests = [{"name": "gpu", "exactly": exactly}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}


def allocation(device: str = "gpu-0", **more: Any) -> Body:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": device}
    return {"devices": {"results": [{**result, **more}]}}


def consumer(name: str) -> Body:
    """Something that uses a claim and is no pod: controllers do not look whether it exists."""
    kind = {"apiGroup": "example.com", "resource": "widgets"}
    return {**kind, "name": name, "uid": f"uid-of-{name}"}


def a_slice(name: str, **spec: Any) -> Body:
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": name},
        "spec": {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-0", **spec},
    }


@asynccontextmanager
async def made(client: Client, path: str, body: Body) -> AsyncIterator[Body]:
    """An object without a namespace, for as long as the block lasts."""
    (await client.create(path, body)).ok(201)
    try:
        yield (await client.get(f"{path}/{body['metadata']['name']}")).ok()
    finally:
        await client.request("DELETE", f"{path}/{body['metadata']['name']}")


def unique(stem: str) -> str:
    return f"{stem}-{secrets.token_hex(4)}"


class Devices:
    async def test_requests_of_a_claim_count_one_device_unless_they_say_more(
        self, client: Client, namespace: str
    ) -> None:
        created = (await client.create(claims_in(namespace), a_claim("a"))).ok(201)
        (request,) = created["spec"]["devices"]["requests"]
        assert request["exactly"] == {
            "deviceClassName": "gpu.example.com",
            "allocationMode": "ExactCount",
            "count": 1,
        }
        listed = {"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "c"}]}
        claim = {"metadata": {"name": "b"}, "spec": {"devices": {"requests": [listed]}}}
        created = (await client.create(claims_in(namespace), claim)).ok(201)
        (request,) = created["spec"]["devices"]["requests"]
        assert request["firstAvailable"][0]["count"] == 1
        every = (await client.create(claims_in(namespace), a_claim("c", allocationMode="All"))).ok(
            201
        )
        assert "count" not in every["spec"]["devices"]["requests"][0]["exactly"]

    async def test_a_claim_says_what_is_wrong_with_it(self, client: Client, namespace: str) -> None:
        path = claims_in(namespace)
        refused = await client.create(path, a_claim("a", deviceClassName=""))
        assert (
            "spec.devices.requests[0].exactly.deviceClassName: Required value"
            in refused.refused(422, "Invalid")
        )
        refused = await client.create(path, a_claim("a", allocationMode="All", count=2))
        assert (
            "spec.devices.requests[0].exactly.count: Invalid value: 2: "
            "must not be specified when allocationMode is 'All'"
        ) in refused.refused(422, "Invalid")
        refused = await client.create(path, a_claim("a", selectors=[{}]))
        assert "spec.devices.requests[0].exactly.selectors[0].cel: Required value" in (
            refused.refused(422, "Invalid")
        )
        claim = a_claim("a")
        claim["spec"]["devices"]["requests"] = [{"name": "gpu"}]
        text = "exactly one of `exactly` or `firstAvailable` is required"
        assert text in (await client.create(path, claim)).refused(422, "Invalid")
        claim = a_claim("a")
        claim["spec"]["devices"]["constraints"] = [
            {"requests": ["nic"], "matchAttribute": "gpu.example.com/numa"}
        ]
        assert "must be the name of a request in the claim" in (
            await client.create(path, claim)
        ).refused(422, "Invalid")

    async def test_selectors_must_compile(self, client: Client, namespace: str) -> None:
        path = "spec.devices.requests[0].exactly.selectors[0].cel.expression"
        for expression, why in {
            "device.name == 'x'": f"{path}: Invalid value",
            "device.driver": "must evaluate to bool or the unknown type, not string",
            "nope": "undeclared reference to 'nope' (in container '')",
            "type(device.driver) == string": "Forbidden: too complex, exceeds cost limit",
        }.items():
            asked = a_claim("a", selectors=[{"cel": {"expression": expression}}])
            refused = await client.create(claims_in(namespace), asked)
            assert why in refused.refused(422, "Invalid")

    async def test_a_claim_cannot_ask_for_something_else_later(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{claims_in(namespace)}/a"
        claim = (await client.create(claims_in(namespace), a_claim("a"))).ok(201)
        claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
        refused = await client.replace(path, claim)
        assert "spec: Invalid value" in refused.refused(422, "Invalid")
        assert "field is immutable" in refused.body["message"]

    async def test_the_status_of_a_claim_is_written_apart(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{claims_in(namespace)}/a"
        claim = (
            await client.create(
                claims_in(namespace), {**a_claim("a"), "status": {"allocation": allocation()}}
            )
        ).ok(201)
        assert not claim.get("status")
        claim["metadata"]["finalizers"] = [FINALIZER]
        claim["status"] = {"allocation": allocation(), "reservedFor": [consumer("p")]}
        written = (await client.replace(f"{path}/status", claim)).ok()
        assert written["status"]["reservedFor"] == [consumer("p")]
        assert "finalizers" not in written["metadata"]
        written["metadata"]["finalizers"] = [FINALIZER]
        written["status"] = {}
        written = (await client.replace(path, written)).ok()
        assert written["metadata"]["finalizers"] == [FINALIZER]
        assert written["status"]["allocation"] == allocation()
        (await client.replace(f"{path}/status", {**written, "status": {}})).ok()
        written = (await client.get(path)).ok()
        (await client.replace(path, {**written, "metadata": _unprotected(written)})).ok()

    async def test_who_uses_a_claim_needs_its_allocation(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{claims_in(namespace)}/a/status"
        claim = (await client.create(claims_in(namespace), a_claim("a"))).ok(201)
        refused = await client.replace(path, {**claim, "status": {"reservedFor": [consumer("p")]}})
        assert (
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
            in (refused.refused(422, "Invalid"))
        )
        twice = {"allocation": allocation(), "reservedFor": [consumer("p"), consumer("p")]}
        refused = await client.replace(path, {**claim, "status": twice})
        assert "status.reservedFor[1]: Duplicate value" in refused.refused(422, "Invalid")
        many = [consumer(f"p-{number}") for number in range(257)]
        crowded = {"allocation": allocation(), "reservedFor": many}
        refused = await client.replace(path, {**claim, "status": crowded})
        assert "status.reservedFor: Too many: 257: must have at most 256 items" in (
            refused.refused(422, "Invalid")
        )

    async def test_an_allocation_never_changes(self, client: Client, namespace: str) -> None:
        path = f"{claims_in(namespace)}/a/status"
        claim = (await client.create(claims_in(namespace), a_claim("a"))).ok(201)
        wrong = {"allocation": allocation(request="nic")}
        refused = await client.replace(path, {**claim, "status": wrong})
        assert "status.allocation.devices.results[0].request: Invalid value" in (
            refused.refused(422, "Invalid")
        )
        first = {**claim, "status": {"allocation": allocation()}}
        claim = (await client.replace(path, first)).ok()
        changed = {**claim, "status": {"allocation": allocation("gpu-1")}}
        refused = await client.replace(path, changed)
        assert "field is immutable" in refused.refused(422, "Invalid")
        (await client.replace(path, {**claim, "status": {}})).ok()

    async def test_one_consumer_leaves_by_a_patch(self, client: Client, namespace: str) -> None:
        path = f"{claims_in(namespace)}/a/status"
        claim = (await client.create(claims_in(namespace), a_claim("a"))).ok(201)
        users = [consumer("p"), consumer("q")]
        reserved = {**claim, "status": {"allocation": allocation(), "reservedFor": users}}
        (await client.replace(path, reserved)).ok()
        leaving = {
            "metadata": {"uid": claim["metadata"]["uid"]},
            "status": {"reservedFor": [{"$patch": "delete", "uid": "uid-of-p"}]},
        }
        patched = (await client.patch(path, leaving, STRATEGIC)).ok()
        assert patched["status"]["reservedFor"] == [consumer("q")]

    async def test_words_of_drivers_go_with_their_devices(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{claims_in(namespace)}/a/status"
        claim = (await client.create(claims_in(namespace), a_claim("a"))).ok(201)
        device = {"driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
        status = {"allocation": allocation(), "devices": [{**device, "device": "gpu-9"}]}
        refused = await client.replace(path, {**claim, "status": status})
        assert "must be an allocated device in the claim" in refused.refused(422, "Invalid")
        status = {"allocation": allocation(), "devices": [device]}
        claim = (await client.replace(path, {**claim, "status": status})).ok()
        (shown,) = claim["status"]["devices"]
        assert shown.items() >= device.items()
        freed = (await client.replace(path, {**claim, "status": {"devices": [device]}})).ok()
        assert "devices" not in freed.get("status", {})

    async def test_access_to_devices_in_use_needs_a_label_of_the_namespace(
        self, client: Client, namespace: str
    ) -> None:
        refused = await client.create(claims_in(namespace), a_claim("a", adminAccess=True))
        assert (
            "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires "
            "the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
        ) in refused.refused(422, "Invalid")
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        (await client.patch(f"/api/v1/namespaces/{namespace}", label)).ok()
        (await client.create(claims_in(namespace), a_claim("a", adminAccess=True))).ok(201)

    async def test_a_slice_says_what_is_wrong_with_it(self, client: Client) -> None:
        name = unique("slice")
        refused = await client.create(SLICES, a_slice(name, allNodes=True))
        assert "but multiple fields are set" in refused.refused(422, "Invalid")
        body = a_slice(name)
        del body["spec"]["nodeName"]
        refused = await client.create(SLICES, body)
        assert (
            "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
            "`perDeviceNodeSelection` is required"
        ) in refused.refused(422, "Invalid")
        twice = a_slice(name, devices=[{"name": "a"}, {"name": "a"}])
        refused = await client.create(SLICES, twice)
        assert 'spec.devices[1]: Duplicate value: "a"' in refused.refused(422, "Invalid")
        many = a_slice(name, devices=[{"name": f"d-{number}"} for number in range(129)])
        refused = await client.create(SLICES, many)
        assert "spec.devices: Too many: 129: must have at most 128 items" in (
            refused.refused(422, "Invalid")
        )
        device = {"name": "a", "attributes": {"v": {"version": "1.2"}}}
        refused = await client.create(SLICES, a_slice(name, devices=[device]))
        assert "must be a string compatible with semver.org spec 2.0.0" in (
            refused.refused(422, "Invalid")
        )
        device = {"name": "a", "capacity": {"memory": {"value": "much"}}}
        refused = await client.create(SLICES, a_slice(name, devices=[device]))
        refused.refused(400, "BadRequest")

    async def test_a_slice_counts_its_changes(self, client: Client) -> None:
        taint = {"key": "example.com/broken", "effect": "NoSchedule"}
        body = a_slice(unique("slice"), devices=[{"name": "a", "taints": [taint]}])
        async with made(client, SLICES, body) as found:
            assert found["metadata"]["generation"] == 1
            assert found["spec"]["devices"][0]["taints"][0]["timeAdded"].endswith("Z")
            found["spec"]["pool"]["generation"] = 2
            path = f"{SLICES}/{found['metadata']['name']}"
            changed = (await client.replace(path, found)).ok()
            assert changed["metadata"]["generation"] == 2
            changed["spec"]["pool"]["name"] = "another"
            refused = await client.replace(path, changed)
            assert "spec.pool.name: Invalid value" in refused.refused(422, "Invalid")

    async def test_a_class_of_devices(self, client: Client) -> None:
        selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
        name = unique("class")
        async with made(
            client, CLASSES, {"metadata": {"name": name}, "spec": {"selectors": selectors}}
        ) as found:
            assert found["metadata"]["generation"] == 1
            assert found["spec"]["selectors"] == selectors

    async def test_templates_hold_claims(self, client: Client, namespace: str) -> None:
        path = f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates"
        template = {"metadata": {"name": "t"}, "spec": {"spec": a_claim("x")["spec"]}}
        created = (await client.create(path, template)).ok(201)
        (request,) = created["spec"]["spec"]["devices"]["requests"]
        assert request["exactly"]["count"] == 1
        created["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
        refused = await client.replace(f"{path}/t", created)
        assert "field is immutable" in refused.refused(422, "Invalid")


def _unprotected(body: Body) -> Body:
    return {key: value for key, value in body["metadata"].items() if key != "finalizers"}
