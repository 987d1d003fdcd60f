"""The background task of a part of the sandbox."""

from __future__ import annotations

import asyncio


async def cancelled(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and return when it has ended; what it raises is dropped."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
