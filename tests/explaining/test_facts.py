"""What each in-tree filter says on what its rejections rest, on nodes and of the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from scheduler.simulation import explain, judge
from tests.builders import (
    Json,
    NodeBuilder,
    PodBuilder,
    make_node,
    make_pod,
    pod_term,
    requirement,
    term,
)
from tests.explaining.test_explain_page import check_documented
from tests.numa.support import make_topology, pinned
from tests.plugins.storage import a_claim, a_class, a_csi_node, a_volume, csi, within
from tests.plugins.support import only

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(name: str, **labels: str) -> NodeBuilder:
    made = make_node(name).cpu(4).memory("16Gi").pods(10)
    return made.label(**{HOST: name}, **labels)


def with_claims(*names: str) -> PodBuilder:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return make_pod("p").spec(volumes=volumes)


def judged(objects: list[Json], pod: Json, config: Json | None = None) -> dict[str, Any]:
    answer = judge(objects, pod, config)
    check_documented(answer)
    return answer


def cluster(answer: Mapping[str, Any], plugin: str) -> list[str]:
    return [each["message"] for each in answer["facts"] if each["plugin"] == plugin]


def on_node(answer: Mapping[str, Any], name: str, plugin: str) -> list[str]:
    entries = {entry["plugin"]: entry for entry in answer["nodes"][name]["all"]}
    return [each["message"] for each in entries[plugin]["facts"]]


THREE = (node("n1", zone="a"), node("n2", zone="a"), node("n3", zone="b"))
WEB = [make_pod(f"w{i}").label(app="web").host_port(80).on(f"n{i}") for i in (1, 2)]
SPREAD: Json = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
NAMES = {"key": "metadata.name", "operator": "In", "values": ["n9"]}


@pytest.mark.parametrize(
    ("plugin", "others", "pod", "on_n1", "of_all"),
    [
        pytest.param(
            "NodeResourcesFit",
            WEB,
            make_pod("p").cpu("4500m").memory("20Gi"),
            ["requests 4.5 cpu, 4 free of 4", "requests 20Gi memory, 16Gi free of 16Gi"],
            [
                "requests 4.5 cpu, at most 4 free, on n1",
                "requests 20Gi memory, at most 16Gi free, on n1",
            ],
            id="resources",
        ),
        pytest.param(
            "NodeResourcesFit",
            [make_node("big").cpu(64).memory("256Gi").pods(110).offer("nvidia.com/gpu", 8)],
            make_pod("p").cpu(1).request("nvidia.com/gpus", 1),
            ["requests 1 nvidia.com/gpus, the node offers none"],
            ["no node offers nvidia.com/gpus; 1 offers nvidia.com/gpu"],
            id="a misspelt resource",
        ),
        pytest.param(
            "NodeResourcesFit",
            [make_pod(f"r{i}").on("n1") for i in range(10)],
            make_pod("p"),
            ["has 10 of at most 10 pods"],
            ["1 of 3 nodes takes no more pods (at most 10 there)"],
            id="pods per node",
        ),
        pytest.param(
            "NodePorts",
            WEB,
            make_pod("p").host_port(80),
            ["host port 80/TCP is taken by default/w1"],
            ["host port 80/TCP is taken on 2 of 3 nodes"],
            id="ports",
        ),
        pytest.param(
            "NodeAffinity",
            [],
            make_pod("p").node_selector(zone="c", rack="1"),
            [
                "nodeSelector rack=1: the node has no label rack",
                "nodeSelector zone=c: the node has zone=a",
            ],
            ["no node has the label rack", "no node matches nodeSelector zone=c; nodes have a, b"],
            id="node selector",
        ),
        pytest.param(
            "NodeAffinity",
            [],
            make_pod("p").node_selector(zones="a"),
            ["nodeSelector zones=a: the node has no label zones"],
            ["no node has the label zones; 3 of 3 nodes have zone"],
            id="a misspelt label",
        ),
        pytest.param(
            "NodeAffinity",
            [],
            make_pod("p").required(
                term(requirement("zone", "In", "b"), requirement("disk", "Exists")),
                term(requirement("zone", "NotIn", "a"), requirement("gen", "Gt", "3")),
            ),
            [
                "nodeAffinity term 0 zone=b: the node has zone=a",
                "nodeAffinity term 0 disk: the node has no label disk",
                "nodeAffinity term 1 zone!=a: the node has zone=a",
                "nodeAffinity term 1 gen>3: the node has no label gen",
            ],
            [
                "no node has the label disk",
                "no node has the label gen",
                "1 of 3 nodes matches nodeAffinity term 0 zone=b",
                "1 of 3 nodes matches nodeAffinity term 1 zone!=a",
            ],
            id="terms",
        ),
        pytest.param(
            "NodeAffinity",
            [],
            make_pod("p").required({"matchFields": [NAMES]}),
            ["nodeAffinity metadata.name=n9: the node has another name"],
            ["no node is called n9"],
            id="a node by name",
        ),
        pytest.param(
            "InterPodAffinity",
            WEB,
            make_pod("p").near(pod_term("zone", {"app": "cache"})),
            ["no pod with app=cache is in zone=a"],
            ["no pod has app=cache"],
            id="near no pod",
        ),
        pytest.param(
            "InterPodAffinity",
            WEB,
            make_pod("p").near(pod_term("rack", {"app": "web"})),
            ["the node has no label rack"],
            ["no node has the label rack"],
            id="an absent topology key",
        ),
        pytest.param(
            "InterPodAffinity",
            WEB,
            make_pod("p").apart(pod_term("zone", {"app": "web"})),
            ["default/w1 with app=web is in zone=a"],
            ["2 of 3 nodes are in a zone with a pod that has app=web"],
            id="apart",
        ),
        pytest.param(
            "InterPodAffinity",
            [make_pod("alone").apart(pod_term(HOST, {"app": "p"})).on("n1")],
            make_pod("p").label(app="p"),
            ["default/alone on the node keeps pods with app=p away"],
            ["1 pod keeps pods with app=p off their node: 1 of 3 nodes"],
            id="kept away",
        ),
        pytest.param(
            "PodTopologySpread",
            WEB,
            make_pod("p").label(app="web").spread(SPREAD),
            [
                "zone=a has 2 pods with app=web and the emptiest has 0: "
                "the skew would be 3, at most 1"
            ],
            ["pods with app=web by zone: a 2, b 0; a skew of at most 1 closes 2 of 3 nodes"],
            id="spread",
        ),
        pytest.param(
            "PodTopologySpread",
            WEB,
            make_pod("p").spread({**SPREAD, "topologyKey": "zones"}),
            ["the node has no label zones"],
            ["no node has the label zones; did you mean zone?"],
            id="spread by an absent key",
        ),
        pytest.param(
            "NodeDeclaredFeatures",
            [],
            make_pod("p").spec(hostNetwork=True, hostUsers=False),
            ["the node does not declare the feature UserNamespacesHostNetworkSupport"],
            [
                "3 of 3 nodes do not declare the feature UserNamespacesHostNetworkSupport",
            ],
            id="features",
        ),
        pytest.param(
            "DynamicResources",
            [],
            make_pod("p").spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]),
            ["claims devices: gpu"],
            ["claims devices: gpu"],
            id="devices",
        ),
    ],
)
def test_facts(
    plugin: str,
    others: Sequence[NodeBuilder | PodBuilder],
    pod: PodBuilder,
    on_n1: list[str],
    of_all: list[str],
) -> None:
    answer = judged([each.obj() for each in (*THREE, *others)], pod.obj())
    assert on_node(answer, "n1", plugin) == on_n1
    assert cluster(answer, plugin) == of_all


@pytest.mark.parametrize(
    ("tolerated", "message"),
    [
        ({}, "taint team=a:NoSchedule is not tolerated"),
        (
            {"key": "team", "value": "b"},
            "taint team=a:NoSchedule is not tolerated; its toleration team=b is for another value",
        ),
        (
            {"key": "team", "value": "a", "effect": "NoExecute"},
            "taint team=a:NoSchedule is not tolerated; "
            "its toleration team=a:NoExecute is for another effect",
        ),
        ({"key": "teams", "value": "a"}, "taint team=a:NoSchedule is not tolerated"),
    ],
)
def test_taints_and_the_toleration_that_comes_near(tolerated: Json, message: str) -> None:
    pod = make_pod("p")
    if tolerated:
        pod.toleration(**tolerated)
    objects = [node("n1").taint("team", "a").obj(), node("n2").cordoned().obj()]
    answer = judged(objects, pod.obj())
    assert on_node(answer, "n1", "TaintToleration") == [message]
    (taint,) = (each for each in answer["facts"] if each["plugin"] == "TaintToleration")
    assert (taint["key"], taint["value"], taint["effect"]) == ("team", "a", "NoSchedule")
    assert taint["message"].startswith("1 of 2 nodes has the taint team=a:NoSchedule")
    if tolerated:
        assert taint["message"].endswith(taint["near"])
        assert tolerated["key"] in taint["near"]
    assert on_node(answer, "n2", "NodeUnschedulable") == ["the node is cordoned"]
    assert cluster(answer, "NodeUnschedulable") == ["1 of 2 nodes is cordoned"]


def test_a_node_that_is_tainted_and_too_small_says_both() -> None:
    answer = judged([node("n1").taint("team").obj()], make_pod("p").cpu(70).obj())
    said = [(entry["plugin"], entry["reasons"]) for entry in answer["nodes"]["n1"]["all"]]
    assert said == [
        ("TaintToleration", ["node(s) had untolerated taint(s)"]),
        ("NodeResourcesFit", ["Insufficient cpu"]),
    ]
    assert answer["nodes"]["n1"]["all"][1]["facts"] == [
        {
            "type": "resource",
            "resource": "cpu",
            "asked": "70",
            "free": "4",
            "allocatable": "4",
            "message": "requests 70 cpu, 4 free of 4",
        }
    ]


IMMEDIATE = a_class("now", mode="Immediate")


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        pytest.param(
            [a_claim("dato")], "claim data does not exist; there is a claim dato", id="missing"
        ),
        pytest.param(
            [a_claim("data", "now"), IMMEDIATE],
            "claim data is not bound yet, and its storage class now binds immediately",
            id="immediate",
        ),
        pytest.param(
            [a_claim("data", "nwo"), IMMEDIATE],
            "claim data names the storage class nwo, which does not exist; there is now",
            id="no such class",
        ),
        pytest.param(
            [a_claim("data", "fast")],
            "claim data names the storage class fast, which does not exist; there is none",
            id="no class at all",
        ),
        pytest.param(
            [a_claim("data", "fast"), *map(a_class, ("d", "c", "b", "a"))],
            "claim data names the storage class fast, which does not exist; "
            "there are a, b, c and 1 more",
            id="no class of a similar name",
        ),
        pytest.param(
            [a_claim("data", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            "claim data is being deleted",
            id="deleted",
        ),
        pytest.param(
            [
                a_class("late"),
                a_claim(
                    "data",
                    spec={"selector": {"matchLabels": dict.fromkeys(map(str, range(1025)), "")}},
                ),
            ],
            'persistentvolumeclaim "data": spec.selector: 1025 entries; all claims of a pod may'
            " have 1024",
            id="a selector that is too long",
        ),
    ],
)
def test_claims_that_no_node_can_cure(objects: list[Json], message: str) -> None:
    answer = judged([*(each.obj() for each in THREE), *objects], with_claims("data").cpu(9).obj())
    assert on_node(answer, "n1", "VolumeBinding") == [message]
    told = [each for each in answer["facts"] if each["type"] == "claim"]
    assert [(each["message"], each["nodes"]) for each in told] == [(message, 3)], "told once"
    assert cluster(answer, "NodeResourcesFit"), "the other filters are asked all the same"


def bound(name: str, **volume: Any) -> list[Json]:
    claim = a_claim("data", "late", name, status={"phase": "Bound"})
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    spec = {"claimRef": {**reference, "uid": "uid-data"}, **volume.pop("spec", {})}
    return [claim, a_class("late"), a_volume(name, spec=spec, phase="Bound", **volume)]


def test_where_a_volume_is() -> None:
    nodes = [node("n1", **{ZONE: "a"}).obj(), node("n2", **{ZONE: "b"}).obj()]
    answer = judged([*nodes, *bound("pv", labels={ZONE: "b"})], with_claims("data").obj())
    message = f"volume pv of claim data is in {ZONE}=b"
    assert on_node(answer, "n1", "VolumeZone") == [f"{message}, the node in a"]
    assert cluster(answer, "VolumeZone") == [f"{message}; 1 of 2 nodes are there"]
    answer = judged([*nodes, *bound("pv", spec=within(ZONE, "b"))], with_claims("data").obj())
    message = f"volume pv of claim data can be used on nodes with {ZONE}=b"
    assert on_node(answer, "n1", "VolumeBinding") == [message]
    assert answer["fit"] == ["n2"]


def test_a_claim_that_finds_no_volume() -> None:
    objects = [a_claim("data"), a_class("late", "kubernetes.io/no-provisioner")]
    answer = judged([node("n1").obj(), *objects], with_claims("data").obj())
    message = "claim data finds no volume, and its storage class late provisions none"
    assert on_node(answer, "n1", "VolumeBinding") == [message]


def test_a_claim_of_one_pod_and_a_disk() -> None:
    claim = a_claim("data", "late", modes=["ReadWriteOncePod"])
    user = with_claims("data").meta(name="user", uid="u").on("n1")
    objects = [node("n1").obj(), claim, a_class("late"), user.obj()]
    answer = judged(objects, with_claims("data").obj())
    message = "claim data (ReadWriteOncePod) is in use by default/user"
    assert on_node(answer, "n1", "VolumeRestrictions") == [message]
    assert cluster(answer, "VolumeRestrictions") == [message]
    disk = {"name": "d", "gcePersistentDisk": {"pdName": "disk"}}
    user, pod = (make_pod(name).spec(volumes=[disk]) for name in ("user", "p"))
    answer = judged([node("n1").obj(), user.on("n1").obj()], pod.obj())
    (said,) = on_node(answer, "n1", "VolumeRestrictions")
    assert said.startswith("another pod there uses the disk ")
    assert said.endswith("disk")


def test_limits_of_volumes() -> None:
    objects = [node("n1").obj(), a_csi_node("n1", {"csi.example.com": 0})]
    objects += bound("pv", spec=csi("handle"))
    answer = judged(objects, with_claims("data").obj())
    message = "has 0 volumes of csi.example.com, 1 more exceed the limit 0"
    assert on_node(answer, "n1", "NodeVolumeLimits") == [message]
    message = "1 of 1 nodes can attach no 1 more of csi.example.com"
    assert cluster(answer, "NodeVolumeLimits") == [message]


def test_conditions() -> None:
    sick = node("n1").status(conditions=[{"type": "Ready", "status": "False"}])
    sick.status(allocatable={"cpu": 4, "memory": "1Gi", "pods": 10})
    answer = judged(
        [sick.obj(), node("n2").obj()], make_pod("p").obj(), only("NodeConditions", None)
    )
    assert on_node(answer, "n1", "NodeConditions") == ["its condition Ready is False"]
    message = "on 1 of 2 nodes the condition Ready is False"
    assert cluster(answer, "NodeConditions") == [message]


def test_service_affinity() -> None:
    config = only("ServiceAffinity", {"labels": ["zone"]})
    objects: list[Json] = [each.obj() for each in THREE]
    objects.append(
        {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"app": "x"}}}
    )
    objects.append(make_pod("kin").label(app="x").on("n3").obj())
    answer = judged(objects, make_pod("p").label(app="x").obj(), config)
    message = "pods of its service are on nodes with zone=b"
    assert on_node(answer, "n1", "ServiceAffinity") == [message]
    message = "2 of 3 nodes are not among those of its service: zone=b"
    assert cluster(answer, "ServiceAffinity") == [message]


def test_numa_cells() -> None:
    objects = [make_node(name).cpu(32).memory("128Gi").pods(10).obj() for name in ("n1", "n2")]
    objects.append(make_topology("n1").cell(6).cell(4).obj())
    objects.append(make_topology("n2", scope="pod").cell(7, "2Gi").cell(3).obj())
    answer = explain(objects, pinned("p", 8, "1Gi").obj())
    check_documented(answer)
    said = on_node(answer, "n1", "NodeResourceTopologyMatch")
    assert said == [
        "the container requests 8 cpu of one NUMA cell: node-0 has 6 free, node-1 has 4 free",
        "the container requests 1Gi memory of one NUMA cell: "
        "node-0 has 64Gi free, node-1 has 64Gi free",
    ]
    (entry,) = answer["nodes"]["n2"]["all"]
    assert entry["facts"][0]["cells"] == [
        {"cell": "node-0", "free": "7", "sure": "7", "allocatable": "16"},
        {"cell": "node-1", "free": "3", "sure": "3", "allocatable": "16"},
    ]
    assert cluster(answer, "NodeResourceTopologyMatch") == [
        "the container requests 8 cpu of one NUMA cell, at most 6 free, in node-0 of n1",
        "the pod requests 8 cpu of one NUMA cell, at most 7 free, in node-0 of n2",
    ]
