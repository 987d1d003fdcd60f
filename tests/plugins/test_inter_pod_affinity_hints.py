"""Which events may bring a pod back that inter-pod affinity keeps waiting."""

from __future__ import annotations

import pytest

from scheduler.model.events import ASSIGNED_POD, UNSCHEDULABLE_POD, Action, Event
from scheduler.model.objects import Namespace, from_dict
from scheduler.observe.metrics import Metrics
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod, pod_term
from tests.plugins.support import Bench, cured

X = {"app": "x"}
Y = {"app": "y"}
IN_PROD = {"namespaceSelector": {"matchLabels": {"env": "prod"}}}

PLAIN = make_pod("p").label(**Y)
FRIENDLY = make_pod("p").near(pod_term("zone", X))
SERIAL = make_pod("p").label(**X).near(pod_term("zone", X))
SHY = make_pod("p").apart(pod_term("zone", X), pod_term("host", Y))
IN_COMPANY_OF_PROD = make_pod("p").near(pod_term("zone", X, **IN_PROD))

RUNNING = (make_pod("r").on("n").apart(pod_term("rack", Y)),)
"""The cluster after the event: one pod, with anti-affinity to y in its rack."""


def other() -> PodBuilder:
    return make_pod("q").on("n")


def came(pod: PodBuilder) -> Event:
    return Event(ASSIGNED_POD, Action.ADD, None, pod.info())


def went(pod: PodBuilder) -> Event:
    return Event(ASSIGNED_POD, Action.DELETE, pod.info())


def relabelled(old: PodBuilder, new: PodBuilder) -> Event:
    return Event(ASSIGNED_POD, Action.POD_LABEL, old.info(), new.info())


def node_came(node: NodeBuilder) -> Event:
    return Event("Node", Action.ADD, None, node.struct())


def node_moved(old: NodeBuilder, new: NodeBuilder) -> Event:
    return Event("Node", Action.NODE_LABEL, old.struct(), new.struct())


def namespace(name: str, **labels: str) -> Event:
    raw = {"metadata": {"name": name, "labels": labels}}
    bare = from_dict({"metadata": {"name": name}}, Namespace)
    return Event("Namespace", Action.UPDATE, bare, from_dict(raw, Namespace))


CASES: list[tuple[PodBuilder, Event, bool, str]] = [
    (FRIENDLY, came(other().label(**X)), True, "company comes"),
    (FRIENDLY, came(other().label(**Y)), False, "a stranger comes"),
    (FRIENDLY, came(make_pod("q").label(**X)), False, "company that has no node"),
    (FRIENDLY, relabelled(other(), other().label(**X)), True, "a pod becomes company"),
    (
        FRIENDLY,
        relabelled(other().label(**X), other().label(**X, new="n")),
        False,
        "company changes something else",
    ),
    (FRIENDLY, went(other().label(**X)), False, "company leaves"),
    (SERIAL, went(other().label(**X)), True, "now it may be the first of its series"),
    (
        SERIAL,
        relabelled(other().label(**X), other().label(**X, new="n")),
        False,
        "the first of the series changes something else",
    ),
    (PLAIN, came(other().label(**X)), False, "somebody comes to a pod that wants nobody"),
    (SHY, went(other().label(**X)), True, "an avoided pod leaves"),
    (SHY, went(other().label(**Y)), True, "a pod leaves that only the second term avoids"),
    (SHY, went(other().label(app="z")), False, "an unrelated pod leaves"),
    (SHY, relabelled(other().label(**X), other()), True, "a pod is avoided no more"),
    (SHY, came(other()), False, "anybody comes"),
    (PLAIN, went(other().apart(pod_term("zone", Y))), True, "a pod that kept it away leaves"),
    (PLAIN, went(other().apart(pod_term("zone", X))), False, "a pod that keeps others away leaves"),
    (
        PLAIN,
        Event(UNSCHEDULABLE_POD, Action.POD_LABEL, PLAIN.info(), make_pod("p").info()),
        True,
        "its own labels change",
    ),
    (FRIENDLY, node_came(make_node("m").label(zone="1")), True, "a node in some zone"),
    (FRIENDLY, node_came(make_node("m")), False, "a node in no zone"),
    (SHY, node_came(make_node("m")), True, "a node in no zone, for a pod that wants none"),
    (PLAIN, node_came(make_node("m")), True, "a node without pods that keep it away"),
    (
        FRIENDLY,
        node_moved(make_node("n"), make_node("n").label(zone="1")),
        True,
        "a node gets a zone",
    ),
    (
        SHY,
        node_moved(make_node("n").label(host="1"), make_node("n").label(host="2")),
        True,
        "a node moves",
    ),
    (
        PLAIN,
        node_moved(make_node("n").label(rack="1"), make_node("n").label(rack="2")),
        True,
        "the pod that keeps it away moves with its node",
    ),
    (
        FRIENDLY,
        node_moved(make_node("n").label(rack="1"), make_node("n").label(rack="2")),
        False,
        "a node moves to another rack, where only zones matter",
    ),
    (IN_COMPANY_OF_PROD, namespace("other", env="prod"), True, "a namespace becomes prod"),
    (IN_COMPANY_OF_PROD, namespace("other"), False, "a namespace changes but not its labels"),
    (FRIENDLY, namespace("other", env="prod"), False, "labels of namespaces that nobody asks for"),
    (PLAIN, namespace("default", env="prod"), True, "its own namespace, which others may ask for"),
]


@pytest.mark.parametrize(
    ("pod", "event", "cures"), [pytest.param(*case[:3], id=case[3]) for case in CASES]
)
def test_hint(pod: PodBuilder, event: Event, cures: bool) -> None:
    hints = Bench(InterPodAffinity, [make_node("n")], RUNNING).framework.hints()
    metrics = Metrics()
    assert cured(InterPodAffinity.name, hints, pod.info(), event, metrics) is cures
    # A hint that raises counts as a cure.
    errors = metrics.plugin_errors.collect()
    assert not [sample for family in errors for sample in family.samples if sample.value]
