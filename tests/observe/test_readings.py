"""Numbers that are read at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest

from scheduler.observe.metrics import Metrics
from scheduler.observe.readings import Reading, Readings


def exposed(readings: Readings) -> list[str]:
    registry = CollectorRegistry()
    registry.register(readings)
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("# HELP")]


def test_without_a_source_there_is_nothing() -> None:
    assert exposed(Readings()) == []


def test_values_are_those_of_the_moment() -> None:
    number = 1

    def source() -> Iterator[Reading]:
        yield Reading("cars", "Cars.", number)
        yield Reading("miles_total", "Miles.", {"red": number, "blue": 2 * number}, "colour")

    readings = Readings()
    readings.follow(source)
    number = 3
    assert exposed(readings) == [
        "# TYPE cars gauge",
        "cars 3.0",
        "# TYPE miles_total counter",
        'miles_total{colour="red"} 3.0',
        'miles_total{colour="blue"} 6.0',
    ]


def test_the_last_source_counts() -> None:
    metrics = Metrics()
    metrics.readings.follow(lambda: [Reading("cars", "Cars.", 1)])
    metrics.readings.follow(lambda: [Reading("cars", "Cars.", 2)])
    assert metrics.registry.get_sample_value("cars") == 2
