"""`equipoise simulate` with nodes added, nodes drained and workloads scaled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.simulate_command import simulate
from scheduler.cli.what_if import add_nodes, drain, scale
from scheduler.cli.workloads import expand
from tests.builders import Json, make_node, make_pod
from tests.cli.support import workload, write


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, arguments)


def placed(result: Result) -> dict[str, str | None]:
    assert result.exit_code == 0, result.output
    return {pod["pod"]: pod["node"] for pod in json.loads(result.stdout)["pods"]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.yaml"


def owned(pod: Json, kind: str, name: str) -> Json:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}
    pod["metadata"]["ownerReferences"] = [reference]
    return pod


def test_pods_go_to_nodes_that_are_added(file: Path) -> None:
    small, pod = make_node("n1").cpu(1).obj(), make_pod("a").cpu(1).obj()
    source = write(file, small, make_pod("full").cpu(1).on("n1").obj(), pod)
    assert placed(run("-f", source, "-o", "json")) == {"default/a": None}
    added = run("-f", source, "--add-nodes", "2", "like", "n1", "-o", "json")
    assert placed(added)["default/a"] in ("n1-new-1", "n1-new-2")


def test_an_added_node_has_the_shape_and_not_the_troubles_of_the_example() -> None:
    node = make_node("n1").cpu(4).label(zone="a", **{"kubernetes.io/hostname": "n1"}).obj()
    node["spec"] = {
        "unschedulable": True,
        "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "dedicated", "effect": "NoSchedule"},
        ],
    }
    *_, new = add_nodes([node], 1, "n1")
    assert new["metadata"]["name"] == "n1-new-1"
    assert new["metadata"]["labels"] == {"zone": "a", "kubernetes.io/hostname": "n1-new-1"}
    assert new["spec"] == {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}
    assert new["status"]["allocatable"] == node["status"]["allocatable"]


def test_daemon_sets_have_pods_on_added_nodes(file: Path) -> None:
    source = write(file, make_node("n1").cpu(4).obj(), workload("DaemonSet", "agent"))
    result = run("-f", source, "--add-nodes", "1", "like", "n1", "-o", "json")
    assert sorted(filter(None, placed(result).values())) == ["n1", "n1-new-1"]


def test_an_added_node_of_cells_has_all_of_them_free() -> None:
    cell = {"name": "node-0", "type": "Node"}
    used = {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "1"}
    topology = {
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1", "annotations": {"topology.node.k8s.io/fingerprint": "x"}},
        "zones": [{**cell, "resources": [used]}],
    }
    *_, new = add_nodes([make_node("n1").obj(), topology], 1, "n1")
    assert new["metadata"] == {"name": "n1-new-1"}
    assert new["zones"][0]["resources"][0]["available"] == "4"


def test_pods_of_a_drained_node_go_elsewhere(file: Path) -> None:
    moving = owned(make_pod("web-1").cpu(1).on("n1").obj(), "ReplicaSet", "web")
    agent = owned(make_pod("agent-1").cpu(1).on("n1").obj(), "DaemonSet", "agent")
    alone = make_pod("alone").cpu(1).on("n1").obj()
    nodes = [make_node(name).cpu(4).obj() for name in ("n1", "n2")]
    result = run("-f", write(file, *nodes, moving, agent, alone), "--drain", "n1", "-o", "json")
    assert placed(result) == {"default/web-1": "n2"}
    assert "1 pod of n1 waits again" in result.stderr
    assert "lost, as no controller makes them again: default/alone" in result.stderr


def test_pods_that_are_being_deleted_are_gone_from_a_drained_node(file: Path) -> None:
    """Their controllers have made others; and what is deleted anyway is not lost by a drain."""
    web = workload("ReplicaSet", "web", replicas=1)
    leaving = make_pod("web-1").cpu(1).on("n1").deleting().meta(namespace="shop")
    pods = [owned(leaving.obj(), "ReplicaSet", "web")]
    pods.append(owned(make_pod("web-2").meta(namespace="shop").on("n2").obj(), "ReplicaSet", "web"))
    pods.append(make_pod("alone").cpu(1).on("n1").deleting().obj())
    nodes = [make_node(name).cpu(4).obj() for name in ("n1", "n2")]
    result = run("-f", write(file, *nodes, web, *pods), "--drain", "n1", "-o", "json")
    assert placed(result) == {}
    assert result.stderr == "note: drained: 0 pods of n1 wait again\n"


@pytest.mark.parametrize("order", [1, -1])
def test_pods_that_are_being_deleted_do_not_count_as_replicas(order: int) -> None:
    web = workload("ReplicaSet", "web", replicas=3)
    pods = [
        owned(make_pod(f"web-{i}").meta(namespace="shop").on("n1").obj(), "ReplicaSet", "web")
        for i in range(4)
    ]
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    scaled = expand(scale([web, *pods[::order]], "rs/shop/web", 2))
    names = {body["metadata"]["name"] for body in scaled if body["kind"] == "Pod"}
    assert len(names) == 3
    assert "web-0" in names


def test_all_pods_that_a_drain_loses_are_named(file: Path) -> None:
    alone = [make_pod(f"alone-{number}").cpu(1).on("n1").obj() for number in range(8)]
    source = write(file, make_node("n1").cpu(8).obj(), *alone)
    result = run("-f", source, "--drain", "n1", "--drain", "n1")
    assert all(f"default/alone-{number}" in result.stderr for number in range(8))
    assert "0 pods of n1 wait again" in result.stderr


def test_a_drained_node_takes_no_pods() -> None:
    outcome = drain([make_node("n1").obj()], ["n1"])
    assert outcome.objects[0]["spec"]["unschedulable"] is True


@pytest.mark.parametrize(("count", "expected"), [(3, 3), (1, 1), (0, 0)])
def test_a_workload_is_scaled(count: int, expected: int) -> None:
    for kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        objects = [workload(kind, "web", replicas=2)]
        scaled = expand(scale(objects, f"{kind.lower()}/shop/web", count))
        assert sum(body["kind"] == "Pod" for body in scaled) == expected


def test_of_a_stateful_set_the_highest_ordinals_go(file: Path) -> None:
    db = workload("StatefulSet", "db", replicas=12)
    db["spec"]["ordinals"] = {"start": 1}
    nodes = [make_node(name).cpu(8).obj() for name in ("n1", "n2")]
    objects = expand([db])
    pods = [body for body in objects if body["kind"] == "Pod"]
    for body in pods[:-1]:  # the last one waits
        body["spec"] = {**body["spec"], "nodeName": "n1"}
    left = expand(scale(objects, "statefulset/shop/db", 10))
    names = [body["metadata"]["name"] for body in left if body["kind"] == "Pod"]
    assert names == [f"db-{ordinal}" for ordinal in range(1, 11)]
    source = write(file, *nodes, *objects)
    assert placed(run("-f", source, "--replicas", "sts/shop/db=10", "-o", "json")) == {}


def test_a_deployment_that_runs_is_scaled_by_its_newest_replica_set() -> None:
    objects = expand([workload("Deployment", "web", replicas=3)])
    up = expand(scale(objects, "deployment/shop/web", 5))
    assert sum(body["kind"] == "Pod" for body in up) == 5
    pods = [body for body in objects if body["kind"] == "Pod"]
    pods[0]["spec"] = {**pods[0]["spec"], "nodeName": "n1"}
    down = expand(scale(objects, "deployment/shop/web", 1))
    assert [body["metadata"]["name"] for body in down if body["kind"] == "Pod"] == [
        pods[0]["metadata"]["name"]
    ]


def test_pods_of_other_schedulers_are_placed_if_asked_for(file: Path) -> None:
    theirs = make_pod("a").cpu(1).scheduler("default-scheduler").obj()
    source = write(file, make_node("n1").cpu(4).obj(), theirs)
    assert placed(run("-f", source, "-o", "json")) == {}
    assert placed(run("-f", source, "--all-schedulers", "-o", "json")) == {"default/a": "n1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--add-nodes", "x", "like", "n1"],
            "NODE, N up to 100000, not 'x like n1'",
        ),
        (["--add-nodes", "1", "as", "n1"], "expected N like NODE"),
        (["--add-nodes", "²", "like", "n1"], "NODE, N up to 100000, not '² like n1'"),
        (["--add-nodes", "9" * 5000, "like", "n1"], "--add-nodes: expected N like NODE"),
        (["--add-nodes", "1", "like", "worker2"], "no node worker2, did you mean worker1?"),
        (["--drain", "n3"], "no node n3\n"),
        (["--replicas", "deployment/web"], "expected KIND/NAME=NUMBER"),
        (["--replicas", "deployment/web=²"], "expected KIND/NAME=NUMBER"),
        (["--replicas", f"deployment/web={'9' * 5000}"], "expected KIND/NAME=NUMBER"),
        (["--replicas", "cronjob/web=1"], "expected KIND/NAME or KIND/NAMESPACE/NAME"),
        (["--replicas", "deployment/xyz=1"], "no Deployment default/xyz\n"),
        (["--replicas", "deployment/api=1"], "no Deployment default/api, did you mean shop/api?\n"),
        (["--replicas", "deployment/shop/wep=1"], "no Deployment shop/wep, did you mean shop/web?"),
        (
            ["--more", "deployment/x/web"],
            "x/web, did you mean other/web or shop/web?",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str, file: Path) -> None:
    elsewhere = workload("Deployment", "web")
    elsewhere["metadata"]["namespace"] = "other"
    workloads = [elsewhere, *(workload("Deployment", name) for name in ("api", "web"))]
    result = run("-f", write(file, make_node("worker1").obj(), *workloads), *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_objects_must_come_from_somewhere() -> None:
    result = run()
    assert result.exit_code == 2
    assert "name files with -f, or --from-cluster" in result.output
