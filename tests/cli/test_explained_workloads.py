"""`equipoise explain` of workloads, and of what does not exist yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.live_workloads import written
from scheduler.cli.main import cli
from tests.builders import make_node, make_pod
from tests.cli.api_server import ApiServer, api_server
from tests.cli.support import Json, workload, write
from tests.gangs.support import make_group, member


def run(*arguments: str, kubeconfig: str = "") -> Result:
    return CliRunner().invoke(cli, ["explain", *arguments], env={"KUBECONFIG": kubeconfig or None})


# From files.


def test_the_replicas_of_a_deployment_are_explained_together(tmp_path: Path) -> None:
    file = write(
        tmp_path / "c.yaml",
        make_node("n1").cpu(2).obj(),
        make_node("n2").cpu(1).obj(),
        workload("Deployment", "web", replicas=5),
        workload("Deployment", "web-api", replicas=1),
    )
    result = run("deployment/web", "-n", "shop", "-f", file)
    assert result.exit_code == 3
    head = result.stdout.split("\n\n")[0]
    assert "of 5 replicas fit together" in head
    answer = json.loads(run("deploy/web", "-n", "shop", "-f", file, "-o", "json").stdout)
    assert answer["replicas"]["asked"] == 5
    placed = CliRunner().invoke(cli, ["simulate", "-f", file, "-o", "json"])
    simulated = [p for p in json.loads(placed.stdout)["pods"] if "/web-" in p["pod"]]
    ours = [p for p in simulated if not p["pod"].startswith("shop/web-api")]
    assert answer["replicas"]["fit"] == sum(p["node"] is not None for p in ours)
    first = next(p for p in ours if p["node"] is None)
    assert (answer["pod"], answer["message"]) == (first["pod"], first["message"])


def test_remedies_of_a_workload_say_how_many_of_the_waiting_pods_they_let_in(
    tmp_path: Path,
) -> None:
    web = workload("Deployment", "web", replicas=5)
    container = web["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1"}}
    file = write(tmp_path / "c.yaml", make_node("n1").cpu(2).obj(), web)
    result = run("deployment/web", "-n", "shop", "-f", file)
    assert "1. add 2 nodes like n1, for all 3 pods" in result.stdout
    assert "3 of 3 then fit together" in result.stdout
    answer = json.loads(run("deploy/web", "-n", "shop", "-f", file, "-o", "json").stdout)
    assert answer["remedies"][0]["replicas"] == {"asked": 3, "fit": 3}


def test_a_workload_that_fits_is_explained_by_its_last_pod(tmp_path: Path) -> None:
    file = write(
        tmp_path / "c.yaml", make_node("n1").cpu(9).obj(), workload("Job", "j", parallelism=3)
    )
    result = run("job/j", "-n", "shop", "-f", file)
    assert result.exit_code == 0
    assert "3 of 3 replicas fit together: 3 on n1" in result.stdout


def test_a_pod_group_is_explained_by_a_member(tmp_path: Path) -> None:
    file = write(
        tmp_path / "c.yaml",
        make_node("n1").cpu(1).obj(),
        make_group("g", 2).obj(),
        member("a").obj(),
        member("b").obj(),
    )
    result = run("podgroup/g", "-f", file)
    assert result.exit_code == 3
    assert "1 of 2 members can be placed" in result.stdout


@pytest.mark.parametrize("target", ["deployment/none", "sts/none", "podgroup/none"])
def test_a_workload_that_is_not_there_is_named(target: str, tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", make_node("n1").obj(), make_pod("a").obj())
    result = run(target, "-f", file)
    assert result.exit_code == 2
    assert "no pods of" in result.stderr


def test_what_if_adds_to_the_files(tmp_path: Path) -> None:
    base = write(tmp_path / "c.yaml", make_node("n1").cpu(4).obj(), make_pod("a").cpu(3).obj())
    more = write(tmp_path / "more.yaml", workload("Deployment", "new", replicas=2))
    result = run("--what-if", more, "-f", base)
    assert result.exit_code == 3
    assert "1 of 2 replicas fit together: 1 on n1" in result.stdout
    assert run("a", "--what-if", more, "-f", base).exit_code == 0


def test_what_if_replaces_what_has_its_name(tmp_path: Path) -> None:
    base = write(tmp_path / "c.yaml", make_node("n1").cpu(4).obj(), make_pod("a").cpu(9).obj())
    smaller = write(tmp_path / "a.yaml", make_pod("a").cpu(2).obj())
    assert run("a", "-f", base).exit_code == 3
    assert run("--what-if", smaller, "-f", base).exit_code == 0


def test_something_has_to_be_named() -> None:
    result = run("-f", "x")
    assert result.exit_code == 2
    assert "name a pod or a workload" in result.stderr


# From a running scheduler, with a kubeconfig.


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    monkeypatch.delenv("EQUIPOISE_SERVER", raising=False)
    with api_server(tmp_path) as server:
        server.lead("lead_1")
        for method in ("GET", "POST"):
            server.serve("lead", "/api/v1/explain", ANSWER, method)
        yield server


ANSWER: Json = {
    "pod": "team/web-a",
    "node": None,
    "fit": [],
    "nodes": {},
    "scores": {},
    "message": "0/0 nodes are available: no nodes available to schedule pods.",
    "nominated": None,
    "preemption": None,
    "wouldGoTo": None,
    "boundTo": None,
    "countsItself": None,
    "batch": None,
    "standing": {"state": "active", "message": "", "plugins": [], "node": None}
    | {"retrySeconds": None},
}


def metadata(name: str, uid: str, owner: str = "", **labels: str) -> Json:
    owners = [{"uid": owner, "controller": True}] if owner else []
    return {
        "name": name,
        "namespace": "team",
        "uid": uid,
        "labels": labels,
        "ownerReferences": owners,
    }


def pod(name: str, owner: str, node: str = "", **labels: str) -> Json:
    return {"metadata": metadata(name, name, owner, **labels), "spec": {"nodeName": node}}


DEPLOYMENT: Json = {
    "metadata": metadata("web", "d"),
    "spec": {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
    },
}


def deploy(api: ApiServer, *pods: Json) -> None:
    apps = "/apis/apps/v1/namespaces/team"
    api.answers[f"GET {apps}/deployments/web"] = DEPLOYMENT
    sets = [{"metadata": metadata("web-1", "r", "d")}, {"metadata": metadata("x", "x", "other")}]
    api.answers[f"GET {apps}/replicasets"] = {"items": sets}
    api.answers["GET /api/v1/namespaces/team/pods"] = {"items": list(pods)}


def asked(api: ApiServer) -> Any:
    request = api.asked[-1]
    assert "/proxy/api/v1/explain" in request.target
    return request


TOKEN = {"token": "secret"}


def test_a_pod_that_waits_stands_for_its_deployment(api: ApiServer) -> None:
    deploy(api, pod("web-0", "r", "n1"), pod("alien", "x"), pod("web-a", "r"))
    result = run("deployment/web", kubeconfig=api.kubeconfig(TOKEN))
    assert result.exit_code == 3, result.stderr
    assert result.stdout.startswith("deployment team/web: 1 of 4 pods have nodes\n")
    request = asked(api)
    assert (request.method, request.target.partition("?")[2]) == ("GET", "pod=team%2Fweb-a&count=3")
    selectors = [
        each.target.partition("?")[2] for each in api.asked if "labelSelector" in each.target
    ]
    assert set(selectors) == {"labelSelector=app%3Dweb"}


def test_a_deployment_whose_pods_have_nodes_is_explained_by_one(api: ApiServer) -> None:
    deploy(api, pod("web-0", "r", "n1"))
    run("deploy/web", kubeconfig=api.kubeconfig(TOKEN))
    assert asked(api).target.endswith("?pod=team%2Fweb-0")


def test_without_pods_the_template_is_asked_about(api: ApiServer) -> None:
    ended = {**pod("web-9", "r"), "status": {"phase": "Failed"}}
    deploy(api, ended)
    run("deploy/web", kubeconfig=api.kubeconfig(TOKEN))
    request = asked(api)
    assert (request.method, request.target.partition("?")[2]) == ("POST", "count=4")
    assert request.body["kind"] == "Pod"
    assert request.body["metadata"]["labels"] == {"app": "web"}


def test_a_suspended_job_is_asked_about_as_if_it_were_resumed(api: ApiServer) -> None:
    spec = {"parallelism": 4, "completions": 9, "suspend": True, "template": {"spec": {}}}
    job = {"metadata": metadata("train", "j"), "spec": spec, "status": {"succeeded": 6}}
    api.answers["GET /apis/batch/v1/namespaces/team/jobs/train"] = job
    api.answers["GET /api/v1/namespaces/team/pods"] = {"items": []}
    result = run("job/train", kubeconfig=api.kubeconfig(TOKEN))
    assert asked(api).target.endswith("count=3")
    assert "it is suspended, and makes pods when it is resumed" in result.stdout


def test_claims_that_are_made_with_a_pod_are_posted_with_it(api: ApiServer, tmp_path: Path) -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    sets = workload("StatefulSet", "db", replicas=2)
    sets["spec"]["volumeClaimTemplates"] = [claim]
    file = write(tmp_path / "w.yaml", sets)
    run("--what-if", file, kubeconfig=api.kubeconfig(TOKEN))
    request = asked(api)
    pod, made = request.body["items"]
    assert request.target.endswith("count=2")
    assert (pod["metadata"]["name"], made["metadata"]["name"]) == ("db-0", "data-db-0")
    assert made["spec"] == claim["spec"]


def test_a_stateful_set_without_pods_is_asked_about_with_its_claims(api: ApiServer) -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}}
    sets = workload("StatefulSet", "db", replicas=3)
    sets["spec"]["volumeClaimTemplates"] = [claim]
    api.answers["GET /apis/apps/v1/namespaces/team/statefulsets/db"] = sets
    api.answers["GET /api/v1/namespaces/team/pods"] = {"items": []}
    run("sts/db", kubeconfig=api.kubeconfig(TOKEN))
    request = asked(api)
    pod, made = request.body["items"]
    assert request.target.endswith("count=3")
    assert made["metadata"]["name"] == "data-db-0"
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    assert pod["spec"]["volumes"] == [volume]


def test_what_if_is_posted(api: ApiServer, tmp_path: Path) -> None:
    file = write(tmp_path / "w.yaml", workload("Job", "train", parallelism=3))
    run("--what-if", file, kubeconfig=api.kubeconfig(TOKEN))
    request = asked(api)
    assert (request.method, request.target.partition("?")[2]) == ("POST", "count=3")
    assert request.body["metadata"]["namespace"] == "shop"
    bare = write(
        tmp_path / "p.yaml",
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}}
        | {"metadata": {"name": "p"}},
    )
    run("--what-if", bare, kubeconfig=api.kubeconfig(TOKEN))
    assert asked(api).body["metadata"]["namespace"] == "team", "that of the context"


@pytest.mark.parametrize(("fit", "code"), [(2, 3), (3, 0)])
def test_too_few_replicas_are_told_by_the_exit_code(
    api: ApiServer, tmp_path: Path, fit: int, code: int
) -> None:
    replicas = {"asked": 3, "fit": fit, "nodes": {"n1": fit}, "message": f"{fit} of 3 fit together"}
    placed = {**ANSWER, "node": "n1", "fit": ["n1"], "replicas": replicas}
    api.serve("lead", "/api/v1/explain", placed, "POST")
    file = write(tmp_path / "w.yaml", workload("Job", "train", parallelism=3))
    assert run("--what-if", file, kubeconfig=api.kubeconfig(TOKEN)).exit_code == code


def test_what_if_has_the_priority_that_the_cluster_would_give(
    api: ApiServer, tmp_path: Path
) -> None:
    urgent = {"metadata": {"name": "urgent"}, "value": 1000}
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.answers[f"GET {classes}"] = {"items": [urgent]}
    file = write(tmp_path / "p.yaml", make_pod("p").spec(priorityClassName="urgent").obj())
    result = run("--what-if", file, kubeconfig=api.kubeconfig(TOKEN))
    assert asked(api).body["spec"]["priority"] == 1000
    assert result.stderr == ""


def test_a_workload_that_the_cluster_lacks_is_named(api: ApiServer) -> None:
    result = run("job/none", kubeconfig=api.kubeconfig(TOKEN))
    assert result.exit_code == 1
    assert result.stderr == f"equipoise: no job team/none in {api.url}\n"


def test_selectors_are_written_as_queries_have_them() -> None:
    rules = [
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        {"key": "b", "operator": "NotIn", "values": ["z"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": rules}
    assert written(selector) == "app=web,a in (x,y),b notin (z),c,!d"
