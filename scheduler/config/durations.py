"""Durations as Kubernetes configuration writes them: "15s", "1m30s", "500ms"."""

import re
from fractions import Fraction
from typing import NewType

Duration = NewType("Duration", float)
"""A span of time in seconds, written in a document as a string with units."""

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\N{MICRO SIGN}s": 10**3,
    "\N{GREEK SMALL LETTER MU}s": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([a-z\u00b5\u03bc]+)")
_MAX_NANOSECONDS = 2**63 - 1


def parse_duration(text: str) -> Duration:
    """Read a duration; raises ValueError with a reason that does not repeat the text."""
    sign, body = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if body == "0":
        return Duration(0.0)
    nanoseconds = Fraction(0)
    position = 0
    while position < len(body):
        part = _PART.match(body, position)
        if part is None:
            break
        if part[2] not in _UNITS:
            raise ValueError(f'unknown unit "{part[2]}"')
        nanoseconds += int(Fraction(part[1]) * _UNITS[part[2]])
        position = part.end()
    if not body or position < len(body):
        raise ValueError('expected a duration such as "15s" or "1m30s"')
    if nanoseconds > _MAX_NANOSECONDS:
        raise ValueError("longer than 292 years")
    return Duration(float(sign * nanoseconds / 10**9))


def format_duration(duration: Duration) -> str:
    """The shortest text with the units h, m, s, ms, us, ns that reads back as the same duration."""
    rest = round(abs(Fraction(duration)) * 10**9)
    if rest == 0:
        return "0s"
    parts = ["-"] if duration < 0 else []
    for unit in ("h", "m", "s", "ms", "us", "ns"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
