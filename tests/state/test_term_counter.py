"""The counter of an affinity term counts pods by row, in arrays."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.affinity import AffinityTerm, PodSet
from scheduler.model.selectors import Selector
from scheduler.state.podindex import TermCounter

TERM = AffinityTerm(PodSet(frozenset(), Selector()), "kubernetes.io/hostname")


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from((-1, 1))), min_size=20, max_size=60))
def test_numbers_per_row(changes: list[tuple[int, int]]) -> None:
    counter, want = TermCounter("required", TERM), Counter[int]()
    for row, number in changes:
        counter.add(row, number)
        want[row] += number
        assert dict(zip(counter.rows.tolist(), counter.counts.tolist(), strict=True)) == {
            row: number for row, number in want.items() if number
        }
        assert len(set(counter.rows.tolist())) == len(counter.rows)
        assert counter.total == want.total()
