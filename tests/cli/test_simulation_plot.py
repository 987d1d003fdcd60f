"""`equipoise simulate --plot`: nodes before and after, and what still waits and why."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from scheduler.cli.picture import COLOURS
from scheduler.cli.simulation_plot import BEFORE, MOST_BARS
from tests.builders import Json, make_node, make_pod
from tests.cli.support import write
from tests.cli.test_simulate import run

SVG = "{http://www.w3.org/2000/svg}"
GPU = "example.com/gpu"


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    return tmp_path / "picture.svg"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.yaml"


def cluster() -> list[Json]:
    """A node half full, one with a device, and pods of which one fits nowhere."""
    return [
        make_node("plain").cpu(4).memory("8Gi").obj(),
        make_node("gpu").cpu(4).memory("8Gi").offer(GPU, 2).obj(),
        make_pod("there").cpu(2).on("plain").obj(),
        make_pod("new").cpu(1).request(GPU, 1).obj(),
        make_pod("huge").cpu(9).obj(),
    ]


def texts(picture: Path) -> list[str]:
    return [str(each.text) for each in ET.parse(picture).getroot().iter(f"{SVG}text")]


def heights(picture: Path, colour: str) -> list[float]:
    """Of the bars of a colour, without the squares of the legend and what waits."""
    return [
        float(each.attrib["height"])
        for each in ET.parse(picture).getroot().iter(f"{SVG}rect")
        if each.get("fill") == colour and float(each.attrib["height"]) != 10
    ]


def test_nodes_and_reasons_are_drawn(file: Path, picture: Path) -> None:
    result = run("-f", write(file, *cluster()), "--plot", str(picture))
    assert result.exit_code == 0, result.output
    said = texts(picture)
    assert {"CPU", "Memory", GPU, "plain", "gpu", "Pending, by reason"} <= set(said)
    assert "1 pod placed on 1 node, 1 pending, spread 0.062" in said
    assert "0/2 nodes are available: 2 Insufficient cpu." in "".join(said)
    assert "mean of nodes: 25% before, 38% after" in said
    # The plain node is half full of what was there, a quarter of the other one has come.
    assert [each for each in heights(picture, BEFORE) if each] == [60.0]
    assert [each for each in heights(picture, COLOURS[0]) if each] == [30.0, 60.0]


def test_two_configurations_have_a_bar_each(file: Path, picture: Path, tmp_path: Path) -> None:
    args = {"scoringStrategy": {"type": "MostAllocated"}}
    profile = {"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = write(tmp_path / "most.yaml", {**kind, "profiles": [profile]})
    nodes = [make_node(name).cpu(4).memory("8Gi").obj() for name in ("a", "b")]
    pods = [make_pod(f"p{i}").cpu(1).memory("1Gi").obj() for i in range(4)]
    source = write(file, *nodes, *pods)
    result = run("-f", source, "--compare", config, "--plot", str(picture))
    assert result.exit_code == 0, result.output
    assert any(said.startswith("default: 4 pods placed on 2 nodes") for said in texts(picture))
    cpu = slice(0, 2)
    assert sorted(heights(picture, COLOURS[1])[cpu]) == [60.0, 60.0]
    assert sorted(heights(picture, COLOURS[0])[cpu]) == [0.0, 120.0]


def test_nodes_that_are_too_many_share_bars(file: Path, picture: Path) -> None:
    nodes = [make_node(f"n{i:03}").cpu(4).memory("1Gi").obj() for i in range(MOST_BARS * 3)]
    running = [make_pod(f"p{i}").cpu(4).on(f"n{i:03}").obj() for i in range(MOST_BARS)]
    run("-f", write(file, *nodes, *running, make_pod("new").obj()), "--plot", str(picture))
    cpu = heights(picture, BEFORE)[:MOST_BARS]
    assert cpu == [120.0] * (MOST_BARS // 3) + [0.0] * (MOST_BARS * 2 // 3)
    assert "each bar is the mean of some nodes, the fullest first" in texts(picture)


def test_who_is_evicted_is_drawn_and_told(file: Path, picture: Path) -> None:
    node = make_node("n").cpu(2).obj()
    vip = make_pod("vip").cpu(2).priority(9).obj()
    source = write(file, node, make_pod("old").cpu(2).on("n").obj(), vip)
    shown = run("-f", source, "--evict", "--plot", str(picture))
    assert "default/old from n, for default/vip" in texts(picture)
    assert "default/old  <evicted>  Preempted by pod default/vip on node n" in shown.stdout
    value = json.loads(run("-f", source, "--evict", "-o", "json").stdout)
    assert value["evictions"] == [{"pod": "default/old", "by": "default/vip", "node": "n"}]


def test_no_nodes_and_no_pods(file: Path, picture: Path) -> None:
    run("-f", write(file, make_pod("a").obj()), "--plot", str(picture))
    assert "There are no nodes." in texts(picture)
    run("-f", write(file, make_node("n").obj()), "--plot", str(picture))
    assert "No pod is pending." in texts(picture)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plot", "x.png"], "x.png does not end in .svg"),
        (["--plot", "x.svg", "--missing-nodes"], "--plot shows where pods go"),
    ],
)
def test_what_makes_no_picture_is_refused(arguments: list[str], message: str, file: Path) -> None:
    result = run("-f", write(file, *cluster()), *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_control_characters_do_not_break_the_picture(file: Path, picture: Path) -> None:
    node = make_node("n").obj()
    node["metadata"]["name"] = "n\x1b<&"
    run("-f", write(file, node, make_pod("a").obj()), "--plot", str(picture))
    assert "n?<&" in texts(picture)
