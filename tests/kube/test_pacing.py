"""Waiting: delays double with jitter, the bucket lets a burst through and then the rate."""

import pytest

from scheduler.kube.pacing import RateLimit, RetryDelays

from .support import ManualClock


def test_delays_double_up_to_the_limit_and_begin_again_after_a_success() -> None:
    backoff = RetryDelays(1.0, 5.0, rng=lambda: 0.5)
    assert [backoff.next() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert backoff.next() == 1.0


@pytest.mark.parametrize(("random", "delay"), [(0.0, 5.0), (0.5, 10.0), (1.0, 15.0)])
def test_jitter_spreads_a_delay_by_half_to_each_side(random: float, delay: float) -> None:
    assert RetryDelays(10.0, 60.0, rng=lambda: random).next() == delay


def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    limit = RateLimit(qps=10, burst=3, clock=ManualClock())
    waits = [limit.reserve() for _ in range(5)]
    assert waits == pytest.approx([0, 0, 0, 0.1, 0.2])


def test_an_idle_bucket_fills_to_the_burst_and_no_further() -> None:
    clock = ManualClock()
    limit = RateLimit(qps=10, burst=2, clock=clock)
    for _ in range(4):
        limit.reserve()
    clock.now += 3600
    assert [limit.reserve() for _ in range(3)] == pytest.approx([0, 0, 0.1])


@pytest.mark.parametrize(("qps", "burst"), [(0.0, 1), (-1.0, 1), (1.0, 0)])
def test_a_limit_that_would_block_forever_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="rate limit"):
        RateLimit(qps, burst)
