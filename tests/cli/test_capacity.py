"""`equipoise simulate --more` and `--missing-nodes`: the numbers are what then happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cli.capacity import missing_nodes
from scheduler.cli.simulate_command import simulate
from scheduler.cli.what_if import add_nodes
from scheduler.model.workloads import POD_GROUP_LABEL
from scheduler.simulation import how_many_more, place
from tests.builders import Json, constraint, make_node, make_pod, pod_term
from tests.cli.support import workload, write
from tests.examples import few


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.yaml"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, arguments)


def answer(*arguments: str) -> Any:
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_what_waits_is_placed_before_more_is_counted(file: Path) -> None:
    nodes = [make_node(name).cpu(4).obj() for name in ("n1", "n2")]
    source = write(file, *nodes, make_pod("waits").cpu(3).obj(), workload("Deployment", "web"))
    assert answer("-f", source, "--more", "deployment/shop/web")["more"]["fit"] == 4
    assert answer("-f", source, "--more", "pod/waits")["more"]["fit"] == 1
    shown = run("-f", source, "--more", "waits")
    assert shown.stdout == "1 more like waits fits\n"
    assert run("-f", source, "--more", "default/waits").stdout == "1 more like default/waits fits\n"
    misspelt = run("-f", source, "--more", "default/wiats")
    assert "no pod default/wiats, did you mean default/waits?" in misspelt.stderr


@st.composite
def clusters(draw: st.DrawFn) -> list[Json]:
    nodes = [
        make_node(f"n{i}")
        .cpu(draw(st.integers(1, 5)))
        .memory("16Gi")
        .pods(4)
        .label(zone="ab"[i % 2])
        .obj()
        for i in range(draw(st.integers(1, 4)))
    ]
    pods = [make_pod(f"p{i}").cpu(draw(st.integers(1, 3))).obj() for i in range(3)]
    return [*nodes, *pods]


HOST = "kubernetes.io/hostname"
KINDS = ("plain", "apart", "zone", "spread", "port", "pinned", "gang")


@st.composite
def kinds(draw: st.DrawFn) -> Json:
    pod = make_pod("kind").cpu(draw(st.sampled_from(["500m", "1", "2"]))).label(app="x")
    match draw(st.sampled_from(KINDS)):
        case "apart":
            pod.apart(pod_term(HOST, {"app": "x"}))
        case "zone":
            pod.apart(pod_term("zone", {"app": "x"}))
        case "spread":
            pod.spread(constraint("zone", labelSelector={"matchLabels": {"app": "x"}}))
        case "port":
            pod.host_port(80)
        case "pinned":
            amounts = {"cpu": draw(st.sampled_from([1, 2, 3])), "memory": "1Gi"}
            body = pod.obj()
            resources = {"requests": amounts, "limits": amounts}
            body["spec"]["containers"] = [{"name": "c", "resources": resources}]
            return body
        case "gang":
            pod.label(**{POD_GROUP_LABEL: "g"})
    return pod.obj()


def topology(node: Json) -> Json:
    """The cells of a node: two that share its CPUs."""
    cpus = int(node["status"]["allocatable"]["cpu"])

    def cell(number: int) -> Json:
        amounts = {"cpu": cpus // 2 + (cpus % 2) * number, "memory": "8Gi"}
        resources = [
            {"name": name, "capacity": n, "allocatable": n, "available": n}
            for name, n in amounts.items()
        ]
        return {"name": f"node-{number}", "type": "Node", "resources": resources}

    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node["metadata"]["name"]},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"],
        "zones": [cell(0), cell(1)],
    }


GROUP: Json = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 1},
}


@settings(deadline=None, max_examples=few(15))
@given(clusters(), kinds(), st.booleans())
def test_so_many_more_are_placed_when_they_come(
    objects: list[Json], kind: Json, cells: bool
) -> None:
    nodes = [body for body in objects if body["kind"] == "Node"]
    for body in nodes:
        body["metadata"]["labels"][HOST] = body["metadata"]["name"]
    others = [*map(topology, nodes), GROUP] if cells else [GROUP]
    objects = [*objects, *others]
    more = how_many_more(objects, kind)
    settled = [
        {**body, "spec": {**body["spec"], "nodeName": node}}
        for name, node, _ in place(objects)
        for body in objects
        if body["kind"] == "Pod" and f"default/{body['metadata']['name']}" == name and node
    ]
    copies = [
        {**kind, "metadata": {**kind["metadata"], "name": f"kind-{i}", "uid": f"uid-{i}"}}
        for i in range(more.fit + 1)
    ]
    outcome = place([*nodes, *others, *settled, *copies])
    assert sum(node is not None for _, node, _ in outcome) == more.fit
    assert (sum(more.nodes.values()), more.complete) == (more.fit, True)


def test_cells_that_are_taken_are_not_counted_twice() -> None:
    node = make_node("n").cpu(6).memory("16Gi").obj()
    amounts = {"cpu": 2, "memory": "1Gi"}
    pod = make_pod("p").obj()
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    assert how_many_more([node], pod).fit == 3
    assert how_many_more([node, topology(node)], pod).fit == 2


def test_very_many_are_counted(file: Path) -> None:
    nodes = [make_node(f"n{i}").cpu(2000).pods(200_000).obj() for i in range(2)]
    source = write(file, *nodes, make_pod("p").cpu("10m").on("n0").obj())
    assert run("-f", source, "--more", "p").stdout == "399999 more like p fit\n"


def test_a_number_that_is_not_the_last_is_said_to_be_none(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.simulation.capacity._FIRST_PORTION", 2)
    pod = make_pod("p").cpu(1).label(app="x").spread(constraint(HOST)).obj()
    objects = [make_node("n").cpu(9).label(**{HOST: "n"}).obj()]
    assert how_many_more(objects, pod, most=5) == (5, False, {"n": 5})
    assert how_many_more(objects, pod, most=20) == (9, True, {"n": 9})


def test_each_pod_of_a_stateful_set_has_claims_of_its_own(file: Path) -> None:
    nodes = [make_node(name).cpu(4).label(**{HOST: name}).obj() for name in ("n1", "n2")]
    amount = {"requests": {"storage": "1Gi"}}
    wanted = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": amount}
    claim = {"metadata": {"name": "data"}, "spec": wanted}
    stateful = workload("StatefulSet", "db", replicas=1)
    stateful["spec"]["volumeClaimTemplates"] = [claim]
    late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "example.com/p"}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **late}
    source = write(file, *nodes, stateful, {**kind, "metadata": {"name": "local"}})
    [placed] = answer("-f", source)["pods"]
    more = answer("-f", source, "--more", "statefulset/shop/db")["more"]
    assert more["complete"]
    assert more["nodes"].keys() == {"n1", "n2"}
    assert (
        answer("-f", source, "--replicas", f"statefulset/shop/db={more['fit'] + 2}")["pending"] == 1
    )
    assert placed["node"] in more["nodes"]


@pytest.mark.parametrize("kind", ["plain", "spread", "claims", "stateful"])
def test_pods_of_another_scheduler_are_counted_like_our_own(kind: str, file: Path) -> None:
    """On a cluster, most workloads are those of the default scheduler."""
    node = make_node("n").cpu(4).label(**{HOST: "n"}).obj()
    own = workload("StatefulSet" if kind == "stateful" else "Deployment", "web")
    spec = own["spec"]["template"]["spec"]
    spec["schedulerName"] = "default-scheduler"
    late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "example.com/p"}
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **late}
    claim = {"spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}}
    if kind == "spread":
        spec["topologySpreadConstraints"] = [constraint(HOST)]
    elif kind == "claims":
        spec["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}]
    elif kind == "stateful":
        own["spec"]["volumeClaimTemplates"] = [{**claim, "metadata": {"name": "data"}}]
    source = write(file, node, {**storage, "metadata": {"name": "local"}}, own)
    more = answer("-f", source, "--more", f"{own['kind'].lower()}/shop/web")["more"]
    assert more == {"fit": 4, "complete": True, "nodes": {"n": 4}}


CLAIMS: Json = {
    "StatefulSet": {
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]},
            }
        ]
    },
    "Deployment": {},
    "Job": {"completions": 1},
}


@pytest.mark.parametrize("kind", sorted(CLAIMS))
def test_pods_with_claims_of_their_own_come_after_all_that_wait(kind: str, file: Path) -> None:
    """Though they are more important: what waits is placed before they are there."""
    late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "example.com/p"}
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **late}
    own = workload(kind, "db", **CLAIMS[kind])
    other = workload("Deployment", "web")
    for each, cpu in ((own, "1"), (other, "3")):
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        each["spec"]["template"]["spec"]["containers"] = [container]
    own["spec"]["template"]["spec"]["priorityClassName"] = "system-cluster-critical"
    if kind != "StatefulSet":
        template = {"spec": CLAIMS["StatefulSet"]["volumeClaimTemplates"][0]["spec"]}
        volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}
        own["spec"]["template"]["spec"]["volumes"] = [volume]
    node = make_node("n").cpu(6).label(**{HOST: "n"}).obj()
    source = write(file, node, {**storage, "metadata": {"name": "local"}}, own, other)
    assert answer("-f", source)["pending"] == 0
    more = answer("-f", source, "--more", f"{kind.lower()}/shop/db")["more"]
    assert more == {"fit": 2, "complete": True, "nodes": {"n": 2}}


def test_the_smallest_number_of_nodes_is_found_for_each_shape(file: Path) -> None:
    small, large = make_node("small").cpu(2).obj(), make_node("large").cpu(8).obj()
    full = [make_pod(f"on-{n}").cpu(c).on(n).obj() for n, c in (("small", 2), ("large", 8))]
    waiting = [make_pod(f"w{i}").cpu(2).obj() for i in range(5)]
    source = write(file, small, large, *full, *waiting, make_pod("huge").cpu(6).obj())
    said = answer("-f", source, "--missing-nodes")
    assert said["pending"] == 6
    assert [(each["like"], each["nodes"], each["placed"]) for each in said["missingNodes"]] == [
        ("large", 3, 6),  # on two, the small ones leave no room for the huge one
        ("small", 5, 5),
    ]
    assert (
        "large              1        3              6 of 6"
        in run("-f", source, "--missing-nodes").stdout
    )


def test_pods_of_daemon_sets_take_room_of_missing_nodes_and_are_not_counted(file: Path) -> None:
    daemon = workload("DaemonSet", "agent")
    requests = {"resources": {"requests": {"cpu": "1"}}}
    daemon["spec"]["template"]["spec"]["containers"] = [{"name": "main", **requests}]
    waiting = [make_pod(f"w{i}").cpu(3).obj() for i in range(2)]
    full = make_pod("full").cpu(3).on("n").obj()
    source = write(file, make_node("n").cpu(4).obj(), full, daemon, *waiting)
    said = answer("-f", source, "--missing-nodes")
    assert said["pending"] == 2
    assert said["missingNodes"] == [{"like": "n", "existing": 1, "nodes": 2, "placed": 2}]
    small = write(file, make_node("n").cpu(3).obj(), daemon, *waiting)
    assert answer("-f", small, "--missing-nodes")["missingNodes"] == []


@settings(deadline=None, max_examples=10)
@given(clusters(), st.integers(1, 6))
def test_one_node_fewer_does_not_do(objects: list[Json], cpu: int) -> None:
    objects = [*objects, *(make_pod(f"w{i}").cpu(cpu).obj() for i in range(4))]
    pending, found = missing_nodes(objects, None)
    outcome = {pod: node for pod, node, _ in place(objects)}
    assert pending == sum(node is None for node in outcome.values())
    settled = [
        {**body, "spec": {**body["spec"], "nodeName": node}}
        if body["kind"] == "Pod" and (node := outcome[f"default/{body['metadata']['name']}"])
        else body
        for body in objects
    ]
    for each in found:
        for number, enough in ((each.nodes, True), (each.nodes - 1, False)):
            placed = place(add_nodes(settled, number, each.like))
            done = sum(node is not None for _, node, _ in placed)
            assert (done >= each.placed) is enough


def test_nodes_with_devices_are_of_another_kind(file: Path) -> None:
    devices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "n2"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n2",
            "pool": {"name": "n2", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }
    nodes = [make_node(name).cpu(2).obj() for name in ("n1", "n2", "n3")]
    full = [make_pod(f"on-{name}").cpu(2).on(name).obj() for name in ("n1", "n2", "n3")]
    source = write(file, *nodes, *full, devices, make_pod("a").cpu(1).obj())
    missing = answer("-f", source, "--missing-nodes")["missingNodes"]
    assert [(each["like"], each["existing"]) for each in missing] == [("n1", 2), ("n2", 1)]


def test_no_shape_may_help(file: Path) -> None:
    source = write(file, make_node("n1").cpu(2).obj(), make_pod("huge").cpu(9).obj())
    assert "more nodes of no shape would help" in run("-f", source, "--missing-nodes").stdout
    source = write(file, make_node("n1").cpu(2).obj(), make_pod("small").cpu(1).obj())
    assert "no pod waits" in run("-f", source, "--missing-nodes").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--more", "deployment/web"], "no Deployment default/web"),
        (["--more", "cronjob/web"], "expected KIND/NAME"),
        (["--more", "cronjob/web"], "of a pod NAME, NAMESPACE/NAME or pod/NAME"),
        (["--missing-nodes", "--evict"], "--evict cannot be combined with --missing-nodes"),
        (["--missing-nodes", "--batch"], "not --batch and --missing-nodes"),
        (["--missing-nodes", "--plot", "a.svg"], "and --missing-nodes places none"),
        (["--more", "absent"], "no pod default/absent"),
        (["--more", "po/absent"], "no pod default/absent"),
        (["--more", "deploy/web"], "no Deployment default/web"),
        (["--more", "absent", "--evict"], "--evict cannot be combined with"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str, file: Path) -> None:
    result = run("-f", write(file, make_node("n1").obj()), *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_pods_of_other_schedulers_are_named_as_not_counted(file: Path) -> None:
    theirs = make_pod("theirs").cpu(1).spec(schedulerName="default-scheduler").obj()
    source = write(file, make_node("n").cpu(2).obj(), theirs, make_pod("a").cpu(1).obj())
    left_out = run("-f", source, "--more", "pod/a")
    assert left_out.stdout == "1 more like pod/a fits\n"
    assert "left to another scheduler, default-scheduler: 1 pod" in left_out.stderr
    counted = run("-f", source, "--more", "pod/a", "--all-schedulers")
    assert (counted.stdout, counted.stderr) == ("0 more like pod/a fit\n", "")
