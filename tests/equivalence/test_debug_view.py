"""What can be seen of the cache: look-ups, classes, numbers."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import inspection
from scheduler.equivalence.cache import HostPredicate
from scheduler.inspection import NothingKept
from tests.equivalence import law
from tests.equivalence.templates import waiting
from tests.equivalence.world import World

UNSEEN = 1


@pytest.fixture
def world() -> World:
    world = World()
    for i in range(3):
        world.change("Node", f"n{i}", taint=1 if i == 1 else 0)
    return world


def look(world: World, template: str = "cpu", name: str = "probe") -> int:
    """Place a pod by its class; returns the class's name."""
    pod = waiting(template, name).struct()
    law.outcome_by_class(world, pod)
    found = law.equivalence_of(world).class_of(waiting(template, name).info())
    assert found is not None
    return found.hash


def test_a_verdict_is_looked_up_by_node_plugin_and_class(world: World) -> None:
    kept, name = law.equivalence_of(world), look(world)
    assert kept.lookup("n0", "TaintToleration", name) == HostPredicate(fit=True)
    assert kept.lookup("n1", "TaintToleration", name) == HostPredicate(
        fit=False, reasons=("node(s) had untolerated taint(s)",)
    )


@pytest.mark.parametrize(
    ("node", "plugin", "known"),
    [
        pytest.param("n9", "TaintToleration", True, id="no such node"),
        pytest.param("n0", "NodePorts", True, id="a plugin with nothing to check"),
        pytest.param("n1", "NodeResourcesFit", True, id="rejected before it was asked"),
        pytest.param("n0", "ServiceAffinity", True, id="computed for each pod"),
        pytest.param("n0", "TaintToleration", False, id="no such class"),
    ],
)
def test_what_is_not_kept_is_invalid(world: World, node: str, plugin: str, known: bool) -> None:
    name = look(world) if known else UNSEEN
    assert law.equivalence_of(world).lookup(node, plugin, name) is None


def test_an_event_makes_just_what_it_touches_invalid(world: World) -> None:
    kept, name = law.equivalence_of(world), look(world)
    world.change("Node", "n1", taint=0)
    assert kept.lookup("n1", "TaintToleration", name) is None
    assert kept.lookup("n1", "NodeUnschedulable", name) == HostPredicate(fit=True)
    assert kept.lookup("n0", "TaintToleration", name) == HostPredicate(fit=True)
    look(world)
    assert kept.lookup("n1", "TaintToleration", name) == HostPredicate(fit=True)


def test_looking_up_changes_nothing_that_counts(world: World) -> None:
    kept, name = law.equivalence_of(world), look(world)
    world.change("Node", "n2", taint=1)
    for node in ("n0", "n1", "n2"):
        kept.lookup(node, "TaintToleration", name)
    assert law.placed_alike(world, world.rebuilt(), waiting("cpu", "probe").struct()) == []


def test_pods_that_nothing_tells_apart_share_a_class(world: World) -> None:
    assert look(world, "cpu", "one") == look(world, "cpu", "two")
    assert look(world, "cpu", "one") != look(world, "important", "one")


def test_the_overview_lists_the_last_used_first(world: World) -> None:
    names = [look(world, template) for template in ("cpu", "port", "cpu", "tolerant")]
    seen = inspection.equivalence(world.core, None, None, 500)
    assert [each["hash"] for each in seen["classes"]] == [
        str(name) for name in (names[3], names[2], names[1])
    ]
    assert seen["kept"] == 3
    assert seen["bytes"] <= seen["budget"]
    assert inspection.equivalence(world.core, None, None, 1)["classes"] == seen["classes"][:1]


def test_a_class_tells_how_each_plugin_takes_part(world: World) -> None:
    name = look(world, "near")
    seen = inspection.equivalence(world.core, name, None, 500)
    modes = {each["name"]: each["mode"] for each in seen["plugins"]["filter"]}
    assert modes["TaintToleration"] == "kept"
    assert modes["InterPodAffinity"] == "recomputed"
    assert "NodePorts" in seen["silent"]["filter"]
    assert seen["profile"] == "equipoise"
    assert sorted(seen["nodes"]) == ["n0", "n1", "n2"]
    assert seen["nodes"]["n1"]["TaintToleration"] == {
        "valid": True,
        "fit": False,
        "reasons": ["node(s) had untolerated taint(s)"],
    }
    assert seen["nodes"]["n1"]["NodeResourcesFit"] == {"valid": False}


def test_one_node_is_told_alike(world: World) -> None:
    name = look(world)
    everywhere = inspection.equivalence(world.core, name, None, 500)["nodes"]
    for node, entries in everywhere.items():
        assert inspection.equivalence(world.core, name, node, 500)["nodes"] == {node: entries}


@pytest.mark.parametrize(
    ("name", "node", "message"),
    [
        pytest.param(UNSEEN, None, "nothing is kept for a class 1", id="no such class"),
        pytest.param(UNSEEN, "n0", "nothing is kept for a class 1", id="no such class, on a node"),
        pytest.param(UNSEEN, "n9", "unknown node: n9", id="no such node"),
    ],
)
def test_what_is_unknown_is_named(world: World, name: int, node: str | None, message: str) -> None:
    with pytest.raises(NothingKept, match=message):
        inspection.equivalence(world.core, name, node, 500)


def test_where_nothing_is_kept_it_says_so() -> None:
    with pytest.raises(NothingKept, match=r"equivalence\.enabled is false"):
        inspection.equivalence(World(enabled=False).core, None, None, 500)


def test_numbers_are_exported(world: World) -> None:
    look(world)
    look(world)
    world.change("Node", "n0", taint=2)
    look(world)
    kept = law.equivalence_of(world)

    def sample(name: str, **labels: str) -> Any:
        name = f"equipoise_equivalence_{name}"
        return world.core.metrics.registry.get_sample_value(name, labels)

    assert sample("hits_total") == kept.statistics.hits > 0
    assert sample("misses_total") == kept.statistics.misses > 0
    assert sample("evaluations_total") == kept.statistics.evaluated > 0
    assert sample("changes_total", aspect="taints") == 1
    assert sample("classes") == 1
    assert sample("columns") == kept.column_count > 0
    assert sample("bytes") == kept.bytes > 0
    assert sample("evictions_total") == 0
    assert sample("mixed_revisions_total") == 0


def test_where_nothing_is_kept_there_are_no_numbers() -> None:
    registry = World(enabled=False).core.metrics.registry
    assert registry.get_sample_value("equipoise_equivalence_hits_total") is None
