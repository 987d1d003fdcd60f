"""Work that plugins start and no attempt waits for, such as the eviction of victims."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from scheduler.observe.logs import get_logger

log = get_logger(__name__)


class Background:
    """Tasks of plugins; what they raise is logged, and they end with the daemon."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def __len__(self) -> int:
        """How many coroutines are under way."""
        return len(self._tasks)

    async def idle(self) -> None:
        """Return when nothing is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Cancel everything."""
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """Cancel everything and wait for its end."""
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("Background work failed", exc=fault)
