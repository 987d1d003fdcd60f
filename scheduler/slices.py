"""Synchronous work in slices: long work gives the event loop back from wherever it is.

Code that may take long calls `checkpoint` where the state is consistent. Run through `in_slices`,
it stops there when its slice is over, the event loop runs everything else that is ready, and the
code continues where it stopped. Called otherwise (a test, the simulation), `checkpoint` does
nothing and the work runs in one piece::

    def count(nodes):                    await in_slices(count, nodes)
        for node in nodes:
            checkpoint()
            ...

After a checkpoint everything may have changed: nodes may be gone, rows may belong to other nodes.
Code looks up again what it needs, or asks `slices_ended` whether anything else ran in between.
A section that changes the state for a while and reverts that runs as `unbroken`: no checkpoint
inside it stops. If it takes some milliseconds, `whole_slice` comes before it.

All work in slices shares one slice in each turn of the event loop: what is ready at once would
otherwise hold the loop for the sum of it. Work that finds the slice of this turn over waits for
another turn, in order of arrival.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from greenlet import getcurrent, greenlet

from scheduler import machine

SLICE_SECONDS = 0.005
"""How long synchronous work, all of it together, may hold the event loop in one turn."""

PACE = 2048
"""How many entries of an object are read between two checkpoints. No pod within the default limits
has as many of a kind, so reading such a pod never stops."""

_WHOLE = 0.8
"""The share of a slice that must be left for a piece that no checkpoint divides."""

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


async def _yield() -> None:
    await asyncio.sleep(0)


_rest: ContextVar[Callable[[], Awaitable[None]]] = ContextVar("rest", default=_yield)


@contextmanager
def resting(rest: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Have work in slices that is begun within the block, and its tasks, rest so between slices."""
    token = _rest.set(rest)
    try:
        yield
    finally:
        _rest.reset(token)


class LoopTurn:
    """What work in slices has of a turn of one event loop.

    A turn begins with the first slice in it, and ends when the loop has run all that was ready.
    """

    __slots__ = ("_begun", "_ends_at", "_waiting")

    def __init__(self) -> None:
        self._begun = False
        self._ends_at = 0.0
        self._waiting: deque[object] = deque()

    async def slice(self, *, whole: bool) -> float:
        """Return when there is time for work, and how much; a whole slice if that is asked."""
        if self._begun and not whole:
            left = self._ends_at - machine.perf_counter()
            if left > 0:
                return left
        if self._begun or self._waiting:
            await self._next()
        self._begun = True
        self._ends_at = machine.perf_counter() + SLICE_SECONDS
        asyncio.get_running_loop().call_soon(self._end)  # which runs in the next turn
        return SLICE_SECONDS

    async def _next(self) -> None:
        """Wait for a turn in which no slice has begun, and for those that came before."""
        ticket = object()
        self._waiting.append(ticket)
        try:
            # Not an event: that would wake those who wait one turn too late.
            while self._begun or self._waiting[0] is not ticket:  # noqa: ASYNC110  as said above
                await asyncio.sleep(0)
        finally:
            self._waiting.remove(ticket)

    def _end(self) -> None:
        self._begun = False


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTurn] = WeakKeyDictionary()
TURN: ContextVar[LoopTurn | None] = ContextVar("turn", default=None)
"""Set where several processes are simulated on one event loop: they do not wait for each other."""


def _turn() -> LoopTurn:
    own = TURN.get()
    if own is not None:
        return own
    loop = asyncio.get_running_loop()
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = LoopTurn()
    return turn


class _Sliced(greenlet):  # type: ignore[misc]  # greenlet ships no types
    """The stack of one piece of work; its parent is the stack that awaits it."""

    seconds = 0.0
    ends_at = 0.0
    unbroken = 0
    ended = 0

    def begin(self, seconds: float) -> None:
        """Begin a slice of so many seconds."""
        self.seconds = seconds
        self.ends_at = machine.perf_counter() + seconds


async def in_slices(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function; its checkpoints give the event loop back every `SLICE_SECONDS`.

    Cancelled, the function ends at the checkpoint where it is, with its ``finally`` blocks run.
    """
    work = _Sliced(partial(function, *args, **kwargs))
    result: R = await _run(work, _never)
    return result


async def in_slices_until(stopped: Callable[[], bool], function: Callable[[], R]) -> R | None:
    """Call a function likewise; once stopped, it ends at its checkpoint, and None is returned."""
    result: R | None = await _run(_Sliced(function), stopped)
    return result


def _never() -> bool:
    return False


async def _run(work: _Sliced, stopped: Callable[[], bool]) -> Any:
    work.gr_context = copy_context()  # else context variables have no values in there
    turn = _turn()
    work.begin(await turn.slice(whole=False))
    try:
        while True:
            result = work.switch()
            if work.dead:
                return result
            await _rest.get()()
            work.begin(await turn.slice(whole=True))
            if stopped():
                return None
    finally:
        if not work.dead:
            work.unbroken += 1  # what ends now ends in one piece
            work.throw()


def checkpoint() -> None:
    """Give the event loop back if the slice is over; costs a tenth of a microsecond if not."""
    work = getcurrent()
    if isinstance(work, _Sliced) and not work.unbroken and machine.perf_counter() >= work.ends_at:
        work.ended += 1
        work.parent.switch()


def slice_seconds() -> float:
    """How much time the slice had when it began: less than a whole one if others had it before."""
    work = getcurrent()
    return work.seconds if isinstance(work, _Sliced) else SLICE_SECONDS


def whole_slice() -> None:
    """Give the event loop back unless the slice has just begun.

    For before a piece that takes long and has no checkpoint: it is not added to what came before.
    """
    work = getcurrent()
    begun = isinstance(work, _Sliced) and not work.unbroken
    if begun and machine.perf_counter() >= work.ends_at - _WHOLE * SLICE_SECONDS:
        work.ended += 1
        work.parent.switch()


def paced(items: Collection[T]) -> Iterable[T]:
    """The items; of more than `PACE` with a checkpoint after each so many."""
    return items if len(items) <= PACE else _paced(items)


def _paced(items: Iterable[T]) -> Iterator[T]:
    for number, item in enumerate(items, 1):
        yield item
        if not number % PACE:
            checkpoint()


def slices_ended() -> int:
    """How many slices of this work are over: the same number twice means that nothing else ran."""
    work = getcurrent()
    return work.ended if isinstance(work, _Sliced) else 0


class _Unbroken:
    """Not a generator: decisions enter such a section several times."""

    __slots__ = ("_work",)

    def __init__(self) -> None:
        work = getcurrent()
        self._work: _Sliced | None = work if isinstance(work, _Sliced) else None

    def __enter__(self) -> None:
        if self._work is not None:
            self._work.unbroken += 1

    def __exit__(self, *fault: object) -> None:
        if self._work is not None:
            self._work.unbroken -= 1


def unbroken() -> AbstractContextManager[None]:
    """A section that no checkpoint interrupts."""
    return _Unbroken()
