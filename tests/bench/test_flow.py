"""``make bench-flow`` in small: at once is never worse, and better where a pool is hot."""

from __future__ import annotations

import pytest

from bench.core.backlogs import BATCH, Case, make, run
from bench.core.flow import Quality, models, quality, speed, verdict


@pytest.fixture(autouse=True)
def _living(monkeypatch: pytest.MonkeyPatch) -> None:
    # Freezing is for processes that have a world to keep; this one has tests to run.
    monkeypatch.setattr("bench.core.worlds.freeze_after_sync", lambda: None)


def test_a_hot_pool_is_shared_better_at_once() -> None:
    case = quality(hot=True, load=0.97, seeds=2, nodes=60, pods=600)

    assert case.at_once.overcommitted == 0
    assert case.at_once.placed >= case.one_by_one.placed
    assert case.at_once.affinity >= case.one_by_one.affinity + 0.1
    assert verdict(Quality("hot 97%", case.one_by_one, case.at_once))


def test_scores_meet_preferences_better_than_the_published_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert models(hot=True, seeds=2, nodes=60, pods=600)

    printed = capsys.readouterr().out
    assert [way in printed for way in ("one by one", "Scores", "CpuMemory")] == [True] * 3


def test_speed_is_printed_with_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert speed(Case(nodes=30, pods=600, classes=10, load=0.97, hot=True), 60.0)

    printed = capsys.readouterr().out
    assert "arcs" in printed
    assert "calibration" in printed


def test_backlogs_are_the_same_for_the_same_seed() -> None:
    first, second = (make(Case(5, 20, 4, 0.5, seed=3)) for _ in range(2))

    assert first.pods == second.pods
    assert run(first, BATCH).placed == run(second, BATCH).placed
