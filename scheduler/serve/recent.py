"""Many who ask the same share one answer, in one piece of memory.

An explanation costs the scheduler tens of milliseconds at 5,000 nodes and has megabytes, and a page
or a script may ask many times a second. An answer is used for as long as it took to make: nobody
gets one much older than if it were made for him alone. What open pages ask for again and again is
used for `VIEW_TIMES` as long: however many pages show a view, making it takes no larger part of the
time than one of so many, as long as it takes no longer than a second divided by that.
"""

from __future__ import annotations

import asyncio
import gzip
import math
from collections.abc import Callable, Coroutine
from typing import Any

from scheduler import machine
from scheduler.bounded import MEBIBYTE, Usage

KEPT_SECONDS = 1.0
"""No answer is used for longer, however long it took."""
MOST_BYTES = 16 * MEBIBYTE
VIEW_TIMES = 20
_FASTEST = 1


class SharedAnswer:
    """The body of an answer, compressed once for all who accept that."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self._compressed: asyncio.Task[bytes] | None = None

    @property
    def size(self) -> int:
        """The bytes that it takes, in both forms."""
        return 2 * len(self.body)

    async def compressed(self) -> bytes:
        """The body as gzip, made in another thread."""
        if self._compressed is None:
            work = asyncio.to_thread(gzip.compress, self.body, _FASTEST, mtime=0)
            self._compressed = asyncio.ensure_future(work)
        return await asyncio.shield(self._compressed)


class _Made:
    """An answer that is being made, or has been."""

    def __init__(self, began: float, task: asyncio.Task[SharedAnswer], times: int) -> None:
        self.began = began
        self.task = task
        self.times = times
        self.ends = math.inf
        """From when on it is used no more."""


class RecentAnswers:
    """Answers that are being made, and those that have just been, bounded in bytes."""

    def __init__(self, clock: Callable[[], float] = machine.monotonic) -> None:
        self._clock = clock
        self._answers: dict[str, _Made] = {}
        self._evictions = 0

    async def get(
        self, key: str, make: Callable[[], Coroutine[Any, Any, SharedAnswer]], times: int = 1
    ) -> SharedAnswer:
        """The answer that is being made, or has just been; or a new one.

        It is used for so many ``times`` as long as it took. It is completed even if a reader that
        waits for it gives up. One that failed is not kept.
        """
        known = self._answers.get(key)
        if known is None or self._clock() > known.ends:
            known = self._answers[key] = _Made(self._clock(), asyncio.ensure_future(make()), times)
            known.task.add_done_callback(lambda task: self._ended(key, known))
        return await asyncio.shield(known.task)

    def _ended(self, key: str, made: _Made) -> None:
        now = self._clock()
        failed = not _succeeded(made.task)
        made.ends = (
            -math.inf if failed else now + min(KEPT_SECONDS, made.times * (now - made.began))
        )
        kept = 0
        for other, each in reversed(list(self._answers.items())):
            if each.ends < now:
                del self._answers[other]
            # One that failed in the same turn of the loop is dropped when its own end is told.
            elif each.task.done() and _succeeded(each.task):
                kept += each.task.result().size
                if kept > MOST_BYTES:
                    del self._answers[other]
                    self._evictions += 1

    def usage(self) -> Usage:
        """How much is kept; may be called from another thread."""
        done = [each.task for each in list(self._answers.values()) if each.task.done()]
        sizes = [task.result().size for task in done if _succeeded(task)]
        return Usage(len(sizes), sum(sizes), self._evictions)


def _succeeded(task: asyncio.Task[SharedAnswer]) -> bool:
    return not task.cancelled() and task.exception() is None
