"""Free memory in the allocator: kept for speed, returned to the kernel when it stays unused.

Every attempt makes and drops dozens of arrays over all nodes. With its usual settings glibc returns
their pages to the kernel each time and gets them back one page fault at a time, a third of all the
work. So the allocator keeps what is freed, and what a flood of large objects left behind is
returned later, when it has been free for a while.
"""

from __future__ import annotations

import asyncio
import ctypes
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Never, Protocol

from scheduler import machine
from scheduler.observe.instruments import Counter
from scheduler.observe.tables import Tables

# Parameters of glibc's mallopt, from malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
LARGEST_COLUMN_BYTES = 16 << 20
KEPT_BYTES = 64 << 20

_STATM = Path("/proc/self/statm")

IDLE_BYTES = 8 << 20
"""As much may lie idle; of more, so much is left."""
KEPT_IDLE_BYTES = 2 << 20
HOLES_BYTES = 1 << 20
"""When so much less is in use than at the last trim, or a sixteenth, another one may find more."""
LOOK_SECONDS = 2.0
LOOK_SHARE = 0.002
"""Looks take no more of the time: one that takes 10 ms, with very many free pieces, is rare."""


class Heap(NamedTuple):
    """Bytes of the C library's heap."""

    free: int
    """Free in its arenas, resident or not."""
    used: int
    """Given out, and not got back."""


class Allocator(Protocol):
    """Statistics and controls of the C library's heap. Each call is one call of C."""

    def keep(self, freed: int, largest: int) -> bool:
        """Keep so many freed bytes, of pieces up to the largest; returns whether it can."""

    def heap(self) -> Heap:
        """What the C library has given out and what it has free. Visits every free piece."""

    def resident_bytes(self) -> int:
        """Bytes of the whole process that are in memory."""

    def trim(self, keep: int) -> None:
        """Return free memory to the kernel, but for some bytes. Lets other threads run."""


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


class Glibc:
    """The allocator of glibc; another C library has habits of its own, and is left alone."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._mallopt = getattr(library, "mallopt", None)
        self._trim = getattr(library, "malloc_trim", None)
        self._info = getattr(library, "mallinfo2", None)  # since 2.33
        if self._info is not None:
            self._info.restype = _Mallinfo2
        if self._trim is not None:
            self._trim.argtypes = [ctypes.c_size_t]

    def keep(self, freed: int, largest: int) -> bool:
        if self._mallopt is None:
            return False
        kept = self._mallopt(M_TRIM_THRESHOLD, freed)
        return bool(kept and self._mallopt(M_MMAP_THRESHOLD, largest))

    def heap(self) -> Heap:
        if self._info is None:
            return Heap(0, 0)
        info = self._info()
        return Heap(int(info.fordblks), int(info.uordblks + info.hblkhd))

    def resident_bytes(self) -> int:
        try:
            return int(_STATM.read_text().split()[1]) * resource.getpagesize()
        except OSError:  # no /proc here
            return 0

    def trim(self, keep: int) -> None:
        if self._trim is not None:
            self._trim(keep)


def keep_freed_memory(allocator: Allocator | None = None) -> bool:
    """Have the allocator keep what arrays over all nodes free; returns whether it can."""
    return (allocator or Glibc()).keep(KEPT_BYTES, LARGEST_COLUMN_BYTES)


class IdleMemory:
    """Returns memory to the kernel that was free at every look for a while.

    Before each look, tables that are too long are made short.

    Memory that was returned still counts as free, and arrays come and go all the time. So it looks
    for what is free and has become resident since the last trim, or was in use then. `run` it as a
    task for the process's life.
    """

    LOOKS = 3

    def __init__(
        self,
        returned: Counter,
        allocator: Allocator | None = None,
        *,
        tables: Tables | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._clock = clock
        self._took = 0.0
        """How long it took to ask for the heap."""
        self._returned = returned
        self._tables = tables or Tables()
        self._allocator: Allocator = allocator or Glibc()
        self._sleep = sleep
        self._other = 0
        """What was resident and not in use after the last trim, or less since: little of it is
        the C library's, so a trim returns none of it."""
        self._in_use = 0
        """The most that was in use since the last trim."""
        self._idle: list[int] = []

    async def run(self) -> Never:
        """Look from time to time, until cancelled."""
        while True:
            await self._sleep(max(LOOK_SECONDS, self._took / LOOK_SHARE))
            await self.look()

    async def look(self) -> None:
        """Look once. The trim runs in another thread; one of a gigabyte takes 0.3 s.

        Asks for the heap once: that takes 10 ms and more if there are very many free pieces.
        """
        self._tables.shrink()
        resident = self._allocator.resident_bytes()
        began = self._clock()
        free, used = self._allocator.heap()
        self._took = self._clock() - began
        unused = resident - used
        self._in_use = max(self._in_use, used)
        if self._in_use - used > max(HOLES_BYTES, used // 16):
            self._other = 0  # what was left around things in use may be whole pages by now
        self._other = min(self._other, unused)
        self._idle.append(min(free, unused - self._other))
        if len(self._idle) < self.LOOKS:
            return
        idle = min(self._idle)
        self._idle.clear()
        if idle > IDLE_BYTES:
            await asyncio.to_thread(self._allocator.trim, KEPT_IDLE_BYTES)
            left = self._allocator.resident_bytes()
            self._in_use = self._allocator.heap().used
            self._other = left - self._in_use
            self._returned.inc(max(0, resident - left))
