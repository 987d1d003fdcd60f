"""Sums over parts of rows, kept while pods come and go, against counting anew."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.state.partition import Partition
from scheduler.state.podindex import PodCounter

ROWS = 6

parts = st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS)
chosen = st.sets(st.integers(0, ROWS - 1))
bookings = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(-2, 3)), max_size=12)


def partition(part_of: list[int], rows: set[int]) -> Partition:
    return Partition(np.array(sorted(rows), np.intp), np.array(part_of, np.int32), 4)


@given(st.lists(st.tuples(parts, chosen), min_size=1, max_size=4), bookings)
def test_kept_sums_are_those_of_counting_anew(
    drawn: list[tuple[list[int], set[int]]], numbers: list[tuple[int, int]]
) -> None:
    counter = PodCounter((), living_only=False, capacity=ROWS)
    partitions = [partition(*each) for each in drawn]
    for row, number in numbers:
        counter.add(row, number)
        for (part_of, rows), each in zip(drawn, partitions, strict=True):
            wanted = [0] * 4
            for counting in rows:
                wanted[part_of[counting]] += int(counter.counts[counting])
            assert counter.sums(each).tolist() == wanted


def test_rows_that_came_after_a_partition_are_in_no_part_of_it() -> None:
    counter = PodCounter((), living_only=False, capacity=ROWS + 1)
    old = partition([0] * ROWS, {0, 1})
    assert counter.sums(old).tolist() == [0, 0, 0, 0]
    counter.add(ROWS, 5)
    counter.add(1, 2)
    assert counter.sums(old).tolist() == [2, 0, 0, 0]


def test_a_counter_keeps_no_partition_alive() -> None:
    counter = PodCounter((), living_only=False, capacity=ROWS)
    gone = partition([0] * ROWS, {0})
    counter.sums(gone)
    watched = weakref.ref(gone)
    del gone
    gc.collect()
    assert watched() is None
    counter.add(0, 1)
    assert counter.sums(partition([1] * ROWS, {0})).tolist() == [0, 1, 0, 0]


def test_sums_over_many_parts_are_counted_each_time() -> None:
    counter = PodCounter((), living_only=False, capacity=ROWS)
    rows = np.arange(ROWS)
    many = Partition(rows, rows.astype(np.int32), 100_000)
    counter.sums(many)
    counter.add(3, 4)
    assert counter.sums(many)[:ROWS].tolist() == [0, 0, 0, 4, 0, 0]
