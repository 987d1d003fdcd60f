"""What the server says of itself: discovery and OpenAPI; what it takes and gives."""

from typing import Any

import pytest

from tests.apicontract.client import Body, Client, deployments_in, pods_in

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field; short content only."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def a_config_map_in_protobuf() -> bytes:
    """A ConfigMap as typed clients send it: an envelope with its type, and the message."""
    metadata = field(1, b"sent")
    entry = field(1, b"key") + field(2, b"value")
    kind = field(1, b"v1") + field(2, b"ConfigMap")
    return b"k8s\x00" + field(1, kind) + field(2, field(1, metadata) + field(2, entry))


class Describing:
    async def test_discovery_at_once(self, client: Client) -> None:
        accept = f"{AGGREGATED},application/json"
        core = (await client.request("GET", "/api", accept=accept)).ok()
        assert core["kind"] == "APIGroupDiscoveryList"
        (version,) = core["items"][0]["versions"]
        pods = next(each for each in version["resources"] if each["resource"] == "pods")
        assert pods["scope"] == "Namespaced"
        assert pods["shortNames"] == ["po"]
        assert pods["categories"] == ["all"]
        evictions = [e for e in pods["subresources"] if e["subresource"] == "eviction"]
        assert evictions[0]["responseKind"]["kind"] == "Eviction"
        groups = (await client.request("GET", "/apis", accept=accept)).ok()
        assert "apps" in [each["metadata"]["name"] for each in groups["items"]]

    async def test_discovery_in_parts(self, client: Client) -> None:
        listed = (await client.get("/apis/apps/v1")).ok()["resources"]
        found = {each["name"]: each for each in listed}
        deployments = found["deployments"]
        assert deployments["singularName"] == "deployment"
        assert deployments["shortNames"] == ["deploy"]
        assert found["deployments/scale"]["kind"] == "Scale"
        assert found["deployments/scale"]["group"] == "autoscaling"

    async def test_openapi_v3_describes_a_group(self, client: Client) -> None:
        index = (await client.get("/openapi/v3")).ok()["paths"]
        url = index["apis/apps/v1"]["serverRelativeURL"]
        document = (await client.get(url.partition("?")[0])).ok()
        schema = document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"]
        assert schema["properties"]["replicas"]["type"] == "integer"
        collection = "/apis/apps/v1/namespaces/{namespace}/deployments"
        kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
        listed = document["paths"][collection]["get"]
        assert listed["x-kubernetes-group-version-kind"] == kind
        patch = document["paths"][collection + "/{name}"]["patch"]
        assert {"dryRun", "fieldValidation"} <= {each["name"] for each in patch["parameters"]}

    async def test_openapi_v2_is_there_for_older_clients(self, client: Client) -> None:
        accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        reply = await client.request("GET", "/openapi/v2", accept=accept)
        assert reply.status == 200
        assert "io.k8s.api.apps.v1.Deployment" in reply.body[""]

    async def test_json_is_given_if_it_is_accepted_at_all(self, client: Client) -> None:
        accept = "application/yaml;q=0.1,application/json"
        assert (await client.request("GET", "/api/v1/nodes", accept=accept)).status == 200
        unknown = await client.request("GET", "/api/v1/nodes", accept="text/csv")
        unknown.refused(406, "NotAcceptable")

    async def test_bodies_in_protobuf(self, client: Client, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        sent = a_config_map_in_protobuf()
        (await client.request("POST", path, sent, content_type=PROTOBUF)).ok(201)
        assert (await client.get(f"{path}/sent")).ok()["data"] == {"key": "value"}
        broken = await client.request("POST", path, sent[:-3], content_type=PROTOBUF)
        assert broken.status >= 400
        other = await client.request("POST", path, {}, content_type="text/csv")
        other.refused(415, "UnsupportedMediaType")

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"containers": [{"name": "c", "image": "i", "imagee": "j"}]}, "containers[0].imagee"),
            ({"nodeSelectr": {"a": "b"}}, "nodeSelectr"),
        ],
    )
    async def test_unknown_fields_are_refused_on_demand(
        self, client: Client, namespace: str, change: Body, told: str
    ) -> None:
        container = {"name": "c", "image": "i"}
        pod: Any = {"metadata": {"name": "p"}, "spec": {"containers": [container], **change}}
        strict = await client.request(
            "POST", pods_in(namespace), pod, query={"fieldValidation": "Strict"}
        )
        message = strict.refused(400, "BadRequest")
        assert f'strict decoding error: unknown field "spec.{told}"' in message
        warned = await client.request(
            "POST", pods_in(namespace), pod, query={"fieldValidation": "Warn"}
        )
        created = warned.ok(201)
        assert told in warned.headers["Warning"]
        assert "nodeSelectr" not in created["spec"]
        assert "imagee" not in created["spec"]["containers"][0]

    async def test_wrong_types_are_refused(self, client: Client, namespace: str) -> None:
        wrong = {"metadata": {"name": "d"}, "spec": {"replicas": "two"}}
        reply = await client.request(
            "POST", deployments_in(namespace), wrong, query={"fieldValidation": "Strict"}
        )
        message = reply.refused(400, "BadRequest")
        assert "cannot unmarshal string into Go struct field" in message
        assert message.endswith("spec.replicas of type int32")

    async def test_the_caller_may_do_everything(self, client: Client, namespace: str) -> None:
        asked = {"resource": "pods", "verb": "create", "namespace": namespace}
        review = {"spec": {"resourceAttributes": asked}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert (await client.create(path, review)).ok(201)["status"]["allowed"]
        own = await client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert own.ok(201)["status"]["userInfo"]["username"]
