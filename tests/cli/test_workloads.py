"""The pods that controllers would create."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cli.workloads import controller_of, expand, identity
from tests.builders import make_node, make_pod, requirement, term
from tests.cli.support import Json, workload


def made(*objects: Json, kind: str = "Pod") -> list[Json]:
    """What `expand` adds of a kind."""
    given = [identity(body) for body in objects]
    return [b for b in expand(list(objects)) if b["kind"] == kind and identity(b) not in given]


def names(objects: list[Json]) -> list[str]:
    return [body["metadata"]["name"] for body in objects]


def owned(pod: Json, owner: Json) -> Json:
    pod["metadata"]["namespace"] = owner["metadata"]["namespace"]
    reference = {"kind": owner["kind"], "name": owner["metadata"]["name"], "controller": True}
    pod["metadata"]["ownerReferences"] = [reference]
    return pod


def test_a_deployment_has_a_replica_set_with_its_pods() -> None:
    deployment = workload("Deployment", "web", replicas=3, selector={"matchLabels": {"app": "web"}})
    [replica_set] = made(deployment, kind="ReplicaSet")
    pods = made(deployment)
    digest = replica_set["metadata"]["labels"]["pod-template-hash"]
    labels = {"app": "web", "pod-template-hash": digest}
    assert identity(replica_set) == ("ReplicaSet", "shop", f"web-{digest}")
    assert controller_of(replica_set) == ("Deployment", "shop", "web")
    assert replica_set["spec"]["selector"]["matchLabels"] == labels
    assert len(set(names(pods))) == 3
    for pod in pods:
        assert pod["metadata"]["name"].startswith(f"web-{digest}-")
        assert pod["metadata"]["labels"] == labels
        assert controller_of(pod) == identity(replica_set)
        assert pod["spec"] == deployment["spec"]["template"]["spec"]


@pytest.mark.parametrize("ending", ["the workload", "its namespace"])
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet"])
def test_nothing_is_made_of_what_is_being_deleted(kind: str, ending: str) -> None:
    node, owner = make_node("n").obj(), workload(kind, "web")
    namespace: Json = {"kind": "Namespace", "metadata": {"name": "shop"}}
    assert len(made(node, namespace, owner)) == 1
    deleted = owner if ending == "the workload" else namespace
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert expand([node, namespace, owner]) == [node, namespace, owner]


def test_another_template_has_another_hash() -> None:
    first, second = workload("Deployment", "web"), workload("Deployment", "web")
    second["spec"]["template"]["spec"]["priorityClassName"] = "high"
    assert made(first, kind="ReplicaSet") != made(second, kind="ReplicaSet")
    assert names(made(first)) == names(made(workload("Deployment", "web")))


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_replicas_default_to_one_and_names_never_repeat(kind: str) -> None:
    assert len(made(workload(kind, "web"))) == 1
    pods = made(workload(kind, "web", replicas=20_000))
    assert len(set(names(pods))) == 20_000


def test_names_stay_within_what_a_label_holds() -> None:
    [pod] = made(workload("ReplicaSet", "w" * 70))
    assert len(pod["metadata"]["name"]) == 63


def test_stateful_pods_are_numbered_and_claim_their_volumes() -> None:
    stateful = workload(
        "StatefulSet",
        "db",
        replicas=2,
        ordinals={"start": 4},
        volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {"storageClassName": "x"}}],
    )
    stateful["spec"]["template"]["spec"]["volumes"] = [{"name": "data"}, {"name": "tmp"}]
    pods = made(stateful)
    claims = made(stateful, kind="PersistentVolumeClaim")
    assert names(pods) == ["db-4", "db-5"]
    assert pods[0]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "4"
    assert pods[1]["spec"]["volumes"] == [
        {"name": "tmp"},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-5"}},
    ]
    assert [identity(claim)[1:] for claim in claims] == [
        ("shop", "data-db-4"),
        ("shop", "data-db-5"),
    ]
    assert claims[0]["spec"] == {"storageClassName": "x"}


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({}, 1),
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 3}, 3),
        ({"completions": 3}, 1),
        ({"parallelism": 4, "suspend": True}, 0),
    ],
)
def test_a_job_starts_as_many_pods_as_run_at_once(spec: dict[str, Any], pods: int) -> None:
    assert len(made(workload("Job", "j", **spec))) == pods


@pytest.mark.parametrize(
    ("status", "pods"),
    [
        ({"succeeded": 4}, 1),
        ({"succeeded": 5}, 0),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, 0),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, 3),
    ],
)
def test_a_job_that_has_got_somewhere_starts_only_the_rest(
    status: dict[str, Any], pods: int
) -> None:
    job = {**workload("Job", "j", parallelism=3, completions=5), "status": status}
    assert len(made(job)) == pods


def test_a_work_queue_job_starts_nothing_once_a_pod_has_succeeded() -> None:
    job = {**workload("Job", "j", parallelism=3), "status": {"succeeded": 1}}
    assert made(job) == []


def test_indexed_jobs_go_on_with_the_free_indexes() -> None:
    job = workload("Job", "j", parallelism=2, completions=3, completionMode="Indexed")
    index = "batch.kubernetes.io/job-completion-index"
    running = owned(make_pod("j-0-abcde").obj(), job)
    running["metadata"]["labels"] = {index: "0"}
    [pod] = made(job, running)
    assert pod["metadata"]["labels"][index] == "1"
    assert pod["metadata"]["name"].startswith("j-1-")


def test_pods_that_exist_are_not_made_again() -> None:
    replica_set = workload("ReplicaSet", "web", replicas=3)
    running = owned(make_pod("web-1").obj(), replica_set)
    failed = owned(make_pod("web-2").phase("Failed").obj(), replica_set)
    leaving = owned(make_pod("web-3").deleting().obj(), replica_set)
    assert len(made(replica_set, running, failed, leaving)) == 2
    stateful = workload("StatefulSet", "db", replicas=2)
    assert names(made(stateful, owned(make_pod("db-1").obj(), stateful))) == ["db-0"]


def test_replica_sets_of_a_dump_speak_for_their_deployment() -> None:
    deployment = workload("Deployment", "web", replicas=5)
    replica_set = owned(workload("ReplicaSet", "web-abc", replicas=2), deployment)
    assert made(deployment, replica_set, kind="ReplicaSet") == []
    assert len(made(deployment, replica_set)) == 2


def test_a_workload_of_the_same_name_elsewhere_is_another() -> None:
    replica_set = workload("ReplicaSet", "web")
    stranger = owned(make_pod("web-1").obj(), replica_set)
    stranger["metadata"]["namespace"] = "elsewhere"
    assert len(made(replica_set, stranger)) == 1


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_without_a_template_there_are_no_pods(kind: str) -> None:
    assert made({"kind": kind, "metadata": {"name": "web"}}) == []


# DaemonSets


def on(pod: Json) -> str:
    """The only node that a DaemonSet's pod may go to."""
    rules = pod["spec"]["affinity"]["nodeAffinity"]
    [term] = rules["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    [field] = term["matchFields"]
    assert (field["key"], field["operator"]) == ("metadata.name", "In")
    [node] = field["values"]
    assert isinstance(node, str)
    return node


def test_a_daemon_set_has_a_pod_for_each_node_that_it_matches() -> None:
    nodes = [
        make_node("plain").obj(),
        make_node("cordoned").cordoned().taint("node.kubernetes.io/unschedulable").obj(),
        make_node("pressed").taint("node.kubernetes.io/memory-pressure").obj(),
        make_node("gone").taint("node.kubernetes.io/unreachable", effect="NoExecute").obj(),
        make_node("rather-not").taint("x", effect="PreferNoSchedule").obj(),
        make_node("db").taint("dedicated").obj(),
        make_node("no-network").taint("node.kubernetes.io/network-unavailable").obj(),
    ]
    daemon = workload("DaemonSet", "agent")
    pods = made(*nodes, daemon)
    assert [on(pod) for pod in pods] == ["plain", "cordoned", "pressed", "gone", "rather-not"]
    assert len(set(names(pods))) == 5
    assert {controller_of(pod) for pod in pods} == {identity(daemon)}
    daemon["spec"]["template"]["spec"] |= {
        "hostNetwork": True,
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    }
    assert len(made(*nodes, daemon)) == 7


def test_a_daemon_set_keeps_to_its_selector_and_affinity() -> None:
    nodes = [make_node(name).label(pool=pool).obj() for name, pool in (("a", "x"), ("b", "y"))]
    daemon = workload("DaemonSet", "agent")
    spec = daemon["spec"]["template"]["spec"]
    spec["nodeSelector"] = {"pool": "x"}
    assert [on(pod) for pod in made(*nodes, daemon)] == ["a"]
    del spec["nodeSelector"]
    required = {"nodeSelectorTerms": [term(requirement("pool", "NotIn", "x"))]}
    preferred = [{"weight": 1, "preference": term(requirement("pool", "In", "x"))}]
    spec["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }
    [pod] = made(*nodes, daemon)
    assert on(pod) == "b"
    kept = pod["spec"]["affinity"]["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert kept == preferred


def test_a_daemons_pods_that_are_there_are_not_made_again() -> None:
    nodes = [make_node(name).obj() for name in "abc"]
    daemon = workload("DaemonSet", "agent")
    second = made(*nodes, daemon)[1]
    running = owned(make_pod("agent-x").on("a").obj(), daemon)
    failed = owned(make_pod("agent-y").on("c").phase("Failed").obj(), daemon)
    assert [on(pod) for pod in made(*nodes, daemon, running, second, failed)] == ["c"]


def test_an_indexed_job_makes_what_is_left_of_its_indexes() -> None:
    job = workload("Job", "j", completionMode="Indexed", completions=6, parallelism=6)
    nonsense = f"²,3-,-,a-b,{'9' * 5000}"
    job["status"] = {"succeeded": 3, "completedIndexes": f"0-1,4,{nonsense}"}
    failed = owned(make_pod("j-2-x").phase("Failed").obj(), job)
    failed["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": "2"}
    running = owned(make_pod("j-3-x").obj(), job)
    running["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": "3"}
    labels = [pod["metadata"]["labels"] for pod in made(job, failed, running)]
    indexes = [each["batch.kubernetes.io/job-completion-index"] for each in labels]
    assert indexes == ["2", "5"]
