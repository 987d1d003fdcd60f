"""NodeConditions against each condition read by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.events import Action, Event
from scheduler.model.status import SUCCESS, Status, unresolvable
from scheduler.plugins.node_conditions import NodeConditions, is_best_effort
from tests.builders import Json, NodeBuilder, PodBuilder, make_node, make_pod
from tests.plugins.support import Bench

STATUSES = ("True", "False", "Unknown")
TYPES = ("Ready", "NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure", "Leaky")


def node_with(conditions: dict[str, str], name: str = "n") -> NodeBuilder:
    listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return make_node(name).status(conditions=listed)


def expected(conditions: dict[str, str], best_effort: bool) -> Status:
    reasons = []
    if conditions.get("Ready", "True") != "True":
        reasons.append("node(s) were not ready")
    if conditions.get("NetworkUnavailable", "False") != "False":
        reasons.append("node(s) had unavailable network")
    if best_effort and conditions.get("MemoryPressure") == "True":
        reasons.append("node(s) had memory pressure")
    if conditions.get("DiskPressure") == "True":
        reasons.append("node(s) had disk pressure")
    if conditions.get("PIDPressure") == "True":
        reasons.append("node(s) had pid pressure")
    return unresolvable(*reasons).by("NodeConditions") if reasons else SUCCESS


conditions_of_nodes = st.lists(
    st.dictionaries(st.sampled_from(TYPES), st.sampled_from(STATUSES)), min_size=1, max_size=5
)


@given(conditions_of_nodes, conditions_of_nodes)
def test_every_node(first: list[dict[str, str]], later: list[dict[str, str]]) -> None:
    bench = Bench(NodeConditions, (node_with(c, f"n{i}") for i, c in enumerate(first)))
    greedy, modest = make_pod("p").cpu("1"), make_pod("p")
    known = {f"n{i}": conditions for i, conditions in enumerate(first)}
    for conditions in ({}, *later):
        bench.state.set_node(node_with(conditions, "n0").struct())
        known["n0"] = conditions
        for pod, best_effort in ((greedy, False), (modest, True)):
            assert bench.verdicts(pod) == {
                name: expected(its, best_effort) for name, its in known.items()
            }


QUALITY: dict[str, tuple[PodBuilder, bool]] = {
    "nothing asked for": (make_pod("p"), True),
    "nothing asked for in numbers": (make_pod("p").cpu("0").memory("0"), True),
    "only a device asked for": (make_pod("p").request("example.com/gpu", 1), True),
    "some memory asked for": (make_pod("p").memory("1"), False),
    "an init container that asks": (make_pod("p").init_container({"cpu": "1m"}), False),
    "a limit only": (
        make_pod("p").spec(containers=[{"name": "c", "resources": {"limits": {"cpu": 1}}}]),
        False,
    ),
    "a limit nobody understands": (
        make_pod("p").spec(containers=[{"name": "c", "resources": {"limits": {"cpu": "?"}}}]),
        False,
    ),
    "the pod as a whole asks": (make_pod("p").pod_level({"cpu": "1"}), False),
    "the pod as a whole has the last word": (make_pod("p").cpu("1").pod_level({"cpu": "0"}), True),
}


@pytest.mark.parametrize(("pod", "best_effort"), QUALITY.values(), ids=QUALITY.keys())
def test_what_is_best_effort(pod: PodBuilder, best_effort: bool) -> None:
    assert is_best_effort(pod.info()) is best_effort


def changed(new: Json, old: Json | None = None) -> Event:
    action = Action.ADD if old is None else Action.NODE_CONDITION
    before = None if old is None else node_with(old).struct()
    return Event("Node", action, before, node_with(new).struct())


EVENTS = {
    "a node that is well": (changed({"Ready": "True"}), True),
    "a node that is not ready yet": (changed({"Ready": "False"}), False),
    "a node gets well": (changed({"Ready": "True"}, {"Ready": "Unknown"}), True),
    "a node stays well": (changed({"Ready": "True"}, {"Ready": "True", "Leaky": "True"}), False),
    "one trouble of two goes": (
        changed({"DiskPressure": "True"}, {"DiskPressure": "True", "PIDPressure": "True"}),
        False,
    ),
    "memory pressure goes": (changed({}, {"MemoryPressure": "True"}), True),
}


@pytest.mark.parametrize(("event", "cures"), EVENTS.values(), ids=EVENTS.keys())
def test_what_may_cure_a_rejection(event: Event, cures: bool) -> None:
    assert Bench(NodeConditions, []).wakes(make_pod("p"), event) is cures


def test_memory_pressure_is_nothing_to_a_pod_that_asked_for_memory() -> None:
    relieved = changed({}, {"MemoryPressure": "True"})
    assert not Bench(NodeConditions, []).wakes(make_pod("p").memory("1"), relieved)


def test_verdicts_follow_when_sets_of_conditions_are_numbered_anew() -> None:
    bench = Bench(NodeConditions, [node_with({"Ready": "True"})])
    generation = bench.state.columns.conditions.interner.generation
    for number in range(500):
        conditions = {f"Type{number}": "True", "Ready": "True" if number % 2 else "False"}
        bench.state.set_node(node_with(conditions).struct())
        assert bench.verdicts(make_pod("p")) == {"n": expected(conditions, True)}
    assert bench.state.columns.conditions.interner.generation > generation
