"""`equipoise explain`, from files and from a running scheduler."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler import simulation
from scheduler.cli.explain_command import explain
from scheduler.cli.explanation import BEST_SHOWN
from tests.builders import make_node, make_pod, requirement, term
from tests.cli.support import Json, Served, serving, workload, write
from tests.gangs.support import make_group, member


def run(*arguments: str, server: str | None = None) -> Result:
    return CliRunner().invoke(explain, arguments, env={"EQUIPOISE_SERVER": server})


def cluster() -> list[Json]:
    return [
        make_node("big").cpu(8).obj(),
        make_node("small").cpu(2).obj(),
        *(make_node(f"tiny-{i}").cpu("500m").obj() for i in range(5)),
        make_node("db").cpu(8).taint("dedicated", "db").obj(),
        make_pod("a").cpu(1).obj(),
        make_pod("huge").cpu(100).obj(),
        make_pod("running").cpu(8).on("big").obj(),
    ]


@pytest.fixture
def file(tmp_path: Path) -> str:
    objects = [o for o in cluster() if o["metadata"]["name"] != "running"]
    return write(tmp_path / "cluster.yaml", *objects)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(cluster()) as served:
        yield served


def test_the_table_has_the_best_first_and_groups_the_rejected(file: str) -> None:
    result = run("a", "-f", file)
    assert result.exit_code == 0
    head = result.stdout.splitlines()[0]
    assert head.startswith("default/a goes to big with score")
    assert head.endswith("; 2 of 8 nodes fit")
    words = [line.split() for line in table_of(result)]
    assert words[0] == ["NODE", "RESULT", "SCORE", "PLUGIN", "REASON"]
    assert words[1][:2] == ["big", "chosen"]
    assert words[2][:2] == ["small", "fits"]
    assert int(words[1][2]) > int(words[2][2])
    assert words[3][:6] == ["5", "nodes", "rejected", "NodeResourcesFit", "Insufficient", "cpu:"]
    assert words[3][6:] == ["requests", "1", "cpu,", "500m", "free", "of", "500m"]
    assert words[4][:3] == ["db", "rejected", "TaintToleration"]


def table_of(result: Result) -> list[str]:
    """The lines of the last part."""
    return result.stdout.rpartition("\n\n")[2].splitlines()


def test_all_gives_every_node_a_line(file: str) -> None:
    lines = table_of(run("a", "--all", "-f", file))
    assert {line.split()[0] for line in lines[1:]} == {
        "big", "small", "db", *(f"tiny-{i}" for i in range(5)),
    }  # fmt: skip


def test_wide_has_a_column_per_score_plugin(file: str) -> None:
    header, best, *_ = table_of(run("a", "-o", "wide", "-f", file))
    plugins = header.split()[3:-2]
    assert "NodeResourcesFit" in plugins
    total, *parts = map(int, best.split()[2:])
    assert total == sum(parts)
    assert len(parts) == len(plugins)


def test_only_the_best_of_many_are_shown(tmp_path: Path) -> None:
    nodes = [make_node(f"n{i}").cpu(4).obj() for i in range(BEST_SHOWN + 5)]
    file = write(tmp_path / "cluster.yaml", *nodes, make_pod("a").cpu(1).obj())
    lines = table_of(run("a", "-f", file))
    assert lines[1].split()[1] == "chosen"
    assert lines[BEST_SHOWN + 1].split()[:3] == ["5", "more", "fits"]
    assert len(table_of(run("a", "--all", "-f", file))) == BEST_SHOWN + 5 + 1


def test_single_nodes_can_be_picked(file: str) -> None:
    text = run("a", "--node", "small", "--node", "db", "-f", file).stdout
    _, rejected, fitting = text.split("\n\n")
    assert rejected.splitlines()[0] == "db: rejected"
    assert "TaintToleration" in rejected
    assert fitting.startswith("small: fits\n  score ")
    result = run("a", "--node", "absent", "-f", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "equipoise: no such node: absent\n"


def test_programs_get_just_the_nodes_they_pick(file: str) -> None:
    answer = json.loads(run("a", "--node", "small", "-f", file, "-o", "json").stdout)
    assert (list(answer["nodes"]), list(answer["scores"])) == (["small"], ["small"])
    assert answer["fit"] == ["big", "small"]


def test_no_fitting_node_exits_3_with_the_message(file: str) -> None:
    result = run("huge", "-f", file)
    assert result.exit_code == 3
    reasons = "1 node(s) had untolerated taint(s), 7 Insufficient cpu"
    message = f"default/huge fits nowhere: 0/8 nodes are available: {reasons}."
    assert result.stdout.splitlines()[0] == message
    unhelpful = "0/8 nodes are available: 8 Preemption is not helpful for scheduling."
    assert f"\nPreemption\n  {unhelpful}\n" in result.stdout


def test_json_is_what_the_simulation_says(file: str) -> None:
    objects = [o for o in cluster() if o["metadata"]["name"] != "running"]
    expected = simulation.explain(objects, make_pod("a").cpu(1).obj())
    assert json.loads(run("a", "-o", "json", "-f", file).stdout) == expected


def test_a_placed_pod_is_judged_as_if_it_had_to_be_placed(tmp_path: Path) -> None:
    node = make_node("n1").cpu(4).obj()
    file = write(tmp_path / "c.yaml", node, make_pod("r").cpu(3).on("n1").obj())
    result = run("r", "-f", file)
    assert result.exit_code == 0
    assert "default/r is on n1\nif scheduled now, it would go to n1 with score" in result.stdout


def first_lines(result: Result, count: int) -> list[str]:
    assert result.exit_code == 3
    return result.stdout.splitlines()[:count]


def test_a_gated_pod_is_not_said_to_go_anywhere(tmp_path: Path) -> None:
    gated = make_pod("g").gate("example.com/a").obj()
    file = write(tmp_path / "c.yaml", make_node("n1").cpu(4).obj(), gated)
    assert first_lines(run("g", "-f", file), 2) == [
        "default/g is gated by SchedulingGates: waiting for scheduling gates: [example.com/a]; "
        "nothing else was tried",
        "without the gate it would go to n1 with score 397; 1 of 1 node fit",
    ]


def test_a_member_has_the_verdict_of_its_group(tmp_path: Path) -> None:
    members = [member("a").obj(), member("b").obj()]
    file = write(
        tmp_path / "c.yaml", make_node("n1").cpu(1).obj(), make_group("g", 2).obj(), *members
    )
    result = run("a", "-f", file)
    assert first_lines(result, 2) == [
        "default/a is placed with its group or not at all: pod group default/g: 1 of 2 members "
        "can be placed; default/b: 0/1 nodes are available: 1 Insufficient cpu.",
        "alone, without its group, it would go to n1 with score 375; 1 of 1 node fit",
    ]
    gang = "pod group default/g is Scheduling: 0 of 2 members have nodes, 2 exist"
    assert f"\nGang\n  {gang}\n" in result.stdout


def test_whom_a_pod_would_evict_is_said(tmp_path: Path) -> None:
    objects = [
        make_node("n1").cpu(2).obj(),
        *(make_pod(f"low-{i}").cpu("500m").on("n1").obj() for i in range(4)),
        make_pod("high").cpu(2).priority(10).obj(),
    ]
    file = write(tmp_path / "c.yaml", *objects)
    result = run("high", "-f", file)
    assert result.exit_code == 3
    victims = "default/low-0, default/low-1, default/low-2 and 1 more"
    assert f"\nPreemption\n  it would evict {victims} from n1\n" in result.stdout


def test_a_pod_of_another_scheduler_is_not_ours(tmp_path: Path) -> None:
    theirs = make_pod("t").scheduler("default-scheduler").obj()
    file = write(tmp_path / "c.yaml", make_node("n1").cpu(4).obj(), theirs)
    assert first_lines(run("t", "-f", file), 2) == [
        "default/t is not tried: it names scheduler 'default-scheduler', not equipoise",
        "scheduled here it would go to n1 with score 397; 1 of 1 node fit",
    ]


@pytest.mark.parametrize(
    "arguments",
    [("a", "-n", "shop"), ("shop/a",), ("shop/a", "-n", "shop"), ("pod/a", "-n", "shop")],
)
def test_a_pod_may_be_named_in_several_ways(arguments: tuple[str, ...], tmp_path: Path) -> None:
    file = write(
        tmp_path / "c.yaml",
        make_node("n1").cpu(4).obj(),
        make_pod("a", "shop").obj(),
        make_pod("a").cpu(100).obj(),
    )
    assert run(*arguments, "-f", file).exit_code == 0
    assert run("pod/a", "-f", file).exit_code == 3


@pytest.mark.parametrize("name", ["", "/a", "a/", "a/b/c", "pod/"])
def test_what_is_no_name_is_a_usage_error(name: str, file: str) -> None:
    assert run(name, "-f", file).exit_code == 2


def test_a_kind_that_is_not_explained_is_a_usage_error_that_lists_the_kinds(file: str) -> None:
    result = run("cronjob/nightly", "-n", "team", "-f", file)
    assert result.exit_code == 2
    words = " ".join(result.stderr.split())
    assert (
        "'cronjob' is neither the namespace 'team' nor one of the kinds pod, deployment," in words
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("shop/a", "-n", "default", "-f", "x"),
        ("a", "-f", "x", "--server", "http://127.0.0.1:1"),
        ("a", "--config", "x"),
        ("a", "--server", "ftp://127.0.0.1"),
        ("a", "--server", "http://127.0.0.1:port"),
    ],
)
def test_contradictions_are_usage_errors(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_an_unknown_pod_is_answered_with_a_near_one(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", workload("StatefulSet", "db"))
    result = run("shop/db", "-f", file)
    assert result.exit_code == 2
    assert result.stderr == f"equipoise: {file}: no pod shop/db, did you mean shop/db-0?\n"


def test_a_running_scheduler_explains_the_same(served: Served) -> None:
    result = run("pod/huge", "--server", served.url)
    assert result.exit_code == 3
    # That it was rejected last time, for the same reason, is not repeated.
    assert result.stdout.startswith("default/huge fits nowhere: 0/8 nodes are")
    assert "\nPreemption\n  0/8 nodes are available" in result.stdout


def test_the_environment_names_the_server_and_files_take_precedence(
    served: Served, file: str
) -> None:
    assert run("huge", server=served.url).exit_code == 3
    assert run("a", "-f", file, server="http://127.0.0.1:1").exit_code == 0


def test_a_bound_pod_says_where_it_is(served: Served) -> None:
    result = run("running", "--server", served.url)
    assert "default/running is on big\nif scheduled now, it would go to big" in result.stdout
    answer = json.loads(run("running", "-o", "json", "--server", served.url).stdout)
    assert answer["boundTo"] == "big"


def test_error_answers_exit_1_in_the_servers_words(served: Served) -> None:
    result = run("absent", "--server", served.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "equipoise: unknown pod: default/absent\n"


def test_an_unreachable_server_exits_4_and_says_what_was_tried() -> None:
    with socket.socket() as silent:  # has the port, so that nobody else has, and does not listen
        silent.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{silent.getsockname()[1]}"
        result = run("a", "--server", free)
    assert (result.exit_code, result.stdout) == (4, "")
    url = f"http://{free}/api/v1/explain?pod=default/a"
    asked = f"equipoise: no answer from {url}: Connection refused"
    assert result.stderr == f"{asked}\nIs the scheduler running there?\n"


@pytest.fixture
def web(tmp_path: Path) -> str:
    """Two nodes, one of which is preferred, and pods that the cost model spreads even so."""
    preferred = {"weight": 50, "preference": term(requirement("web", "In", "yes"))}
    rules = {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}
    return write(
        tmp_path / "web.yaml",
        make_node("liked").cpu(4).memory("4Gi").label(web="yes").obj(),
        make_node("other").cpu(4).memory("4Gi").obj(),
        *(
            make_pod(f"web-{i}").cpu(1).memory("1Gi").spec(affinity={"nodeAffinity": rules}).obj()
            for i in range(2)
        ),
    )


def batches(tmp_path: Path, min_pending: int) -> str:
    batch = {"enabled": True, "costModel": "CpuMemory", "minPending": min_pending}
    own = {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration", "batch": batch}
    return write(tmp_path / "config.yaml", own)


def test_a_node_that_a_cost_model_chose_is_said_to_be(web: str, tmp_path: Path) -> None:
    """It is the cheaper one for all pods, and not the one with the better score."""
    config = batches(tmp_path, 2)

    goes = [run(f"web-{i}", "-f", web, "--config", config).stdout for i in range(2)]

    chosen = sorted(word.split("goes to ")[1].split()[0] for word in goes)
    assert chosen == ["liked", "other"]
    for each in goes:
        assert "cost model CpuMemory chose the node, for all pods that wait at once" in each


def test_a_pod_that_comes_alone_is_placed_by_its_scores(web: str, tmp_path: Path) -> None:
    config = batches(tmp_path, 20)

    result = run("web-1", "-f", web, "--config", config)
    answer = json.loads(run("web-1", "-f", web, "--config", config, "-o", "json").stdout)

    assert "goes to liked" in result.stdout
    assert (
        "where 20 or more pods wait at once, cost model CpuMemory chooses among the nodes that fit,"
        " whatever they score\n"
    ) in result.stdout
    assert answer["batch"] == {"costModel": "CpuMemory", "minPending": 20, "chose": False}


def test_without_batches_nothing_is_said_of_them(file: str) -> None:
    assert json.loads(run("a", "-f", file, "-o", "json").stdout)["batch"] is None
    assert "cost model" not in run("a", "-f", file).stdout
