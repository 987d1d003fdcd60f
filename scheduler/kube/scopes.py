"""Blocks of code that others can end: by a deadline, or because writing has ended.

`asyncio.timeout` does the same for one block at a time, with a timer for each. A request that takes
0.1 ms of CPU all told cannot afford two of those: here all blocks share one timer, which may be
late by `TICK_SECONDS`.
"""

import asyncio
import math
from types import TracebackType

TICK_SECONDS = 0.05


class EndableScope:
    """A ``with`` block of one task, kept in `among` while it runs; `end` makes it raise.

    Any other cancellation passes through untouched.
    """

    __slots__ = ("_among", "_cancellations", "_error", "_loop", "_task", "limit")

    def __init__(
        self, among: "set[EndableScope]", loop: asyncio.AbstractEventLoop, limit: float = math.inf
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
        self._among.add(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._among.discard(self)
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
        self._scopes: set[EndableScope] = set()
        self._timer: asyncio.TimerHandle | None = None

    def scope(self, seconds: float) -> EndableScope:
        """A block that raises TimeoutError after so many seconds, or a little later."""
        loop = self._loop
        if self._timer is None:
            self._timer = loop.call_later(TICK_SECONDS, self._tick)
        return EndableScope(self._scopes, loop, loop.time() + seconds)

    def _tick(self) -> None:
        now = self._loop.time()
        for scope in [each for each in self._scopes if each.limit <= now]:
            scope.end(TimeoutError())
        waiting = bool(self._scopes)
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick) if waiting else None
