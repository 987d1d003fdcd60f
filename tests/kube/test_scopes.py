"""Blocks that are ended from outside: by what, and what the task raises."""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scheduler.kube.scopes as scopes_module
from scheduler.kube.scopes import Deadlines, EndableScope

from .support import eventually, promptly


class Stopped(Exception):
    """What the tests end scopes with."""


def a_scope(among: dict[EndableScope, None]) -> EndableScope:
    return EndableScope(among, asyncio.get_running_loop())


async def test_a_scope_that_is_ended_raises_what_it_was_ended_with() -> None:
    scopes: dict[EndableScope, None] = {}

    async def work() -> str:
        try:
            with a_scope(scopes):
                await asyncio.Event().wait()
        except Stopped:
            await asyncio.sleep(0)  # the task itself is not cancelled
            return "stopped"
        return "done"

    task = asyncio.create_task(work())
    await promptly(lambda: bool(scopes))
    [scope] = scopes
    scope.end(Stopped())
    scope.end(ValueError("the first one counts"))
    assert await task == "stopped"
    assert not scopes
    assert task.cancelling() == 0


async def test_a_block_that_ends_by_itself_knows_nothing_of_scopes() -> None:
    scopes: dict[EndableScope, None] = {}
    with a_scope(scopes):
        await asyncio.sleep(0)
    assert not scopes
    with pytest.raises(KeyError), a_scope(scopes):
        raise KeyError


async def test_a_cancellation_by_somebody_else_passes_through() -> None:
    scopes: dict[EndableScope, None] = {}

    async def work() -> None:
        with a_scope(scopes):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await promptly(lambda: bool(scopes))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not scopes


async def test_of_both_at_once_the_cancellation_wins() -> None:
    scopes: dict[EndableScope, None] = {}

    async def work() -> None:
        with a_scope(scopes):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await promptly(lambda: bool(scopes))
    task.cancel()
    for scope in scopes:
        scope.end(Stopped())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_inner_scope_that_is_ended_leaves_the_outer_one_alone() -> None:
    outer: dict[EndableScope, None] = {}
    inner: dict[EndableScope, None] = {}
    after = asyncio.Event()

    async def work() -> None:
        with a_scope(outer):
            with suppress(Stopped), a_scope(inner):
                await asyncio.Event().wait()
            after.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await promptly(lambda: bool(inner))
    [scope] = inner
    scope.end(Stopped())
    await after.wait()
    [scope] = outer
    scope.end(Stopped())
    with pytest.raises(Stopped):
        await task


async def test_a_deadline_ends_only_whom_it_is_for() -> None:
    deadlines = Deadlines()
    go_on = asyncio.Event()

    async def patient() -> str:
        with deadlines.scope(60.0):
            await go_on.wait()
        return "in time"

    other = asyncio.create_task(patient())
    with pytest.raises(TimeoutError), deadlines.scope(0.01):
        await asyncio.Event().wait()
    go_on.set()
    assert await other == "in time"


async def test_the_timer_rests_when_nobody_is_waiting_and_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scopes_module, "REST_SECONDS", 0.06)
    deadlines = Deadlines()
    for _ in range(2):
        with deadlines.scope(60.0):
            await asyncio.sleep(0)
        await eventually(lambda: deadlines._timer is None)
        with pytest.raises(TimeoutError), deadlines.scope(0.0):
            await asyncio.Event().wait()


class CountedLoop:
    """Notes when timers are set."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> "CountedLoop":
        self.timers.append((when, callback))
        return self

    def cancel(self) -> None:
        self.cancelled += 1


async def test_long_waits_are_looked_at_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines, loop = Deadlines(), CountedLoop()
    monkeypatch.setattr(deadlines, "_loop", loop)
    watch = deadlines.scope(130.0)
    deadlines._scopes[watch] = None
    assert [when for when, _ in loop.timers] == [110.0]  # no more than a long rest
    deadlines.scope(30.0)
    assert len(loop.timers) == 1  # in time for that one
    deadlines.scope(5.0)
    assert [when for when, _ in loop.timers] == [110.0, 105.0]
    assert loop.cancelled == 1
    loop.now = 105.0
    loop.timers[-1][1]()
    assert loop.timers[-1][0] == 115.0
    loop.now = 229.9
    loop.timers[-1][1]()
    assert loop.timers[-1][0] == 230.0


@given(st.lists(st.tuples(st.floats(0.0, 0.2), st.floats(-60.0, 60.0)), max_size=60))
def test_no_later_block_puts_off_the_look_at_an_earlier_one(
    blocks: list[tuple[float, float]],
) -> None:
    """A block is looked at within a tick of its limit, however many come and go after it."""
    asyncio.run(_looked_at_in_time(blocks))


async def _looked_at_in_time(blocks: list[tuple[float, float]]) -> None:
    deadlines, loop = Deadlines(), CountedLoop()
    deadlines._loop = cast("asyncio.AbstractEventLoop", loop)
    must_look = math.inf
    for pause, seconds in blocks:
        loop.now += pause
        if deadlines._looks_at <= loop.now:
            loop.timers[-1][1]()
            must_look = math.inf
        scope = deadlines.scope(seconds)
        deadlines._scopes[scope] = None
        must_look = min(must_look, max(scope.limit, loop.now) + scopes_module.TICK_SECONDS)
        assert deadlines._looks_at <= must_look + 1e-9
        del deadlines._scopes[scope]
