"""`equipoise simulate --batch`: both ways compared, and drawn."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.builders import make_node, make_pod, requirement, term
from tests.cli.support import Json, write
from tests.cli.test_simulate import run

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
    assert ["pods", "placed", "4", "8"] in lines
    assert ["pods", "pending", "4", "0"] in lines
    assert "priority 0: 8 pods, solved at once" in result.stdout
    assert "default/bound-0  <none>      n-hot" in result.stdout


def test_programs_get_everything(file: Path) -> None:
    result = run("--batch", "-o", "json", "-f", write(file, *cluster()))

    value = json.loads(result.stdout)
    assert (value["oneByOne"]["placed"], value["atOnce"]["placed"]) == (4, 8)
    assert value["atOnce"]["pods"]["default/bound-0"] == "n-hot"
    assert value["atOnce"]["nodes"][1]["name"] == "n-hot"
    assert value["atOnce"]["nodes"][1]["cpu"] == 1.0
    assert value["atOnce"]["batches"][0]["result"] == "solved"
    assert value["elsewhere"] == 8


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


def test_a_plot_needs_a_batch(file: Path) -> None:
    result = run("--plot", "x.svg", "-f", write(file, *cluster()))

    assert result.exit_code == 2
    assert "--plot needs --batch" in result.output


def test_a_file_that_cannot_be_written_is_named(file: Path, tmp_path: Path) -> None:
    where = tmp_path / "missing" / "batch.svg"

    result = run("--batch", "--plot", str(where), "-f", write(file, *cluster()))

    assert result.exit_code == 1
    assert f"{where}: No such file" in result.stderr
