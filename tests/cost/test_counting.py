"""What is counted: work in Python, and comparisons that C makes."""

from __future__ import annotations

from scheduler.slices import checkpoint
from tests.cost.counting import Counted, cost


def words(number: int) -> list[str]:
    return [Counted(f"word-{i}") for i in range(number)]


def test_work_in_python_counts() -> None:
    def work(number: int) -> int:
        return sum(i * i for i in range(number))

    once, twice = cost(lambda: work(100)).operations, cost(lambda: work(200)).operations
    assert 1.8 < twice / once < 2.2


def test_a_square_that_c_hides_counts() -> None:
    def work(some: list[str]) -> list[bool]:
        others = list(some)
        return [Counted(word) in others for word in some]

    some, more = words(20), words(40)
    once, twice = cost(lambda: work(some)).operations, cost(lambda: work(more)).operations
    assert twice > 2.5 * once


def test_comparing_equal_sets_counts() -> None:
    one, other = set(words(50)), set(words(50))
    assert cost(lambda: one == other).operations >= 50


def test_a_checkpoint_ends_a_stretch() -> None:
    def work(parts: int) -> None:
        for _ in range(parts):
            sum(i * i for i in range(100))
            checkpoint()

    one, ten = cost(lambda: work(1)), cost(lambda: work(10))
    assert ten.operations > 8 * one.operations
    assert ten.longest < 1.2 * one.longest
