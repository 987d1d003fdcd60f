"""Scale and eviction."""

from tests.apicontract.client import (
    Body,
    Client,
    a_binding,
    a_deployment,
    a_pod,
    deployments_in,
    pods_in,
)

BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


def an_eviction(name: str) -> Body:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


class Subresources:
    async def test_scale_shows_and_sets_replicas(self, client: Client, namespace: str) -> None:
        path = f"{deployments_in(namespace)}/d"
        (await client.create(deployments_in(namespace), a_deployment("d", 2))).ok(201)
        scale = (await client.get(f"{path}/scale")).ok()
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert scale["spec"] == {"replicas": 2}
        assert scale["status"]["selector"] == "app=d"
        patched = (await client.patch(f"{path}/scale", {"spec": {"replicas": 5}})).ok()
        assert patched["spec"]["replicas"] == 5
        assert (await client.get(path)).ok()["spec"]["replicas"] == 5
        patched["spec"]["replicas"] = 0
        del patched["metadata"]["resourceVersion"]
        assert (await client.replace(f"{path}/scale", patched)).ok()["spec"] == {}
        assert (await client.get(path)).ok()["spec"]["replicas"] == 0

    async def test_scale_is_conditional(self, client: Client, namespace: str) -> None:
        path = f"{deployments_in(namespace)}/d"
        (await client.create(deployments_in(namespace), a_deployment("d", 2))).ok(201)
        old = (await client.get(f"{path}/scale")).ok()
        (await client.patch(path, {"spec": {"replicas": 3}})).ok()
        old["spec"]["replicas"] = 9
        (await client.replace(f"{path}/scale", old)).refused(409, "Conflict")
        negative = await client.patch(f"{path}/scale", {"spec": {"replicas": -1}})
        assert "must be greater than or equal to 0" in negative.refused(422, "Invalid")
        (await client.get(f"{deployments_in(namespace)}/none/scale")).refused(404, "NotFound")

    async def test_an_eviction_deletes(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        reply = (await client.create(f"{path}/eviction", an_eviction("p"))).ok(201)
        assert (reply["kind"], reply["status"]) == ("Status", "Success")
        (await client.get(path)).refused(404, "NotFound")
        (await client.create(f"{path}/eviction", an_eviction("p"))).refused(404, "NotFound")

    async def test_a_budget_forbids_an_eviction(self, client: Client, namespace: str) -> None:
        path, budgets = f"{pods_in(namespace)}/p", BUDGETS.format(namespace)
        pod = a_pod("p")
        pod["metadata"]["labels"] = {"app": "guarded"}
        (await client.create(pods_in(namespace), pod)).ok(201)
        (await client.create(f"{path}/binding", a_binding("p"))).ok(201)
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [ready]}
        (await client.patch(f"{path}/status", {"status": status})).ok()
        budget = {
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }
        (await client.create(budgets, budget)).ok(201)
        # A controller writes this where there is one; it comes to the same.
        exhausted = {
            "observedGeneration": 1,
            "disruptionsAllowed": 0,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
        (await client.patch(f"{budgets}/b/status", {"status": exhausted})).ok()
        refused = await client.create(f"{path}/eviction", an_eviction("p"))
        message = refused.refused(429, "TooManyRequests")
        assert message == "Cannot evict pod as it would violate the pod's disruption budget."
        assert refused.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
        assert (await client.get(path)).status == 200
