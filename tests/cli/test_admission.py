"""What is filled in for objects that no API server has seen."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cli.admission import admitted
from tests.builders import make_node, make_pod


def spec_of(spec: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    pod = {"kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    return dict(admitted([pod, *others])[0]["spec"])


def test_requests_follow_from_limits_where_there_are_none() -> None:
    given = {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 1}}
    spec = spec_of({"containers": [{"resources": given}], "initContainers": [{}]})
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": 1, "memory": "1Gi"}
    assert spec["initContainers"][0]["resources"]["requests"] == {}
    assert given["requests"] == {"cpu": 1}, "what was read is not changed"


@pytest.mark.parametrize(("on_host", "port"), [(True, 80), (False, None)])
def test_ports_on_the_hosts_network_are_the_hosts(on_host: bool, port: int | None) -> None:
    spec = spec_of(
        {"hostNetwork": on_host, "containers": [{"ports": [{"containerPort": 80}]}]},
    )
    assert spec["containers"][0]["ports"][0].get("hostPort") == port


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ({"priorityClassName": "high"}, 100),
        ({"priorityClassName": "system-node-critical"}, 2_000_001_000),
        ({"priorityClassName": "absent"}, 0),
        ({"priority": 7, "priorityClassName": "high"}, 7),
        ({}, 5),
    ],
)
def test_classes_give_priorities(spec: dict[str, Any], priority: int) -> None:
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    general = {
        "kind": "PriorityClass",
        "metadata": {"name": "general"},
        "value": 5,
        "globalDefault": True,
    }
    assert spec_of(spec, high, general)["priority"] == priority


def test_a_node_that_states_only_its_capacity_offers_all_of_it() -> None:
    fresh = {"kind": "Node", "metadata": {"name": "a"}, "status": {"capacity": {"cpu": 4}}}
    live = make_node("b").cpu(3).obj()
    live["status"]["capacity"] = {"cpu": 4}
    one, two = admitted([fresh, live])
    assert one["status"]["allocatable"] == {"cpu": 4}
    assert two == live


def test_pods_from_a_cluster_keep_their_status() -> None:
    pod = make_pod("a").on("n").phase("Running").obj()
    [stored] = admitted([pod])
    assert stored["status"] == {"phase": "Running"}
    assert stored["spec"]["nodeName"] == "n"


def storage_class(name: str, default: str, created: str = "") -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": default}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": created}
    return {"kind": "StorageClass", "metadata": metadata, "provisioner": "example.com"}


def test_a_storage_class_binds_at_once_unless_it_says_otherwise() -> None:
    waits = {**storage_class("b", "false"), "volumeBindingMode": "WaitForFirstConsumer"}
    one, two = admitted([storage_class("a", "false"), waits])
    assert one["volumeBindingMode"] == "Immediate"
    assert two["volumeBindingMode"] == "WaitForFirstConsumer"


@pytest.mark.parametrize(
    ("claim", "chosen"),
    [
        pytest.param({"spec": {}}, "newest", id="no class"),
        pytest.param({"spec": {"storageClassName": ""}}, "", id="none on purpose"),
        pytest.param({"spec": {"storageClassName": "old"}}, "old", id="a class"),
        pytest.param({"spec": {}, "status": {"phase": "Bound"}}, None, id="bound without"),
    ],
)
def test_claims_that_name_no_class_get_the_default(claim: dict[str, Any], chosen: str) -> None:
    classes = [
        storage_class("old", "true", "2025-01-01T00:00:00Z"),
        storage_class("other", "false", "2027-01-01T00:00:00Z"),
        storage_class("newest", "true", "2026-01-01T00:00:00Z"),
        storage_class("of the same age", "true", "2026-01-01T00:00:00Z"),
    ]
    body = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, **claim}
    assert admitted([body, *classes])[0]["spec"].get("storageClassName") == chosen
    assert admitted([body])[0] is body
