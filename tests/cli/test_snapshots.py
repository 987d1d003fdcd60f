"""Snapshots: what is left out changes no verdict, and neither do other names."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from scheduler.cli.anonymising import Anonymiser, anonymised
from scheduler.cli.main import cli
from scheduler.cli.snapshots import READ_ANNOTATIONS, UnreadableSnapshot, pack, trimmed, unpacked
from scheduler.model.volumes import BETA_CLASS
from scheduler.numa.topology import FINGERPRINT_ANNOTATION
from scheduler.simulation import judge
from scheduler.state.attachments import MIGRATED_PLUGINS
from tests.builders import Json, make_node, make_pod
from tests.cli.support import workload
from tests.dra import recorded
from tests.test_parity import CASES, objects_of

KEY = b"k" * 32
SAMPLE = CASES[::20]
NAMES = [case["id"] for case, _ in SAMPLE]


@pytest.fixture(params=[case for case, _ in SAMPLE], ids=NAMES)
def case(request: pytest.FixtureRequest) -> Json:
    found: Json = request.param
    return found


def pod_of(case: Json) -> Json:
    pod: Json = {"kind": "Pod", **copy.deepcopy(case["pending"])}
    metadata = pod["metadata"]
    # As the API server would have it; the cases leave it out, and name it in claims.
    metadata.setdefault("uid", f"{metadata.get('namespace', 'default')}/{metadata['name']}")
    return pod


def test_what_is_left_out_changes_no_verdict_and_no_score(case: Json) -> None:
    objects, pod = objects_of(case), pod_of(case)
    slim = [trimmed(body) for body in objects]
    assert judge(slim, trimmed(pod)) == judge(objects, pod)
    assert [trimmed(body) for body in slim] == slim


def test_other_names_change_no_verdict_and_no_score(case: Json) -> None:
    _check_other_names([*map(trimmed, objects_of(case)), trimmed(pod_of(case))])


TIED = ("dra-constraints-1-64", "dra-constraints-1-44", "dra-mixed-1-1", "dra-extended-1-45")
"""Cases that names decide: of the order of devices, in which one raises an error, or of classes
that serve the same resource and are equally old."""
WITH_DEVICES = [
    case
    for file in (*recorded.FILES, recorded.TABLES)
    for case, _ in recorded.cases(file)[::12]
    if case["id"] not in TIED
]


@pytest.mark.parametrize("case", WITH_DEVICES, ids=[case["id"] for case in WITH_DEVICES])
def test_other_names_of_devices_change_no_verdict_and_no_score(case: Json) -> None:
    _check_other_names([*map(trimmed, recorded.objects_of(case)), trimmed(pod_of(case))])


def _check_other_names(objects: list[Json]) -> None:
    before = judge(objects[:-1], objects[-1])
    renamed = anonymised(objects, KEY)
    after = judge(renamed[:-1], renamed[-1])
    names = Anonymiser(objects, KEY)
    assert {names.name(node) for node in before["fit"]} == set(after["fit"])
    for node, verdict in before["nodes"].items():
        found = after["nodes"][names.name(node)]
        assert (found["fit"], found["plugin"], found["code"]) == (
            verdict["fit"],
            verdict["plugin"],
            verdict["code"],
        )
    scores = {names.name(node): score for node, score in before["scores"].items()}
    assert after["scores"] == scores


SECRET = "hunter2"


def owner_pod() -> Json:
    pod = make_pod("shop-api").cpu(1).label(team=SECRET).obj()
    pod["metadata"]["annotations"] = {"note": SECRET}
    pod["metadata"]["managedFields"] = [{"manager": SECRET}]
    container = pod["spec"]["containers"][0]
    container |= {"image": f"{SECRET}.example.com/{SECRET}:1", "command": [SECRET]}
    container["env"] = [{"name": "PASSWORD", "value": SECRET}]
    template = {"metadata": {"annotations": {"note": SECRET, BETA_CLASS: "fast"}}, "spec": {}}
    pod["spec"]["volumes"] = [
        {"name": "v", "secret": {"secretName": SECRET}},
        {"name": "w", "ephemeral": {"volumeClaimTemplate": template}},
    ]
    return pod


def test_what_a_container_runs_with_is_left_out() -> None:
    slim = trimmed(owner_pod())
    assert SECRET not in json.dumps({**slim, "metadata": {}}).replace(
        json.dumps(slim["spec"]["containers"][0]["image"]), ""
    )
    assert "annotations" not in slim["metadata"]
    template = slim["spec"]["volumes"][1]["ephemeral"]["volumeClaimTemplate"]
    assert template["metadata"] == {"annotations": {BETA_CLASS: "fast"}}


def test_no_text_of_the_owner_is_left_when_names_are_replaced() -> None:
    node = make_node(f"{SECRET}-1").cpu(4).label(**{f"{SECRET}.com/rack": SECRET}).obj()
    node["status"]["allocatable"][f"{SECRET}.com/card"] = "1"
    objects = [trimmed(owner_pod()), trimmed(node)]
    assert SECRET not in json.dumps(anonymised(objects))


def test_nor_where_kubernetes_itself_writes_most_often() -> None:
    """Kinds of owners, conditions, roles of nodes and numbers may be an owner's, too."""
    pod, node = owner_pod(), make_node("n").cpu(4).label(account="123456789012").obj()
    owner = {"apiVersion": f"{SECRET}.com/v1", "kind": f"{SECRET}Job", "name": "a", "uid": "u"}
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    condition = {"type": f"{SECRET}.com/ready", "status": "True", "reason": f"{SECRET}Works"}
    pod["status"] = {"conditions": [condition], "reason": f"{SECRET}Killed"}
    node["status"]["conditions"] = [condition, {"type": "Ready", "status": "False"}]
    node["metadata"]["labels"][f"node-role.kubernetes.io/{SECRET}"] = ""
    node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    pod["spec"]["tolerations"] = [{"key": f"node-role.kubernetes.io/{SECRET}"}]
    slim = [trimmed(pod), trimmed(node)]
    renamed = anonymised(slim)
    assert SECRET in json.dumps(slim[0]["status"])
    assert SECRET not in json.dumps(renamed)
    assert "123456789012" not in json.dumps(renamed)
    assert renamed[0]["metadata"]["ownerReferences"][0]["controller"] is True
    key = renamed[0]["spec"]["tolerations"][0]["key"]
    assert key in renamed[1]["metadata"]["labels"]
    assert "node-role.kubernetes.io/control-plane" in renamed[1]["metadata"]["labels"]
    assert renamed[1]["status"]["conditions"][1] == {"type": "Ready", "status": "False"}


def test_nor_in_topologies_and_in_consumers_of_claims() -> None:
    """What topology updaters of vendors add, and kinds that use claims besides pods."""
    policy = {"name": "topologyManagerPolicy", "value": "single-numa-node"}
    zones: list[Json] = [
        {"name": f"{SECRET}-socket", "type": "Socket"},
        {"name": "node-0", "type": "Node", "parent": f"{SECRET}-socket"},
        {"name": "node-1", "type": "Node", "parent": "node-0"},
    ]
    for each in zones:
        each["attributes"] = [{"name": f"{SECRET}-serial", "value": SECRET}]
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n"},
        "attributes": [policy, {"name": f"{SECRET}/model", "value": SECRET}],
        "zones": zones,
    }
    foreign = {"apiGroup": f"{SECRET}.com", "resource": f"{SECRET}jobs", "name": "j", "uid": "u"}
    pod = {"resource": "pods", "name": "p", "uid": "v"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "status": {"reservedFor": [foreign, pod]},
    }
    slim = [trimmed(topology), trimmed(claim)]
    assert json.dumps(slim).count(SECRET) == 12
    renamed = anonymised(slim)
    assert SECRET not in json.dumps(renamed)
    assert renamed[0]["attributes"][0] == policy
    socket, first, second = renamed[0]["zones"]
    assert (first["name"], first["parent"]) == ("node-0", socket["name"])
    assert (second["name"], second["parent"]) == ("node-1", "node-0")
    assert renamed[1]["status"]["reservedFor"][1]["resource"] == "pods"


DRIVER = "gpu.example.com"


def devices(node: str) -> Json:
    """A slice with a model, which the class below reads, and a serial number."""
    model, serial = {"string": "large"}, {"string": SECRET}
    device = {
        "name": "node-1",
        "attributes": {"model": model, "serial": serial, "driver": {"version": "1.2.3"}},
        "capacity": {"memory": {"value": "80Gi"}},
    }
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [device]},
    }


def test_of_devices_stays_what_expressions_read() -> None:
    text = f'device.attributes["{DRIVER}"].model.startsWith("lar")'
    large = {"selectors": [{"cel": {"expression": text}}]}
    device_class = {"kind": "DeviceClass", "metadata": {"name": SECRET}, "spec": large}
    node = make_node("node-0").cpu(4).obj()
    pod = make_pod("train").request(f"deviceclass.resource.kubernetes.io/{SECRET}", 1).obj()
    running = make_pod("runs").cpu(3).on("node-0").obj()
    objects = [trimmed(each) for each in (node, devices("node-0"), device_class, running, pod)]
    renamed = anonymised(objects)
    assert SECRET not in json.dumps(renamed)
    assert renamed[0]["metadata"]["name"] == renamed[3]["spec"]["nodeName"] != "node-0"
    assert json.dumps(renamed[1]).count("large") == 1
    assert len(judge(renamed[:-1], renamed[-1])["fit"]) == 1


def test_a_snapshot_with_other_names_is_read_as_it_was_written(tmp_path: Path) -> None:
    claim = {"exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", **claim}]}}},
    }
    objects = [trimmed(devices("n1")), trimmed(template), trimmed(make_node("n1").cpu(4).obj())]
    file = tmp_path / "cluster.json"
    file.write_bytes(pack(anonymised(objects), compressed=""))
    result = CliRunner().invoke(cli, ["simulate", "-f", str(file)])
    assert (result.exit_code, result.stdout) == (0, "no pods to schedule\n"), result.output


def test_kinds_of_owners_that_plugins_read_stay() -> None:
    pod = make_pod("web-1").owner("ReplicaSet", "web").obj()
    assert anonymised([trimmed(pod)])[0]["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


def test_other_names_differ_from_snapshot_to_snapshot() -> None:
    objects = [trimmed(owner_pod())]
    assert anonymised(objects) != anonymised(objects)


def test_names_that_are_made_of_others_stay_so() -> None:
    stateful = trimmed(workload("StatefulSet", "db", replicas=1))
    pod: Json = make_pod("db-0").obj()
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    ]
    pod["spec"]["volumes"] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
        {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}},
    ]
    names = Anonymiser([stateful, pod], KEY)
    assert names.name("db-0") == f"{names.name('db')}-0"
    assert names.name("data-db-0") == f"{names.name('data')}-{names.name('db-0')}"
    assert names.name("db-0-tmp") == f"{names.name('db-0')}-{names.name('tmp')}"


def test_the_annotations_that_plugins_read_are_kept() -> None:
    assert {FINGERPRINT_ANNOTATION, MIGRATED_PLUGINS} <= READ_ANNOTATIONS


@pytest.mark.parametrize("compressed", ["zst", "gz", ""])
def test_a_file_is_read_as_it_was_written(compressed: str, tmp_path: Path) -> None:
    objects = [trimmed(make_node("n1").cpu(4).obj()), trimmed(make_pod("a").cpu(1).obj())]
    content = pack(objects, compressed=compressed)
    document: dict[str, Any] = msgspec.json.decode(unpacked(content))
    assert document["items"] == msgspec.to_builtins(objects)
    file = tmp_path / f"cluster.json{'.' if compressed else ''}{compressed}"
    file.write_bytes(content)
    for source in (file, tmp_path):
        result = CliRunner().invoke(cli, ["simulate", "-f", str(source)])
        assert "1 pod placed on 1 node, 0 pending" in result.stdout


@pytest.mark.parametrize("compressed", ["zst", "gz"])
def test_a_file_that_is_cut_or_garbled_is_refused(compressed: str) -> None:
    content = pack([make_node("n1").obj()] * 50, compressed=compressed)
    for bad in (content[:-9], content[:20] + b"garbage" + content[27:]):
        with pytest.raises(UnreadableSnapshot):
            unpacked(bad)


def test_a_file_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.cli.snapshots.LARGEST", 1 << 10)
    with pytest.raises(UnreadableSnapshot, match="more than"):
        unpacked(gzip.compress(b" " * (1 << 11)))
