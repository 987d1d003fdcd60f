"""Follows the numbered decisions of a scheduler that only ever tells its latest ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Decision = dict[str, Any]

USUALLY = 100
AT_MOST = 5000


class Latest(NamedTuple):
    """The latest decisions of a process, newest first; each process numbers its own from 1."""

    process: str
    decisions: list[Decision]


class News(NamedTuple):
    """Decisions since the last look, oldest first, and how many were made and lost before them."""

    decisions: list[Decision]
    missed: int = 0


def follow(
    first: Latest, latest: Callable[[int], Latest | None], pause: Callable[[], None]
) -> Iterator[News]:
    """Yield what is new after ``first``, for ever; pauses before each look.

    ``latest`` gives so many decisions, or None if nobody who decides can be asked. Another process
    is followed from its first decision on: it leads now.
    """
    process, last = first.process, _newest(first)
    while True:
        pause()
        if (recent := latest(USUALLY)) is None:
            continue
        # Processes that do not say who they are differ at least in numbers that fall back.
        if recent.process != process or _newest(recent) < last:
            process, last = recent.process, 0
        if len(recent.decisions) == USUALLY and recent.decisions[-1]["seq"] > last + 1:
            wider = latest(AT_MOST)
            recent = wider if wider is not None and wider.process == process else recent
        fresh = [decision for decision in reversed(recent.decisions) if decision["seq"] > last]
        if fresh:
            missed = fresh[0]["seq"] - last - 1
            last = fresh[-1]["seq"]
            yield News(fresh, missed)


def _newest(latest: Latest) -> int:
    return latest.decisions[0]["seq"] if latest.decisions else 0
