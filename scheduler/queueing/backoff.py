"""How long a pod that failed waits before it is tried again."""

from __future__ import annotations

import math

import msgspec

WINDOW = 1.0
"""Back-offs end together at whole seconds, so that pods of one second leave by priority."""

_MAX_DOUBLINGS = 62


class Backoff(msgspec.Struct, frozen=True):
    """An exponential back-off in seconds; a ``maximum`` of 0 switches it off."""

    initial: float = 1.0
    maximum: float = 10.0

    def duration(self, failures: int) -> float:
        """The nominal wait after this many failures in a row: initial, doubled up to maximum."""
        if failures == 0:
            return 0.0
        return min(self.maximum, self.initial * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))

    def until(self, failed_at: float, failures: int) -> float:
        """When the wait is over: the end of the window in which the nominal wait ends."""
        if failures == 0 or self.maximum == 0:
            return failed_at
        return (math.floor((failed_at + self.duration(failures)) / WINDOW) + 1) * WINDOW
