"""Blocks that are ended from outside: by what, and what the task raises."""

import asyncio
from contextlib import suppress

import pytest

from scheduler.kube.scopes import Deadlines, EndableScope

from .support import eventually, promptly


class Stopped(Exception):
    """What the tests end scopes with."""


def a_scope(among: set[EndableScope]) -> EndableScope:
    return EndableScope(among, asyncio.get_running_loop())


async def test_a_scope_that_is_ended_raises_what_it_was_ended_with() -> None:
    scopes: set[EndableScope] = set()

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
    scopes: set[EndableScope] = set()
    with a_scope(scopes):
        await asyncio.sleep(0)
    assert not scopes
    with pytest.raises(KeyError), a_scope(scopes):
        raise KeyError


async def test_a_cancellation_by_somebody_else_passes_through() -> None:
    scopes: set[EndableScope] = set()

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
    scopes: set[EndableScope] = set()

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
    outer: set[EndableScope] = set()
    inner: set[EndableScope] = set()
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


async def test_the_timer_rests_when_nobody_is_waiting_and_starts_again() -> None:
    deadlines = Deadlines()
    for _ in range(2):
        with deadlines.scope(60.0):
            await asyncio.sleep(0)
        await eventually(lambda: deadlines._timer is None)
        with pytest.raises(TimeoutError), deadlines.scope(0.0):
            await asyncio.Event().wait()
