"""Small problems for tests: by hand, and by Hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from scheduler.flow.problem import UNFIT, PriceSteps, Problem


def problem(
    supplies: list[int],
    scores: list[list[int]],
    requests: list[list[float]],
    allocatable: list[list[float]],
    *,
    used: list[list[float]] | None = None,
    slots: int = 110,
    leave: float = 1000.0,
    **others: Any,
) -> Problem:
    """Classes and nodes as lists; resources of nodes are given node by node."""
    classes = len(supplies)
    there = np.array(allocatable, float).T
    free = there - (np.array(used, float).T if used else 0.0)
    needs = np.array(requests, float)
    rated = np.array(scores, np.int64)
    asked = np.where(needs > 0, needs, np.nan)[:, :, np.newaxis]
    room = np.floor(np.nanmin(free[np.newaxis] / asked, axis=1))
    fit = np.minimum(np.nan_to_num(room, nan=slots), slots).astype(np.int64)
    given = np.array(supplies, np.int64)
    everyone = PriceSteps(
        np.arange(classes), np.zeros(classes, np.int64), given, np.full(classes, leave)
    )
    return Problem(
        supplies=given,
        scores=np.where(fit > 0, rated, UNFIT),
        fit=np.maximum(fit, 1),
        requests=needs,
        free=free,
        allocatable=there,
        slots=np.full(len(allocatable), slots, np.int64),
        leaving=everyone,
        **others,
    )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Backlogs of a few classes on a few nodes, in which not all pods need fit."""
    classes, nodes = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    resources = draw(st.sampled_from([2, 2, 4]))
    count = st.integers(0, 6)
    score = st.integers(UNFIT, 300)
    size = st.sampled_from([0.5, 1.0, 2.0, 3.0])
    room = st.sampled_from([1.0, 2.0, 4.0, 7.0])
    sizes = [size] * 2 + [st.sampled_from([0.0, 0.0, 1.0, 2.0])] * (resources - 2)
    rooms = [room] * 2 + [st.sampled_from([0.0, 1.0, 4.0])] * (resources - 2)
    repeats = draw(st.lists(st.sampled_from([0.0, 15.0]), min_size=classes, max_size=classes))
    made = problem(
        draw(st.lists(count, min_size=classes, max_size=classes)),
        draw(
            st.lists(
                st.lists(score, min_size=nodes, max_size=nodes),
                min_size=classes,
                max_size=classes,
            )
        ),
        draw(st.lists(st.tuples(*sizes).map(list), min_size=classes, max_size=classes)),
        draw(st.lists(st.tuples(*rooms).map(list), min_size=nodes, max_size=nodes)),
        slots=draw(st.integers(1, 8)),
        load_price=draw(st.sampled_from([0.0, 100.0])),
        repeat_price=np.array(repeats),
    )
    return made
