"""The program as it is, but that it stops itself between the check and the write of a binding.

No signal from outside hits those microseconds. So this wraps the one function that writes requests:
if the file named by ``EQUIPOISE_STOP_TRIGGER`` is there, the next binding removes it, and the
process stops (SIGSTOP) after the binding was checked and before its first byte is written. Without
the file, the program runs unchanged. ``EQUIPOISE_NO_DEADLINE`` leaves out the timer that ends a
process which was suspended there, to show what it is for.
"""

import os
import signal
from pathlib import Path

from scheduler.__main__ import main
from scheduler.kube.connections import Check, _Connection
from scheduler.kube.http1 import HttpResponse
from scheduler.kube.process_deadline import ProcessDeadline

TRIGGER = Path(os.environ["EQUIPOISE_STOP_TRIGGER"])
_exchange = _Connection.exchange


def _stopping(check: Check | None) -> Check:
    def check_and_stop() -> None:
        if check is not None:
            check()
        TRIGGER.unlink()
        os.kill(os.getpid(), signal.SIGSTOP)

    return check_and_stop


async def exchange(
    self: _Connection, message: bytes, check: Check | None, limit: int
) -> HttpResponse:
    """As it is, or stopped once."""
    if b"/binding HTTP/1.1" in message[:600] and os.path.exists(TRIGGER):  # noqa: ASYNC240  # of tests
        check = _stopping(check)
    return await _exchange(self, message, check, limit)


if __name__ == "__main__":
    # Both replace what is there, on purpose.
    if "EQUIPOISE_NO_DEADLINE" in os.environ:
        ProcessDeadline.extend = lambda self, until: None  # type: ignore[method-assign]  # on purpose
    _Connection.exchange = exchange  # type: ignore[method-assign]  # on purpose
    main()
