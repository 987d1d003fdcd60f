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
from scheduler.views.node_zones import ZONE_LABEL, node_zones
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


@pytest.mark.parametrize(
    ("module", "shown_nodes"),
    [("node_zones", NODES - 1), ("node_map", NODES)],
    ids=["while nodes are read", "while cells are read"],
)
def test_a_map_is_of_one_moment_when_nodes_go_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, module: str, shown_nodes: int
) -> None:
    gone = False

    def checkpoint() -> None:
        nonlocal gone
        if not gone:
            gone = True
            stage.core.state.remove_node("n0001")

    monkeypatch.setattr(f"scheduler.views.{module}.checkpoint", checkpoint)
    shown = nodes(stage.core, NodesQuery(NODES, "cpu"))["nodes"]
    assert gone
    assert ("n0001" in shown["name"]) == (shown_nodes == NODES)
    lengths = {len(column) for column in shown.values() if isinstance(column, list)}
    assert lengths == {shown_nodes} == {len(shown["capacity"]["cpu"])}


def test_a_second_map_reads_the_nodes_that_have_changed(stage: Stage) -> None:
    def shown() -> dict[str, Any]:
        found: dict[str, Any] = nodes(stage.core, NodesQuery(NODES, "cpu"))["nodes"]
        return found

    known = node_zones(stage.core.state)
    assert known.read == NODES
    shown()
    assert known.read == NODES
    stage.see(make_worker("n0002").label(**{ZONE_LABEL: "elsewhere"}))
    assert dict(zip(shown()["name"], shown()["zone"], strict=True))["n0002"] == "elsewhere"
    assert known.read == NODES + 1


def test_a_cluster_without_nodes_has_an_empty_map() -> None:
    shown = nodes(Stage().core, NodesQuery(NODES, "cpu"))
    assert shown["count"] == 0
    columns = shown["nodes"]
    assert columns.pop("cells") is columns.pop("devices") is None
    assert columns.pop("capacity") == columns.pop("requested") == {"cpu": []}
    assert set(columns) == {"name", "zone", "pods", "podLimit", "unschedulable", "taints"}
    assert list(columns.values()) == [[]] * len(columns)
