"""How much work a search may do. Work is counted, so the same search always ends the same way."""

from __future__ import annotations

from scheduler.slices import checkpoint

MOST_WORK = 1_000_000
"""About a second or two."""

_STEP = 10
"""What taking a device and giving it back costs, against looking at one."""

_CHECK_EVERY = 500

_HARD = 128
"""After so many steps a search is not easy: from here on it pays to think before trying."""


class OutOfWorkError(Exception):
    """The search is given up."""


class WorkBudget:
    """Work that is left."""

    def __init__(self, most: int = MOST_WORK) -> None:
        self._left = most
        self._next = max(0, most - _CHECK_EVERY)
        self.steps = 0

    @property
    def hard(self) -> bool:
        """Whether the search has turned out not to be easy."""
        return self.steps > _HARD

    def step(self) -> None:
        """A device is tried."""
        self.steps += 1
        self.spend(_STEP)

    def spend(self, devices: int) -> None:
        """So many devices are looked at."""
        self._left -= devices
        if self._left < self._next:
            self._next = max(0, self._left - _CHECK_EVERY)
            checkpoint()
            if self._left < 0:
                raise OutOfWorkError
