"""Server-side apply and dry runs."""

from typing import Any

from tests.apicontract.client import (
    APPLY,
    STRATEGIC,
    Body,
    Client,
    Reply,
    a_deployment,
    a_lease,
    deployments_in,
    leases_in,
)


async def apply(client: Client, path: str, body: Body, manager: str = "one", **query: str) -> Reply:
    options = {"fieldManager": manager, **query}
    return await client.request("PATCH", path, body, content_type=APPLY, query=options)


def managers(body: Body) -> dict[str, Any]:
    """The fields of each manager."""
    return {each["manager"]: each["fieldsV1"] for each in body["metadata"]["managedFields"]}


def deployment(**spec: Any) -> Body:
    """A configuration that says no more than is given."""
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    return body | {"spec": spec}


class Applying:
    async def test_apply_creates_and_owns(self, client: Client, namespace: str) -> None:
        path = f"{deployments_in(namespace)}/d"
        created = (await apply(client, path, a_deployment("d"))).ok(201)
        assert created["spec"]["replicas"] == 2
        owned = managers(created)["one"]["f:spec"]
        assert owned["f:replicas"] == {}
        containers = owned["f:template"]["f:spec"]["f:containers"]
        assert containers['k:{"name":"main"}']["f:image"] == {}
        assert (await apply(client, path, a_deployment("d"))).ok()["spec"]["replicas"] == 2

    async def test_conflicts_name_the_other_manager(self, client: Client, namespace: str) -> None:
        path = f"{deployments_in(namespace)}/d"
        (await apply(client, path, a_deployment("d"))).ok(201)
        theirs = await apply(client, path, deployment(replicas=5), "two")
        message = theirs.refused(409, "Conflict")
        assert message == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
        assert theirs.body["details"]["causes"] == [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "one"',
                "field": ".spec.replicas",
            }
        ]
        forced = (await apply(client, path, deployment(replicas=5), "two", force="true")).ok()
        assert forced["spec"]["replicas"] == 5
        assert "f:replicas" not in managers(forced)["one"]["f:spec"]

    async def test_equal_values_are_shared(self, client: Client, namespace: str) -> None:
        path = f"{deployments_in(namespace)}/d"
        (await apply(client, path, a_deployment("d"))).ok(201)
        shared = (await apply(client, path, deployment(replicas=2), "two")).ok()
        assert "f:replicas" in managers(shared)["one"]["f:spec"]
        assert "f:replicas" in managers(shared)["two"]["f:spec"]

    async def test_what_is_left_out_goes(self, client: Client, namespace: str) -> None:
        path = f"{deployments_in(namespace)}/d"
        first = a_deployment("d")
        first["metadata"]["labels"] = {"a": "1", "b": "2"}
        sidecar = {"name": "sidecar", "image": "registry.example/pause:1"}
        first["spec"]["template"]["spec"]["containers"].append(sidecar)
        (await apply(client, path, first)).ok(201)
        second = a_deployment("d")
        second["metadata"]["labels"] = {"b": "2"}
        applied = (await apply(client, path, second)).ok()
        assert applied["metadata"]["labels"] == {"b": "2"}
        containers = applied["spec"]["template"]["spec"]["containers"]
        assert [each["name"] for each in containers] == ["main"]

    async def test_fields_of_others_stay(self, client: Client, namespace: str) -> None:
        path = f"{deployments_in(namespace)}/d"
        (await apply(client, path, a_deployment("d"))).ok(201)
        (await client.patch(path, {"metadata": {"annotations": {"note": "mine"}}})).ok()
        applied = (await apply(client, path, a_deployment("d"))).ok()
        assert applied["metadata"]["annotations"]["note"] == "mine"

    async def test_an_update_takes_fields_over(self, client: Client, namespace: str) -> None:
        path = f"{deployments_in(namespace)}/d"
        (await apply(client, path, a_deployment("d"))).ok(201)
        scaled = await client.request(
            "PATCH",
            path,
            {"spec": {"replicas": 4}},
            content_type=STRATEGIC,
            query={"fieldManager": "scaler"},
        )
        assert "f:replicas" in managers(scaled.ok())["scaler"]["f:spec"]
        again = await apply(client, path, a_deployment("d"))
        assert again.refused(409, "Conflict") == (
            'Apply failed with 1 conflict: conflict with "scaler" using apps/v1: .spec.replicas'
        )

    async def test_apply_needs_a_manager(self, client: Client, namespace: str) -> None:
        path = f"{deployments_in(namespace)}/d"
        reply = await client.request("PATCH", path, a_deployment("d"), content_type=APPLY)
        assert "fieldManager" in reply.refused(422, "Invalid")

    async def test_a_dry_run_stores_nothing(self, client: Client, namespace: str) -> None:
        path, query = leases_in(namespace), {"dryRun": "All"}
        tried = (await client.request("POST", path, a_lease("l"), query=query)).ok(201)
        assert tried["metadata"]["uid"]
        (await client.get(f"{path}/l")).refused(404, "NotFound")
        (await client.create(path, a_lease("l"))).ok(201)
        patch = {"spec": {"holderIdentity": "other"}}
        patched = await client.request(
            "PATCH",
            f"{path}/l",
            patch,
            content_type="application/merge-patch+json",
            query=query,
        )
        assert patched.ok()["spec"]["holderIdentity"] == "other"
        (await client.delete(f"{path}/l", dryRun="All")).ok()
        kept = (await client.get(f"{path}/l")).ok()
        assert kept["spec"]["holderIdentity"] == "someone"

    async def test_workloads_get_their_defaults(self, client: Client, namespace: str) -> None:
        made = (await client.create(deployments_in(namespace), a_deployment("d"))).ok(201)["spec"]
        assert made["strategy"]["rollingUpdate"] == {"maxUnavailable": "25%", "maxSurge": "25%"}
        assert (made["progressDeadlineSeconds"], made["revisionHistoryLimit"]) == (600, 10)
        assert made["template"]["spec"]["restartPolicy"] == "Always"
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        job = {"metadata": {"name": "j"}, "spec": {"template": template}}
        made = (await client.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)).ok(201)
        spec, uid = made["spec"], made["metadata"]["uid"]
        assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 6)
        assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        assert spec["template"]["metadata"]["labels"]["job-name"] == "j"
