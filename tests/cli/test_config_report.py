"""`equipoise simulate --compare`: the same pods under two configurations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from scheduler.cli.simulate_command import simulate
from tests.builders import Json, make_node, make_pod
from tests.cli.support import write

PACKING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "equipoise",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ],
            "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        }
    ],
}


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "packing.yaml"
    file.write_text(yaml.safe_dump(PACKING))
    return str(file)


@pytest.fixture
def source(tmp_path: Path) -> str:
    nodes = [make_node(f"n{i}").cpu(4).memory("8Gi").obj() for i in range(2)]
    small = [make_pod(f"s{i}").cpu(2).memory("1Gi").obj() for i in range(2)]
    return write(tmp_path / "cluster.yaml", *nodes, *small, make_pod("z").cpu(4).obj())


def test_what_the_other_configuration_changes_is_shown(source: str, config: str) -> None:
    lines = run("-f", source, "--compare", config).stdout.splitlines()
    rows = {" ".join(line.split()[:-2]): line.split()[-2:] for line in lines if line}
    assert rows["pending"] == ["1", "0"]
    assert rows["nodes used"] == ["2", "2"]
    (reason,) = (line for line in lines if "Insufficient cpu" in line)
    assert reason.split(maxsplit=2) == ["1", "0", "0/2 nodes are available: 2 Insufficient cpu."]
    assert any(line.startswith("default/z ") and "<none>" in line for line in lines)


def test_programs_get_both_and_what_differs(source: str, config: str) -> None:
    said: Json = json.loads(run("-f", source, "--compare", config, "-o", "json").stdout)
    assert (said["a"]["config"], said["b"]["config"]) == ("default", config)
    assert said["a"]["pendingByReason"] == {"0/2 nodes are available: 2 Insufficient cpu.": 1}
    assert said["b"]["pending"] == 0
    assert {move["pod"] for move in said["moved"]} >= {"default/z"}
    for move in said["moved"]:
        assert said["a"]["pods"][move["pod"]] == move["a"] != move["b"]


def test_equal_configurations_differ_in_nothing(source: str, config: str) -> None:
    result = run("-f", source, "--config", config, "--compare", config)
    assert "every pod goes to the same node with both" in result.stdout


def test_evictions_are_counted_if_they_are_allowed(tmp_path: Path, config: str) -> None:
    node = make_node("n1").cpu(2).obj()
    low = make_pod("low").cpu(2).on("n1").priority(0).obj()
    high = make_pod("high").cpu(2).priority(10).obj()
    victim = {"pod": "default/low", "by": "default/high", "node": "n1"}
    source = write(tmp_path / "cluster.yaml", node, low, high)
    said: Json = json.loads(run("-f", source, "--compare", config, "--evict", "-o", "json").stdout)
    assert said["a"]["evicted"] == said["b"]["evicted"] == [victim]
    said = json.loads(run("-f", source, "--compare", config, "-o", "json").stdout)
    assert said["a"]["evicted"] == []


def test_one_report_at_a_time(source: str, config: str) -> None:
    result = CliRunner().invoke(simulate, ["-f", source, "--compare", config, "--missing-nodes"])
    assert result.exit_code == 2


def test_who_had_to_go_is_named_beside_what_the_other_does(tmp_path: Path) -> None:
    node = make_node("n1").cpu(2).obj()
    low = make_pod("low").cpu(2).on("n1").priority(0).obj()
    high = make_pod("high").cpu(2).priority(10).obj()
    source = write(tmp_path / "cluster.yaml", node, low, high)
    disabled = {"postFilter": {"disabled": [{"name": "*"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    meek = write(tmp_path / "meek.yaml", {**kind, "profiles": [{"plugins": disabled}]})
    shown = run("-f", source, "--compare", meek, "--evict").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert ["default/low", "n1,", "by", "default/high", "-"] in lines
    assert ["evicted", "1", "0"] in lines
    # A victim that was running is no pod to place, and does not wait.
    assert ["pods", "to", "place", "1", "1"] in lines
    assert ["pending", "0", "1"] in lines
    arguments = ("-f", source, "--compare", meek, "--evict", "-o", "json")
    assert json.loads(run(*arguments).stdout)["a"]["pods"] == {"default/high": "n1"}


def test_what_a_configuration_leaves_out_is_said(tmp_path: Path) -> None:
    """Without a file NUMA cells are looked at if there are any; with one, if it says so."""
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "zones": [],
    }
    objects = [make_node("n1").cpu(4).obj(), topology, make_pod("a").cpu(1).obj()]
    source = write(tmp_path / "cluster.yaml", *objects)
    named = {"name": "NodeResourceTopologyMatch"}
    plain, heeding = tmp_path / "plain.yaml", tmp_path / "heeding.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    plain.write_text(json.dumps(head))
    profile = {"plugins": {"multiPoint": {"enabled": [named]}}}
    heeding.write_text(json.dumps({**head, "profiles": [profile]}))
    said = f"{plain} does not enable NodeResourceTopologyMatch"
    for command in (
        ["simulate", "--compare"],
        ["simulate", "--config"],
        ["explain", "a", "--config"],
    ):
        assert said in CliRunner().invoke(cli, [*command, str(plain), "-f", source]).stderr
        assert (
            "not enable"
            not in CliRunner().invoke(cli, [*command, str(heeding), "-f", source]).stderr
        )
