"""The machine's clocks and dice: the one place where the daemon reads the time or draws lots.

A default argument `clock: Callable[[], float] = machine.monotonic` is bound when its module is
imported, so these are functions that ask the machine in use. A simulation puts its own in place of
it (`use`), and thereby decides everything that the scheduler does not decide itself.

`perf_counter` is asked at every checkpoint of long work. It is therefore the machine's own
function: call it as `machine.perf_counter()`, and keep no reference to it.
"""

from __future__ import annotations

import random as _random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

_BOOTTIME = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


class MachineSources(Protocol):
    """What a machine tells a process; clocks in seconds."""

    def monotonic(self) -> float:
        """Never goes back."""

    def boottime(self) -> float:
        """The same, and counts also while the machine is suspended."""

    def wall(self) -> float:
        """Since 1970, as people set it; may step."""

    def perf_counter(self) -> float:
        """The finest clock that never goes back."""

    def random(self) -> float:
        """From [0, 1)."""

    def uuid4(self) -> uuid.UUID:
        """Never drawn before."""


class ThisMachine:
    """The machine that the process runs on."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    perf_counter = staticmethod(time.perf_counter)
    random = staticmethod(_random.random)
    uuid4 = staticmethod(uuid.uuid4)

    @staticmethod
    def boottime() -> float:
        """Also counts while the process or the machine is suspended."""
        return time.clock_gettime(_BOOTTIME)


_machine: MachineSources = ThisMachine()

perf_counter: Callable[[], float] = time.perf_counter
"""The finest clock, for how long work takes."""


def monotonic() -> float:
    """For durations and deadlines."""
    return _machine.monotonic()


def clock() -> Callable[[], float]:
    """The function behind `monotonic` of the machine that is in use now.

    For what is made within a simulation and asks for every pod: it spares a call each time.
    """
    return _machine.monotonic


def boottime() -> float:
    """For what other machines measure as well: counts while this one is suspended."""
    return _machine.boottime()


def wall() -> float:
    """Seconds since 1970. Only for what people read: it may step."""
    return _machine.wall()


def utc_now() -> datetime:
    """The wall clock as a date."""
    return datetime.fromtimestamp(_machine.wall(), UTC)


def random() -> float:
    """From [0, 1); for jitter, not for secrets."""
    return _machine.random()


def uuid4() -> uuid.UUID:
    """A new name."""
    return _machine.uuid4()


@contextmanager
def use(machine: MachineSources) -> Iterator[None]:
    """Ask another machine within the block. For simulations: it holds for the whole process."""
    global _machine, perf_counter
    before = _machine
    _machine, perf_counter = machine, machine.perf_counter
    try:
        yield
    finally:
        _machine, perf_counter = before, before.perf_counter
