"""`equipoise simulate`: where pods of manifests go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.simulate_command import simulate
from tests.builders import make_node, make_pod
from tests.cli.support import Json, workload, write


def run(*arguments: str, piped: str | None = None) -> Result:
    return CliRunner().invoke(simulate, arguments, input=piped)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.yaml"


def node(cpu: int = 4) -> Json:
    return make_node("n1").cpu(cpu).obj()


def test_the_table_groups_what_waits_for_the_same_reason(file: Path) -> None:
    many = workload("StatefulSet", "huge", replicas=300)
    many["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = 100
    placed = make_pod("a").cpu(1).obj()
    gated = make_pod("g").gate("wait").obj()
    result = run("-f", write(file, node(), placed, many, gated))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "POD                       NODE    MESSAGE",
        "default/a                 n1",
        "shop/huge-0 and 299 more  <none>  0/1 nodes are available: 1 Insufficient cpu.",
        "default/g                 <none>  waiting for scheduling gates: [wait]",
        "",
        "1 pod placed on 1 node, 301 pending",
        "  300 pods: 0/1 nodes are available: 1 Insufficient cpu.",
        "  1 pod: waiting for scheduling gates: [wait]",
    ]
    assert result.stderr == ""


def test_all_shows_every_pod(file: Path) -> None:
    result = run("--all", "-f", write(file, node(0), workload("StatefulSet", "db", replicas=2)))
    assert [line.split()[0] for line in result.stdout.splitlines()[1:3]] == [
        "shop/db-0",
        "shop/db-1",
    ]


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_every_pod(file: Path, output: str, parse: object) -> None:
    small, large = make_pod("a").cpu(1).obj(), make_pod("b").cpu(9).obj()
    result = run("-o", output, "-f", write(file, node(), small, large))
    assert callable(parse)
    assert parse(result.stdout) == {
        "placed": 1,
        "pending": 1,
        "pods": [
            {"pod": "default/a", "node": "n1", "message": ""},
            {
                "pod": "default/b",
                "node": None,
                "message": "0/1 nodes are available: 1 Insufficient cpu.",
            },
        ],
    }


def test_pods_with_a_node_take_up_room(file: Path) -> None:
    running = make_pod("r").cpu(3).on("n1").obj()
    result = run("-f", write(file, node(), running, make_pod("a").cpu(2).obj()))
    assert "0 pods placed on 0 nodes, 1 pending" in result.stdout


def test_limits_and_classes_count(file: Path) -> None:
    urgent = make_pod("z").obj()
    urgent["spec"] |= {
        "priorityClassName": "high",
        "containers": [{"name": "main", "resources": {"limits": {"cpu": 4}}}],
    }
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    result = run("-o", "json", "-f", write(file, make_pod("a").cpu(1).obj(), urgent, high, node()))
    assert [pod["node"] for pod in json.loads(result.stdout)["pods"]] == ["n1", None]
    assert json.loads(result.stdout)["pods"][0]["pod"] == "default/z"


def test_the_user_is_told_what_was_left_out(file: Path) -> None:
    foreign = make_pod("f").scheduler("default-scheduler").obj()
    classy = make_pod("c").obj()
    classy["spec"]["priorityClassName"] = "absent"
    other = {"kind": "ConfigMap", "metadata": {"name": "m"}}
    result = run("-f", write(file, node(), foreign, classy, other))
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "note: kinds that are not looked at: ConfigMap (1)",
        "note: no such PriorityClass, so its pods have priority 0: absent",
        "note: left to another scheduler, default-scheduler: 1 pod (--all-schedulers places them)",
    ]


def test_nothing_to_do_is_fine(file: Path) -> None:
    result = run("-f", write(file, node()))
    assert (result.exit_code, result.stdout) == (0, "no pods to schedule\n")


def test_manifests_may_be_piped_and_spread_over_files(file: Path) -> None:
    piped = json.dumps({"kind": "PodList", "items": [make_pod("a").obj()]})
    result = run("-f", write(file, node()), "-f", "-", piped=piped)
    assert "1 pod placed on 1 node, 0 pending" in result.stdout


def test_a_configuration_is_obeyed(file: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine}]\n"
    )
    pod = make_pod("a").scheduler("mine").obj()
    result = run("--config", str(config), "-f", write(file, node(), pod))
    assert "1 pod placed" in result.stdout


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: Nonsense", "documents[0].kind: unknown kind"),
        (None, "No such file or directory"),
    ],
)
def test_a_bad_configuration_is_a_usage_error(
    file: Path, tmp_path: Path, text: str | None, complaint: str
) -> None:
    config = tmp_path / "config.yaml"
    if text is not None:
        config.write_text(text)
    result = run("--config", str(config), "-f", write(file, node()))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"equipoise: {config}: ")
    assert complaint in result.stderr


def test_bad_manifests_are_usage_errors_and_nothing_is_printed(file: Path) -> None:
    good, bad = make_pod("a").obj(), make_pod("b").obj()
    bad["spec"]["containers"] = "none"
    result = run("-f", write(file, node(), good, bad))
    assert (result.exit_code, result.stdout) == (2, "")
    complaint = 'Pod default/b: spec.containers: expected a list, got the text "none"'
    assert result.stderr == f"equipoise: {file}: {complaint}\n"


def test_a_bad_amount_is_an_error_that_names_its_field(file: Path) -> None:
    result = run("-f", write(file, node(), make_pod("a").cpu("1x").obj(), make_pod("b").obj()))
    assert result.exit_code == 2
    field = "Pod default/a: spec.containers[0].resources.requests.cpu"
    assert f"{field}: '1x' is not a quantity" in result.stderr


def test_for_the_lenient_a_bad_amount_costs_only_its_pod(file: Path) -> None:
    objects = write(file, node(), make_pod("a").cpu("1x").obj(), make_pod("b").obj())
    result = run("-f", objects, "--lenient")
    assert result.exit_code == 0
    assert "spec.containers[0].resources.requests[cpu]: '1x' is not a quantity" in result.stdout
    assert "1 pod placed on 1 node, 1 pending" in result.stdout


def test_files_are_required() -> None:
    assert run().exit_code == 2


def test_a_plugin_that_cannot_be_made_is_blamed_on_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "class Odd:\n    name = 'Odd'\n"
        "    def __init__(self, args, handle): raise ValueError('no')\n"
        "    def filter(self, cycle, rows): return rows\n"
    )
    config = tmp_path / "scheduler.yaml"
    write(
        config,
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Odd"}]}}}],
        },
        {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "plugins": {"directory": str(tmp_path)},
        },
    )
    file = write(tmp_path / "cluster.yaml", make_node("n1").obj(), make_pod("a").obj())
    result = CliRunner().invoke(simulate, ["-f", file, "--config", str(config)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"equipoise: {config}: ")
    assert "plugin 'Odd' cannot be made: ValueError: no" in result.stderr


def test_pods_of_daemon_sets_come_before_all_others(file: Path) -> None:
    daemon = workload("DaemonSet", "agent")
    daemon["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = 3
    urgent = make_pod("urgent").cpu(2).priority(100).obj()
    result = run("-o", "json", "-f", write(file, urgent, node(), daemon))
    first, second = json.loads(result.stdout)["pods"]
    assert first["pod"].startswith("shop/agent-")
    assert (first["node"], second["node"]) == ("n1", None)
    assert "no pod is evicted without --evict; `equipoise explain -f` says" in result.stderr


def test_pods_of_daemon_sets_that_others_bind_take_up_room(file: Path) -> None:
    daemon = workload("DaemonSet", "agent")
    daemon["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = 3
    daemon["spec"]["template"]["spec"]["schedulerName"] = "default-scheduler"
    result = run("-o", "json", "-f", write(file, node(), daemon, make_pod("a").cpu(2).obj()))
    assert [pod["node"] for pod in json.loads(result.stdout)["pods"]] == [None]
    assert "left to another scheduler" not in result.stderr, "it counts on its node"


def test_a_member_of_no_group_and_a_misspelt_label_are_noted(file: Path) -> None:
    named = make_pod("a").label(**{"scheduling.x-k8s.io/pod-group": "g"}).obj()
    misspelt = make_pod("b").label(**{"scheduling.x-k8s.io/podgroup": "g"}).obj()
    result = run("-f", write(file, node(), named, misspelt))
    assert result.stderr.splitlines() == [
        "note: no PodGroup is given, so a group is named in vain by 1 pod",
        "note: default/b: label scheduling.x-k8s.io/podgroup: "
        "did you mean scheduling.x-k8s.io/pod-group?",
    ]


def test_what_makes_no_pods_now_is_noted(file: Path) -> None:
    nightly = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
    daemon = workload("DaemonSet", "agent")
    daemon["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "none"}
    theirs = workload("StatefulSet", "db") | {"apiVersion": "apps.kruise.io/v1beta1"}
    held, astray = workload("Job", "held", suspend=True), make_pod("astray").on("n9").obj()
    result = run("-f", write(file, node(), nightly, daemon, theirs, held, astray))
    assert result.stdout == "no pods to schedule\n"
    assert result.stderr.splitlines() == [
        "note: pods come of CronJobs only when they run, and are not counted: default/nightly",
        "note: kinds that are not looked at: StatefulSet (1)",
        "note: DaemonSets that match no node: shop/agent",
        "note: suspended Jobs make no pods: shop/held",
        "note: on nodes that are not given, so they count for nothing: default/astray",
    ]


@pytest.mark.parametrize(
    ("version", "kind", "problem"),
    [
        ("apps/v1", "Deploymnt", "kind: apps/v1 has no Deploymnt (did you mean Deployment?)"),
        ("v1", "Deployment", "apiVersion: v1 has no Deployment (expected apps/v1)"),
        ("app/v1", "DaemonSet", "apiVersion: app/v1 has no DaemonSet (expected apps/v1)"),
        ("apps/v1", "Pod", "apiVersion: apps/v1 has no Pod (expected v1)"),
        ("v1", "Job", "apiVersion: v1 has no Job (expected batch/v1)"),
    ],
)
def test_a_kind_that_its_group_lacks_is_refused(
    file: Path, version: str, kind: str, problem: str
) -> None:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}
    result = run("-f", write(file, body))
    assert result.exit_code == 2
    assert result.stderr == f"equipoise: {file}: {kind} x: {problem}\n"


def test_a_pod_that_another_lets_fit_is_tried_again(file: Path) -> None:
    zone = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "leader"}}}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [zone]}
    followers = [
        make_pod(f"f{i}").priority(5).spec(affinity={"podAffinity": rules}) for i in (1, 2)
    ]
    labelled = make_node("n1").cpu(4).label(zone="a").obj()
    leader = make_pod("leader").label(app="leader").obj()
    result = run("-o", "json", "-f", write(file, labelled, leader, *(f.obj() for f in followers)))
    nodes = {pod["pod"]: pod["node"] for pod in json.loads(result.stdout)["pods"]}
    assert nodes == {"default/f1": "n1", "default/f2": "n1", "default/leader": "n1"}


def test_evictions_are_shown_if_asked(file: Path) -> None:
    objects = [
        make_node("n1").cpu(4).obj(),
        make_pod("low").cpu(3).priority(1).on("n1").obj(),
        make_pod("high").cpu(3).priority(9).obj(),
    ]
    file.write_text(yaml.safe_dump_all(objects))
    without = run("-f", str(file))
    assert "0 pods placed on 0 nodes, 1 pending" in without.stdout
    result = run("-f", str(file), "--evict")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["default/high", "n1"]
    assert lines[2].split()[:5] == ["default/low", "<evicted>", "Preempted", "by", "pod"]
    assert lines[-1] == "1 pod placed on 1 node, 1 evicted, 0 pending"
    told = run("-f", str(file), "--evict", "-o", "json")
    answer = json.loads(told.stdout)
    assert (answer["placed"], answer["evicted"], answer["pending"]) == (1, 1, 0)


def test_evictions_and_batches_do_not_go_together(tmp_path: Path) -> None:
    result = run("-f", str(tmp_path), "--evict", "--batch")
    assert result.exit_code == 2
