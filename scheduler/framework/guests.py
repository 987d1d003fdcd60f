"""Plugins from outside the tree are believed nothing: answers are timed and checked.

The in-tree plugins are not, since their tests do that; a check is cheap, but there are many calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler.framework.complaints import Complaints
from scheduler.framework.cycle import Cycle
from scheduler.framework.points import Point
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code, Status
from scheduler.queueing.queued_pod import QueuedPod

Call = Callable[..., Any]


def guarded(call: Call, point: Point, plugin: str, complaints: Complaints) -> Call:
    """The same call, with the time it takes and the type of its answer looked at."""
    expected = point.returns
    limit = complaints.slow_seconds

    def check(answer: Any) -> Any:
        if expected is not None and not isinstance(answer, expected):
            raise TypeError(f"returned {type(answer).__name__}, not {expected.__name__}")
        return answer

    if point.awaited:  # may take its time: nobody waits for it but its pod

        async def waited_for(*args: Any) -> Any:
            return check(await call(*args))

        return waited_for

    def timed(*args: Any) -> Any:
        started = time.perf_counter()
        answer = call(*args)
        elapsed = time.perf_counter() - started
        if elapsed > limit:
            complaints.slow(pod_of(args), plugin, point.label, elapsed)
        return answer if expected is None else check(answer)

    return timed


def pod_of(args: tuple[Any, ...]) -> PodInfo | None:
    """The pod that a call is about."""
    first = args[0] if args else None
    if isinstance(first, Cycle):
        return first.pod
    if isinstance(first, QueuedPod):
        return first.info
    return first if isinstance(first, PodInfo) else None


def unusable_codes(codes: Any, count: int, known: int) -> str:
    """What is wrong with verdicts on ``count`` rows, of ``known`` codes; empty if nothing is."""
    if not isinstance(codes, np.ndarray) or codes.shape != (count,):
        return "wrong number of verdicts"
    if codes.dtype != np.int32:
        return f"verdicts are {codes.dtype}, not int32"
    if codes.any() and (codes.min() < 0 or codes.max() >= known):
        return "a verdict is not the code of a status"
    return ""


def unusable_code(code: Any, known: int) -> str:
    """The same for one verdict."""
    if not isinstance(code, int | np.integer) or not 0 <= code < known:
        return "a verdict is not the code of a status"
    return ""


def unusable_permit(answer: tuple[Any, ...]) -> str:
    """What is wrong with the answer of a permit plugin; empty if nothing is."""
    if len(answer) != 2 or not isinstance(answer[0], Status):
        return "returned something else than a Status and a time"
    seconds = answer[1]
    if answer[0].code is Code.WAIT and not (isinstance(seconds, int | float) and seconds >= 0):
        return f"must say how many seconds to wait, not {seconds!r:.40}"
    return ""
