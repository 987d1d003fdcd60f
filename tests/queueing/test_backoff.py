"""How long failed pods wait."""

from __future__ import annotations

import pytest

from scheduler.queueing.queued_pod import Backoff


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (100_000, 10)],
)
def test_the_wait_doubles_up_to_its_maximum(failures: int, seconds: float) -> None:
    assert Backoff(1.0, 10.0).duration(failures) == seconds


@pytest.mark.parametrize(
    ("failed_at", "failures", "until"),
    [
        pytest.param(100.0, 1, 102.0, id="101.0 is in the window that ends at 102"),
        pytest.param(100.9, 1, 102.0, id="101.9 is in the same window"),
        pytest.param(101.1, 1, 103.0, id="102.1 is in the next one"),
        pytest.param(100.5, 3, 105.0, id="the third failure waits 4 s"),
        pytest.param(100.5, 0, 100.5, id="a pod that never failed does not wait"),
    ],
)
def test_waits_end_with_their_window(failed_at: float, failures: int, until: float) -> None:
    assert Backoff(1.0, 10.0).until(failed_at, failures) == until


def test_a_maximum_of_zero_switches_waiting_off() -> None:
    assert Backoff(1.0, 0.0).until(100.5, 7) == 100.5
