"""What is news, and for how long it is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.observe.repeats import MAX_FAULTS, Repeats, SharedFaults
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


def refusal(number: int) -> tuple[str, str, str]:
    words = (
        f'403 Forbidden: pods "web-{number}" is forbidden: User "equipoise" cannot create resource '
        f'"pods/binding" in API group "" in the namespace "shop-{number % 7}"'
    )
    return words, f"shop-{number % 7}/web-{number}", f"uid-{number}"


def test_a_refusal_of_every_pod_is_told_once_and_then_with_their_number() -> None:
    clock = FakeClock()
    faults = SharedFaults(clock)
    assert [faults.news(*refusal(number)) for number in range(100)] == [0, *[None] * 99]
    clock.advance(61)
    assert faults.news(*refusal(100)) == 99
    assert faults.news(*refusal(101)) is None


def test_other_faults_are_told_at_once() -> None:
    faults = SharedFaults(FakeClock())
    assert faults.news("timeout", "ns/a", "1") == 0
    assert faults.news("no route", "ns/b", "2") == 0
    assert faults.news("timeout", "ns/c", "3") is None


def test_faults_that_all_differ_are_not_remembered_without_bound() -> None:
    faults = SharedFaults(FakeClock())
    for number in range(3 * MAX_FAULTS):
        faults.news(f"fault {number}", "ns/p", "u")
        faults.news(f"fault {number}", "ns/q", "v")
    assert len(faults._held_back) <= MAX_FAULTS
    assert len(faults._repeats) <= MAX_FAULTS


def test_what_is_remembered_does_not_grow_with_the_words() -> None:
    short, long = Repeats(FakeClock()), Repeats(FakeClock())
    short.news("pod", "x")
    long.news("pod", "x" * 1_000_000)
    assert short.usage() == long.usage()
    assert not long.news("pod", "x" * 1_000_000)


def test_a_subject_that_is_gone_is_forgotten() -> None:
    repeats = Repeats(lambda: 0.0)
    assert repeats.news("pod", "no room")
    repeats.drop("pod")
    repeats.drop("never heard of")
    assert len(repeats) == 0
    assert repeats.news("pod", "no room")


def test_what_many_are_told_at_once_is_one_object() -> None:
    clock = FakeClock()
    repeats = Repeats(clock)
    for number in range(100):
        clock.advance(0.001)
        assert repeats.news(f"pod-{number}", "no room")
    assert len({id(each) for each in repeats._said.values()}) == 1


def test_very_many_old_subjects_are_forgotten_little_by_little() -> None:
    clock = FakeClock()
    repeats = Repeats(clock)
    for number in range(5000):
        repeats.news(f"pod-{number}", "no room")
    clock.advance(61)
    lengths = []
    for number in range(4):
        assert repeats.news(f"pod-{number}", "no room"), "what is old is news, also before it goes"
        lengths.append(len(repeats))
    assert 0 < lengths[0] < 5000
    assert lengths[-1] == 4
