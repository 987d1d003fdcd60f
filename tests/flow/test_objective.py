"""How two ways of placing are judged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.flow.objective import Figures, better, points
from scheduler.flow.problem import PriceSteps
from tests.flow.problems import problem

figures = st.builds(
    Figures,
    st.integers(0, 3),
    st.sampled_from([0.0, 0.25, 0.5]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.sampled_from([0.0, 10.0]),
)


@given(figures, figures, st.booleans())
def test_two_ways_are_never_better_than_each_other(
    one: Figures, other: Figures, by_volume: bool
) -> None:
    assert not (better(one, other, by_volume=by_volume) and better(other, one, by_volume=by_volume))


@given(figures, figures)
def test_the_better_way_loses_no_pod_and_nothing_that_is_scarce(
    one: Figures, other: Figures
) -> None:
    if better(one, other, by_volume=False):
        assert one.pods >= other.pods
        assert one.used >= other.used
        assert all(mine >= theirs for mine, theirs in zip(one.devices, other.devices, strict=True))


def test_pods_count_first_unless_volume_does() -> None:
    many, much = Figures(5, 0.5, 1.0, (4,), 0.0), Figures(3, 0.75, 1.0, (4,), 0.0)

    assert better(many, much, by_volume=False)
    assert better(much, many, by_volume=True)


def test_points_decide_between_equals() -> None:
    liked, other = Figures(1, 0.5, 0.0, (), 20.0), Figures(1, 0.5, 0.0, (), 10.0)

    assert better(liked, other, by_volume=False)


def test_more_pods_do_not_make_up_for_a_gpu() -> None:
    one_by_one = Figures(3, 0.5, 1.0, (4,), 0.0)

    assert not better(Figures(9, 0.9, 1.5, (3,), 0.0), one_by_one, by_volume=False)
    assert not better(Figures(9, 0.9, 0.9, (4,), 0.0), one_by_one, by_volume=False)
    assert better(Figures(3, 0.5, 1.0, (5,), 1.0), one_by_one, by_volume=False)


def test_load_company_and_crowded_domains_cost_points() -> None:
    plain = problem([2], [[50, 50]], [[1, 1]], [[4, 4]] * 2)
    together, apart = np.array([[2, 0]]), np.array([[1, 1]])
    assert points(plain, together) == points(plain, apart) == 100.0

    loaded = problem([2], [[50, 50]], [[1, 1]], [[4, 4]] * 2, load_price=40.0)
    assert points(loaded, apart) == pytest.approx(100 - 2 * 40 * 0.25 / 2)
    assert points(loaded, together) == pytest.approx(100 - 40 * 0.5 / 2 * 2)

    lonely = problem([2], [[50, 50]], [[1, 1]], [[4, 4]] * 2, repeat_price=np.array([30.0]))
    assert points(lonely, together) == 70.0

    quotas = PriceSteps(
        np.array([0, 0, 0, 0]),
        np.array([1, 1, 2, 2]),
        np.array([1, 1, 1, 1]),
        np.array([0.0, 25.0, 0.0, 25.0]),
    )
    spread = problem(
        [2], [[50, 50]], [[1, 1]], [[4, 4]] * 2, quotas=quotas, domain_of=np.array([[1, 2]])
    )
    assert (points(spread, together), points(spread, apart)) == (75.0, 100.0)
