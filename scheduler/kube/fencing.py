"""The fence before writes: nothing is written once another replica may hold the lease.

::

    heartbeat thread: lease renewed ──► Fence.renewed(began)
    scheduling thread: request ──► connection ──► Fence.check() ──► bytes to the socket

A leader may be suspended at any point (SIGSTOP, a paused virtual machine, a long system call) and
go on after another replica took the lease. So each request that changes something asks the fence
immediately before its bytes go to the socket, on a clock that counts suspension. A process that is
suspended between that question and the system call ends before it can write, by its deadline
(`scheduler.kube.process_deadline`). What remains is what the network and the API server have
already taken.
"""

import math
from collections.abc import Callable

from scheduler import machine
from scheduler.kube.errors import WritesStopped
from scheduler.kube.process_deadline import ProcessDeadline


class Fence:
    """Open for `seconds` after the beginning of the last renewal.

    One thread renews and closes, another checks: each reads or writes one number. `on_closed` is
    called by the thread that checks, with each refusal, and must not block. A `deadline` passes
    `grace` seconds after that: time to end in order, if the process runs.
    """

    def __init__(
        self,
        seconds: float,
        on_closed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = machine.boottime,
        deadline: ProcessDeadline | None = None,
        grace: float = 0.0,
    ) -> None:
        self._seconds = seconds
        self._on_closed = on_closed
        self._clock = clock
        self._deadline = deadline
        self._grace = grace
        self._open_until = -math.inf

    def renewed(self, began: float) -> None:
        """The lease was renewed by a request that was begun at this time of the clock."""
        self._open_until = began + self._seconds
        if self._deadline is not None:
            self._deadline.extend(self._open_until + self._grace)

    def close(self) -> None:
        """Let nothing through until the next renewal."""
        self._open_until = -math.inf

    def retire(self) -> None:
        """Nothing is written any more, so the process may end in its own time.

        By the thread that writes.
        """
        if self._deadline is not None:
            self._deadline.lift()

    def check(self) -> None:
        """Return if a write may go out now; raises WritesStopped."""
        if self._clock() >= self._open_until:
            self._on_closed()
            raise WritesStopped("the lease was not renewed in time: another replica may write")
