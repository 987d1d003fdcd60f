"""The scheduler over a list of objects: what people and tools call without any server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler.simulation import InputError, explain, place
from tests.builders import Json, make_node, make_pod, make_worker
from tests.plugins.storage import a_claim, a_class, a_pod, a_volume, local


def test_explain_judges_and_scores_every_node() -> None:
    nodes = [make_worker("n1"), make_worker("n2").taint("t"), make_node("n3").cpu("1")]
    answer = explain([node.obj() for node in nodes], make_pod("p").cpu("2").obj())
    assert answer["fit"] == ["n1"]
    assert answer["node"] == "n1"
    assert answer["message"] == ""
    assert answer["nodes"]["n1"]["fit"] is True
    assert answer["nodes"]["n1"]["all"] == []
    tainted = answer["nodes"]["n2"]
    rejection = {
        "plugin": "TaintToleration",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ["node(s) had untolerated taint(s)"],
    }
    (only,) = tainted.pop("all")
    assert [each["message"] for each in only.pop("facts")] == [
        "taint t:NoSchedule is not tolerated"
    ]
    assert only == rejection
    assert tainted == {"fit": False, **rejection}
    (score,) = answer["scores"].values()
    # cpu (4-2)/4 = 50, memory, with the default of 200Mi, (16384-200)/16384 = 98: mean 74
    assert score["plugins"]["NodeResourcesFit"] == 74
    assert score["total"] == sum(score["plugins"].values())


def test_explain_counts_pods_that_hold_resources() -> None:
    objects = [
        make_node("n1").cpu("2").obj(),
        make_pod("running").cpu("1").on("n1").obj(),
        make_pod("finished").cpu("2").on("n1").phase("Succeeded").obj(),
        make_pod("elsewhere").cpu("2").on("n9").obj(),
    ]
    assert explain(objects, make_pod("p").cpu("1").obj())["fit"] == ["n1"]
    answer = explain(objects, make_pod("p").cpu("1500m").obj())
    assert answer["message"] == "0/1 nodes are available: 1 Insufficient cpu."


def test_explain_fills_in_what_the_api_server_would() -> None:
    bare = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    answer = explain([make_worker("n1").obj()], bare)
    assert answer["pod"] == "default/p"
    assert answer["node"] == "n1"


def test_explain_without_nodes() -> None:
    answer = explain([], make_pod("p").obj())
    assert answer["nodes"] == {}
    assert answer["message"] == "no nodes available to schedule pods"


def test_explain_follows_the_configuration() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}},
        ],
    }
    objects = [make_worker("n1").taint("t").obj()]
    assert explain(objects, make_pod("p").obj())["fit"] == []
    assert explain(objects, make_pod("p").obj(), config)["fit"] == ["n1"]
    assert explain(objects, make_pod("p").obj(), [config])["fit"] == ["n1"]


def test_place_schedules_in_queue_order_and_says_why_not() -> None:
    objects = [
        make_node("n1").cpu("1").obj(),
        make_pod("low").cpu("1").obj(),
        make_pod("high").cpu("1").priority(10).obj(),
        make_pod("gated").gate("example.com/wait").obj(),
        make_pod("theirs").scheduler("default-scheduler").obj(),
        make_pod("running").on("n1").obj(),
    ]
    assert place(objects) == [
        ("default/high", "n1", ""),
        ("default/low", None, "0/1 nodes are available: 1 Insufficient cpu."),
        ("default/gated", None, "waiting for scheduling gates: [example.com/wait]"),
    ]


def test_place_takes_pods_without_a_scheduler_name_and_lists() -> None:
    pod = make_pod("p").obj()
    del pod["spec"]["schedulerName"]
    everything = {
        "kind": "List",
        "items": [{"kind": "NodeList", "items": [make_worker("n").obj()]}],
    }
    assert place([everything, pod]) == [("default/p", "n", "")]


def test_place_ignores_kinds_that_no_scheduler_looks_at() -> None:
    config_map = {"kind": "ConfigMap", "metadata": {"name": "x"}}
    assert place([config_map, {"metadata": {}}]) == []


def test_an_object_that_cannot_be_read_is_named_with_its_field() -> None:
    broken = make_pod("p").obj()
    broken["spec"]["priority"] = "high"
    with pytest.raises(InputError, match=r"Pod p: .*spec\.priority"):
        place([broken])
    with pytest.raises(InputError, match=r"Pod p: .*spec\.priority"):
        explain([], broken)


def claiming(name: str) -> Json:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    return make_pod(name).spec(volumes=[volume]).obj()


def test_objects_without_a_namespace_are_in_the_default_one() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v"},
    }
    volume = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}}
    nodes = [make_node("n").cpu(4).obj()]
    assert explain([*nodes, claim, volume], claiming("a"))["fit"] == ["n"]


def test_a_fault_is_explained_and_not_raised() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"storageClassName": "odd"},
    }
    odd = {"kind": "StorageClass", "metadata": {"name": "odd"}, "provisioner": "example.com"}
    answer = explain([make_node("n").cpu(4).obj(), claim, odd], claiming("a"))
    assert (answer["fit"], answer["node"]) == ([], None)
    said = (
        'running PreFilter plugin "VolumeBinding": VolumeBindingMode not set for StorageClass "odd"'
    )
    assert answer["message"] == said
    assert answer["nodes"]["n"]["plugin"] == "VolumeBinding"
    assert answer["nodes"]["n"]["code"] == "Error"


def test_text_that_is_no_text_is_named() -> None:
    node = make_node("n").label(a="\ud800").obj()
    node["metadata"]["labels"] = "\ud800"
    with pytest.raises(InputError, match="Node n"):
        explain([node], make_pod("a").obj())


# Volumes, plugins that prepare nodes, and preemption


def with_claim(name: str, claim: str) -> Json:
    return a_pod(name).claim(claim).obj()


HOST = "kubernetes.io/hostname"


def hosts(*names: str) -> list[Json]:
    return [make_node(name).cpu(4).label(**{HOST: name}).obj() for name in names]


@pytest.mark.parametrize(
    "volumes",
    [
        pytest.param([], id="made"),
        pytest.param([a_volume("v", spec=local("n2"))], id="found"),
        pytest.param(
            [
                a_volume(
                    "v",
                    spec={
                        **local("n2"),
                        "claimRef": {"namespace": "default", "name": "c", "uid": "uid-c"},
                    },
                )
            ],
            id="being bound",
        ),
    ],
)
def test_pods_that_share_a_claim_go_where_its_volume_is(volumes: list[Json]) -> None:
    provisioner = "kubernetes.io/no-provisioner" if volumes else "csi.example.com"
    objects = [*hosts("n1", "n2", "n3"), a_class("late", provisioner), a_claim("c"), *volumes]
    pods = [with_claim(name, "c") for name in "abc"]
    placed = place([*objects, *pods])
    nodes = {node for _, node, _ in placed}
    assert len(nodes) == 1
    if volumes:
        assert nodes == {"n2"}


def test_a_claim_whose_volume_is_being_made_waits_for_nobody() -> None:
    annotations = {"volume.kubernetes.io/selected-node": "n2"}
    claim = a_claim("c", annotations=annotations)
    objects = [*hosts("n1", "n2"), a_class("late"), claim, with_claim("p", "c")]
    assert place(objects) == [("default/p", "n2", "")]


def test_a_volume_is_given_once() -> None:
    claims = [a_claim("c1"), a_claim("c2")]
    no_provisioner = a_class("late", "kubernetes.io/no-provisioner")
    volume = a_volume("v", spec=local("n1"))
    pods = [with_claim("a", "c1"), with_claim("b", "c2")]
    one, other = place([*hosts("n1"), no_provisioner, *claims, volume, *pods])
    assert one == ("default/a", "n1", "")
    assert other[:2] == ("default/b", None)
    assert "didn't find available persistent volumes" in other[2]


PREPARING = """
from scheduler.model.status import SUCCESS, unschedulable

class Preparing:
    name = "Preparing"
    def __init__(self, args, handle): ...
    async def pre_bind(self, cycle, node):
        return unschedulable("nobody is at home") if node == "n1" else SUCCESS
"""


@pytest.mark.parametrize(("prepare", "node"), [(False, "n1"), (True, None)])
def test_plugins_of_ones_own_prepare_nodes_if_asked(
    tmp_path: Path, prepare: bool, node: str | None
) -> None:
    (tmp_path / "preparing.py").write_text(PREPARING)
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Preparing"}]}}}
    config: list[Json] = [
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        },
        {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "plugins": {"directory": str(tmp_path)},
        },
    ]
    ((_, found, message),) = place([*hosts("n1"), make_pod("p").obj()], config, prepare=prepare)
    assert found == node
    assert message == ("" if node else "nobody is at home")


def test_evictions_are_made_if_asked() -> None:
    low = [make_pod(f"low{i}").cpu(2).on("n1").priority(1).obj() for i in range(2)]
    high = make_pod("high").cpu(3).priority(9).obj()
    also = make_pod("also").cpu(2).priority(0).obj()
    objects = [*hosts("n1"), *low, high, also]
    assert [each[:2] for each in place(objects)] == [("default/high", None), ("default/also", None)]
    placed = {pod: (node, message) for pod, node, message in place(objects, evict=True)}
    assert placed["default/high"] == ("n1", "")
    for name in ("default/low0", "default/low1"):
        assert placed[name][0] is None
        assert placed[name][1].startswith("Preempted by pod ")
    assert placed["default/also"][0] is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "Node", "metadata": {}}, r"Node \?: metadata\.name is missing"),
        ({"kind": "List", "items": "nodes"}, "expected an object, not 'n'"),
        ("nodes", "expected an object, not 'nodes'"),
    ],
)
def test_what_is_no_object_is_named(wrong: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        explain([wrong], make_pod("p").cpu(9).obj())
