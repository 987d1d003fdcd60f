"""Rows as an index of columns."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.state.columns import where

NUMBER = 300


def test_many_rows_that_follow_each_other_are_a_slice() -> None:
    assert where(np.arange(7, 7 + NUMBER)) == slice(7, 7 + NUMBER)


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_another_order_are_not_a_slice_whatever_the_first_and_last_are(seed: int) -> None:
    rows = np.arange(NUMBER)
    np.random.default_rng(seed).shuffle(rows[1:-1])
    column = np.arange(NUMBER) * 10
    assert (column[where(rows)] == rows * 10).all()
