"""What is news, and for how long it is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.observe.repeats import Repeats
from tests.pipeline.support import FakeClock


def test_the_same_words_are_news_once_a_minute() -> None:
    clock = FakeClock()
    repeats = Repeats(clock)
    told = []
    for second in range(0, 180, 10):
        clock.now = 1000.0 + second
        if repeats.news("pod", "Unschedulable", "no room"):
            told.append(second)
    assert told == [0, 60, 120]


def test_other_words_are_news_and_so_are_the_first_ones_after_them() -> None:
    repeats = Repeats(FakeClock())
    assert [repeats.news("pod", word) for word in ("a", "b", "b", "a")] == [True, True, False, True]


def test_subjects_are_independent() -> None:
    repeats = Repeats(FakeClock())
    assert repeats.news("one", "a")
    assert repeats.news("two", "a")


def test_beyond_its_capacity_the_first_are_forgotten() -> None:
    repeats = Repeats(FakeClock(), capacity=2)
    assert [repeats.news(pod, "a") for pod in ("one", "two", "three")] == [True] * 3
    assert len(repeats) == 2
    assert not repeats.news("three", "a")
    assert repeats.news("one", "a")


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from("ab"), st.sampled_from((0.0, 7.0, 61.0)))
    )
)
def test_it_agrees_with_looking_back(steps: list[tuple[str, str, float]]) -> None:
    clock = FakeClock()
    repeats = Repeats(clock)
    told: list[tuple[float, str, str]] = []
    for subject, word, seconds in steps:
        clock.advance(seconds)
        last = next((each for each in reversed(told) if each[1] == subject), None)
        expected = last is None or last[2] != word or clock.now - last[0] >= 60
        assert repeats.news(subject, word) is expected
        if expected:
            told.append((clock.now, subject, word))
        assert len(repeats) == len({each[1] for each in told if clock.now - each[0] < 60})
