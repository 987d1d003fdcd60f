"""Which events may cure a rejection: a hint that skips too much leaves pods waiting for minutes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.events import ASSIGNED_POD, UNSCHEDULABLE_POD, Action, Event
from scheduler.observe.metrics import Metrics
from scheduler.plugins.enqueueing import SchedulingGates
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_identity import NodeName, NodeUnschedulable
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.taint_toleration import TaintToleration
from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod, make_worker
from tests.plugins.support import Bench, cured

CORDON = "node.kubernetes.io/unschedulable"


def node_event(action: Action, new: NodeBuilder, old: NodeBuilder | None = None) -> Event:
    return Event("Node", action, old.struct() if old else None, new.struct())


def pod_gone(pod: PodBuilder) -> Event:
    return Event(ASSIGNED_POD, Action.DELETE, pod.info())


def own_change(action: Action, new: PodBuilder) -> Event:
    return Event(UNSCHEDULABLE_POD, action, make_pod("p").info(), new.info())


def shrunk(node: str) -> Event:
    old, new = make_pod("q").cpu("2").on(node), make_pod("q").cpu("1").on(node)
    return Event(ASSIGNED_POD, Action.POD_SCALE_DOWN, old.info(), new.info())


WANTS_CPU = make_pod("p").cpu("2")
WANTS_SSD = make_pod("p").node_selector(disk="ssd")
WANTS_PORT = make_pod("p").host_port(80)
PLAIN = make_pod("p")

NODES = (make_worker("n"), make_node("tiny").cpu("1"))
"""The cluster as it is after the event."""

CASES: list[tuple[Any, PodBuilder, Event, bool, str]] = [
    (NodeName, PLAIN, node_event(Action.ADD, make_node("n")), True, "a new node"),
    (SchedulingGates, PLAIN, own_change(Action.POD_GATES_ELIMINATED, PLAIN), True, "own gates go"),
    (
        SchedulingGates,
        PLAIN,
        own_change(Action.POD_GATES_ELIMINATED, make_pod("q")),
        False,
        "gates of another pod go",
    ),
    (NodeUnschedulable, PLAIN, node_event(Action.ADD, make_node("n")), True, "an open node"),
    (
        NodeUnschedulable,
        PLAIN,
        node_event(Action.ADD, make_node("n").cordoned()),
        False,
        "a new node that is cordoned",
    ),
    (
        NodeUnschedulable,
        PLAIN,
        node_event(Action.NODE_TAINT, make_node("n"), make_node("n").cordoned()),
        True,
        "a node is uncordoned",
    ),
    (
        NodeUnschedulable,
        PLAIN,
        own_change(Action.POD_TOLERATION, make_pod("p").toleration(CORDON, "Exists")),
        True,
        "the pod learns to tolerate",
    ),
    (
        NodeUnschedulable,
        PLAIN,
        own_change(Action.POD_TOLERATION, make_pod("p").toleration("x", "Exists")),
        False,
        "the pod learns to tolerate something else",
    ),
    (TaintToleration, PLAIN, node_event(Action.ADD, make_node("n")), True, "an untainted node"),
    (
        TaintToleration,
        PLAIN,
        node_event(Action.ADD, make_node("n").taint("t")),
        False,
        "a tainted node",
    ),
    (
        TaintToleration,
        PLAIN,
        node_event(Action.NODE_TAINT, make_node("n"), make_node("n").taint("t")),
        True,
        "a taint goes",
    ),
    (
        TaintToleration,
        PLAIN,
        node_event(Action.NODE_TAINT, make_node("n").taint("t"), make_node("n")),
        False,
        "a taint comes",
    ),
    (
        TaintToleration,
        PLAIN,
        own_change(Action.POD_TOLERATION, make_pod("p").toleration("t", "Exists")),
        True,
        "the pod's own new toleration",
    ),
    (
        NodeAffinity,
        WANTS_SSD,
        node_event(Action.ADD, make_node("n").label(disk="ssd")),
        True,
        "a matching node",
    ),
    (NodeAffinity, WANTS_SSD, node_event(Action.ADD, make_node("n")), False, "another node"),
    (
        NodeAffinity,
        WANTS_SSD,
        node_event(Action.NODE_LABEL, make_node("n").label(disk="ssd"), make_node("n")),
        True,
        "a node gets the label",
    ),
    (
        NodeAffinity,
        WANTS_SSD,
        node_event(
            Action.NODE_LABEL,
            make_node("n").label(disk="ssd", new="x"),
            make_node("n").label(disk="ssd"),
        ),
        False,
        "a node that matched all along",
    ),
    (
        NodePorts,
        WANTS_PORT,
        pod_gone(make_pod("q").host_port(80).on("n")),
        True,
        "the port is free",
    ),
    (NodePorts, WANTS_PORT, pod_gone(make_pod("q").host_port(81).on("n")), False, "another port"),
    (NodePorts, WANTS_PORT, pod_gone(make_pod("q").host_port(80)), False, "it held no node"),
    (NodePorts, WANTS_PORT, node_event(Action.ADD, make_node("n")), True, "a new node, any ports"),
    (NodeResourcesFit, WANTS_CPU, pod_gone(make_pod("q").on("n")), True, "now there is room"),
    (NodeResourcesFit, WANTS_CPU, pod_gone(make_pod("q").on("tiny")), False, "still no room there"),
    (NodeResourcesFit, WANTS_CPU, pod_gone(make_pod("q").on("gone")), False, "its node is gone"),
    (NodeResourcesFit, WANTS_CPU, pod_gone(make_pod("q")), False, "a waiting pod is deleted"),
    (NodeResourcesFit, WANTS_CPU, node_event(Action.ADD, make_worker("n")), True, "a large node"),
    (
        NodeResourcesFit,
        WANTS_CPU,
        node_event(Action.ADD, make_node("n").cpu("1")),
        False,
        "a node that is too small when empty",
    ),
    (
        NodeResourcesFit,
        WANTS_CPU,
        node_event(Action.NODE_ALLOCATABLE, make_node("n").cpu("4"), make_node("n").cpu("3")),
        True,
        "a node grows",
    ),
    (
        NodeResourcesFit,
        WANTS_CPU,
        node_event(
            Action.NODE_ALLOCATABLE,
            make_node("n").cpu("3").memory("2"),
            make_node("n").cpu("3").memory("1"),
        ),
        False,
        "a node grows in what the pod does not ask for",
    ),
    (NodeResourcesFit, WANTS_CPU, shrunk("n"), True, "a pod shrinks and there is room"),
    (NodeResourcesFit, WANTS_CPU, shrunk("tiny"), False, "a pod shrinks and there is no room"),
    (
        NodeResourcesFit,
        WANTS_CPU,
        own_change(Action.POD_SCALE_DOWN, make_pod("p").cpu("1")),
        True,
        "the pod itself asks for less",
    ),
]


@pytest.mark.parametrize(
    ("plugin", "pod", "event", "cures"),
    [pytest.param(*case[:4], id=f"{case[0].name}: {case[4]}") for case in CASES],
)
def test_hint(plugin: Any, pod: PodBuilder, event: Event, cures: bool) -> None:
    hints = Bench(plugin, NODES).framework.hints()
    metrics = Metrics()
    assert cured(plugin.name, hints, pod.info(), event, metrics) is cures
    # A hint that raises counts as a cure, and must not pass for one here.
    assert not [each for family in metrics.plugin_errors.collect() for each in family.samples]
