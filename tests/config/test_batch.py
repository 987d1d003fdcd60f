"""What the batch section refuses, each with its field."""

from typing import Any

import pytest

from .support import own, problems_of

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "a backlog of no pods": (
        {"minPending": 0},
        "batch.minPending: must be greater than 0, not 0",
    ),
    "fewer at most than at least": (
        {"minPending": 50, "maxPods": 10},
        "batch.maxPods: must not be less than minPending (50), not 10",
    ),
    "a window that nobody would wait for": (
        {"window": "1m"},
        "batch.window: must be between 0s and 10s, not 60s",
    ),
    "no time to solve": (
        {"solverTimeout": "0s"},
        "batch.solverTimeout: must be greater than 0, not 0",
    ),
    "a reward for leaving pods out": (
        {"unscheduledCost": {"points": -1}},
        "batch.unscheduledCost.points: must be between 0 and 100000, not -1",
    ),
    "costs beyond what a solver can count": (
        {"unscheduledCost": {"pointsPerSecond": 1e9}},
        "batch.unscheduledCost.pointsPerSecond: must be between 0 and 100000, not 1e+09",
    ),
}


@pytest.mark.parametrize(("section", "problem"), CASES.values(), ids=CASES)
def test_every_problem_names_its_field(section: dict[str, Any], problem: str) -> None:
    assert problem in problems_of(own(batch=section))


def test_batches_need_classes() -> None:
    (problem,) = problems_of(own(batch={"enabled": True}, equivalence={"enabled": False}))

    assert problem.startswith("batch.enabled: needs equivalence.enabled")


def test_an_unknown_cost_model_is_named() -> None:
    (problem,) = problems_of(own(batch={"costModel": "Magic"}))

    assert problem.startswith("batch.costModel:")
