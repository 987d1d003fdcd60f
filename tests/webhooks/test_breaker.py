"""The circuit breaker, in a time of its own."""

from __future__ import annotations

from scheduler.webhooks.caller import Breaker, BreakerState
from tests.pipeline.support import FakeClock


class Shown(list[float]):
    """What the metric was set to."""


def a_breaker(clock: FakeClock, shown: Shown | None = None) -> Breaker:
    return Breaker(3, 10.0, show=(shown if shown is not None else Shown()).append, clock=clock)


def opened(clock: FakeClock, shown: Shown | None = None) -> Breaker:
    breaker = a_breaker(clock, shown)
    for _ in range(3):
        assert breaker.admit()
        breaker.failed()
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = a_breaker(FakeClock())
    for _ in range(2):
        breaker.failed()
    assert breaker.admit()
    breaker.failed()
    assert breaker.state is BreakerState.OPEN
    assert not breaker.admit()


def test_an_answer_in_between_starts_the_count_again() -> None:
    breaker = a_breaker(FakeClock())
    for _ in range(10):
        breaker.failed()
        breaker.failed()
        breaker.succeeded()
    assert breaker.state is BreakerState.CLOSED


def test_when_its_time_is_up_one_call_tries_and_the_others_do_not() -> None:
    clock = FakeClock()
    breaker = opened(clock)
    clock.advance(9.9)
    assert not breaker.admit()
    clock.advance(0.2)
    assert breaker.admit()
    assert breaker.state is BreakerState.HALF_OPEN
    assert not breaker.admit()


def test_a_try_that_is_answered_closes_it() -> None:
    clock = FakeClock()
    breaker = opened(clock)
    clock.advance(11)
    assert breaker.admit()
    breaker.succeeded()
    assert breaker.state is BreakerState.CLOSED
    assert breaker.admit()


def test_a_try_that_fails_opens_it_for_as_long_again() -> None:
    clock = FakeClock()
    breaker = opened(clock)
    clock.advance(11)
    assert breaker.admit()
    breaker.failed()
    clock.advance(9.9)
    assert not breaker.admit()
    clock.advance(0.2)
    assert breaker.admit()


def test_a_try_that_was_given_up_lets_another_try() -> None:
    clock = FakeClock()
    breaker = opened(clock)
    clock.advance(11)
    assert breaker.admit()
    breaker.abandoned()
    assert breaker.admit()


def test_its_state_is_shown() -> None:
    clock, shown = FakeClock(), Shown()
    breaker = opened(clock, shown)
    clock.advance(11)
    breaker.admit()
    breaker.succeeded()
    assert shown == [
        BreakerState.CLOSED,
        BreakerState.OPEN,
        BreakerState.HALF_OPEN,
        BreakerState.CLOSED,
    ]
