"""Fields and values that the API server would not take."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.kube.fields import Fault, has_schema, oddities
from scheduler.model.objects import KINDS
from shipping import custom_schemas
from tests.builders import make_node, make_pod

CONTAINER = {"name": "c", "image": "i"}


def pod(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "p"}
    body = {"containers": [CONTAINER]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def affinity(**expression: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", **expression}]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


EXPRESSION = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    ".nodeSelectorTerms[0].matchExpressions[0]"
)


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        pytest.param(
            pod(nodeSelecto={"disk": "ssd"}),
            "spec.nodeSelecto",
            "unknown field (did you mean nodeSelector?)",
            id="a field of the pod",
        ),
        pytest.param(
            pod(containers=[{**CONTAINER, "resources": {"request": {"cpu": "1"}}}]),
            "spec.containers[0].resources.request",
            "unknown field (did you mean requests?)",
            id="a field in a list",
        ),
        pytest.param(
            pod(containers=[{**CONTAINER, "resources": {"requests": {"cpuu": "1"}}}]),
            "spec.containers[0].resources.requests.cpuu",
            "unknown resource (expected one of cpu, memory, ephemeral-storage, hugepages-… "
            "or a name with a domain)",
            id="a resource",
        ),
        pytest.param(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": "g"},
                "spec": {"minMembers": 2},
            },
            "spec.minMembers",
            "unknown field (did you mean minMember?)",
            id="a field of a pod group",
        ),
        pytest.param(
            {
                "apiVersion": "topology.node.k8s.io/v1alpha2",
                "kind": "NodeResourceTopology",
                "metadata": {"name": "n"},
                "zones": [{"name": "node-0", "resources": [{"name": "cpu", "availabel": "1"}]}],
            },
            "zones[0].resources[0].availabel",
            "unknown field (did you mean available?)",
            id="a field of a cell",
        ),
        pytest.param(
            pod(affinity=affinity(operator="Exist")),
            f"{EXPRESSION}.operator",
            'unknown value "Exist" (expected one of DoesNotExist, Exists, Gt, In, Lt, NotIn)',
            id="a value that chooses",
        ),
        pytest.param(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {"template": {"spec": {"tolerations": [{"effect": "NoSchedul"}]}}},
            },
            "spec.template.spec.tolerations[0].effect",
            'unknown value "NoSchedul" (expected one of NoExecute, NoSchedule, PreferNoSchedule)',
            id="in a template",
        ),
    ],
)
def test_mistakes_are_named(body: dict[str, Any], path: str, message: str) -> None:
    (odd,) = oddities(body)
    assert (odd.path, odd.message) == (path, message)
    assert odd.fault is not Fault.UNKNOWN


CELL = {"name": "cpu", "capacity": 4, "allocatable": 4, "available": "four"}
NO_QUANTITY = "is not a quantity: expected a number and a suffix"
NO_KEY = (
    "no key of a label: expected up to 63 letters, digits, '-', '_' and '.', "
    "with a letter or digit at both ends"
)
NO_VALUE = NO_KEY.replace("no key", "is no value")


def thing(version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}} | fields


def requesting(resources: dict[str, Any]) -> dict[str, Any]:
    return pod(containers=[{**CONTAINER, "resources": {"requests": resources}}])


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        pytest.param(
            requesting({"cpu": "1x"}),
            "spec.containers[0].resources.requests.cpu",
            f"'1x' {NO_QUANTITY}",
            id="a request",
        ),
        pytest.param(
            requesting({"memory": ""}),
            "spec.containers[0].resources.requests.memory",
            "an empty string is not a quantity",
            id="an empty request",
        ),
        pytest.param(
            requesting({"cpu": -1}),
            "spec.containers[0].resources.requests.cpu",
            "must not be negative, got -1",
            id="a negative number",
        ),
        pytest.param(
            pod(overhead={"cpu": "-100m"}),
            "spec.overhead.cpu",
            "must not be negative, got -100m",
            id="a negative text",
        ),
        pytest.param(
            pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1GB"}}]),
            "spec.volumes[0].emptyDir.sizeLimit",
            f"'1GB' {NO_QUANTITY}",
            id="a quantity that is in no map",
        ),
        pytest.param(
            thing("v1", "Node", status={"allocatable": {"cpu": "4x"}}),
            "status.allocatable.cpu",
            f"'4x' {NO_QUANTITY}",
            id="what a node has",
        ),
        pytest.param(
            thing(
                "v1",
                "PersistentVolumeClaim",
                spec={"resources": {"requests": {"storage": "5 Gi"}}},
            ),
            "spec.resources.requests.storage",
            f"'5 Gi' {NO_QUANTITY}",
            id="what a volume claim asks for",
        ),
        pytest.param(
            thing(
                "resource.k8s.io/v1",
                "ResourceSlice",
                spec={"devices": [{"name": "d", "capacity": {"memory": {"value": "80GB"}}}]},
            ),
            "spec.devices[0].capacity.memory.value",
            f"'80GB' {NO_QUANTITY}",
            id="what a device has",
        ),
        pytest.param(
            thing(
                "scheduling.x-k8s.io/v1alpha1", "PodGroup", spec={"minResources": {"cpu": "many"}}
            ),
            "spec.minResources.cpu",
            f"'many' {NO_QUANTITY}",
            id="in a map of a custom resource",
        ),
        pytest.param(
            thing(
                "topology.node.k8s.io/v1alpha2",
                "NodeResourceTopology",
                zones=[{"name": "node-0", "resources": [CELL]}],
            ),
            "zones[0].resources[0].available",
            f"'four' {NO_QUANTITY}",
            id="in a cell",
        ),
        pytest.param(
            pod(priority=2**31),
            "spec.priority",
            "expected an integer from -2147483648 to 2147483647, got 2147483648",
            id="an integer that does not fit its field",
        ),
        pytest.param(
            pod(terminationGracePeriodSeconds=-(2**1000)),
            "spec.terminationGracePeriodSeconds",
            "expected an integer from -9223372036854775808 to 9223372036854775807, "
            "got one of 1001 bits",
            id="an integer that nobody can read",
        ),
        pytest.param(
            thing("scheduling.x-k8s.io/v1alpha1", "PodGroup", spec={"minMember": 0}),
            "spec.minMember",
            "expected an integer from 1 to 2147483647, got 0",
            id="an integer below the least",
        ),
        pytest.param(
            thing("v1", "Node", metadata={"name": "n", "labels": {"disk type": "ssd"}}),
            "metadata.labels.disk type",
            NO_KEY,
            id="a key of a label",
        ),
        pytest.param(
            pod(nodeSelector={"example.com/disk/type": "ssd"}),
            "spec.nodeSelector.example.com/disk/type",
            "no key of a label: expected the name of a domain before the '/'",
            id="the domain of a key of a node selector",
        ),
        pytest.param(
            pod(nodeSelector={"k" * 400: "ssd"}),
            f"spec.nodeSelector.{'k' * 400}",
            NO_KEY,
            id="a key of a label that is too long",
        ),
        pytest.param(
            thing("apps/v1", "Deployment", spec={"selector": {"matchLabels": {"app": "my app"}}}),
            "spec.selector.matchLabels.app",
            f'"my app" {NO_VALUE}',
            id="a value of a label selector",
        ),
        pytest.param(
            thing("v1", "Node", metadata={"name": "n", "labels": {"disk": "v" * 64}}),
            "metadata.labels.disk",
            f'"{"v" * 63}…" {NO_VALUE}',
            id="a value of a label that is too long",
        ),
    ],
)
def test_values_that_the_api_server_would_refuse_are_named(
    body: dict[str, Any], path: str, message: str
) -> None:
    assert list(oddities(body)) == [(path, message, Fault.VALUE)]


def test_a_field_like_no_other_may_be_newer_than_the_schemas() -> None:
    (odd,) = oddities(pod(quantumEntanglement=True))
    assert odd == ("spec.quantumEntanglement", "unknown field", Fault.UNKNOWN)


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        pytest.param(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {"containers": []},
            },
            "spec.containers",
            "unknown field (did you mean spec.template.spec.containers?)",
            id="in a template",
        ),
        pytest.param(
            pod(hostPort=80),
            "spec.hostPort",
            "unknown field (did you mean spec.containers[].ports[].hostPort?)",
            id="in a list",
        ),
    ],
)
def test_a_field_in_the_wrong_place_is_shown_its_own(
    body: dict[str, Any], path: str, message: str
) -> None:
    assert list(oddities(body)) == [(path, message, Fault.MISSPELT)]


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"containers": {}}, "spec.containers", "expected a list, got an object"),
        ({"priority": "high"}, "spec.priority", 'expected an integer, got the text "high"'),
        ({"priority": True}, "spec.priority", "expected an integer, got true"),
        ({"hostNetwork": "yes"}, "spec.hostNetwork", 'expected true or false, got the text "yes"'),
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector.a", "expected a text, got 1"),
        (
            {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": [1]}}}]},
            "spec.containers[0].resources.requests.cpu",
            "expected a text or a number, got a list",
        ),
    ],
)
def test_wrong_types_are_named(spec: dict[str, Any], path: str, message: str) -> None:
    assert list(oddities(pod(**spec))) == [(path, message, Fault.TYPE)]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_that_the_scheduler_reads_has_a_schema(kind: str) -> None:
    version = KINDS[kind].path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")[0]
    assert has_schema(version, KINDS[kind].name)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod(nodeSelector={"anything": "goes"}), id="keys of a map"),
        pytest.param(pod(affinity=affinity(operator="Gt", values=["1"])), id="an operator"),
        pytest.param(requesting({"cpu": 0.5, "memory": "1e3", "a/b": "+2"}), id="quantities"),
        pytest.param(requesting({"cpu": "-0"}), id="nothing, below nothing"),
        pytest.param(pod(priority=-(2**31)), id="the least integer"),
        pytest.param(pod(nodeSelector={"a.b-c/D_e.f": "", "x": "v" * 63}), id="labels"),
        pytest.param(make_node("n").obj(), id="a node"),
        pytest.param(make_pod("p").cpu(1).obj(), id="a pod"),
        pytest.param({"apiVersion": "example.com/v1", "kind": "Pod", "spec": 1}, id="another kind"),
    ],
)
def test_nothing_is_odd(body: dict[str, Any]) -> None:
    assert list(oddities(body)) == []


def test_the_schemas_of_custom_resources_are_those_of_their_crds() -> None:
    written = custom_schemas.FILE.read_text()
    assert written == custom_schemas.rendered(), "run python -m shipping.custom_schemas"


def test_fields_of_maps_that_are_open_are_not_looked_at() -> None:
    metadata = {"name": "p", "labels": {"spec": "x"}, "managedFields": [{"fieldsV1": {"f:x": {}}}]}
    assert list(oddities({**pod(), "metadata": metadata})) == []
