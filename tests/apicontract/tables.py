"""Tables: what `kubectl get` shows."""

from typing import Any

import pytest

from tests.apicontract.client import (
    Body,
    Client,
    a_binding,
    a_deployment,
    a_lease,
    a_pod,
    deployments_in,
    leases_in,
    pods_in,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

HEADINGS = {
    "/api/v1/pods": "Name Ready Status Restarts Age IP Node Nominated-Node Readiness-Gates",
    "/api/v1/nodes": "Name Status Roles Age Version Internal-IP External-IP OS-Image "
    "Kernel-Version Container-Runtime",
    "/api/v1/namespaces": "Name Status Age",
    "/api/v1/services": "Name Type Cluster-IP External-IP Port(s) Age Selector",
    "/api/v1/events": "Last-Seen Type Reason Object Subobject Source Message First-Seen Count Name",
    "/api/v1/persistentvolumeclaims": "Name Status Volume Capacity Access-Modes StorageClass "
    "VolumeAttributesClass Age VolumeMode",
    "/apis/apps/v1/deployments": "Name Ready Up-to-date Available Age Containers Images Selector",
    "/apis/apps/v1/replicasets": "Name Desired Current Ready Age Containers Images Selector",
    "/apis/apps/v1/statefulsets": "Name Ready Age Containers Images",
    "/apis/apps/v1/daemonsets": "Name Desired Current Ready Up-to-date Available Node-Selector Age "
    "Containers Images Selector",
    "/apis/batch/v1/jobs": "Name Status Completions Duration Age Containers Images Selector",
    "/apis/networking.k8s.io/v1/ingresses": "Name Class Hosts Address Ports Age",
    "/apis/resource.k8s.io/v1/resourceslices": "Name Node Driver Pool Age",
    "/apis/coordination.k8s.io/v1/leases": "Name Holder Age",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "Name Value Global-Default Age PreemptionPolicy",
}


def headings(table: Body) -> str:
    """The headings in one line, with dashes for the spaces within them."""
    return " ".join(each["name"].replace(" ", "-") for each in table["columnDefinitions"])


def cells(table: Body, row: int = 0) -> dict[str, Any]:
    """The cells of a row by heading."""
    names = [each["name"] for each in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][row]["cells"], strict=True))


async def table(client: Client, path: str, **query: str) -> Body:
    return (await client.request("GET", path, accept=TABLE, query=query)).ok()


class Tables:
    @pytest.mark.parametrize(("path", "expected"), HEADINGS.items())
    async def test_the_columns_people_know(self, client: Client, path: str, expected: str) -> None:
        shown = await table(client, path, limit="1")
        assert shown["kind"] == "Table"
        assert headings(shown) == expected

    async def test_a_pods_row(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        shown = cells(await table(client, pods_in(namespace)))
        assert (shown["Name"], shown["Ready"], shown["Status"]) == ("p", "0/1", "Pending")
        assert (shown["Restarts"], shown["Node"], shown["IP"]) == ("0", "<none>", "<none>")
        assert shown["Age"].endswith("s")
        (await client.create(f"{path}/binding", a_binding("p", "n1"))).ok(201)
        running = {
            "phase": "Running",
            "podIP": "192.0.2.7",
            "podIPs": [{"ip": "192.0.2.7"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "image": "registry.example/pause:1",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 2,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
        }
        (await client.patch(f"{path}/status", {"status": running})).ok()
        shown = cells(await table(client, path))
        assert (shown["Ready"], shown["Status"], shown["Restarts"]) == ("1/1", "Running", "2")
        assert (shown["Node"], shown["IP"]) == ("n1", "192.0.2.7")

    async def test_a_crashing_pods_row(self, client: Client, namespace: str) -> None:
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        waiting = {
            "name": "main",
            "image": "i",
            "imageID": "",
            "ready": False,
            "restartCount": 5,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        }
        status = {"phase": "Running", "containerStatuses": [waiting]}
        (await client.patch(f"{pods_in(namespace)}/p/status", {"status": status})).ok()
        shown = cells(await table(client, f"{pods_in(namespace)}/p"))
        assert (shown["Ready"], shown["Status"]) == ("0/1", "CrashLoopBackOff")

    async def test_a_gated_pods_row(self, client: Client, namespace: str) -> None:
        gated = a_pod("p", schedulingGates=[{"name": "example.com/wait"}])
        (await client.create(pods_in(namespace), gated)).ok(201)
        shown = cells(await table(client, f"{pods_in(namespace)}/p"))
        assert shown["Status"] == "SchedulingGated"

    async def test_a_deployments_row(self, client: Client, namespace: str) -> None:
        path = deployments_in(namespace)
        (await client.create(path, a_deployment("d", 3))).ok(201)
        shown = cells(await table(client, f"{path}/d"))
        assert (shown["Name"], shown["Ready"], shown["Available"]) == ("d", "0/3", 0)
        assert shown["Images"] == "registry.example/pause:1"
        assert (shown["Containers"], shown["Selector"]) == ("main", "app=d")

    async def test_rows_bring_metadata_or_objects(self, client: Client, namespace: str) -> None:
        path = leases_in(namespace)
        (await client.create(path, a_lease("l"))).ok(201)
        plain = await table(client, path)
        assert plain["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        assert plain["metadata"]["resourceVersion"]
        whole = await table(client, path, includeObject="Object")
        assert whole["rows"][0]["object"]["spec"]["holderIdentity"] == "someone"
        none = await table(client, path, includeObject="None")
        assert not none["rows"][0].get("object")

    async def test_a_watch_of_rows(self, client: Client, namespace: str) -> None:
        path = leases_in(namespace)
        version = await client.version_of(path)
        async with client.watch(path, accept=TABLE, resourceVersion=version) as watch:
            for name in ("one", "two"):
                (await client.create(path, a_lease(name))).ok(201)
            kind, first = await watch.next()
            assert (kind, first["kind"]) == ("ADDED", "Table")
            assert headings(first) == "Name Holder Age"
            assert first["rows"][0]["cells"][:2] == ["one", "someone"]
            _, second = await watch.next()
            assert not second.get("columnDefinitions")
            assert second["rows"][0]["cells"][0] == "two"

    async def test_metadata_alone(self, client: Client, namespace: str) -> None:
        path = leases_in(namespace)
        (await client.create(path, a_lease("l", a="b"))).ok(201)
        listed = (await client.request("GET", path, accept=METADATA)).ok()
        assert listed["kind"] == "PartialObjectMetadataList"
        (item,) = listed["items"]
        assert item["metadata"]["labels"] == {"a": "b"}
        assert "spec" not in item
