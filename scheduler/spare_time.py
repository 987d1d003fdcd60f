"""Work that may wait takes a small share of the event loop while there is work that may not.

Explanations are for people, and pods for the cluster. While pods are to be placed, all work of this
kind together gets one slice in so many; on an idle scheduler it does not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scheduler import machine
from scheduler.slices import SLICE_SECONDS

SHARE = 0.05
"""Of the loop's time, while it is busy."""


class SpareTime:
    """Paces all work that rests with it between two slices."""

    def __init__(
        self, busy: Callable[[], bool], clock: Callable[[], float] = machine.monotonic
    ) -> None:
        self._busy = busy
        self._clock = clock
        self._next = 0.0

    async def rest(self) -> None:
        """Return when the next slice may begin."""
        await asyncio.sleep(self.pause())

    def pause(self) -> float:
        """The seconds until then; the turn is taken."""
        if not self._busy():
            return 0.0
        now = self._clock()
        self._next = max(now, self._next) + SLICE_SECONDS / SHARE
        return self._next - now
