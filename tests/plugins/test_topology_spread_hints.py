"""Which events may cure a pod that topology spread rejected."""

from __future__ import annotations

import pytest

from scheduler.model.events import ASSIGNED_POD, UNSCHEDULABLE_POD, Action, Event
from scheduler.observe.metrics import Metrics
from scheduler.plugins.topology_spread import PodTopologySpread
from tests.builders import NodeBuilder, PodBuilder, constraint, make_node, make_pod
from tests.plugins.support import Bench
from tests.plugins.support import cured as wakes

APP_X = {"matchLabels": {"app": "x"}}


def waiting() -> PodBuilder:
    return make_pod("p").spread(
        constraint("zone", labelSelector=APP_X), constraint("rack", labelSelector=APP_X)
    )


def other(app: str, namespace: str = "default") -> PodBuilder:
    return make_pod("q", namespace).label(app=app).on("n")


def member(zone: str = "a", rack: str = "1") -> NodeBuilder:
    return make_node("n").label(zone=zone, rack=rack)


def of_pods(action: Action, old: PodBuilder | None, new: PodBuilder | None) -> Event:
    return Event(ASSIGNED_POD, action, old and old.info(), new and new.info())


def of_nodes(action: Action, old: NodeBuilder | None, new: NodeBuilder | None) -> Event:
    return Event("Node", action, old and old.struct(), new and new.struct())


def of_itself(action: Action, old: PodBuilder, new: PodBuilder) -> Event:
    return Event(UNSCHEDULABLE_POD, action, old.info(), new.info())


CASES: dict[str, tuple[Event, bool]] = {
    "a selected pod comes": (of_pods(Action.ADD, None, other("x")), True),
    "a selected pod goes": (of_pods(Action.DELETE, other("x"), None), True),
    "another pod comes": (of_pods(Action.ADD, None, other("y")), False),
    "another pod goes": (of_pods(Action.DELETE, other("y"), None), False),
    "a pod elsewhere goes": (of_pods(Action.DELETE, other("x", "other"), None), False),
    "a pod that had no node goes": (
        of_pods(Action.DELETE, make_pod("q").label(app="x"), None),
        False,
    ),
    "a pod that is nominated to a node goes": (
        of_pods(Action.DELETE, make_pod("q").label(app="x").status(nominatedNodeName="n"), None),
        True,
    ),
    "a pod becomes selected": (of_pods(Action.POD_LABEL, other("y"), other("x")), True),
    "a pod ceases to be selected": (of_pods(Action.POD_LABEL, other("x"), other("y")), True),
    "a pod stays selected": (
        of_pods(Action.POD_LABEL, other("x"), other("x").label(tier="web")),
        False,
    ),
    "the pod itself becomes selected": (
        of_itself(Action.POD_LABEL, waiting(), waiting().label(app="x")),
        True,
    ),
    "the pod tolerates more, which matters to no constraint": (
        of_itself(Action.POD_TOLERATION, waiting(), waiting().toleration("a", "Exists")),
        False,
    ),
    "a node comes": (of_nodes(Action.ADD, None, member()), True),
    "a node goes": (of_nodes(Action.DELETE, member(), None), True),
    "a node without rack comes": (
        of_nodes(Action.ADD, None, make_node("n").label(zone="a")),
        False,
    ),
    "a node without rack goes": (
        of_nodes(Action.DELETE, make_node("n").label(zone="a"), None),
        False,
    ),
    "a node gets a rack": (
        of_nodes(Action.NODE_LABEL, make_node("n").label(zone="a"), member()),
        True,
    ),
    "a node loses its rack": (
        of_nodes(Action.NODE_LABEL, member(), make_node("n").label(zone="a")),
        True,
    ),
    "a node moves": (of_nodes(Action.NODE_LABEL, member(), member(zone="b")), True),
    "a node gets another label": (
        of_nodes(Action.NODE_LABEL, member(), member().label(disk="ssd")),
        False,
    ),
    "a node without rack moves": (
        of_nodes(Action.NODE_LABEL, make_node("n").label(zone="a"), make_node("n").label(zone="b")),
        False,
    ),
    "a node's taint goes": (of_nodes(Action.NODE_TAINT, member().taint("a"), member()), True),
    "the taint of a node without rack goes": (
        of_nodes(Action.NODE_TAINT, make_node("n").taint("a"), make_node("n")),
        False,
    ),
}


def cured(pod: PodBuilder, event: Event) -> bool:
    metrics = Metrics()
    hints = Bench(PodTopologySpread, ()).framework.hints()
    verdict = wakes(PodTopologySpread.name, hints, pod.info(), event, metrics)
    # A hint that raises counts as a cure.
    errors = metrics.plugin_errors.collect()
    assert not [sample for family in errors for sample in family.samples if sample.value]
    return verdict


@pytest.mark.parametrize(("event", "cures"), CASES.values(), ids=CASES)
def test_hint(event: Event, cures: bool) -> None:
    assert cured(waiting(), event) is cures


def test_a_new_toleration_cures_where_taints_count() -> None:
    pod = make_pod("p").spread(constraint("zone", labelSelector=APP_X, nodeTaintsPolicy="Honor"))
    tolerant = make_pod("p").toleration("a", "Exists")
    assert cured(pod, of_itself(Action.POD_TOLERATION, make_pod("p"), tolerant))
    another = of_pods(Action.POD_TOLERATION, other("x"), other("x").toleration("a", "Exists"))
    assert not cured(pod, another)
