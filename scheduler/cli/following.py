"""Follows the numbered decisions of a scheduler that only ever tells its latest ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Decision = dict[str, Any]

USUALLY = 100
AT_MOST = 5000


class News(NamedTuple):
    """Decisions since the last look, oldest first, and how many were made and lost before them."""

    decisions: list[Decision]
    missed: int = 0


def follow(
    latest: Callable[[int], list[Decision]], start: int, pause: Callable[[], None]
) -> Iterator[News]:
    """Yield what is new after decision number ``start``, for ever; pauses before each look.

    ``latest`` gives so many decisions, newest first. Numbers that fall back to the beginning are
    those of another process: it is followed from its first decision on.
    """
    last = start
    while True:
        pause()
        recent = latest(USUALLY)
        if recent and recent[0]["seq"] < last:
            last = 0
        if len(recent) == USUALLY and recent[-1]["seq"] > last + 1:
            recent = latest(AT_MOST)
        fresh = [decision for decision in reversed(recent) if decision["seq"] > last]
        if fresh:
            missed = fresh[0]["seq"] - last - 1
            last = fresh[-1]["seq"]
            yield News(fresh, missed)
