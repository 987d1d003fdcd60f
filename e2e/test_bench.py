"""``make bench`` measures all three contestants, notices wrong placements and can be resumed."""

import asyncio
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import ledger as ledgers
from bench.cluster import report as reports
from bench.cluster import targets
from bench.cluster.checks import Placement
from bench.cluster.contestants import CONTESTANTS, EQUIPOISE, LIMIT, adaptive_sample
from bench.cluster.ledger import Ledger, Turn
from bench.cluster.machine import Machine
from bench.cluster.measuring import BenchError, Measurement
from bench.cluster.plan import Case, NoRoom, Wishes, make_plan
from bench.cluster.progress import Lines
from bench.cluster.report import BEGIN, END, Report
from bench.cluster.results import Result, Round
from bench.cluster.running import Held, Runner
from bench.cluster.templates import INIT, MEASURED, NODE_MILLI_CPU
from bench.cluster.workloads import ALIASES, LARGE, SMALL, WORKLOADS, Size, Workload

BENCH_SECONDS = 1500.0

BASIC, FLOOD = WORKLOADS["SchedulingBasic"], WORKLOADS["Unschedulable"]
SIZE = Size(nodes=20, init=10, measured=40, rounds=2)


async def bench(cache: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """Run the program; what it printed for programs and for people."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.cluster", "-o", "json", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"EQUIPOISE_CACHE": str(cache)},
    )
    try:
        output, progress = await asyncio.wait_for(process.communicate(), BENCH_SECONDS)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode == 0, progress.decode()
    return json.loads(output), progress.decode()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache of our own with the real programs in it, so that no finished turn is found."""
    from e2e.controlplane.binaries import cache_dir

    (tmp_path / "controlplane").symlink_to(cache_dir())
    return tmp_path


async def test_contestants_are_measured_on_one_cluster_and_write_the_same(cache: Path) -> None:
    arguments = ("--nodes", "20", "--pods", "40", "--unfit", "30", "--rounds", "1")
    chosen = ("--workload", "csi", "--workload", "Unschedulable", "--workload", "preemption")

    document, progress = await bench(cache, *arguments, *chosen)

    assert document["versions"].keys() == {"kube-scheduler", "equipoise", "kube-apiserver", "etcd"}
    names = [result["workload"] for result in document["results"]]
    assert names == ["SchedulingCSIPVs", "Unschedulable", "PreemptionAsync"]
    for result in document["results"]:
        assert result["differences"] == []
        assert result["nodes_scored"] == {"kube-scheduler": 20, "equipoise": 20}
        (only,) = result["rounds"]
        kube, ours, limit = (only[each.name] for each in CONTESTANTS)
        assert result["median_ratio"] == only["ratio"]
        assert only["ratio"] == pytest.approx(ours["pods_per_second"] / kube["pods_per_second"])
        assert only["ratio_to_limit"] == pytest.approx(
            ours["pods_per_second"] / limit["pods_per_second"]
        )
        for measured in (kube, ours, limit):
            assert measured["events"]["Scheduled"] == measured["pods"] == 40
            assert measured["nodes_used"] in range(1, 21)
            assert measured["cpu_seconds"] >= measured["cpu_seconds_bound"] > 0
    flood = document["results"][1]["rounds"][0]
    for measured in flood.values():
        if isinstance(measured, dict):
            assert measured["events"] == {"Scheduled": 40, "FailedScheduling": 30}
            assert measured["conditions"] == {"True": 40, "False Unschedulable": 30}
    churn = document["results"][2]["rounds"][0]
    assert churn["limit"]["evicted"] == 0 < churn["kube-scheduler"]["evicted"]

    resumed, progress = await bench(cache, *arguments, *chosen)

    assert resumed == document
    assert not progress, "there was nothing left to do"


async def test_no_turn_begins_when_time_is_up(cache: Path) -> None:
    arguments = ("--nodes", "20", "--pods", "40", "--rounds", "1", "--workload", "basic")

    document, progress = await bench(cache, *arguments, "--minutes", "0.000001")

    assert document["results"] == document["targets"] == []
    assert "time is up, 3 of 3 turns are left" in progress


def zone_of(workload: Workload, node: str) -> str:
    zones = workload.zones
    return zones[int(node.removeprefix("node-")) % len(zones)] if zones else ""


def placements(workload: Workload, size: Size) -> list[Placement]:
    """The pods that stay, and the timed ones where the limit puts them."""
    assigned = workload.assignments(size)
    bodies = [(INIT, body, body["spec"]["nodeName"]) for body in workload.init_pods(size)]
    bodies += [
        (MEASURED, body, assigned[body["metadata"]["name"]])
        for body in workload.measured_pods(size, "any")
    ]
    return [
        Placement(
            namespace,
            body["metadata"]["name"],
            node,
            zone_of(workload, node),
            body["metadata"]["labels"].get("color", ""),
            int(body["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m")),
        )
        for namespace, body, node in bodies
    ]


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("nodes", [20, SMALL, LARGE])
@pytest.mark.parametrize("full", [False, True])
def test_what_the_limit_is_told_keeps_all_rules(name: str, nodes: int, full: bool) -> None:
    workload = WORKLOADS[name]
    size = workload.size(nodes, full=full)

    assert size.measured <= workload.capacity(size)
    assert workload.fault(placements(workload, size), size) is None


def placed(node: int, zone: str = "", colour: str = "", milli_cpu: int = 100) -> Placement:
    return Placement(MEASURED, f"pod-{node}", f"node-{node:05}", zone, colour, milli_cpu)


MOON = ("moon-1", "moon-2", "moon-3")


@pytest.mark.parametrize(
    ("workload", "pods", "fault"),
    [
        pytest.param("basic", [placed(0)] * 40, None, id="a node may be filled to the brim"),
        pytest.param("basic", [placed(0)] * 41, "4100m CPU on node-00000", id="but not over it"),
        pytest.param(
            "basic",
            [placed(0, milli_cpu=NODE_MILLI_CPU), placed(0)],
            "4100m CPU on node-00000",
            id="large pods count as what they are",
        ),
        pytest.param(
            "anti-affinity",
            [placed(0, colour="a"), placed(0, colour="b"), placed(1, colour="a")],
            None,
            id="colours may share a node",
        ),
        pytest.param(
            "anti-affinity",
            [placed(0, colour="a"), placed(1, colour="a"), placed(1, colour="a")],
            "2 pods of a on node-00001",
            id="pods of a colour may not",
        ),
        pytest.param(
            "affinity",
            [placed(0, "x", "a"), placed(1, "y", "a")],
            "a is in zones ['x', 'y']",
            id="a colour in two zones",
        ),
        pytest.param(
            "node-affinity",
            [placed(0, "zone1"), placed(1, "zone3")],
            "pod-1 is in zone 'zone3'",
            id="a zone that the pod did not name",
        ),
        pytest.param(
            "spread",
            [placed(number, MOON[number % 3], "a") for number in range(20)],
            None,
            id="a colour is spread evenly",
        ),
        pytest.param(
            "spread",
            [placed(number, MOON[0], "a") for number in range(6)],
            "a is spread unevenly: [0, 0, 6]",
            id="zones without pods count",
        ),
        pytest.param("csi", [placed(0)] * 40, "40 volumes on node-00000", id="one volume too many"),
    ],
)
def test_faults(workload: str, pods: list[Placement], fault: str | None) -> None:
    size = replace(SIZE, measured=len(pods))

    assert WORKLOADS[ALIASES[workload]].fault(pods, size) == fault


def test_a_lost_pod_is_a_fault_unless_others_push_it_out() -> None:
    size = replace(SIZE, measured=2)

    assert BASIC.fault([placed(0)], size) == "1 pods were lost"
    assert WORKLOADS["PreemptionAsync"].fault([placed(0)], size) is None


@pytest.mark.parametrize(
    ("nodes", "scored"),
    [(20, 20), (100, 100), (500, 230), (1_000, 420), (5_000, 500), (15_000, 750)],
)
def test_adaptive_sample(nodes: int, scored: int) -> None:
    assert adaptive_sample(nodes) == scored


def test_every_contestant_begins_a_round_as_often_as_the_others() -> None:
    turns = Case(BASIC, replace(SIZE, rounds=3)).turns()

    order = [[turn.contestant.name for turn in turns if turn.round == each] for each in range(3)]
    assert [names[0] for names in order] == ["kube-scheduler", "equipoise", "limit"]
    assert all(sorted(names) == ["equipoise", "kube-scheduler", "limit"] for names in order)


def test_wishes_change_what_workloads_say() -> None:
    (small, large) = make_plan(["Unschedulable"], [SMALL, LARGE], Wishes(unfit=7, rounds=2))

    assert (small.size.unfit, large.size.unfit) == (7, 7)
    assert small.size.measured == FLOOD.size(SMALL).measured
    with pytest.raises(NoRoom, match="SchedulingBasic: 20 nodes take at most 780 pods"):
        make_plan(["SchedulingBasic"], [20], Wishes(measured=781))


def measurement(pods_per_second: float, **changes: Any) -> Measurement:
    plain = Measurement(
        pods=40,
        pods_per_second=pods_per_second,
        start_seconds=1,
        scheduling_seconds=40 / pods_per_second,
        events_seconds=50 / pods_per_second,
        cpu_seconds=4,
        cpu_seconds_bound=3,
        cpu_ms_per_pod=2,
        server_ms_per_pod=3,
        peak_memory_mib=100,
        nodes_used=20,
        evicted=0,
        events={"Scheduled": 40},
        other_events={},
        conditions={"True": 40},
        load_average=0.5,
        calibration_ms=30,
    )
    return replace(plain, **changes)


def test_a_ledger_remembers_finished_turns_and_forgives_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ledger.jsonl"
    case = Case(BASIC, SIZE)
    first, second, *_ = case.turns()
    ledger = Ledger(path, "monday")
    ledger.put(first, measurement(100))
    ledger.put(second, measurement(200))
    path.write_text(path.read_text()[:-20])

    again = Ledger(path, "tuesday")

    assert again.get(first) == measurement(100)
    assert again.get(second) is None
    again.put(second, measurement(300))
    assert Ledger(path, "").get(second) == measurement(300)
    assert Ledger(path, "").runs([first, second]) == 2
    other_size = Turn(BASIC, replace(SIZE, measured=41), first.round, first.contestant)
    assert again.get(other_size) is None


def test_a_result_has_only_rounds_in_which_everybody_had_a_turn(tmp_path: Path) -> None:
    case, ledger = Case(BASIC, SIZE), Ledger(tmp_path / "ledger.jsonl", "run")
    assert case.result(ledger) is None
    for speed, turn in enumerate(case.turns()[:-1], start=1):
        ledger.put(turn, measurement(speed * 100))

    result = case.result(ledger)

    assert result is not None
    assert result.rounds == [Round(measurement(100), measurement(200), measurement(300))]


def test_a_case_that_fails_does_not_keep_others_from_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, lines = Ledger(tmp_path / "ledger.jsonl", "run"), Lines(4)
    broken, sound = Case(FLOOD, SIZE), Case(BASIC, SIZE)

    def hold(runner: Runner, case: Case, turns: list[Turn]) -> bool:
        if case is broken:
            raise BenchError("equipoise: 160 s over")
        for turn in turns:
            runner.ledger.put(turn, measurement(100))
        return True

    monkeypatch.setattr(Runner, "_hold", hold)

    held = Runner(ledger, lines, fairness=True, deadline=math.inf).hold([broken, sound])

    assert held == Held(True, ["Unschedulable, 20 nodes: equipoise: 160 s over"])
    assert broken.result(ledger) is None
    assert sound.result(ledger) is not None


def a_result(workload: Workload, nodes: int, *rounds: Round) -> Result:
    return Result(workload, replace(SIZE, nodes=nodes), list(rounds))


def test_ratios_are_medians_of_rounds_and_targets_are_judged_by_them() -> None:
    slow = Round(measurement(100), measurement(240), measurement(300))
    fast = Round(measurement(100), measurement(300), measurement(320))

    result = a_result(BASIC, LARGE, slow, fast, fast)

    assert result.ratio == 3
    verdicts = {target.text: met for target, met in targets.judged(result)}
    assert verdicts == {
        "≥ 2.5 x kube-scheduler": True,
        "≥ 85% of the limit": True,
        "memory ≤ kube-scheduler's": True,
    }
    missed = a_result(BASIC, LARGE, slow)
    assert [met for _, met in targets.judged(missed)] == [False, False, True]
    assert list(targets.judged(a_result(BASIC, 20, slow))) == []


@pytest.mark.parametrize(
    ("ours", "limit", "met"),
    [
        pytest.param(500, 1_000, True, id="five times as fast"),
        pytest.param(430, 500, True, id="slower, but the API server takes no more"),
        pytest.param(420, 500, False, id="neither"),
    ],
)
def test_where_the_limit_is_lower_it_is_the_target(ours: int, limit: int, met: bool) -> None:
    turns = Round(measurement(100), measurement(ours), measurement(limit))

    (speed, memory) = targets.judged(a_result(WORKLOADS["TopologySpreading"], LARGE, turns))

    assert speed[1] is met
    assert memory[1]


def test_without_kube_scheduler_only_the_limit_is_compared_with(tmp_path: Path) -> None:
    two = Wishes(rounds=2, contestants=(EQUIPOISE, LIMIT))
    (case,) = make_plan(["ExtendedResource"], [LARGE], two)
    ledger = Ledger(tmp_path / "ledger.jsonl", "run")
    for turn in case.turns():
        assert turn.contestant in two.contestants
        ledger.put(turn, measurement(172 if turn.contestant is EQUIPOISE else 200))

    result = case.result(ledger)

    assert result is not None
    judged = [(target.figure(result), met) for target, met in targets.judged(result)]
    assert judged == [("86.0%", True)]
    report = Report(Machine.this(), "abc", "2026-11-16", True, 1, [result], [])
    assert "| kube-scheduler |" not in report.as_text()
    (shown,) = json.loads(report.as_json())["results"]
    assert shown["median_ratio"] is None
    assert shown["median_ratio_to_limit"] == 0.86


def test_differences_name_what_was_not_written() -> None:
    kube = measurement(100, events={"Scheduled": 40, "FailedScheduling": 3})
    ours = measurement(100, conditions={"True": 39, "none": 1})
    turns = Round(kube, ours, kube)

    assert a_result(BASIC, 20, turns).differences == [
        "events 'FailedScheduling': kube-scheduler 3, equipoise 0",
        "pods 'True': kube-scheduler 40, equipoise 39",
        "pods 'none': kube-scheduler 0, equipoise 1",
    ]
    pushed_out = a_result(WORKLOADS["PreemptionAsync"], 20, Round(kube, ours, kube))
    assert len(pushed_out.differences) == 1


def test_the_report_replaces_what_is_between_the_markers(tmp_path: Path) -> None:
    turns = Round(measurement(100), measurement(300), measurement(310))
    results = [a_result(BASIC, LARGE, turns)]
    failures = ["spread: too slow\nits log"]
    report = Report(Machine.this(), "abc", "2026-11-16", True, 1, results, failures)
    document = tmp_path / "benchmarks.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    report.write_into(document)
    report.write_into(document)

    text = document.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert text.count("### 5,000 nodes") == 1
    assert "- spread: too slow\n" in text
    assert "its log" not in text
    assert "| SchedulingBasic | 5000  | ≥ 2.5 x kube-scheduler    | 3.00  | met     |" in text
    assert "(2026-11-16, code abc), " in text
    row = next(line for line in text.splitlines() if line.startswith("| SchedulingBasic "))
    assert [cell.strip() for cell in row.split("|")[2:7]] == ["100", "300", "310", "3.00", "0.97"]
    document.write_text("no markers")
    with pytest.raises(ValueError, match="has no lines"):
        report.write_into(document)


def test_figures_name_the_commit_and_whether_the_code_differs_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "ROOT", tmp_path)
    assert ledgers.commit() == ""

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    for part in ledgers.CODE:
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "code.py").touch()
    git("init")
    git("add", ".")
    git("commit", "--message", "first")
    head = git("rev-parse", "--short", "HEAD")

    assert ledgers.commit() == head
    (tmp_path / "notes").touch()
    assert ledgers.commit() == head
    (tmp_path / ledgers.CODE[0] / "code.py").write_text("changed")
    assert ledgers.commit() == f"{head}+"


def test_the_published_page_has_room_for_figures() -> None:
    text = reports.DOCUMENT.read_text()

    assert text.count(BEGIN) == text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)


@pytest.mark.parametrize(
    ("module", "options", "other"),
    [
        ("bench.cluster.explaining", ("--per-second", "100"), "asked"),
        ("bench.cluster.watching", (), "watched"),
    ],
)
async def test_what_readers_cost_is_measured_in_turns_with_and_without_them(
    module: str, options: tuple[str, ...], other: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module),
        *("--nodes", "20", "--pods", "200", "--rounds", "1", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, progress = await asyncio.wait_for(process.communicate(), BENCH_SECONDS)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode == 0, progress.decode()
    shown = output.decode()
    assert "0 refused" in shown, shown
    assert "ratio of the rates" in shown
    assert [line.partition(":")[0] for line in progress.decode().splitlines()[-2:]] == [
        "alone",
        other,
    ]
