"""A tally is a counter over rows, in arrays."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.state.tally import Tally


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from((-1, 1))), min_size=20, max_size=60))
def test_numbers_per_row(changes: list[tuple[int, int]]) -> None:
    tally, want = Tally(), Counter[int]()
    for row, number in changes:
        tally.add(row, number)
        want[row] += number
        assert dict(zip(tally.rows.tolist(), tally.counts.tolist(), strict=True)) == {
            row: number for row, number in want.items() if number
        }
        assert len(set(tally.rows.tolist())) == len(tally.rows)
        assert tally.total == want.total()
