"""The fence before writes: nothing is written once another replica may hold the lease.

::

    heartbeat thread: lease renewed ──► Fence.renewed(began)
    scheduling thread: request ──► connection ──► Fence.check() ──► bytes to the socket

A leader may be suspended at any point (SIGSTOP, a paused virtual machine, a long system call) and
go on after another replica took the lease. So each request that changes something asks the fence
immediately before its bytes go to the socket, on a clock that counts suspension. What remains is
the time between that question and the system call, some ten microseconds, and what the network and
the API server have already taken.
"""

import math
import sys
import time
from collections.abc import Callable

from scheduler.kube.errors import WritesStopped

_CLOCK = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


def clock_with_suspension() -> float:
    """A monotonic clock that also counts while the process or the machine is suspended."""
    return time.clock_gettime(_CLOCK)


class Fence:
    """Open for `seconds` after the beginning of the last renewal.

    One thread renews and closes, another checks: each reads or writes one number. `on_closed` is
    called by the thread that checks, with each refusal, and must not block.
    """

    def __init__(
        self,
        seconds: float,
        on_closed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = clock_with_suspension,
    ) -> None:
        self._seconds = seconds
        self._on_closed = on_closed
        self._clock = clock
        self._open_until = -math.inf

    def renewed(self, began: float) -> None:
        """The lease was renewed by a request that was begun at this time of the clock."""
        self._open_until = began + self._seconds

    def close(self) -> None:
        """Let nothing through until the next renewal."""
        self._open_until = -math.inf

    def check(self) -> None:
        """Return if a write may go out now; raises WritesStopped."""
        if self._clock() >= self._open_until:
            self._on_closed()
            raise WritesStopped("the lease was not renewed in time: another replica may write")
