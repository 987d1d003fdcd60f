"""What is wrong with a value of the right type: quantities, bounds of integers, labels.

The API server refuses such values although its schemas name little more than their types. Each
function says what is wrong, or nothing (None). Cost: less than a microsecond, and less if the
value was seen before: a few thousand short ones are remembered.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from scheduler.model import quantity
from scheduler.model.quantity import QuantityError

_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_LONGEST_LABEL = 63
_LONGEST_DOMAIN = 253
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DOMAIN = re.compile(rf"{_PART}(?:\.{_PART})*")
_CHARACTERS = "letters, digits, '-', '_' and '.', with a letter or digit at both ends"
_LONGEST_KEY = _LONGEST_DOMAIN + 1 + _LONGEST_LABEL
_NO_KEY = f"no key of a label: expected up to {_LONGEST_LABEL} {_CHARACTERS}"


def bounds(schema: dict[str, Any]) -> tuple[int, int] | None:
    """The least and the greatest integer that a schema allows; None if it is not about integers."""
    if schema.get("type") != "integer":
        return None
    least, most = _BOUNDS.get(str(schema.get("format")), _BOUNDS["int64"])
    return max(least, schema.get("minimum", least)), min(most, schema.get("maximum", most))


def wrong_integer(value: int, allowed: tuple[int, int]) -> str | None:
    """An integer that its field cannot hold."""
    if allowed[0] <= value <= allowed[1]:
        return None
    shown = value if value.bit_length() <= 128 else f"one of {value.bit_length()} bits"
    return f"expected an integer from {allowed[0]} to {allowed[1]}, got {shown}"


def wrong_quantity(value: str | int | float) -> str | None:
    """A text or a number that is no quantity."""
    try:
        quantity.value(value)
    except QuantityError as fault:
        return str(fault)
    return None


def wrong_amount(value: str | int | float) -> str | None:
    """What is no quantity of a resource: those are not negative."""
    if (wrong := wrong_quantity(value)) is not None:
        return wrong
    negative = str(value).startswith("-") and quantity.parse(value).nanos < 0
    return f"must not be negative, got {value}" if negative else None


def wrong_label_key(key: str) -> str | None:
    """What is no key of a label: a name, with or without a domain before it."""
    return _wrong_key(key) if len(key) <= _LONGEST_KEY else _NO_KEY


def wrong_label_value(value: str) -> str | None:
    """What is no value of a label; an empty one is."""
    if len(value) <= _LONGEST_LABEL and (not value or _is_name(value)):
        return None
    shown = value if len(value) <= _LONGEST_LABEL else f"{value[:_LONGEST_LABEL]}…"
    return f'"{shown}" is no value of a label: expected up to {_LONGEST_LABEL} {_CHARACTERS}'


@lru_cache(maxsize=4096)
def _wrong_key(key: str) -> str | None:
    domain, slash, name = key.rpartition("/")
    if len(name) > _LONGEST_LABEL or _NAME.fullmatch(name) is None:
        return _NO_KEY
    if slash and (len(domain) > _LONGEST_DOMAIN or _DOMAIN.fullmatch(domain) is None):
        return "no key of a label: expected the name of a domain before the '/'"
    return None


@lru_cache(maxsize=4096)
def _is_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None
