"""A memo holds no more bytes than it may, and counts them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.bounded import ENTRY_BYTES, Memo, Recent

LIMIT = 2 * ENTRY_BYTES + 100


def length(key: str, value: str) -> int:
    return len(key) + len(value)


def test_a_value_longer_than_the_bound_is_not_kept() -> None:
    memo: Memo[str, str] = Memo(LIMIT, length)
    memo.put("a", "x" * LIMIT)
    assert memo.get("a") is None
    assert memo.usage() == (0, 0, 0)


def test_all_go_when_one_more_would_be_too_much_and_count_as_evicted() -> None:
    memo: Memo[str, str] = Memo(LIMIT, length)
    for key in "abc":
        memo.put(key, "x" * 40)
    assert [memo.get(key) for key in "abc"] == [None, None, "x" * 40]
    assert memo.usage().evictions == 2


keys = st.sampled_from("abcd")
steps = st.one_of(
    st.tuples(st.just("put"), keys, st.text("x", max_size=LIMIT)),
    st.tuples(st.just("discard"), keys, st.just("")),
    st.tuples(st.just("clear"), keys, st.just("")),
)


@given(st.lists(steps, max_size=40))
def test_the_bytes_are_always_those_of_what_is_kept(history: list[tuple[str, str, str]]) -> None:
    memo: Memo[str, str] = Memo(LIMIT, length)
    for step, key, value in history:
        match step:
            case "put":
                memo.put(key, value)
            case "discard":
                memo.discard(key)
            case "clear":
                memo.clear()
        kept = {each: found for each in "abcd" if (found := memo.get(each)) is not None}
        held = sum(ENTRY_BYTES + len(each) + len(found) for each, found in kept.items())
        assert memo.usage()[:2] == (len(kept), held)
        assert held <= LIMIT


def test_the_least_recently_used_goes_first() -> None:
    recent: Recent[str, str] = Recent(LIMIT, length)
    recent.put("a", "x")
    recent.put("b", "x")
    assert recent.find("a") == "x"
    assert recent.peek("b") == "x"
    recent.put("c", "x" * 90)
    assert list(recent) == ["a", "c"]
    assert recent.usage().evictions == 1


def test_a_value_too_long_for_all_pushes_nothing_out() -> None:
    recent: Recent[str, str] = Recent(LIMIT, length)
    recent.put("a", "x")
    recent.put("b", "x" * LIMIT)
    assert list(recent) == ["a"]


@given(st.lists(steps, max_size=40), st.integers(1, 3))
def test_recent_values_are_never_too_many_or_too_long(
    history: list[tuple[str, str, str]], most: int
) -> None:
    recent: Recent[str, str] = Recent(LIMIT, length, most)
    for step, key, value in history:
        if step == "put":
            recent.put(key, value)
        else:
            recent.drop(key)
        kept = {each: recent.peek(each) or "" for each in recent}
        held = sum(ENTRY_BYTES + len(each) + len(found) for each, found in kept.items())
        assert recent.usage()[:2] == (len(kept), held)
        assert held <= LIMIT
        assert len(kept) <= most
