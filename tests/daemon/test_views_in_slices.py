"""What the page reads is read in pieces: no view holds the loop, however large the cluster is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.assembly import Core
from scheduler.explaining.queries import NodesQuery
from scheduler.inspection import nodes
from scheduler.observe.samples import Samples
from scheduler.views import node_map
from scheduler.views.overview import overview
from scheduler.views.pod_classes import pod_classes
from tests.builders import make_pod, make_worker
from tests.pipeline.support import Stage

NODES, PODS = 1000, 50


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.see(*(make_worker(f"n{number:04}") for number in range(NODES)))
    stage.see(*(make_pod(f"p{number}").cpu(f"{100 + number}") for number in range(PODS)))
    return stage


def pauses(monkeypatch: pytest.MonkeyPatch, module: str, look: Callable[[], Any]) -> int:
    """How often a view could have given the loop back."""
    count = 0

    def checkpoint() -> None:
        nonlocal count
        count += 1

    monkeypatch.setattr(f"scheduler.views.{module}.checkpoint", checkpoint)
    look()
    return count


def test_a_map_pauses_after_some_nodes(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    core = stage.core
    found = pauses(monkeypatch, "node_map", lambda: nodes(core, NodesQuery(NODES, "cpu")))
    assert found >= NODES / node_map._TOGETHER


@pytest.mark.parametrize(
    ("module", "look"),
    [
        ("overview", lambda core: overview(core, Samples(core.decisions, dict))),
        ("pod_classes", pod_classes),
    ],
)
async def test_other_views_pause_at_each_class_or_verdict(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, module: str, look: Callable[[Core], Any]
) -> None:
    for _ in range(PODS):
        stage.attempt()
    assert pauses(monkeypatch, module, lambda: look(stage.core)) >= PODS


def test_nodes_that_go_meanwhile_are_left_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = False

    def checkpoint() -> None:
        nonlocal gone
        if not gone:
            gone = True
            stage.core.state.remove_node("n0001")

    monkeypatch.setattr("scheduler.views.node_map.checkpoint", checkpoint)
    shown = nodes(stage.core, NodesQuery(NODES, "cpu"))["nodes"]
    assert "n0001" not in shown["name"]
    lengths = {len(column) for column in shown.values() if isinstance(column, list)}
    assert lengths == {NODES - 1} == {len(shown["capacity"]["cpu"])}


def test_a_cluster_without_nodes_has_an_empty_map() -> None:
    shown = nodes(Stage().core, NodesQuery(NODES, "cpu"))
    assert shown["count"] == 0
    columns = shown["nodes"]
    assert columns.pop("cells") is columns.pop("devices") is None
    assert columns.pop("capacity") == columns.pop("requested") == {"cpu": []}
    assert set(columns) == {"name", "zone", "pods", "podLimit", "unschedulable", "taints"}
    assert list(columns.values()) == [[]] * len(columns)
