"""Blocks of code that others can end: by a deadline, or because writing has ended.

`asyncio.timeout` does the same for one block at a time, with a timer for each. A request that takes
0.1 ms of CPU all told cannot afford two of those: here all blocks share one timer, set to the
first limit, and may be late by `TICK_SECONDS`. Watches wait for minutes; an idle process does not
look at them twenty times a second.
"""

import asyncio
import math
from types import TracebackType

TICK_SECONDS = 0.05
REST_SECONDS = 10.0
"""The longest rest of the timer, so that it does not outlive its last block for long."""


class EndableScope:
    """A ``with`` block of one task, kept in `among` while it runs; `end` makes it raise.

    Any other cancellation passes through untouched.
    """

    __slots__ = ("_among", "_cancellations", "_error", "_loop", "_task", "limit")

    def __init__(
        self,
        among: "dict[EndableScope, None]",
        loop: asyncio.AbstractEventLoop,
        limit: float = math.inf,
    ) -> None:
        self.limit = limit
        self._among = among
        self._loop = loop
        self._error: Exception | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancellations = 0

    def __enter__(self) -> None:
        self._task = asyncio.current_task(self._loop)
        assert self._task is not None, "only tasks can be ended"
        self._cancellations = self._task.cancelling()
        self._among[self] = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._among.pop(self, None)
        if self._error is None or self._task is None:
            return
        ours_alone = self._task.uncancel() <= self._cancellations
        if ours_alone and kind is asyncio.CancelledError:
            raise self._error from exception

    def end(self, error: Exception) -> None:
        """Have the block raise `error` wherever it waits; the first call counts."""
        if self._task is not None and self._error is None:
            self._error = error
            self._task.cancel()


class Deadlines:
    """Time limits of any number of blocks, kept by one timer that runs while there are any."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()  # a system call, so not made again for each block
        self._scopes: dict[EndableScope, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = math.inf
        """When the timer ends its rest."""

    def scope(self, seconds: float) -> EndableScope:
        """A block that raises TimeoutError after so many seconds, or a little later."""
        loop = self._loop
        now = loop.time()
        limit = now + seconds
        if limit + TICK_SECONDS < self._looks_at:
            when = max(now + TICK_SECONDS, min(limit, now + REST_SECONDS))
            # Never later than before: blocks that come faster than ticks, their limits past, would
            # put off each other's end for ever.
            if when < self._looks_at:
                self._look(when)
        return EndableScope(self._scopes, loop, limit)

    def _look(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._looks_at = self._loop.call_at(when, self._tick), when

    def _tick(self) -> None:
        now = self._loop.time()
        first, over = math.inf, []
        for scope in self._scopes:
            first = min(first, scope.limit)
            if scope.limit <= now:
                over.append(scope)
        for scope in over:
            scope.end(TimeoutError())
        self._timer, self._looks_at = None, math.inf
        if self._scopes:
            self._look(max(now + TICK_SECONDS, min(first, now + REST_SECONDS)))
