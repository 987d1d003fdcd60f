"""Regular expressions: RE2's syntax, preferences as Perl has them, and linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cel.errors import CostLimitExceeded
from scheduler.cel.regex import Pattern
from scheduler.cel.regex_syntax import RegexError


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a|ab", "ab", "a"),
        ("(a|ab)(c|bcd)", "abcd", "abcd"),
        ("a+?", "aaa", "a"),
        ("(?U)a+", "aaa", "a"),
        ("x*", "aaa", ""),
        ("a{2,3}", "aaaa", "aaa"),
        ("a{2}", "aaaa", "aa"),
        ("a{2,}?", "aaaa", "aa"),
        ("(?i)straße", "STRAßE", "STRAßE"),
        ("(?i)k", "\u212a", "\u212a"),
        ("^b", "a\nb", ""),
        ("(?m)^b$", "a\nb\nc", "b"),
        ("a.c", "a\nc", ""),
        ("(?s)a.c", "a\nc", "a\nc"),
        (r"\bfoo\b", "a foo b", "foo"),
        (r"\Bo", "foo", "o"),
        (r"[[:digit:]]+", "ab12", "12"),
        (r"[^[:^alpha:]]+", "12ab", "ab"),
        (r"\pL+", "1éa2", "éa"),
        (r"\p{Greek}+", "a\u03b1\u03b2", "\u03b1\u03b2"),
        (r"\P{Lu}", "Aa", "a"),
        (r"\x41\x{42}\103", "ABC", "ABC"),
        (r"\Qa.b\E+", "a.bb", "a.bb"),
        (r"[a\]]+", "]a", "]a"),
        (r"[]a]+", "a]", "a]"),
        (r"[a-]+", "-a", "-a"),
        (r"a{,2}", "a{,2}", "a{,2}"),
        (r"(?P<n>a)(?<m>b)", "ab", "ab"),
        (r"(?i:A)b", "ab", "ab"),
        ("$", "a\n", ""),
        ("(|a)+", "aaa", ""),
        ("(a*)*b", "aaab", "aaab"),
    ],
)
def test_finds_the_leftmost_match(pattern: str, text: str, found: str) -> None:
    assert Pattern(pattern).find(text) == found


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "[a", "a**", "a++", "*", "+a", "(?=a)", "(?!a)", "(?<=a)", r"\1", r"\8", r"\Z",
        r"\C", r"\k<a>", "a{1001}", "a{2,1}", "(a{100}){100}", "[z-a]", r"\p{Nope}", "(?z)", "(?i",
        "(?P<>a)", "(?P=n)", "\\", "[[:nope:]]", "x{2}{3}", "(?>a)", "a?+",
    ],
)  # fmt: skip
def test_what_re2_does_not_have_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        Pattern(pattern)


def test_all_matches_do_not_touch_with_nothing_in_them() -> None:
    assert Pattern("a*").find_all("baac", -1) == ["", "aa", ""]
    assert Pattern("").find_all("ab", -1) == ["", "", ""]
    assert Pattern("b*").find_all("abb", -1) == ["", "bb"]
    assert Pattern("[ab]").find_all("abab", 3) == ["a", "b", "a"]
    assert Pattern("a").find_all("aa", 0) == []


_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", "ab", "^", "$", r"\b", ""])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{1,2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(_PATTERNS, st.text("ab c", max_size=8))
def test_agrees_with_python_where_both_have_the_pattern(pattern: str, text: str) -> None:
    theirs = re.search(pattern.replace("$", r"\Z"), text, re.ASCII)
    ours = Pattern(pattern).search(text)
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        assert ours[0] == theirs.start()


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+b", "(a?){30}a{30}b", "(.*)(.*)(.*)b"])
def test_steps_grow_with_the_text_not_beyond(pattern: str) -> None:
    made = Pattern(pattern)
    made.matches("a" * 50)
    short = made.steps
    made.matches("a" * 400)
    assert made.steps <= 10 * short


def test_a_search_that_takes_too_many_steps_ends() -> None:
    with pytest.raises(CostLimitExceeded):
        Pattern("(a?){500}(a?){500}b").matches("a" * 20_000)


def test_a_program_is_bounded() -> None:
    with pytest.raises(RegexError, match="expression too large"):
        Pattern("(a{500}b{500})?" * 600)
