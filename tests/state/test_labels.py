"""Label columns: whether rows are domains of their own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.state.labels import LabelColumn

VALUES = st.none() | st.sampled_from("abcdefgh")
ROWS = 6


@given(
    st.lists(VALUES, min_size=ROWS, max_size=ROWS),
    st.lists(st.tuples(st.integers(0, ROWS - 1), VALUES)),
)
def test_values_are_distinct_if_no_two_rows_share_one(
    values: list[str | None], changes: list[tuple[int, str | None]]
) -> None:
    column = LabelColumn(values)
    for row, value in [(0, values[0]), *changes]:
        column.set(row, value)
        values[row] = value
        there = [each for each in values if each is not None]
        assert column.distinct == (len(there) == len(set(there)))
