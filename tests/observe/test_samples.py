"""Samples of throughput, latency and queue."""

from __future__ import annotations

import pytest

from scheduler.observe.decisions import Decisions
from scheduler.observe.samples import MAX_SAMPLES, Samples


class World:
    """Decisions and a clock that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tiers = {"active": 0}
        self.decisions = Decisions(capacity=16, clock=lambda: self.now)
        self.samples = Samples(
            self.decisions,
            lambda: self.tiers,
            clock=lambda: self.now,
            wall=lambda: 1000 + self.now,
        )

    def decide(self, *seconds: float, bound: bool = True) -> None:
        for each in seconds:
            self.decisions.record("a/b", "scheduled" if bound else "unschedulable", duration=each)


def test_a_sample_has_rates_and_quantiles_of_its_interval() -> None:
    world = World()
    world.decide(9.0)
    world.now = 1.0
    world.samples.take()
    world.decide(0.001, 0.002, 0.004)
    world.decide(0.003, bound=False)
    world.now, world.tiers = 3.0, {"active": 7}
    sample = world.samples.take()
    assert (sample.bound, sample.attempts) == (1.5, 2.0)
    assert (sample.p50, sample.p99) == (3.0, 4.0)
    assert (sample.time, sample.tiers) == (1003.0, {"active": 7})


def test_an_interval_without_attempts_has_no_latency() -> None:
    world = World()
    world.now = 2.0
    sample = world.samples.take()
    assert (sample.p50, sample.p99, sample.attempts) == (None, None, 0)


def test_more_decisions_than_are_kept_are_counted() -> None:
    world = World()
    world.decide(*[0.001] * 100)
    world.now = 1.0
    assert world.samples.take().bound == 100


def test_the_oldest_samples_go_first() -> None:
    world = World()
    for _ in range(MAX_SAMPLES + 5):
        world.now += 1
        world.samples.take()
    series = world.samples.series()
    assert len(series["time"]) == len(series["tiers"]["active"]) == MAX_SAMPLES
    assert series["time"][0] == 1006
    assert world.samples.taken == MAX_SAMPLES + 5
    assert world.samples.usage().entries == MAX_SAMPLES


@pytest.mark.parametrize(("since", "most", "found"), [(0, 9, [1, 2, 3]), (1, 1, [3]), (3, 9, [])])
def test_decisions_since_a_number(since: int, most: int, found: list[int]) -> None:
    world = World()
    world.decide(1, 2, 3)
    assert [each.seq for each in world.decisions.since(since, most)] == found
