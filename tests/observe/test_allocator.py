"""The allocator keeps what is freed for a while, and returns what lies idle."""

from __future__ import annotations

import asyncio
import ctypes
import platform

import pytest

from scheduler.observe.allocator import (
    IDLE_BYTES,
    KEPT_IDLE_BYTES,
    Glibc,
    Heap,
    IdleMemory,
    keep_freed_memory,
)
from scheduler.observe.metrics import Metrics
from tests.kube.support import ManualClock

MIB = 2**20
only_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has this")


class SetHeap:
    """An allocator with set statistics."""

    def __init__(self, free: int, resident: int, used: int = 0) -> None:
        self.free = free
        self.resident = resident
        self.used = used
        self.trims = 0
        self.asked = 0

    def keep(self, freed: int, largest: int) -> bool:
        return True

    def heap(self) -> Heap:
        self.asked += 1
        return Heap(self.free, self.used)

    def resident_bytes(self) -> int:
        return self.resident

    def trim(self, keep: int) -> None:
        """What is returned still counts as free."""
        self.trims += 1
        self.resident -= max(0, self.free - keep)


async def looks(memory: IdleMemory, times: int = IdleMemory.LOOKS) -> None:
    for _ in range(times):
        await memory.look()


@only_glibc
def test_the_allocator_takes_its_settings() -> None:
    assert keep_freed_memory()


@only_glibc
def test_the_allocator_tells_what_is_free_and_resident() -> None:
    glibc = Glibc()
    glibc.trim(IDLE_BYTES)
    free, before = glibc.heap()
    assert free > 0
    piece = bytearray(64 * MIB)
    assert glibc.heap().used - before >= len(piece)
    assert glibc.resident_bytes() > MIB


async def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory()
    metrics = Metrics()
    await looks(IdleMemory(metrics.memory_returned))
    assert metrics.registry.get_sample_value("equipoise_memory_returned_bytes_total") == 0


async def test_what_was_free_at_every_look_is_returned_once() -> None:
    heap, metrics = SetHeap(free=100 * MIB, resident=200 * MIB), Metrics()
    memory = IdleMemory(metrics.memory_returned, heap)
    await looks(memory, IdleMemory.LOOKS - 1)
    assert heap.trims == 0
    await looks(memory, 1)
    assert heap.trims == 1
    returned = metrics.registry.get_sample_value("equipoise_memory_returned_bytes_total")
    assert returned == 100 * MIB - KEPT_IDLE_BYTES
    await looks(memory, 10 * IdleMemory.LOOKS)
    assert heap.trims == 1, "nothing has become resident since"
    heap.resident += 100 * MIB
    await looks(memory)
    assert heap.trims == 2


async def test_what_was_in_use_at_the_last_trim_is_returned_when_it_is_free() -> None:
    heap = SetHeap(free=50 * MIB, resident=500 * MIB, used=300 * MIB)
    memory = IdleMemory(Metrics().memory_returned, heap)
    await looks(memory)
    assert heap.trims == 1, "in the middle of a flood"
    heap.free, heap.used = heap.free + 300 * MIB, 0
    await looks(memory)
    assert heap.trims == 2
    await looks(memory, 10 * IdleMemory.LOOKS)
    assert heap.trims == 2


async def test_what_is_used_from_time_to_time_is_kept() -> None:
    heap = SetHeap(free=100 * MIB, resident=200 * MIB)
    memory = IdleMemory(Metrics().memory_returned, heap)
    for free in (100, 0, 100) * 3:
        heap.free = free * MIB
        await memory.look()
    assert heap.trims == 0


async def test_little_is_not_worth_a_trim() -> None:
    heap = SetHeap(free=IDLE_BYTES, resident=200 * MIB)
    await looks(IdleMemory(Metrics().memory_returned, heap))
    assert heap.trims == 0


async def test_looks_that_take_long_are_rare() -> None:
    clock, slept = ManualClock(), []

    class SlowHeap(SetHeap):
        def heap(self) -> Heap:
            clock.now += 0.0005 if self.asked < 2 else 0.01
            return super().heap()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 5:
            raise asyncio.CancelledError

    heap = SlowHeap(free=0, resident=100 * MIB, used=90 * MIB)
    memory = IdleMemory(Metrics().memory_returned, heap, sleep=sleep, clock=clock)
    with pytest.raises(asyncio.CancelledError):
        await memory.run()
    assert slept == [2.0, 2.0, 2.0, pytest.approx(5.0), pytest.approx(5.0)]


async def test_a_look_asks_for_the_heap_once() -> None:
    heap = SetHeap(free=0, resident=100 * MIB, used=90 * MIB)
    await looks(IdleMemory(Metrics().memory_returned, heap))
    assert heap.asked == IdleMemory.LOOKS
