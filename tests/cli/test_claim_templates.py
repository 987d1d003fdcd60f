"""Pods that name ResourceClaimTemplates: in files they get claims, as a controller makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.claim_templates import missing_templates, with_claims, without_claims_of
from scheduler.cli.explain_command import explain
from scheduler.cli.simulate_command import simulate
from scheduler.cli.snapshots import trimmed
from scheduler.cli.what_if import add_nodes, drain, scale
from scheduler.cli.workloads import expand, identity
from tests.builders import make_node, make_pod
from tests.cli.support import Json, workload, write

DRIVER = "gpu.example.com"
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}


def device_class() -> Json:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return _resource("DeviceClass", "gpu", {"selectors": [selector]})


def template(name: str = "one-gpu", **request: Any) -> Json:
    exactly = {"deviceClassName": "gpu", **request}
    opaque = {"driver": DRIVER, "parameters": {"secret": "value"}}
    devices = {
        "requests": [{"name": "one", "exactly": exactly}],
        "config": [{"opaque": opaque}],
    }
    spec = {"metadata": {"labels": {"team": "a"}}, "spec": {"devices": devices}}
    body = _resource("ResourceClaimTemplate", name, spec)
    body["metadata"]["namespace"] = "shop"
    return body


def slice_of(node: str, devices: int) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    names = [{"name": f"device-{number}"} for number in range(devices)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": names}
    return _resource("ResourceSlice", f"{node}-devices", spec)


def _resource(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def trainer(replicas: int = 1) -> Json:
    body = workload("Deployment", "train", replicas=replicas)
    body["spec"]["template"]["spec"]["resourceClaims"] = [ENTRY]
    return body


def cluster(devices: int, *others: Json) -> list[Json]:
    node = make_node("n1").cpu(8).memory("32Gi").obj()
    return [node, slice_of("n1", devices), device_class(), template(), *others]


def of_kind(kind: str, objects: list[Json]) -> list[Json]:
    return [body for body in objects if body["kind"] == kind]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.yaml"


def simulated(*arguments: str) -> Any:
    result: Result = CliRunner().invoke(simulate, [*arguments, "-o", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_each_waiting_pod_gets_a_claim_of_its_own() -> None:
    objects = with_claims(expand(cluster(3, trainer(2))))
    pods, claims = of_kind("Pod", objects), of_kind("ResourceClaim", objects)
    assert len(claims) == len({identity(claim) for claim in claims}) == 2
    for pod, claim in zip(pods, claims, strict=True):
        [status] = pod["status"]["resourceClaimStatuses"]
        assert status == {"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}
        [owner] = claim["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Pod", pod["metadata"]["name"])
        assert claim["metadata"]["namespace"] == "shop"
        assert claim["metadata"]["labels"] == {"team": "a"}
        assert claim["spec"] == template()["spec"]["spec"]


def test_what_is_there_is_not_made_again() -> None:
    objects = with_claims(expand(cluster(3, trainer(2))))
    assert with_claims(expand(objects)) == objects


def test_a_pod_on_a_node_gets_none() -> None:
    pod = make_pod("there").on("n1").obj()
    pod["metadata"]["namespace"] = "shop"
    pod["spec"]["resourceClaims"] = [ENTRY]
    assert not of_kind("ResourceClaim", with_claims(cluster(3, pod)))


def test_as_many_pods_run_as_there_are_devices(file: Path) -> None:
    outcome = simulated("-f", write(file, *cluster(2, trainer(3))))
    assert sorted(each["node"] or "" for each in outcome["pods"]) == ["", "n1", "n1"]


@pytest.mark.parametrize("asked", ["deployment/shop/train", "pod"])
def test_more_are_counted_by_devices(file: Path, asked: str) -> None:
    objects = expand(cluster(5, trainer(2)))
    if asked == "pod":
        asked = f"pod/shop/{of_kind('Pod', objects)[0]['metadata']['name']}"
        objects = [body for body in objects if body["kind"] not in ("Deployment", "ReplicaSet")]
    found = simulated("-f", write(file, *objects), "--more", asked)
    assert found["more"]["fit"] == 3


def test_nodes_that_are_missing_come_with_their_devices(file: Path) -> None:
    found = simulated("-f", write(file, *cluster(2, trainer(7))), "--missing-nodes")
    [shape] = found["missingNodes"]
    assert (shape["like"], shape["nodes"], shape["placed"]) == ("n1", 3, 5)


def test_added_nodes_have_the_devices_of_their_example() -> None:
    objects = add_nodes(cluster(2), 2, "n1")
    slices = of_kind("ResourceSlice", objects)
    assert [each["spec"]["nodeName"] for each in slices] == ["n1", "n1-new-1", "n1-new-2"]
    assert len({each["spec"]["pool"]["name"] for each in slices}) == 3
    assert len({identity(each) for each in slices}) == 3


def test_a_template_that_is_not_there_is_named(file: Path) -> None:
    objects = [body for body in cluster(2, trainer()) if body["kind"] != "ResourceClaimTemplate"]
    assert missing_templates(expand(objects)) == ["shop/one-gpu"]
    result = CliRunner().invoke(simulate, ["-f", write(file, *objects)])
    assert "no such ResourceClaimTemplate, so its pods wait: shop/one-gpu" in result.stderr
    assert "ResourceClaim not created yet" in result.stdout
    assert missing_templates(expand([*objects, template()])) == []


def test_explain_knows_the_claims(file: Path) -> None:
    result = CliRunner().invoke(
        explain, ["-f", write(file, *cluster(1, trainer())), "-n", "shop", "deployment/train"]
    )
    assert result.exit_code == 0, result.output
    assert "not created yet" not in result.stdout
    assert "n1" in result.stdout


def bound(pod: Json, claim: Json) -> list[Json]:
    """A pod that runs, and its claim with a device."""
    result = {"request": "one", "driver": DRIVER, "pool": "n1", "device": "device-0"}
    consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": "uid"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    return [
        {**pod, "spec": {**pod["spec"], "nodeName": "n1"}},
        {**claim, "status": status},
    ]


def running() -> list[Json]:
    objects = with_claims(expand(cluster(1, trainer())))
    [pod], [claim] = of_kind("Pod", objects), of_kind("ResourceClaim", objects)
    others = [body for body in objects if body["kind"] not in ("Pod", "ResourceClaim")]
    return [*others, *bound(pod, claim)]


def test_a_drained_pod_gets_another_claim() -> None:
    objects = [*running(), make_node("n2").cpu(8).obj(), slice_of("n2", 1)]
    drained = with_claims(expand(drain(objects, ["n1"]).objects))
    [claim] = of_kind("ResourceClaim", drained)
    assert "status" not in claim
    [pod] = of_kind("Pod", drained)
    [status] = pod["status"]["resourceClaimStatuses"]
    assert status["resourceClaimName"] == claim["metadata"]["name"]


def test_pods_that_go_give_their_devices_back() -> None:
    assert not of_kind("ResourceClaim", scale(running(), "deployment/shop/train", 0))
    shared = running()[-1]
    shared["metadata"].pop("ownerReferences")
    gone = {f"shop/{shared['status']['reservedFor'][0]['name']}"}
    [left] = without_claims_of([shared], gone)
    assert left["status"]["reservedFor"] == []
    assert without_claims_of([shared], {"shop/another"}) == [shared]


@pytest.mark.parametrize("kind", ["ResourceClaimTemplate", "ResourceClaim", "DeviceClass"])
def test_a_snapshot_leaves_out_what_drivers_are_told(kind: str) -> None:
    devices = template()["spec"]["spec"]
    body = {
        "ResourceClaimTemplate": template(),
        "ResourceClaim": _resource("ResourceClaim", "claim", devices),
        "DeviceClass": _resource("DeviceClass", "gpu", {"config": devices["devices"]["config"]}),
    }[kind]
    kept = json.dumps(trimmed(body))
    assert DRIVER in kept
    assert "secret" not in kept


def with_scratch(name: str, of: str = "late") -> Json:
    """A pod with the template of a claim in a volume of its own."""
    claim = {"spec": {"storageClassName": of, "resources": {"requests": {"storage": "1Gi"}}}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}
    return make_pod(name).cpu("700m").spec(volumes=[volume]).obj()


LATE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "example.com/disks",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def test_claims_of_ephemeral_volumes_are_made_for_pods_that_wait(tmp_path: Path) -> None:
    nodes = [make_node(name).cpu("1").obj() for name in ("n1", "n2")]
    file = write(tmp_path / "c.yaml", *nodes, LATE, with_scratch("p"))
    placed = json.loads(CliRunner().invoke(simulate, ["-f", file, "-o", "json"]).stdout)
    assert "p" in str(placed)
    assert "ephemeral volume controller" not in str(placed)
    more = CliRunner().invoke(simulate, ["-f", file, "--more", "pod/p", "-o", "json"])
    assert json.loads(more.stdout)["more"]["fit"] == 1
    claims = [each for each in with_claims([with_scratch("p")]) if each["kind"] != "Pod"]
    assert [identity(each)[1:] for each in claims] == [("default", "p-scratch")]
    assert with_claims([*claims, with_scratch("p")]) == [*claims, with_scratch("p")]
    assert without_claims_of(claims, {"default/p"}) == []


def test_the_class_of_an_ephemeral_volume_is_corrected_in_its_template(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", make_node("n").cpu("1").obj(), LATE, with_scratch("p", "lat"))
    result = CliRunner().invoke(explain, ["p", "-f", file, "-o", "json"])
    first = json.loads(result.stdout)["remedies"][0]
    assert first["opens"] == ["n"]
    assert [change["kind"] for change in first["changes"]] == ["Pod", "PersistentVolumeClaim"]
