"""A score plugin that fails costs nodes its score, is counted and named, and ends no attempt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.framework.faults import PluginFaultReporter
from scheduler.framework.runtime import Framework
from scheduler.framework.scores import FAULTY
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import error
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api import PluginTraits
from tests.framework import fakes
from tests.framework.fakes import FixedScore, GivenScore, a_cycle, faults, framework_of
from tests.pipeline.support import FakeClock

INT_MAX = np.iinfo(np.int64).max


@pytest.mark.parametrize(
    ("plugin", "point", "expected"),
    [
        pytest.param(fakes.RaisingScore("Bad"), "Score", [0, 0, 0], id="score raises"),
        pytest.param(fakes.RaisingNormalize("Bad"), "Score", [0, 0, 0], id="normalize raises"),
        pytest.param(fakes.WrongShapeScore("Bad"), "Score", [0, 0, 0], id="too few scores"),
        pytest.param(FixedScore("Bad", factor=51), "Score", [0, 51, 0], id="one is too high"),
        pytest.param(FixedScore("Bad", factor=-1), "Score", [0, 0, 0], id="some are negative"),
        pytest.param(
            FixedScore("Bad", pre_score=error("broken")), "PreScore", [0, 0, 0], id="pre-score"
        ),
        pytest.param(
            GivenScore("Bad", np.array([1.0, np.nan, 2.0])), "Score", [50, 0, 0], id="no number"
        ),
        pytest.param(
            GivenScore("Bad", [4, float("inf"), 1]), "Score", [0, 0, 75], id="infinite, in a list"
        ),
        pytest.param(GivenScore("Bad", None), "Score", [0, 0, 0], id="nothing"),
        pytest.param(GivenScore("Bad", ["a", "b", "c"]), "Score", [0, 0, 0], id="words"),
        pytest.param(
            GivenScore("Bad", np.array([2**64 - 1, 1, 2], np.uint64)),
            "Score",
            [0, 50, 0],
            id="more than fits 64 bits with a sign",
        ),
        pytest.param(
            GivenScore("Bad", np.zeros(3, np.int64), np.array([np.nan, 7, 101])),
            "Score",
            [0, 7, 0],
            id="normalised to no number, and too high",
        ),
        pytest.param(
            GivenScore("Bad", np.zeros(3, np.int64), [1]), "Score", [0, 0, 0], id="normalised short"
        ),
    ],
)
def test_rows_without_a_sound_score_get_zero(plugin: Any, point: str, expected: list[int]) -> None:
    framework = framework_of(plugin, FixedScore("Good"))
    cycle = a_cycle()
    scored = framework.run_scores(cycle, cycle.state.rows())
    assert scored.totals.tolist() == [a + b for a, b in zip(expected, [0, 1, 2], strict=True)]
    assert faults(framework, "Bad", point) >= 1
    assert faults(framework, "Good", "Score") == 0


def test_whole_floats_are_as_good_as_integers() -> None:
    framework = framework_of(GivenScore("Fine", [0.0, 1.5, 2.0], np.array([0.9, 50.0, 100.0])))
    cycle = a_cycle()
    assert framework.run_scores(cycle, cycle.state.rows()).totals.tolist() == [0, 50, 100]
    assert faults(framework, "Fine", "Score") == 0


class OneByOne(FixedScore):
    """Answers for single rows, wrongly."""

    def __init__(self, name: str, answer: Any, *, absolute: bool) -> None:
        super().__init__(name)
        self.answer = answer
        self.traits = PluginTraits(absolute=absolute)

    def score_one(self, cycle: Any, row: int) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [RuntimeError("boom"), float("nan"), None, "many"])
@pytest.mark.parametrize(("absolute", "expected"), [(True, 0), (False, FAULTY)])
def test_one_row_without_a_sound_score(answer: Any, absolute: bool, expected: int) -> None:
    framework = framework_of(OneByOne("Bad", answer, absolute=absolute))
    cycle = a_cycle()
    assert framework.scores.score_one("Bad", cycle, 0) == expected
    assert faults(framework, "Bad", "Score") == 1
    raw = np.array([expected, 7], np.int64)
    assert framework.scores.normalize("Bad", cycle, raw).tolist() == [0, 7]


def test_a_final_score_out_of_range_is_zero() -> None:
    framework = framework_of(OneByOne("Bad", 101, absolute=True))
    cycle = a_cycle()
    assert framework.scores.score_one("Bad", cycle, 0) == 0
    assert framework.scores.score("Bad", cycle, cycle.state.rows()).tolist() == [0, 1, 2]
    assert faults(framework, "Bad", "Score") == 1


def test_log_and_pod_are_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock, metrics = FakeClock(), Metrics()
    told: list[tuple[str, str, str]] = []

    def publish(pod: PodInfo, reason: str, note: str) -> None:
        told.append((pod.key, reason, note))

    plugin = fakes.RaisingScore("Bad")
    framework = Framework(
        "fakes",
        {"Bad": plugin},
        {"score": [("Bad", 1)]},
        metrics,
        PluginFaultReporter(metrics, publish, clock),
    )
    cycle = a_cycle()
    for _ in range(3):
        framework.run_scores(cycle, cycle.state.rows())
    text = "plugin 'Bad' failed at Score: RuntimeError: boom; nodes concerned get no score from it"
    assert told == [("default/p", "PluginFault", text)]
    assert [record.message for record in caplog.records] == ["A plugin failed"]
    assert faults(framework, "Bad", "Score") == 3
    clock.advance(61)
    framework.run_scores(cycle, cycle.state.rows())
    assert len(told) == 2
