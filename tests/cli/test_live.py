"""`equipoise queue`, `nodes` and `decisions` against a scheduler that serves."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli import decisions_command
from scheduler.cli.main import cli
from scheduler.serve.answers import Replica
from tests.builders import make_node, make_pod
from tests.cli.support import Json, Served, serving
from tests.patience import PATIENCE


@pytest.fixture
def served() -> Iterator[Served]:
    objects = [
        make_node("n1").cpu(4).memory("8Gi").offer("example.com/gpu", 2).obj(),
        make_node("n2").cordoned().taint("node.kubernetes.io/unschedulable").taint("a", "b").obj(),
        make_pod("a").cpu("1500m").memory("2Gi").request("example.com/gpu", 1).obj(),
        make_pod("huge").cpu(100).obj(),
        make_pod("held").gate("wait").obj(),
    ]
    with serving(objects) as served:
        yield served


def run(command: str, served: Served, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, [command, *arguments], env={"EQUIPOISE_SERVER": served.url})
    assert result.exit_code == 0, result.output
    return result


def test_the_queue_tells_who_waits_where_and_why(served: Served) -> None:
    header, huge, held, blank, summary = run("queue", served).stdout.splitlines()
    assert header.split() == ["POD", "TIER", "SINCE", "ATTEMPTS", "REJECTED", "BY", "MESSAGE"]
    assert huge.split()[:2] == ["default/huge", "unschedulable"]
    assert huge.endswith("  1 Insufficient cpu, 1 node(s) were unschedulable")
    full = run("queue", served, "-o", "wide").stdout
    assert "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. " in full
    assert held.split()[:2] == ["default/held", "gated"]
    assert "SchedulingGates" in held
    assert (blank, summary) == ("", "2 waiting: 1 unschedulable, 1 gated")


def test_the_queue_can_be_cut_and_widened(served: Served) -> None:
    assert run("queue", served, "--limit", "1").stdout.splitlines()[-1].startswith("1 of 2 waiting")
    wide = run("queue", served, "-o", "wide").stdout
    assert "RETRY IN" in wide
    assert "equipoise" in wide


def test_the_queue_tells_which_pod_is_tried_before_its_equals() -> None:
    objects = [make_node("n1").cpu(1).obj(), *(make_pod(name).cpu(9).obj() for name in "ab")]
    with serving(objects) as served:
        wide = run("queue", served, "--each", "-o", "wide").stdout
    header, first, second, *_ = wide.splitlines()
    column = header.index("BEHIND")
    assert first[column:].split()[0] == "equipoise"
    assert second[column:].split()[:2] == ["default/a", "equipoise"]


def many(name: str, count: int, namespace: str = "default") -> list[Json]:
    """Pods of one ReplicaSet that fit nowhere."""
    return [
        make_pod(f"{name}-{i}", namespace).cpu(9).label(app=name).owner("ReplicaSet", name).obj()
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def crowd() -> Iterator[Served]:
    alone = make_pod("alone").cpu(9).label(app="x").gate("wait").obj()
    with serving([*many("web", 3), *many("db", 2, "shop"), alone]) as served:
        yield served


def queued(served: Served, *arguments: str) -> list[str]:
    """What the first column says, and the line below the table."""
    *table, blank, summary = run("queue", served, *arguments).stdout.splitlines()
    assert blank == ""
    return [*(line.partition("  ")[0] for line in table[1:]), summary]


def test_alike_pods_of_one_owner_share_a_line(crowd: Served) -> None:
    assert queued(crowd) == [
        "default/web-0 and 2 more",
        "shop/db-0 and 1 more",
        "default/alone",
        "6 waiting: 5 unschedulable, 1 gated",
    ]
    assert len(queued(crowd, "--each")) == 7
    assert "ReplicaSet/web" in run("queue", crowd, "-o", "wide").stdout
    assert len(json.loads(run("queue", crowd, "-o", "json").stdout)["pods"]) == 6


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("-n", "shop"), ["shop/db-0 and 1 more", "2 waiting: 2 unschedulable"]),
        (("--tier", "gated"), ["default/alone", "1 waiting: 1 gated"]),
        (("-l", "app in (web,x)"), ["default/web-0 and 2 more", "default/alone"]),
        (("-l", "app=web", "-n", "shop"), []),
    ],
)
def test_the_queue_can_be_narrowed(
    crowd: Served, arguments: tuple[str, ...], found: list[str]
) -> None:
    if found:
        assert queued(crowd, *arguments)[: len(found)] == found
    else:
        assert run("queue", crowd, *arguments).stdout == "0 waiting\n"


def test_a_selector_that_makes_no_sense_is_refused(crowd: Served) -> None:
    result = CliRunner().invoke(cli, ["queue", "-l", "a in b", "--server", crowd.url])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "labelSelector" in result.stderr


def test_decisions_about_one_pod(crowd: Served) -> None:
    lines = run("decisions", crowd, "--pod", "shop/db-0").stdout.splitlines()
    assert {line.split()[1] for line in lines[1:]} == {"shop/db-0"}
    assert run("decisions", crowd, "--pod", "db-0", "-n", "shop").stdout.splitlines() == lines
    assert run("decisions", crowd, "--pod", "x").stdout == "no decisions about default/x are kept\n"
    stray = CliRunner().invoke(cli, ["decisions", "-n", "shop", "--server", crowd.url])
    assert stray.exit_code == 2


def test_an_empty_queue_is_said_so() -> None:
    with serving([]) as served:
        assert run("queue", served).stdout == "0 waiting\n"
        assert run("decisions", served).stdout == "no decisions yet\n"
        assert run("nodes", served).stdout == "0 nodes\n"


def test_nodes_tell_what_is_taken_in_units_people_use(served: Served) -> None:
    assert run("nodes", served).stdout.splitlines() == [
        "NODE         CPU        MEMORY        PODS  TAINTS",
        "n1    1.5/4  38%  2Gi/8Gi  25%  1/110   1%",
        "n2           0/0           0/0  0/110   0%  cordoned, a=b:NoSchedule",
        "",
        "2 nodes",
    ]
    assert "example.com/gpu 1/2" in run("nodes", served, "-o", "wide").stdout


def test_one_node_is_shown_with_its_pods(served: Served) -> None:
    lines = run("nodes", served, "n1").stdout.splitlines()
    assert lines == [
        "n1",
        "",
        "RESOURCE         REQUESTED/ALLOCATABLE",
        "cpu                         1.5/4  38%",
        "memory                    2Gi/8Gi  25%",
        "example.com/gpu               1/2  50%",
        "pods                        1/110   1%",
        "",
        "POD        PRIORITY  CPU  MEMORY  STATE",
        "default/a         0  1.5     2Gi  binding",
        "",
        "1 pod",
    ]
    wide = run("nodes", served, "n1", "-o", "wide").stdout
    assert "example.com/gpu 1" in wide
    cordoned = run("nodes", served, "n2").stdout.splitlines()
    assert cordoned[:2] == ["n2", "Taints: cordoned, a=b:NoSchedule"]
    assert cordoned[-1] == "0 pods"
    assert json.loads(run("nodes", served, "n1", "-o", "json").stdout)["podsOnNode"]


def test_a_node_that_does_not_exist_is_named(served: Served) -> None:
    result = CliRunner().invoke(cli, ["nodes", "n3", "--server", served.url])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "unknown node: n3" in result.stderr


def test_decisions_come_newest_last(served: Served) -> None:
    header, first, second = run("decisions", served).stdout.splitlines()
    assert header.split()[:4] == ["TIME", "POD", "RESULT", "NODE"]
    outcomes = {tuple(line.split()[1:3]) for line in (first, second)}
    assert outcomes == {("default/a", "scheduled"), ("default/huge", "unschedulable")}
    latest = json.loads(run("decisions", served, "-o", "json", "--limit", "1").stdout)
    assert latest["decisions"][0]["pod"] == second.split()[1]
    assert "NodeResourcesFit" in run("decisions", served, "-o", "wide").stdout


@pytest.mark.parametrize("command", ["queue", "nodes", "decisions"])
def test_json_and_yaml_agree(command: str, served: Served) -> None:
    as_json = json.loads(run(command, served, "-o", "json").stdout)
    as_yaml = yaml.safe_load(run(command, served, "-o", "yaml").stdout)
    assert as_json.keys() == as_yaml.keys()
    assert len(str(as_json)) > 100


@pytest.mark.parametrize("limit", ["0", "5001", "x"])
def test_an_odd_limit_is_a_usage_error(limit: str) -> None:
    assert CliRunner().invoke(cli, ["queue", "--limit", limit]).exit_code == 2


class Pauses:
    """Lets something happen at each pause, and then presses Ctrl-C."""

    def __init__(self, *events: object) -> None:
        self._events = iter(events)

    def __call__(self) -> None:
        event = next(self._events, None)
        if event is None:
            raise KeyboardInterrupt
        assert callable(event)
        event()


def test_following_goes_on_with_new_decisions_until_interrupted(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = served.scheduler.decide
    pauses = Pauses(lambda: decide("default/x", "n1"), lambda: decide("default/y", "n1"))
    monkeypatch.setattr(decisions_command, "_pause", pauses)
    lines = run("decisions", served, "--follow", "--limit", "1").stdout.splitlines()
    assert [line.split()[1] for line in lines][2:] == ["default/x", "default/y"]
    assert lines[0].split()[0] == "TIME"
    assert lines[2].index("n1") == lines[3].index("n1")


def test_following_as_json_gives_a_line_per_decision(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        decisions_command, "_pause", Pauses(lambda: served.scheduler.decide("default/x", "n1"))
    )
    lines = run("decisions", served, "--follow", "-o", "json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3]


def test_following_outlives_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving([make_pod("a").obj()]) as served:

        def stop() -> None:
            served.scheduler.stop()
            served.scheduler.stopped.wait(timeout=PATIENCE)

        monkeypatch.setattr(decisions_command, "_pause", Pauses(stop, lambda: None))
        result = run("decisions", served, "--follow")
    assert result.stderr.count("Connection refused; still trying") == 1


def standby(served: Served, leader: str = "there") -> None:
    served.scheduler.replica = Replica("here", False, leader)


@pytest.mark.parametrize("arguments", [["queue"], ["decisions"], ["decisions", "--follow"]])
def test_a_standby_has_neither_queue_nor_decisions_and_says_so(
    served: Served, arguments: list[str]
) -> None:
    standby(served)
    result = CliRunner().invoke(cli, [*arguments, "--server", served.url])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "here is a standby: the leader is there" in result.stderr
    assert "--server" in result.stderr


@pytest.mark.parametrize("arguments", [["nodes"], ["explain", "a"]])
def test_what_a_standby_knows_it_tells_with_a_note(served: Served, arguments: list[str]) -> None:
    asked = [*arguments, "--server", served.url]
    leading = CliRunner().invoke(cli, asked)
    standby(served)
    result = CliRunner().invoke(cli, asked)
    assert (result.exit_code, result.stdout) == (0, leading.stdout)
    assert (leading.stderr, result.stderr) == (
        "",
        "note: here is a standby: the leader is there\n",
    )


@pytest.mark.parametrize("command", ["queue", "decisions"])
def test_as_long_as_nobody_leads_anybody_is_asked(served: Served, command: str) -> None:
    standby(served, leader="")
    result = run(command, served)
    assert "default/huge" in result.stdout
    assert result.stderr == "note: here is a standby: there is no leader yet\n"


@pytest.mark.parametrize("command", ["queue", "nodes", "decisions"])
def test_programs_are_told_who_answers(served: Served, command: str) -> None:
    answer = json.loads(run(command, served, "-o", "json").stdout)
    assert answer["replica"] == {"identity": "here", "leading": True, "leader": "here"}


def test_of_all_replicas_named_the_leader_is_asked(served: Served) -> None:
    with serving([]) as other:
        standby(other, leader="here")
        result = CliRunner().invoke(
            cli, ["queue"], env={"EQUIPOISE_SERVER": f"{other.url} {served.url}"}
        )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "default/huge" in result.stdout


def test_following_goes_on_with_the_next_leader(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving([]) as next_one:
        next_one.scheduler.replica = Replica("there", False, "here")

        def step_down() -> None:
            standby(served)

        def take_over() -> None:
            next_one.scheduler.replica = Replica("there", True, "there")
            next_one.scheduler.decide("default/later", "n1")

        monkeypatch.setattr(decisions_command, "_pause", Pauses(step_down, take_over))
        both = ["--server", served.url, "--server", next_one.url]
        result = CliRunner().invoke(decisions_command.decisions, ["--follow", *both])
    assert result.exit_code == 0
    assert result.stderr == "note: here is a standby: the leader is there; still trying\n"
    assert result.stdout.splitlines()[-1].split()[1] == "default/later"
