"""Events that happen while pods are being scheduled."""

from __future__ import annotations

from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Metrics
from scheduler.queueing.inflight import InFlight

from .support import GROUP_ADD, NODE_ADD, POD_DELETE, make_pod

A, B = make_pod("a"), make_pod("b")


def missed(flights: InFlight, info: PodInfo) -> list[Event] | None:
    flight = flights.get(info.uid)
    assert flight is not None
    return flights.missed(flight)


def test_a_pod_misses_exactly_the_events_since_its_own_pop() -> None:
    flights = InFlight(Metrics())
    flights.begin(A)
    flights.record(NODE_ADD)
    flights.begin(B)
    flights.record(POD_DELETE)
    assert missed(flights, A) == [NODE_ADD, POD_DELETE]
    assert missed(flights, B) == [POD_DELETE]
    flights.end(A.uid)
    assert missed(flights, B) == [POD_DELETE]


def test_an_event_can_leave_out_one_pod() -> None:
    flights = InFlight(Metrics())
    flights.begin(A)
    flights.begin(B)
    flights.record(POD_DELETE, exclude=A.uid)
    assert missed(flights, A) == []
    assert missed(flights, B) == [POD_DELETE]


def test_memory_and_gauge_return_to_nothing() -> None:
    metrics = Metrics()
    flights = InFlight(metrics)
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
    flights = InFlight(Metrics(), limit=2)
    flights.begin(A)
    flights.record(NODE_ADD)
    flights.begin(B)
    flights.record(POD_DELETE)
    flights.record(GROUP_ADD)
    assert missed(flights, A) is None
    assert missed(flights, B) == [POD_DELETE, GROUP_ADD]
