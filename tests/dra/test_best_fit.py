"""Which devices are chosen: the first that fit, or those that leave the least stranded."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.simulation import explain
from tests.builders import Json, make_node

DRIVER = "gpu.example.com"
OWN = {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration"}
STOCK: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "equipoise"}],
}


def shared_devices(node: str, count: int) -> Json:
    device: dict[str, Any] = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": {"default": "10Gi"}}},
    }
    devices = [{"name": f"gpu-{i}", **device} for i in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
    return {"kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


def claim(name: str, memory: str, held: str = "") -> Json:
    capacity = {"requests": {"memory": memory}}
    exactly = {"deviceClassName": "gpu", "count": 1, "capacity": capacity}
    made: Json = {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    if held:
        node, device = held.split("/")
        result = {"request": "r", "driver": DRIVER, "pool": node, "device": device}
        share = {"shareID": f"share-{name}", "consumedCapacity": {"memory": memory}}
        made["status"] = {"allocation": {"devices": {"results": [{**result, **share}]}}}
    return made


def explained(selection: str) -> Json:
    objects = [
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        *(make_node(name).obj() for name in ("n0", "n1")),
        shared_devices("n0", 2),
        shared_devices("n1", 2),
        claim("other", "60Gi", held="n1/gpu-1"),
        claim("mine", "20Gi"),
    ]
    entry = {"name": "c", "resourceClaimName": "mine"}
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "main"}], "resourceClaims": [entry]},
    }
    return explain(objects, pod, [STOCK, {**OWN, "devices": {"selection": selection}}])


@pytest.mark.parametrize(("selection", "device"), [("FirstFit", "gpu-0"), ("BestFit", "gpu-1")])
def test_the_fullest_shared_device_is_taken_within_a_node(selection: str, device: str) -> None:
    (given,) = explained(selection)["allocations"]["n1"]
    assert [each["device"] for each in given["devices"]] == [device]


def test_the_node_that_leaves_least_stranded_scores_highest() -> None:
    scores = explained("BestFit")["scores"]
    assert scores["n1"]["plugins"]["DynamicResources"] == 200
    assert scores["n0"]["plugins"]["DynamicResources"] < 200
    assert explained("BestFit")["node"] == "n1"


def test_devices_do_not_count_by_first_fit() -> None:
    scores = explained("FirstFit")["scores"]
    assert {each["plugins"]["DynamicResources"] for each in scores.values()} == {0}
