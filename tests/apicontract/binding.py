"""pods/binding: a scheduler's one decisive write."""

import pytest

from tests.apicontract.client import Client, a_binding, a_pod, condition, pods_in

OTHER_UID = "00000000-0000-4000-8000-000000000000"


class Binding:
    async def test_binding_places_the_pod(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        body = a_pod("p")
        body["metadata"]["annotations"] = {"had": "1"}
        pod = (await client.create(pods_in(namespace), body)).ok(201)
        (
            await client.patch(f"{path}/status", {"status": {"nominatedNodeName": "contract-node"}})
        ).ok()
        binding = a_binding("p", uid=pod["metadata"]["uid"], annotations={"got": "2"})
        reply = (await client.create(f"{path}/binding", binding)).ok(201)
        assert (reply["kind"], reply["status"]) == ("Status", "Success")
        bound = (await client.get(path)).ok()
        assert bound["spec"]["nodeName"] == "contract-node"
        assert bound["metadata"]["annotations"] == {"had": "1", "got": "2"}
        assert "nominatedNodeName" not in bound["status"]
        scheduled = condition(bound, "PodScheduled")
        assert scheduled["status"] == "True"
        assert scheduled["lastTransitionTime"]

    async def test_binding_ends_the_unschedulable_condition(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{pods_in(namespace)}/p"
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        entry = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "full",
        }
        (await client.patch(f"{path}/status", {"status": {"conditions": [entry]}})).ok()
        (await client.create(f"{path}/binding", a_binding("p"))).ok(201)
        scheduled = condition((await client.get(path)).ok(), "PodScheduled")
        assert scheduled["status"] == "True"
        assert "reason" not in scheduled
        assert "message" not in scheduled

    async def test_a_bound_pod_is_not_nominated(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        (await client.create(f"{path}/binding", a_binding("p"))).ok(201)
        late = await client.patch(f"{path}/status", {"status": {"nominatedNodeName": "other"}})
        assert "already bound to a node" in late.refused(422, "Invalid")

    async def test_a_pod_is_bound_once(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        (await client.create(f"{path}/binding", a_binding("p", "n1"))).ok(201)
        for node in ("n1", "n2"):
            again = await client.create(f"{path}/binding", a_binding("p", node))
            assert again.refused(409, "Conflict") == (
                'Operation cannot be fulfilled on pods/binding "p": '
                'pod p is already assigned to node "n1"'
            )
        assert (await client.get(path)).ok()["spec"]["nodeName"] == "n1"

    async def test_a_binding_is_meant_for_one_incarnation(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{pods_in(namespace)}/p"
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        message = (await client.create(f"{path}/binding", a_binding("p", uid=OTHER_UID))).refused(
            409, "Conflict"
        )
        assert f"Precondition failed: UID in precondition: {OTHER_UID}" in message
        assert "nodeName" not in (await client.get(path)).ok()["spec"]

    async def test_a_pod_that_leaves_is_not_bound(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        pod = a_pod("p")
        pod["metadata"]["finalizers"] = ["example.com/wait"]
        (await client.create(pods_in(namespace), pod)).ok(201)
        (await client.delete(path)).ok()
        message = (await client.create(f"{path}/binding", a_binding("p"))).refused(409, "Conflict")
        assert message.endswith("pod p is being deleted, cannot be assigned to a host")
        (await client.patch(path, {"metadata": {"finalizers": None}})).ok()

    async def test_a_gated_pod_is_not_bound(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        gated = a_pod("p", schedulingGates=[{"name": "example.com/wait"}])
        (await client.create(pods_in(namespace), gated)).ok(201)
        message = (await client.create(f"{path}/binding", a_binding("p"))).refused(409, "Conflict")
        assert message.endswith("pod p has non-empty .spec.schedulingGates")

    async def test_a_binding_needs_a_pod_a_name_and_a_node(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{pods_in(namespace)}/p/binding"
        assert (await client.create(path, a_binding("p"))).refused(
            404, "NotFound"
        ) == 'pods "p" not found'
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        (await client.create(path, a_binding("q"))).refused(400, "BadRequest")
        assert (await client.create(path, a_binding("p", ""))).status == 500

    @pytest.mark.parametrize("labels", [{"example.com/place": "rack-7"}])
    async def test_the_bindings_labels_reach_the_pod(
        self, client: Client, namespace: str, labels: dict[str, str]
    ) -> None:
        path = f"{pods_in(namespace)}/p"
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        (await client.create(f"{path}/binding", a_binding("p", labels=labels))).ok(201)
        assert (await client.get(path)).ok()["metadata"]["labels"] == labels

    async def test_the_old_bindings_resource_does_the_same(
        self, client: Client, namespace: str
    ) -> None:
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        path = f"/api/v1/namespaces/{namespace}/bindings"
        (await client.create(path, a_binding("p", "n1"))).ok(201)
        (await client.create(path, a_binding("p", "n1"))).refused(409, "Conflict")
        assert (await client.get(f"{pods_in(namespace)}/p")).ok()["spec"]["nodeName"] == "n1"
