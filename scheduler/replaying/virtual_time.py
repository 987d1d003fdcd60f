"""An event loop whose time is that of a recording."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_ROUNDS = 16
"""How often ready tasks run when a step is over: more than any of them needs in a row."""


class VirtualTime(asyncio.SelectorEventLoop):
    """Time stands still until `now` is set; what runs on it never waits for real."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        """The time of the recording, in seconds."""
        return self.now


def run(make: Coroutine[Any, Any, T], loop: VirtualTime) -> T:
    """Run a coroutine on a loop, and close the loop."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(make)


async def settled() -> None:
    """Return when tasks that are ready have run."""
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
