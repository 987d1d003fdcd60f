"""Kinds with a behaviour of their own: events, leases, nodes, namespaces, custom resources."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.apicontract.client import (
    PATIENCE,
    STRATEGIC,
    Body,
    Client,
    a_lease,
    a_pod,
    leases_in,
    new_namespace,
    pods_in,
)

NOW = "2026-01-02T03:04:05.000006Z"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def an_event(name: str, namespace: str, **more: Any) -> Body:
    return {
        "metadata": {"name": name},
        "eventTime": NOW,
        "reportingController": "contract-test",
        "reportingInstance": "contract-test-0",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": "0/1 nodes are available.",
        "regarding": {"kind": "Pod", "name": "p", "namespace": namespace},
        **more,
    }


def a_crd(group: str) -> Body:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version],
        },
    }


async def established(client: Client, name: str) -> None:
    """Wait until a CRD is served."""
    async with client.watch(CRDS, fieldSelector=f"metadata.name={name}") as watch:
        while True:
            _, crd = await watch.next()
            conditions = crd.get("status", {}).get("conditions") or ()
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                return


@asynccontextmanager
async def served_widgets(client: Client, namespace: str) -> AsyncIterator[str]:
    """The path of a kind that exists only here."""
    group = f"x{secrets.token_hex(4)}.example.com"
    path = f"/apis/{group}/v1alpha1/namespaces/{namespace}/widgets"
    (await client.create(CRDS, a_crd(group))).ok(201)
    try:
        await established(client, f"widgets.{group}")
        await until_status(client, path, 200)
        yield path
    finally:
        await client.delete(f"{CRDS}/widgets.{group}")


async def until_status(client: Client, path: str, status: int) -> None:
    """Ask until the answer has this status: for what a server does a moment later."""
    async with asyncio.timeout(PATIENCE):
        while (await client.get(path)).status != status:  # noqa: ASYNC110  because it is remote
            await asyncio.sleep(0.05)


class Kinds:
    async def test_an_event_is_one_object_in_two_groups(
        self, client: Client, namespace: str
    ) -> None:
        new = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        old = f"/api/v1/namespaces/{namespace}/events"
        created = (await client.create(new, an_event("e", namespace))).ok(201)
        seen = (await client.get(f"{old}/e")).ok()
        assert (seen["kind"], seen["apiVersion"]) == ("Event", "v1")
        assert seen["metadata"]["uid"] == created["metadata"]["uid"]
        assert seen["message"] == "0/1 nodes are available."
        assert seen["involvedObject"]["name"] == "p"
        assert seen["reportingComponent"] == "contract-test"
        fields = "involvedObject.name=p,reason=FailedScheduling"
        assert len((await client.get(old, fieldSelector=fields)).ok()["items"]) == 1
        fields = "regarding.name=p,reportingController=contract-test"
        assert len((await client.get(new, fieldSelector=fields)).ok()["items"]) == 1

    async def test_an_event_becomes_a_series(self, client: Client, namespace: str) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        (await client.create(path, an_event("e", namespace))).ok(201)
        series = {"series": {"count": 2, "lastObservedTime": NOW}}
        patched = (await client.patch(f"{path}/e", series, STRATEGIC)).ok()
        assert patched["series"] == series["series"]
        assert patched["note"] == "0/1 nodes are available."
        short = {"series": {"count": 1, "lastObservedTime": NOW}}
        (await client.patch(f"{path}/e", short, STRATEGIC)).refused(422, "Invalid")
        (await client.patch(f"{path}/e", {"note": "else"}, STRATEGIC)).refused(422, "Invalid")

    async def test_events_are_complete_or_refused(self, client: Client, namespace: str) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        for field in (
            "eventTime",
            "reportingController",
            "reportingInstance",
            "action",
            "reason",
            "type",
        ):
            event = an_event("e", namespace)
            del event[field]
            (await client.create(path, event)).refused(422, "Invalid")
        long = an_event("e", namespace, note="x" * 1025)
        (await client.create(path, long)).refused(422, "Invalid")
        seconds = an_event("e", namespace, eventTime="2026-01-02T03:04:05Z")
        (await client.create(path, seconds)).refused(400, "BadRequest")
        about_nothing = an_event("e", namespace, regarding={"kind": "Node", "name": "n"})
        (await client.create(path, about_nothing)).refused(422, "Invalid")

    async def test_of_two_candidates_one_gets_the_lease(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{leases_in(namespace)}/lock"
        seen = (await client.create(leases_in(namespace), a_lease("lock"))).ok(201)
        bids = [
            {**seen, "spec": {"holderIdentity": who, "renewTime": NOW}} for who in ("one", "two")
        ]
        replies = await asyncio.gather(*(client.replace(path, bid) for bid in bids))
        assert sorted(reply.status for reply in replies) == [200, 409]
        winner = next(reply for reply in replies if reply.status == 200).ok()
        holder = (await client.get(path)).ok()["spec"]
        assert holder == winner["spec"]
        assert holder["renewTime"] == NOW

    async def test_lease_times_have_microseconds(self, client: Client, namespace: str) -> None:
        lease = a_lease("lock")
        lease["spec"]["renewTime"] = "2026-01-02T03:04:05Z"
        (await client.create(leases_in(namespace), lease)).refused(400, "BadRequest")
        lease["spec"] = {"leaseDurationSeconds": 0}
        (await client.create(leases_in(namespace), lease)).refused(422, "Invalid")

    async def test_a_lease_may_be_created_by_replacing_it(
        self, client: Client, namespace: str
    ) -> None:
        made = await client.replace(f"{leases_in(namespace)}/lock", a_lease("lock"))
        assert made.ok(201)["metadata"]["uid"]

    async def test_nodes_come_with_their_status(self, client: Client, namespace: str) -> None:
        path = f"/api/v1/nodes/{namespace}"
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/widget": "3"}
        body = {
            "metadata": {"name": namespace, "labels": {"zone": "a"}},
            "spec": {"taints": [{"key": "contract", "value": "x", "effect": "NoSchedule"}]},
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        try:
            created = (await client.create("/api/v1/nodes", body)).ok(201)
            assert created["status"]["allocatable"] == capacity
            ignored = {
                "spec": {"unschedulable": True},
                "status": {"allocatable": {"example.com/widget": "9"}},
            }
            cordoned = (await client.patch(path, ignored, STRATEGIC)).ok()
            assert cordoned["spec"]["unschedulable"] is True
            assert cordoned["status"]["allocatable"]["example.com/widget"] == "3"
            grown = {"status": {"allocatable": {"example.com/widget": "2"}}}
            patched = (await client.patch(f"{path}/status", grown, STRATEGIC)).ok()
            assert patched["status"]["allocatable"]["example.com/widget"] == "2"
            taints = {"spec": {"taints": [{"key": "other", "effect": "NoExecute"}]}}
            tainted = (await client.patch(path, taints, STRATEGIC)).ok()
            assert [taint["key"] for taint in tainted["spec"]["taints"]] == ["other"]
            selected = (
                await client.get("/api/v1/nodes", fieldSelector=f"metadata.name={namespace}")
            ).ok()
            assert len(selected["items"]) == 1
        finally:
            await client.delete(path)

    async def test_a_namespace_is_labelled_and_active(self, client: Client, namespace: str) -> None:
        found = (await client.get(f"/api/v1/namespaces/{namespace}")).ok()
        assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace
        assert found["status"]["phase"] == "Active"

    async def test_a_namespace_takes_its_contents_along(self, client: Client) -> None:
        async with new_namespace(client) as name:
            held = a_lease("held")
            held["metadata"]["finalizers"] = ["example.com/wait"]
            (await client.create(leases_in(name), held)).ok(201)
            (await client.create(pods_in(name), a_pod("p"))).ok(201)
            (await client.delete(f"/api/v1/namespaces/{name}")).ok()
            refused = await client.create(pods_in(name), a_pod("late"))
            assert "because it is being terminated" in refused.refused(403, "Forbidden")
            assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
            await until_status(client, f"{pods_in(name)}/p", 404)
            leaving = (await client.get(f"/api/v1/namespaces/{name}")).ok()
            assert leaving["status"]["phase"] == "Terminating"
            freed = {"metadata": {"finalizers": None}}
            (await client.patch(f"{leases_in(name)}/held", freed)).ok()
            await until_status(client, f"/api/v1/namespaces/{name}", 404)

    async def test_system_namespaces_stay(self, client: Client) -> None:
        (await client.delete("/api/v1/namespaces/default")).refused(403, "Forbidden")
        for name in ("default", "kube-system", "kube-node-lease"):
            (await client.get(f"/api/v1/namespaces/{name}")).ok()

    async def test_a_watch_from_a_version_long_gone_fails_in_its_stream(
        self, client: Client, namespace: str
    ) -> None:
        # A server may well remember its first days; of a new kind it knows nothing so old.
        async with (
            served_widgets(client, namespace) as path,
            client.watch(path, resourceVersion="1") as watch,
        ):
            assert watch.status == 200
            kind, status = await watch.next()
            assert await watch.ended()
        assert kind == "ERROR"
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"].startswith("too old resource version: 1 (")

    async def test_a_crd_serves_a_new_kind(self, client: Client, namespace: str) -> None:
        async with served_widgets(client, namespace) as path:
            api_version = "/".join(path.split("/")[2:4])
            widget = {
                "apiVersion": api_version,
                "kind": "Widget",
                "metadata": {"name": "w"},
                "spec": {"size": 1},
                "status": {"phase": "dropped"},
            }
            created = (await client.create(path, widget)).ok(201)
            assert created["metadata"]["generation"] == 1
            assert "status" not in created
            status = {"spec": {"size": 9}, "status": {"phase": "Fine"}}
            reported = (await client.patch(f"{path}/w/status", status)).ok()
            assert (reported["spec"], reported["status"]) == ({"size": 1}, {"phase": "Fine"})
            assert reported["metadata"]["generation"] == 1
            grown = (await client.patch(f"{path}/w", {"spec": {"size": 2}})).ok()
            assert grown["metadata"]["generation"] == 2
            assert grown["status"] == {"phase": "Fine"}
            refused = await client.patch(f"{path}/w", {}, STRATEGIC)
            refused.refused(415, "UnsupportedMediaType")
            listed = (await client.get(path)).ok()
            assert (listed["kind"], listed["items"][0]["kind"]) == ("WidgetList", "Widget")
            async with client.watch(path) as watch:
                assert (await watch.next())[0] == "ADDED"
            found = (await client.get(f"/apis/{api_version}")).ok()["resources"]
            assert {each["name"] for each in found} == {"widgets", "widgets/status"}
        await until_status(client, path, 404)
