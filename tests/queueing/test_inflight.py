"""Events that happen while pods are being scheduled."""

from __future__ import annotations

import msgspec

from scheduler.model.events import Action, Event
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Metrics
from scheduler.queueing.in_flight import InFlightPods
from tests.builders import make_node

from .support import GROUP_ADD, NODE_ADD, POD_DELETE, make_pod

A, B = make_pod("a"), make_pod("b")


def missed(flights: InFlightPods, info: PodInfo) -> list[Event] | None:
    flight = flights.get(info.uid)
    assert flight is not None
    return flights.missed(flight)


def test_a_pod_misses_exactly_the_events_since_its_own_pop() -> None:
    flights = InFlightPods(Metrics())
    flights.begin(A)
    flights.record(NODE_ADD)
    flights.begin(B)
    flights.record(POD_DELETE)
    assert missed(flights, A) == [NODE_ADD, POD_DELETE]
    assert missed(flights, B) == [POD_DELETE]
    flights.end(A.uid)
    assert missed(flights, B) == [POD_DELETE]


def test_an_event_can_leave_out_one_pod() -> None:
    flights = InFlightPods(Metrics())
    flights.begin(A)
    flights.begin(B)
    event = msgspec.structs.replace(POD_DELETE, exclude=A.uid)
    flights.record(event)
    assert missed(flights, A) == []
    assert missed(flights, B) == [event]


def test_memory_and_gauge_return_to_nothing() -> None:
    metrics = Metrics()
    flights = InFlightPods(metrics)
    flights.record(NODE_ADD)
    flights.begin(A)
    flights.begin(B)
    flights.record(NODE_ADD)

    def gauge(event: str) -> float | None:
        return metrics.registry.get_sample_value("scheduler_inflight_events", {"event": event})

    assert (gauge("NodeAdd"), gauge("PodPopped")) == (1, 2)
    flights.end(A.uid)
    assert (gauge("NodeAdd"), gauge("PodPopped")) == (1, 1)
    flights.end(B.uid)
    flights.end(B.uid)
    assert (gauge("NodeAdd"), gauge("PodPopped")) == (0, 0)
    assert len(flights) == 0


def test_a_pod_is_told_when_too_much_happened_to_be_remembered() -> None:
    flights = InFlightPods(Metrics(), limit=2)
    flights.begin(A)
    flights.record(NODE_ADD)
    flights.begin(B)
    flights.record(POD_DELETE)
    flights.record(GROUP_ADD)
    assert missed(flights, A) is None
    assert missed(flights, B) == [POD_DELETE, GROUP_ADD]


def test_old_versions_that_only_events_keep_are_bounded_in_bytes() -> None:
    in_flight = InFlightPods(Metrics(), max_bytes=1000)
    in_flight.begin(A)
    flight = in_flight.get(A.uid)
    assert flight is not None
    for size in (400, 400):
        in_flight.record(Event("Node", Action.DELETE, _sized(size)))
    assert in_flight.missed(flight) is not None
    assert in_flight.usage() == (2, 800, 0)
    in_flight.record(Event("Node", Action.DELETE, _sized(700)))
    assert in_flight.missed(flight) is None
    assert in_flight.usage() == (1, 700, 2)
    in_flight.record(Event("Node", Action.ADD, None, _sized(5000)))
    assert in_flight.usage() == (2, 700, 2), "the new version is kept anyway"
    in_flight.end(A.uid)
    assert in_flight.usage() == (0, 0, 2)


def _sized(json_bytes: int) -> Node:
    node = make_node("n").struct()
    msgspec.structs.force_setattr(node.metadata, "json_bytes", json_bytes)
    return node


class Names(tuple[str, ...]):
    """Names that count how often they are searched."""

    searched = 0

    def __contains__(self, name: object) -> bool:
        Names.searched += 1
        return super().__contains__(name)


def test_activating_a_pod_visits_no_other_that_is_in_flight() -> None:
    flights = InFlightPods(Metrics())
    others = [make_pod(f"other-{number}") for number in range(100)]
    for each in (*others, A):
        flights.begin(each)
    Names.searched = 0
    flights.activate(Names((A.key, "no/such-pod")))
    assert Names.searched == 0
    activated = [each.key for each in (*others, A) if (f := flights.get(each.uid)) and f.activated]
    assert activated == [A.key]


def test_of_two_pods_with_one_name_the_later_is_activated() -> None:
    flights = InFlightPods(Metrics())
    again = PodInfo(
        msgspec.structs.replace(A.pod, metadata=msgspec.structs.replace(A.pod.metadata, uid="new"))
    )
    flights.begin(A)
    flights.begin(again)
    flights.end(A.uid)
    flights.activate((A.key,))
    flight = flights.get("new")
    assert flight is not None
    assert flight.activated
    flights.end("new")
    flights.activate((A.key,))  # nobody of that name is left
