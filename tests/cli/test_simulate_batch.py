"""`equipoise simulate --batch`: both ways compared, and drawn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from scheduler.comparison import compare
from tests.builders import make_node, make_pod, requirement, term
from tests.cli.support import Json, workload, write
from tests.cli.test_simulate import run
from tests.gangs.support import make_group, member
from tests.pipeline.gpu_cluster import gpu_nodes, gpu_pods

SVG = "{http://www.w3.org/2000/svg}"


def cluster() -> list[Json]:
    """Two nodes; pods that like the first, and pods that can run nowhere else."""
    nodes = [
        make_node(name).cpu(4).memory("16Gi").pods(20).label(pool=pool).obj()
        for name, pool in (("n-hot", "hot"), ("n-cold", "cold"))
    ]
    hot = term(requirement("pool", "In", "hot"))
    preferred = [{"weight": 10, "preference": hot}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    fond = [make_pod(f"fond-{i}").cpu(1).memory("1Gi").spec(affinity=affinity) for i in range(4)]
    bound = [
        make_pod(f"bound-{i}").cpu(1).memory("1Gi").spec(nodeSelector={"pool": "hot"})
        for i in range(4)
    ]
    return [*nodes, *(pod.obj() for pod in (*fond, *bound))]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.yaml"


def test_the_table_compares_both_ways(file: Path) -> None:
    result = run("--batch", "-f", write(file, *cluster()))

    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["ONE", "BY", "ONE", "AT", "ONCE"] in lines
    assert ["pods", "to", "place", "8", "8"] in lines
    assert ["placed", "at", "once", "0", "8"] in lines
    assert ["placed", "one", "by", "one", "4", "0"] in lines
    assert ["pending", "4", "0"] in lines
    assert "priority 0: 8 pods, solved at once" in result.stdout
    assert "default/bound-0  <none>      n-hot" in result.stdout


def test_the_cost_model_that_was_chosen_is_named_and_decides(file: Path, tmp_path: Path) -> None:
    """By `Scores` two pods do not contend and are placed one by one."""
    batch = {"enabled": True, "costModel": "CpuMemory"}
    own = {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration", "batch": batch}
    config = write(tmp_path / "config.yaml", own)
    nodes = [each for each in cluster() if each["kind"] == "Node"]
    few = [*nodes, *(make_pod(f"p{i}").cpu(1).obj() for i in range(2))]

    result = run("--batch", "-f", write(file, *few), "--config", config)

    assert result.exit_code == 0, result.output
    assert "priority 0: 2 pods, solved at once by cost model CpuMemory" in result.stdout


def test_programs_get_everything(file: Path) -> None:
    result = run("--batch", "-o", "json", "-f", write(file, *cluster()))

    value = json.loads(result.stdout)
    assert (value["oneByOne"]["placed"], value["atOnce"]["placed"]) == (4, 8)
    assert value["atOnce"]["pods"]["default/bound-0"] == "n-hot"
    assert value["atOnce"]["nodes"][1]["name"] == "n-hot"
    assert value["atOnce"]["nodes"][1]["cpu"] == 1.0
    assert value["atOnce"]["nodes"][1]["memory"] == 0.25
    assert value["atOnce"]["fullest"] == 1.0, "a node whose CPUs are taken is full"
    assert value["atOnce"]["batches"][0]["result"] == "solved"
    assert value["elsewhere"] == 8


@pytest.mark.parametrize("seed", range(6))
def test_the_counts_are_one_story(file: Path, seed: int) -> None:
    """Every pod is counted once: at once, one by one or pending; in a batch or in none."""
    random = Random(seed)
    objects = cluster()
    objects += [make_group("g", 2).obj(), make_group("h", 9).obj()]
    for number in range(random.randint(1, 6)):
        pod = member(f"m{number}", random.choice("gh")).priority(random.choice((0, 5)))
        objects.append(pod.obj())
    objects += [make_pod(f"gated-{i}").gate("x").obj() for i in range(random.randint(0, 2))]
    objects += [make_pod(f"huge-{i}").cpu(99).obj() for i in range(random.randint(0, 2))]
    objects.append(workload("DaemonSet", "agent"))
    pods = sum(each["kind"] == "Pod" for each in objects) + 2

    value = json.loads(run("--batch", "-o", "json", "-f", write(file, *objects)).stdout)

    for way in ("oneByOne", "atOnce"):
        play = value[way]
        assert play["podsToPlace"] == len(play["pods"]) == pods
        assert play["placed"] == play["placedAtOnce"] + play["placedOneByOne"]
        assert play["placed"] == sum(node is not None for node in play["pods"].values())
        assert play["podsToPlace"] == play["placed"] + play["pending"]
        assert play["placedAtOnce"] == sum(each["placed"] for each in play["batches"])
        assert sum(each["pods"] for each in play["batches"]) <= pods
    assert value["oneByOne"]["placedAtOnce"] == 0


def test_the_picture_shows_network_and_nodes(file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "batch.svg"

    result = run("--batch", "--plot", str(picture), "-f", write(file, *cluster()))

    assert result.exit_code == 0, result.output
    texts = {each.text for each in ET.parse(picture).getroot().iter(f"{SVG}text")}
    assert {"n-hot", "n-cold", "sink", "What was solved", "Utilisation of nodes"} <= texts
    assert any("fond" in str(text) for text in texts)


def test_names_cannot_break_the_picture(file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "batch.svg"
    objects = cluster()
    objects[0]["metadata"]["name"] = "<script>&'\""

    run("--batch", "--plot", str(picture), "-f", write(file, *objects))

    assert ET.parse(picture).getroot().tag == f"{SVG}svg"


def test_without_contention_it_says_so(file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "batch.svg"
    node = make_node("n").cpu(40).memory("64Gi").pods(50).obj()
    pods = [make_pod(f"p{i}").cpu(1).memory("1Gi").obj() for i in range(3)]

    result = run("--batch", "--plot", str(picture), "-f", write(file, node, *pods))

    assert "one by one is as good" in result.stdout
    assert "every pod goes to the same node either way" in result.stdout
    assert "one by one is as good" in picture.read_text()


def test_a_file_that_cannot_be_written_is_named(file: Path, tmp_path: Path) -> None:
    where = tmp_path / "missing" / "batch.svg"

    result = run("--batch", "--plot", str(where), "-f", write(file, *cluster()))

    assert result.exit_code == 1
    assert f"{where}: No such file" in result.stderr


# One outcome, and numbers that agree


def crowd(pods: int = 80) -> list[Json]:
    """A crowded cluster of GPU nodes, with gangs, a gated pod and some that fit nowhere."""
    groups = [make_group(f"g{i}", 3).obj() for i in range(4)]
    gangs = [member(f"g{i}-{j}", f"g{i}", "20").obj() for i in range(4) for j in range(3)]
    urgent = [make_pod(f"urgent-{i}").cpu(30).priority(10).obj() for i in range(9)]
    others = [make_pod("gated").gate("wait").obj(), make_pod("huge").cpu(1000).obj()]
    nodes = [each.obj() for each in gpu_nodes(6)]
    return [*nodes, *groups, *(p.obj() for p in gpu_pods(3, pods)), *gangs, *urgent, *others]


@pytest.mark.parametrize("objects", [cluster, crowd])
def test_equal_input_has_one_outcome_in_every_process(
    objects: Callable[[], list[Json]], file: Path
) -> None:
    path = write(file, *objects())
    command = (sys.executable, "-m", "scheduler", "simulate", "--batch", "-o", "json")
    outcomes = [
        subprocess.run(
            (*command, "-f", path),
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]

    assert outcomes[0] == outcomes[1]
    assert json.loads(outcomes[0])["atOnce"]["batches"]


def test_no_time_passes_in_a_simulation() -> None:
    """Else who was read from a file a moment earlier would have waited for longer."""
    rounds = compare(cluster()).rounds

    assert rounds
    for each in rounds:
        assert set(each.posed.problem.leaving.points.tolist()) == {1000.0}


def test_all_numbers_of_pods_agree(file: Path) -> None:
    result = run("--batch", "-o", "json", "-f", write(file, *crowd()))

    value = json.loads(result.stdout)["atOnce"]
    batches = value["batches"]
    for batch in batches:
        parts = batch["placed"] + batch["placed_one_by_one"] + batch["pending"]
        assert batch["pods"] == parts
        assert batch["members"] <= batch["pods"]
    assert [batch["pods"] for batch in batches] == [9, 80 + 12 + 1]
    assert sum(b["placed"] + b["placed_one_by_one"] for b in batches) == value["placed"]
    gated = 1
    assert sum(batch["pending"] for batch in batches) + gated == value["pending"]
    assert sum(node is not None for node in value["pods"].values()) == value["placed"]
    assert len(value["pods"]) == value["placed"] + value["pending"]
