"""Fields and values that the API server would not take."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from scheduler.kube import fields
from scheduler.kube.fields import oddities
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
            'unknown value "Exist" (expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt)',
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
            'unknown value "NoSchedul" (expected one of NoSchedule, PreferNoSchedule, NoExecute)',
            id="in a template",
        ),
    ],
)
def test_mistakes_are_named(body: dict[str, Any], path: str, message: str) -> None:
    assert list(oddities(body)) == [(path, message, True)]


def test_a_field_like_no_other_may_be_newer_than_the_library() -> None:
    (odd,) = oddities(pod(quantumEntanglement=True))
    assert odd == ("spec.quantumEntanglement", "unknown field", False)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod(nodeSelector={"anything": "goes"}), id="keys of a map"),
        pytest.param(pod(affinity=affinity(operator="Gt", values=["1"])), id="an operator"),
        pytest.param(make_node("n").obj(), id="a node"),
        pytest.param(make_pod("p").cpu(1).obj(), id="a pod"),
        pytest.param({"apiVersion": "example.com/v1", "kind": "Pod", "spec": 1}, id="another kind"),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": 1}}, id="a number"),
    ],
)
def test_nothing_is_odd(body: dict[str, Any]) -> None:
    assert list(oddities(body)) == []


def test_what_the_api_server_has_written_is_not_looked_at() -> None:
    body = pod(nodeSelecto={})
    body["metadata"]["uid"] = "1"
    assert list(oddities(body)) == []


def test_without_the_models_of_the_library_nothing_is_odd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes_asyncio.client", None)
    fields._models.cache_clear()
    try:
        assert list(oddities(pod(nodeSelecto={}))) == []
    finally:
        fields._models.cache_clear()
