"""A deadline of the process that the kernel enforces, also while the process is suspended.

::

    heartbeat thread: lease renewed ──► extend(until) ──► timer of the kernel, on a clock that
                                                          counts suspension
    suspended beyond it (SIGSTOP, frozen cgroup): the signal is pending when the process goes on,
    and its handler, which ends the process, runs before the next instruction of the thread

The fence (`scheduler.kube.fencing`) is asked before a write, but the process may be suspended
between that question and the system call, and write when it goes on, after another replica took
the lease. No instruction of ours can prevent that. The kernel can: it delivers a signal that
became pending meanwhile before the thread returns to where it was.

The handler is libc's ``_exit``, so the exit code is the number of the signal (`EXIT_CODE`). A
default action would not do: the kernel spares process 1 of a container from those. Before that,
`faulthandler` prints where the thread was.

Where the kernel or libc have no such timer, there is no such deadline, and the fence alone decides.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
import threading
import time
from contextlib import suppress

from scheduler.observe.logs import get_logger

log = get_logger(__name__)

EXIT_CODE = 50
"""Of a process that was suspended beyond its deadline: the number of the signal."""
_SIGEV_THREAD_ID = 4
_TIMER_ABSTIME = 1


class _Sigevent(ctypes.Structure):
    """``struct sigevent`` of 64-bit Linux, which has 64 bytes."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("_pad", ctypes.c_byte * 44),
    )


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class ProcessDeadline:
    """Ends this process when a time has passed. To be made by the thread that writes.

    Raises OSError, or AttributeError where libc has no such timers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lifted = False
        self._library = ctypes.CDLL(None, use_errno=True)
        _handle_by_exit(self._library)
        self._timer = ctypes.c_void_p()
        event = _Sigevent(
            signal=EXIT_CODE, notify=_SIGEV_THREAD_ID, thread=threading.get_native_id()
        )
        created = self._library.timer_create(
            time.CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(self._timer)
        )
        _raise_for(created, "timer_create")

    def extend(self, until: float) -> None:
        """End the process at this time of `machine.boottime` and not before. Thread-safe."""
        with self._lock:
            if not self._lifted:
                self._set(until)

    def lift(self) -> None:
        """Nothing is written any more: there is no deadline from now on, for good.

        To be called by the thread that writes: it is then not between a check and a write.
        """
        with self._lock:
            self._lifted = True
            self._set(0.0)

    def _set(self, until: float) -> None:
        """Arm the timer; 0 disarms it."""
        seconds = int(until)
        when = _Itimerspec(value=_Timespec(seconds, int((until - seconds) * 1e9)))
        armed = self._library.timer_settime(self._timer, _TIMER_ABSTIME, ctypes.byref(when), None)
        _raise_for(armed, "timer_settime")


def process_deadline() -> ProcessDeadline | None:
    """A deadline for this process, if it can have one."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        return ProcessDeadline()
    except (OSError, AttributeError) as error:
        log.warning("No deadline for writes of a suspended process", error=str(error))
        return None


def _handle_by_exit(library: ctypes.CDLL) -> None:
    library.signal.restype = ctypes.c_void_p
    library.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    library.signal(EXIT_CODE, ctypes.cast(library._exit, ctypes.c_void_p))
    # Where the thread was goes to standard error, if there is one.
    with suppress(OSError, RuntimeError, ValueError):
        faulthandler.register(EXIT_CODE, all_threads=False, chain=True)


def _raise_for(result: int, function: str) -> None:
    if result:
        error = ctypes.get_errno()
        raise OSError(error, f"{function}: {os.strerror(error)}")
