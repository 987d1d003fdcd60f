"""Room on the stack for work that descends as deep as an expression does.

Expressions nest 250 levels at most, by the limits of the parser; Python's default limit of a
thousand frames is less than that takes, with what the caller has on its stack. Calls from Python
to Python take no space on the C stack, so the limit can be raised for the while.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_CALLERS = 500

_needed: list[int] = []
_usual = sys.getrecursionlimit()


@contextmanager
def room_for(frames: int) -> Iterator[None]:
    """Let the block go this many calls deeper than it is.

    Blocks end in any order: one that rests at a checkpoint is still under way when others end.
    """
    needed = frames + _depth() + _CALLERS
    _needed.append(needed)
    _set()
    try:
        yield
    finally:
        _needed.remove(needed)
        _set()


def _set() -> None:
    limit = max([_usual, *_needed])
    if limit != sys.getrecursionlimit():
        sys.setrecursionlimit(limit)


def _depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        depth += 1
    return depth
