"""Create, replace, patch, delete: what is filled in, what is refused, what survives."""

import pytest

from tests.apicontract.client import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Body,
    Client,
    a_binding,
    a_lease,
    a_pod,
    condition,
    leases_in,
    names,
    pods_in,
)


class Writing:
    async def test_create_fills_in_the_metadata(self, client: Client, namespace: str) -> None:
        path = leases_in(namespace)
        created = (await client.create(path, a_lease("a"))).ok(201)
        metadata = created["metadata"]
        assert metadata["namespace"] == namespace
        assert metadata["uid"]
        assert metadata["creationTimestamp"].endswith("Z")
        assert int(metadata["resourceVersion"]) > 0
        assert (await client.get(f"{path}/a")).ok() == created

    async def test_a_name_is_taken_once(self, client: Client, namespace: str) -> None:
        path = leases_in(namespace)
        (await client.create(path, a_lease("a"))).ok(201)
        again = await client.create(path, a_lease("a"))
        assert (
            again.refused(409, "AlreadyExists") == 'leases.coordination.k8s.io "a" already exists'
        )
        assert again.body["details"] == {
            "name": "a",
            "group": "coordination.k8s.io",
            "kind": "leases",
        }

    async def test_names_are_generated(self, client: Client, namespace: str) -> None:
        body = {"metadata": {"generateName": "job-"}}
        made = [(await client.create(leases_in(namespace), body)).ok(201) for _ in range(2)]
        first, second = (each["metadata"]["name"] for each in made)
        assert first != second
        assert first.startswith("job-")
        assert len(first) == len("job-") + 5

    async def test_create_needs_a_namespace_that_exists(self, client: Client) -> None:
        reply = await client.create(leases_in("contract-nowhere"), a_lease("a"))
        assert reply.refused(404, "NotFound") == 'namespaces "contract-nowhere" not found'

    async def test_create_needs_the_namespace_of_the_path(
        self, client: Client, namespace: str
    ) -> None:
        body = {"metadata": {"name": "a", "namespace": "other"}}
        (await client.create(leases_in(namespace), body)).refused(400, "BadRequest")

    @pytest.mark.parametrize("name", ["", "Not_A_Name"])
    async def test_create_needs_a_proper_name(
        self, client: Client, namespace: str, name: str
    ) -> None:
        reply = await client.create(pods_in(namespace), a_pod(name))
        reply.refused(422, "Invalid")
        assert reply.body["details"]["causes"][0]["field"] == "metadata.name"

    async def test_what_is_not_json_is_a_bad_request(self, client: Client, namespace: str) -> None:
        (await client.create(leases_in(namespace), ["no object"])).refused(400, "BadRequest")  # type: ignore[arg-type]  # because that is the point

    async def test_pods_get_what_schedulers_rely_on(self, client: Client, namespace: str) -> None:
        body = a_pod("p")
        body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "64Mi"}}
        del body["spec"]["schedulerName"]
        body["spec"]["nodeName"] = "contract-node"
        pod = (await client.create(pods_in(namespace), body)).ok(201)
        spec, status = pod["spec"], pod["status"]
        assert pod["metadata"]["generation"] == 1
        assert (status["phase"], status["qosClass"]) == ("Pending", "Guaranteed")
        assert (spec["schedulerName"], spec["priority"]) == ("default-scheduler", 0)
        assert spec["preemptionPolicy"] == "PreemptLowerPriority"
        assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
        assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "64Mi"}
        assert [(t["key"], t["effect"], t["tolerationSeconds"]) for t in spec["tolerations"]] == [
            ("node.kubernetes.io/not-ready", "NoExecute", 300),
            ("node.kubernetes.io/unreachable", "NoExecute", 300),
        ]

    async def test_a_status_given_at_creation_is_ignored(
        self, client: Client, namespace: str
    ) -> None:
        body = {**a_pod("p"), "status": {"phase": "Running", "podIP": "10.0.0.1"}}
        pod = (await client.create(pods_in(namespace), body)).ok(201)
        assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}

    async def test_label_keys_become_selector_expressions(
        self, client: Client, namespace: str
    ) -> None:
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "matchLabelKeys": ["revision"],
        }
        body = a_pod("p", topologySpreadConstraints=[constraint])
        body["metadata"]["labels"] = {"app": "web", "revision": "7"}
        pod = (await client.create(pods_in(namespace), body)).ok(201)
        selector = pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]
        assert selector["matchExpressions"] == [
            {"key": "revision", "operator": "In", "values": ["7"]}
        ]

    async def test_priority_classes_are_resolved(self, client: Client, namespace: str) -> None:
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        body = {"metadata": {"name": namespace}, "value": 77, "preemptionPolicy": "Never"}
        (await client.create(classes, body)).ok(201)
        try:
            pod = a_pod("p", priorityClassName=namespace)
            spec = (await client.create(pods_in(namespace), pod)).ok(201)["spec"]
            assert (spec["priority"], spec["preemptionPolicy"]) == (77, "Never")
        finally:
            await client.delete(f"{classes}/{namespace}")
        unknown = await client.create(pods_in(namespace), a_pod("q", priorityClassName="no-such"))
        assert "no PriorityClass with name no-such was found" in unknown.refused(403, "Forbidden")

    @pytest.mark.parametrize(
        ("requests", "limits", "status", "reason"),
        [
            ({"cpu": "lots"}, {}, 400, "BadRequest"),
            ({"memory": "1Zi"}, {}, 400, "BadRequest"),
            ({"cpu": "-1"}, {}, 422, "Invalid"),
            ({"cpu": "2"}, {"cpu": "1"}, 422, "Invalid"),
        ],
    )
    async def test_impossible_amounts_are_refused(
        self, client: Client, namespace: str, requests: Body, limits: Body, status: int, reason: str
    ) -> None:
        pod = a_pod("p")
        pod["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": limits}
        (await client.create(pods_in(namespace), pod)).refused(status, reason)

    async def test_a_pod_needs_containers(self, client: Client, namespace: str) -> None:
        reply = await client.create(pods_in(namespace), a_pod("p", containers=[]))
        assert "spec.containers: Required value" in reply.refused(422, "Invalid")

    async def test_replace_needs_the_latest_version(self, client: Client, namespace: str) -> None:
        path = f"{leases_in(namespace)}/a"
        first = (await client.create(leases_in(namespace), a_lease("a"))).ok(201)
        changed = {**first, "spec": {"holderIdentity": "one"}}
        second = (await client.replace(path, changed)).ok()
        assert int(second["metadata"]["resourceVersion"]) > int(
            first["metadata"]["resourceVersion"]
        )
        late = await client.replace(path, {**first, "spec": {"holderIdentity": "two"}})
        message = late.refused(409, "Conflict")
        assert "the object has been modified; please apply your changes to the latest" in message
        assert (await client.get(path)).ok()["spec"]["holderIdentity"] == "one"

    async def test_replace_without_a_version(self, client: Client, namespace: str) -> None:
        (await client.create(leases_in(namespace), a_lease("a"))).ok(201)
        lease = await client.replace(f"{leases_in(namespace)}/a", a_lease("a"))
        lease.refused(422, "Invalid")
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        (await client.create(maps, {"metadata": {"name": "m"}, "data": {"k": "1"}})).ok(201)
        plain = {"metadata": {"name": "m"}, "data": {"k": "2"}}
        assert (await client.replace(f"{maps}/m", plain)).ok()["data"] == {"k": "2"}

    async def test_replace_is_meant_for_one_incarnation(
        self, client: Client, namespace: str
    ) -> None:
        lease = (await client.create(leases_in(namespace), a_lease("a"))).ok(201)
        lease["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
        (await client.replace(f"{leases_in(namespace)}/a", lease)).refused(409, "Conflict")

    async def test_replace_needs_the_name_of_the_path(self, client: Client, namespace: str) -> None:
        lease = (await client.create(leases_in(namespace), a_lease("a"))).ok(201)
        (await client.replace(f"{leases_in(namespace)}/b", lease)).refused(400, "BadRequest")

    async def test_a_write_without_a_change_is_no_write(
        self, client: Client, namespace: str
    ) -> None:
        lease = (await client.create(leases_in(namespace), a_lease("a"))).ok(201)
        same = (await client.patch(f"{leases_in(namespace)}/a", {"spec": lease["spec"]})).ok()
        assert same["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"]

    async def test_merge_patch(self, client: Client, namespace: str) -> None:
        path = f"{leases_in(namespace)}/a"
        lease = (await client.create(leases_in(namespace), a_lease("a", one="1", two="2"))).ok(201)
        labels = {"metadata": {"labels": {"one": None, "three": "3"}}}
        patched = (await client.patch(path, labels)).ok()
        assert patched["metadata"]["labels"] == {"two": "2", "three": "3"}
        stale = {
            "metadata": {
                "resourceVersion": lease["metadata"]["resourceVersion"],
                "labels": {"x": "y"},
            }
        }
        (await client.patch(path, stale)).refused(409, "Conflict")
        other = {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}}
        (await client.patch(path, other)).refused(422, "Invalid")
        (await client.patch(f"{leases_in(namespace)}/nobody", labels)).refused(404, "NotFound")

    async def test_json_patch(self, client: Client, namespace: str) -> None:
        path = f"{leases_in(namespace)}/a"
        (await client.create(leases_in(namespace), a_lease("a"))).ok(201)
        taken = [
            {"op": "test", "path": "/spec/holderIdentity", "value": "someone"},
            {"op": "replace", "path": "/spec/holderIdentity", "value": "me"},
            {"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}},
        ]
        patched = (await client.patch(path, taken, JSON_PATCH)).ok()
        assert patched["spec"]["holderIdentity"] == "me"
        (await client.patch(path, taken, JSON_PATCH)).refused(422, "Invalid")
        removed = [{"op": "remove", "path": "/metadata/labels/a~1b"}]
        assert "labels" not in (await client.patch(path, removed, JSON_PATCH)).ok()["metadata"]

    async def test_strategic_patch_merges_conditions_by_type(
        self, client: Client, namespace: str
    ) -> None:
        pod = (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        path = f"{pods_in(namespace)}/p/status"
        for kind, reason in (
            ("PodScheduled", "Unschedulable"),
            ("Ready", "x"),
            ("PodScheduled", "SchedulerError"),
        ):
            entry = {"type": kind, "status": "False", "reason": reason}
            patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [entry]}}
            patched = (await client.patch(path, patch, STRATEGIC)).ok()
        assert condition(patched, "PodScheduled")["reason"] == "SchedulerError"
        assert condition(patched, "Ready")["reason"] == "x"
        assert len(patched["status"]["conditions"]) == 2
        directive = {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
        left = (await client.patch(path, directive, STRATEGIC)).ok()
        assert [each["type"] for each in left["status"]["conditions"]] == ["PodScheduled"]
        emptied = (await client.patch(path, {"status": {"conditions": None}}, MERGE)).ok()
        assert "conditions" not in emptied["status"]

    async def test_status_and_spec_have_their_own_endpoints(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{pods_in(namespace)}/p"
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        both = {
            "metadata": {"labels": {"seen": "yes"}},
            "spec": {"activeDeadlineSeconds": 99},
            "status": {"nominatedNodeName": "n1"},
        }
        through_status = (await client.patch(f"{path}/status", both)).ok()
        assert through_status["status"]["nominatedNodeName"] == "n1"
        assert "activeDeadlineSeconds" not in through_status["spec"]
        assert through_status["metadata"]["labels"] == {"seen": "yes"}
        assert through_status["metadata"]["generation"] == 1
        both["status"] = {"nominatedNodeName": "n2"}
        through_object = (await client.patch(path, both)).ok()
        assert through_object["status"]["nominatedNodeName"] == "n1"
        assert through_object["spec"]["activeDeadlineSeconds"] == 99
        assert through_object["metadata"]["generation"] == 2
        assert (await client.get(f"{path}/status")).ok() == through_object

    async def test_a_pods_place_cannot_be_written(self, client: Client, namespace: str) -> None:
        pod = (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        pod["spec"]["nodeName"] = "n1"
        reply = await client.replace(f"{pods_in(namespace)}/p", pod)
        assert "pod updates may not change fields other than" in reply.refused(422, "Invalid")
        pod["spec"].pop("nodeName")
        pod["spec"]["containers"][0]["image"] = "registry.example/pause:2"
        image = (await client.replace(f"{pods_in(namespace)}/p", pod)).ok()
        assert image["spec"]["containers"][0]["image"] == "registry.example/pause:2"

    async def test_gates_can_only_be_removed(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
        pod = (await client.create(pods_in(namespace), a_pod("p", schedulingGates=gates))).ok(201)
        gated = condition(pod, "PodScheduled")
        assert (gated["status"], gated["reason"]) == ("False", "SchedulingGated")
        more = {"spec": {"schedulingGates": [*gates, {"name": "example.com/c"}]}}
        (await client.patch(path, more)).refused(422, "Invalid")
        chosen = {"spec": {"schedulingGates": gates[1:], "nodeSelector": {"zone": "a"}}}
        (await client.patch(path, chosen)).ok()
        opened = (await client.patch(path, {"spec": {"schedulingGates": None}})).ok()
        assert "schedulingGates" not in opened["spec"]
        assert opened["spec"]["nodeSelector"] == {"zone": "a"}
        (await client.patch(path, {"spec": {"nodeSelector": {"zone": "b"}}})).refused(
            422, "Invalid"
        )

    async def test_an_unbound_pod_goes_at_once(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        pod = (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        gone = (await client.delete(path)).ok()
        assert gone["metadata"]["uid"] == pod["metadata"]["uid"]
        (await client.get(path)).refused(404, "NotFound")
        assert (await client.delete(path)).refused(404, "NotFound") == 'pods "p" not found'

    async def test_a_bound_pod_gets_its_grace(self, client: Client, namespace: str) -> None:
        path = f"{pods_in(namespace)}/p"
        (await client.create(pods_in(namespace), a_pod("p"))).ok(201)
        (await client.create(f"{path}/binding", a_binding("p"))).ok(201)
        leaving = (await client.delete(path, gracePeriodSeconds="100")).ok()["metadata"]
        assert leaving["deletionGracePeriodSeconds"] == 100
        assert leaving["deletionTimestamp"] > leaving["creationTimestamp"]
        assert leaving["generation"] == 2
        longer = (await client.delete(path, gracePeriodSeconds="200")).ok()["metadata"]
        assert longer["deletionGracePeriodSeconds"] == 100
        shorter = (await client.delete(path, gracePeriodSeconds="50")).ok()["metadata"]
        assert shorter["deletionGracePeriodSeconds"] == 50
        assert shorter["deletionTimestamp"] < leaving["deletionTimestamp"]
        assert shorter["generation"] == 2
        (await client.delete(path, {"gracePeriodSeconds": 0})).ok()
        (await client.get(path)).refused(404, "NotFound")

    async def test_finalizers_are_waited_for(self, client: Client, namespace: str) -> None:
        path = f"{leases_in(namespace)}/a"
        lease = a_lease("a")
        lease["metadata"]["finalizers"] = ["example.com/wait"]
        (await client.create(leases_in(namespace), lease)).ok(201)
        (await client.delete(path)).ok()
        waiting = (await client.get(path)).ok()["metadata"]
        assert waiting["deletionTimestamp"]
        more = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
        (await client.patch(path, more)).refused(422, "Invalid")
        (await client.patch(path, {"metadata": {"finalizers": None}})).ok()
        (await client.get(path)).refused(404, "NotFound")

    async def test_delete_is_meant_for_one_incarnation(
        self, client: Client, namespace: str
    ) -> None:
        path = f"{leases_in(namespace)}/a"
        lease = (await client.create(leases_in(namespace), a_lease("a"))).ok(201)
        wrong = {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}}
        (await client.delete(path, wrong)).refused(409, "Conflict")
        right = {"preconditions": {"uid": lease["metadata"]["uid"]}}
        gone = (await client.delete(path, right)).ok()
        assert gone["status"] == "Success"
        assert gone["details"]["uid"] == lease["metadata"]["uid"]

    async def test_a_selected_collection_is_deleted(self, client: Client, namespace: str) -> None:
        path = leases_in(namespace)
        for lease in (a_lease("a", kind="x"), a_lease("b", kind="y"), a_lease("c", kind="x")):
            (await client.create(path, lease)).ok(201)
        deleted = (await client.delete(path, labelSelector="kind=x")).ok()
        assert sorted(names(deleted)) == ["a", "c"]
        assert names((await client.get(path)).ok()) == ["b"]
