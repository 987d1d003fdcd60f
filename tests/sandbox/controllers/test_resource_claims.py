"""Claims of pods: made from templates, given back when their pods have ended."""

from __future__ import annotations

from typing import Any

from sandbox.controllers.resource_claims import FINALIZER
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.store import Body
from tests.sandbox.controllers.support import World, world

GROUP = "resource.k8s.io"


def template(found: World, name: str = "one-gpu") -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
    labels = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}}
    spec = {**labels, "spec": {"devices": {"requests": requests}}}
    resource = found.registry.builtin("resourceclaimtemplates", GROUP)
    found.registry.create(resource, "default", {"metadata": {"name": name}, "spec": spec})


def pod(found: World, name: str = "train", **entry: Any) -> Body:
    entry = entry or {"resourceClaimTemplateName": "one-gpu"}
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "x", "command": ["sleep", "999"]}],
        "resourceClaims": [{"name": "gpu", **entry}],
    }
    return found.create("pods", name, spec).body


def claims(registry: Registry) -> list[Body]:
    resource = registry.builtin("resourceclaims", GROUP)
    return [each.body for each in registry.table(resource).list_at()]


def users(registry: Registry) -> list[Body]:
    """The consumers of the only claim."""
    (claim,) = claims(registry)
    listed: list[Body] = claim.get("status", {}).get("reservedFor", [])
    return listed


def allocate(found: World, claim: Body, *pods: Body, protected: bool = True) -> None:
    """What a scheduler writes."""
    resource = found.registry.builtin("resourceclaims", GROUP)
    key = ("default", claim["metadata"]["name"])
    if protected:
        found.registry.patch(resource, key, MERGE, {"metadata": {"finalizers": [FINALIZER]}})
    current = found.registry.get(resource, key).body
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    users = [
        {"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
        for each in pods
    ]
    status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": users}
    found.registry.update(resource, key, {**current, "status": status}, "status")


def end(found: World, name: str) -> None:
    resource = found.registry.builtin("pods")
    found.registry.patch(
        resource, ("default", name), MERGE, {"status": {"phase": "Succeeded"}}, "status"
    )


async def test_a_claim_is_made_from_the_template() -> None:
    async with world() as found:
        template(found)
        made_for = pod(found)
        await found.until(lambda: bool(found.status("pods", "train").get("resourceClaimStatuses")))
        (claim,) = claims(found.registry)
        (status,) = found.status("pods", "train")["resourceClaimStatuses"]
        assert status == {"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}
        assert claim["metadata"]["name"].startswith("train-gpu-")
        assert claim["metadata"]["labels"] == {"team": "a"}
        assert claim["metadata"]["annotations"] == {
            "note": "x",
            "resource.kubernetes.io/pod-claim-name": "gpu",
        }
        (owner,) = claim["metadata"]["ownerReferences"]
        assert owner["uid"] == made_for["metadata"]["uid"]
        assert owner["controller"] is True
        assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


async def test_a_template_may_come_later() -> None:
    async with world() as found:
        pod(found)
        await found.until(lambda: "FailedResourceClaimCreation" in found.reasons())
        template(found)
        await found.until(lambda: len(claims(found.registry)) == 1)


async def test_devices_go_back_when_the_last_pod_has_ended() -> None:
    async with world() as found:
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
        resource = found.registry.builtin("resourceclaims", GROUP)
        body = {"metadata": {"name": "shared"}, "spec": {"devices": {"requests": requests}}}
        found.registry.create(resource, "default", body)
        first = pod(found, "first", resourceClaimName="shared")
        second = pod(found, "second", resourceClaimName="shared")
        allocate(found, claims(found.registry)[0], first, second)
        end(found, "first")
        await found.until(lambda: [each["name"] for each in users(found.registry)] == ["second"])
        assert claims(found.registry)[0]["status"]["allocation"]
        found.delete("pods", "second")
        await found.until(lambda: not claims(found.registry)[0].get("status"))
        assert "finalizers" not in claims(found.registry)[0]["metadata"]


async def test_the_claim_of_an_ended_pod_is_deleted() -> None:
    async with world() as found:
        template(found)
        made_for = pod(found)
        await found.until(lambda: len(claims(found.registry)) == 1)
        allocate(found, claims(found.registry)[0], made_for)
        end(found, "train")
        await found.until(lambda: not claims(found.registry))


async def test_the_claim_of_a_deleted_pod_is_deleted_though_it_is_protected() -> None:
    async with world() as found:
        template(found)
        made_for = pod(found)
        await found.until(lambda: len(claims(found.registry)) == 1)
        allocate(found, claims(found.registry)[0], made_for)
        found.delete("pods", "train")
        await found.until(lambda: not claims(found.registry))


async def test_what_was_allocated_for_a_bound_pod_is_reserved_for_it() -> None:
    async with world() as found:
        template(found)
        pod(found)
        await found.until(lambda: bool((found.get("pods", "train") or {})["spec"].get("nodeName")))
        await found.until(lambda: len(claims(found.registry)) == 1)
        allocate(found, claims(found.registry)[0])
        await found.until(lambda: bool(claims(found.registry)[0]["status"].get("reservedFor")))
