"""Makes an input smaller as long as the same is wrong with it: greedy, and bounded in checks."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.target import Input, Target, findings

MOST_CHECKS = 600
MOST_SECONDS = 10.0


def signature(finding: str) -> str:
    """What is wrong, without the values that differ from input to input."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|[0-9]+", "_", finding)[:120]


def shrunk(target: Target, given: Input, finding: str, most: int = MOST_CHECKS) -> Input:
    """A smaller input that is handled wrongly in the same way."""
    wanted = signature(finding)
    left, ends = most, time.process_time() + MOST_SECONDS

    def wrong(candidate: Input) -> bool:
        nonlocal left
        left -= 1
        return any(signature(each) == wanted for each in findings(target, candidate))

    while left > 0 and time.process_time() < ends:
        smaller = next(
            (
                each
                for each in _smaller(given)
                if left > 0 and time.process_time() < ends and _size(each) and wrong(each)
            ),
            None,
        )
        if smaller is None:
            break
        given = smaller
    return given


def _size(value: Any) -> int:
    return len(json.dumps(value))


def _smaller(value: Any) -> Iterator[Any]:
    """Smaller versions of a value, the smallest first."""
    if isinstance(value, list):
        yield from _shorter(value)
        yield from _inside(value, range(len(value)), lambda: list(value))
    elif isinstance(value, dict):
        for key in value:
            yield {other: kept for other, kept in value.items() if other != key}
        yield from _inside(value, list(value), lambda: dict(value))
    elif isinstance(value, str):
        yield from _smaller_text(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value not in {0, 1}:
        yield 0
        yield 1


def _inside(value: Any, keys: Any, copied: Callable[[], Any]) -> Iterator[Any]:
    for key in keys:
        for each in _smaller(value[key]):
            smaller = copied()
            smaller[key] = each
            yield smaller


def _shorter(value: Any) -> Iterator[Any]:
    """Without a half, a quarter, … of it."""
    size = len(value)
    step = size
    while step:
        for at in range(0, size, step):
            yield value[:at] + value[at + step :]
        step //= 2


def _smaller_text(text: str) -> Iterator[str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict | list) and document:
        for each in _smaller(document):
            yield json.dumps(each)
    yield from _shorter(text)
