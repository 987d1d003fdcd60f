"""ServiceAffinity against a naive reading: the first pod's node decides for those like it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.plugin_args import ServiceAffinityArgs
from scheduler.model.events import ASSIGNED_POD, Action, Event
from scheduler.model.objects import Service, from_dict
from scheduler.model.status import SUCCESS, unschedulable
from scheduler.plugins.service_affinity import ServiceAffinity
from scheduler.state.scratch import scratch
from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod
from tests.plugins.support import Bench

APART = unschedulable("node(s) didn't match service affinity").by("ServiceAffinity")
X = {"app": "x"}

Labels = dict[str, str]


def service(namespace: str = "default", **selector: str) -> Service:
    raw = {"metadata": {"name": "s", "namespace": namespace}, "spec": {"selector": selector}}
    return from_dict(raw, Service)


def bench_of(
    nodes: Iterable[NodeBuilder],
    pods: Iterable[PodBuilder] = (),
    labels: Sequence[str] = ("zone",),
    services: Iterable[Service] = (service(app="x"),),
) -> Bench:
    bench = Bench(ServiceAffinity, nodes, pods, ServiceAffinityArgs(labels=tuple(labels)))
    for one in services:
        bench.state.set_object("Service", one.metadata.key, one)
    return bench


some_labels = st.dictionaries(st.sampled_from(("zone", "rack")), st.sampled_from("ab"))
pod_labels = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from("xy"))


@st.composite
def running_pods(draw: st.DrawFn) -> list[tuple[Labels, str, str, str]]:
    """Labels, node, namespace and age of a few pods."""
    number = draw(st.integers(0, 4))
    node, home = st.sampled_from(("n0", "n1", "n2", "gone")), st.sampled_from(("default", "other"))
    ages = draw(st.permutations(range(number)))
    times = [f"2026-01-0{age + 1}T00:00:00Z" for age in ages]
    return [(draw(pod_labels), draw(node), draw(home), time) for time in times]


@given(
    nodes=st.lists(some_labels, min_size=3, max_size=3),
    running=running_pods(),
    configured=st.sampled_from(((), ("zone",), ("zone", "rack"))),
    labels=pod_labels,
    selector=some_labels,
    selects=st.sampled_from(({}, X, {"app": "x", "tier": "y"})),
)
def test_every_node(
    nodes: list[Labels],
    running: list[tuple[Labels, str, str, str]],
    configured: tuple[str, ...],
    labels: Labels,
    selector: Labels,
    selects: Labels,
) -> None:
    pods = []
    for i, (its_labels, node, home, time) in enumerate(running):
        pod = make_pod(f"r{i}", home).label(**its_labels).on(node)
        pods.append(pod.meta(creationTimestamp=time))
    named = {f"n{i}": its_labels for i, its_labels in enumerate(nodes)}
    built = [make_node(name).label(**its_labels) for name, its_labels in named.items()]
    bench = bench_of(built, pods, configured, [service(**selects)])

    kin = [
        (time, node)
        for its_labels, node, home, time in running
        if home == "default" and node in named and labels.items() <= its_labels.items()
    ]
    served = bool(selects) and selects.items() <= labels.items()
    example = named[min(kin)[1]] if served and kin else {}
    wanted = {key: value for key, value in (example | selector).items() if key in configured}
    assert bench.verdicts(make_pod("p").label(**labels).node_selector(**selector)) == {
        name: SUCCESS if wanted.items() <= its_labels.items() else APART
        for name, its_labels in named.items()
    }


ZONES = (make_node("a").label(zone="a"), make_node("b").label(zone="b"))


def test_pods_that_are_added_to_see_what_would_be_count() -> None:
    bench = bench_of(ZONES)
    pod = make_pod("p").label(**X)
    assert bench.verdicts(pod) == {"a": SUCCESS, "b": SUCCESS}
    with scratch(bench.state) as changes:
        changes.add(make_pod("first").label(**X).info(), "b")
        assert bench.verdicts(pod) == {"a": APART, "b": SUCCESS}
    assert bench.verdicts(pod) == {"a": SUCCESS, "b": SUCCESS}


def of_pods(action: Action, old: PodBuilder | None, new: PodBuilder | None) -> Event:
    return Event(ASSIGNED_POD, action, old and old.info(), new and new.info())


def of_nodes(action: Action, old: NodeBuilder | None, new: NodeBuilder | None) -> Event:
    return Event("Node", action, old and old.struct(), new and new.struct())


KIN, STRANGER = make_pod("q").label(**X).on("a"), make_pod("q").on("a")
EVENTS = {
    "kin goes": (of_pods(Action.DELETE, KIN, None), True),
    "kin comes": (of_pods(Action.ADD, None, KIN), True),
    "a stranger goes": (of_pods(Action.DELETE, STRANGER, None), False),
    "kin becomes a stranger": (of_pods(Action.POD_LABEL, KIN, STRANGER), True),
    "a service goes": (Event("Service", Action.DELETE, service(app="x"), None), True),
    "a service elsewhere goes": (
        Event("Service", Action.DELETE, service("other", app="x"), None),
        False,
    ),
    "a node comes": (of_nodes(Action.ADD, None, make_node("c")), True),
    "a node goes": (of_nodes(Action.DELETE, ZONES[0], None), True),
    "a node moves": (of_nodes(Action.NODE_LABEL, ZONES[0], make_node("a").label(zone="b")), True),
    "a node gets another label": (
        of_nodes(Action.NODE_LABEL, ZONES[0], make_node("a").label(zone="a", disk="ssd")),
        False,
    ),
}


@pytest.mark.parametrize(("event", "cures"), EVENTS.values(), ids=EVENTS.keys())
def test_what_may_cure_a_rejection(event: Event, cures: bool) -> None:
    assert bench_of(ZONES).wakes(make_pod("p").label(**X), event) is cures
