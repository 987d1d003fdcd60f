"""Durations read as Go reads them and print as text that reads back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config.durations import Duration, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("1m30s", 90.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("10us", 1e-5),
        ("10\N{MICRO SIGN}s", 1e-5),
        ("10\N{GREEK SMALL LETTER MU}s", 1e-5),
        ("7ns", 7e-9),
        ("0", 0.0),
        ("0s", 0.0),
        ("-1m", -60.0),
        ("+2s", 2.0),
    ],
)
def test_reads(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected a duration"),
        ("15", "expected a duration"),
        ("s", "expected a duration"),
        (".s", "expected a duration"),
        ("1m 30s", "expected a duration"),
        ("--1s", "expected a duration"),
        ("3d", 'unknown unit "d"'),
        ("9999999h", "longer than 292 years"),
    ],
)
def test_refuses(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (90.0, "1m30s"), (600.0, "10m"), (0.5, "500ms"), (-3601.0, "-1h1s")],
)
def test_prints(seconds: float, text: str) -> None:
    assert format_duration(Duration(seconds)) == text


@settings(deadline=None)
@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_what_is_printed_reads_back(microseconds: int) -> None:
    duration = Duration(microseconds / 10**6)
    assert parse_duration(format_duration(duration)) == duration
