"""Remembered answers: how long they hold, who asks, and how many questions there may be."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.kube.errors import Unreachable
from scheduler.serve.access import (
    FRESH_SECONDS,
    MAX_ANSWERS,
    MAX_QUESTIONS,
    QUESTIONS_BURST,
    QUESTIONS_PER_SECOND,
    STALE_SECONDS,
    CannotAsk,
    Questions,
    ReviewCache,
)

Ask = Callable[[], Awaitable[bool]]


class World:
    """A clock that is set by hand and a server that returns set answers, and counts."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.truth = True
        self.down = False
        self.asked = 0
        self.answers: ReviewCache[bool] = ReviewCache(Questions(self.clock), self.clock)

    def clock(self) -> float:
        return self.now

    async def ask(self) -> bool:
        self.asked += 1
        if self.down:
            raise Unreachable("no connection")
        return self.truth

    async def get(self, key: object = "key") -> bool:
        return await self.answers.get(key, self.ask)


async def test_an_answer_holds_for_a_while_and_is_asked_for_again() -> None:
    world = World()
    assert await world.get()
    world.truth = False
    world.now += FRESH_SECONDS - 0.1
    assert await world.get()
    assert world.asked == 1
    world.now += 0.1
    assert not await world.get()
    assert world.asked == 2


async def test_a_no_holds_as_long() -> None:
    world = World()
    world.truth = False
    assert not await world.get()
    world.truth = True
    assert not await world.get()
    world.now += FRESH_SECONDS
    assert await world.get()


async def test_those_who_want_the_same_answer_share_the_question() -> None:
    world, gate = World(), asyncio.Event()

    async def slowly() -> bool:
        await gate.wait()
        return await world.ask()

    waiting = [asyncio.create_task(world.answers.get("key", slowly)) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [True] * 49
    assert world.asked == 1


async def test_a_yes_is_used_while_the_server_is_away_but_not_forever() -> None:
    world = World()
    assert await world.get()
    world.down = True
    world.now += STALE_SECONDS - 1
    assert await world.get()
    world.now += 1
    with pytest.raises(CannotAsk, match="no connection"):
        await world.get()


async def test_a_no_is_not_used_while_the_server_is_away() -> None:
    world = World()
    world.truth = False
    assert not await world.get()
    world.down = True
    world.now += FRESH_SECONDS
    with pytest.raises(CannotAsk):
        await world.get()


async def test_strangers_cannot_ask_without_end_nor_keep_others_out() -> None:
    world = World()
    assert await world.get("known")
    world.truth = False
    world.now += FRESH_SECONDS
    refused = 0
    for number in range(3 * QUESTIONS_BURST):
        try:
            assert not await world.get(number)
        except CannotAsk:
            refused += 1
    # One more than the burst goes through, on credit.
    assert refused == 2 * QUESTIONS_BURST - 1
    world.truth = True
    asked = world.asked
    assert await world.get("known")
    assert world.asked == asked + 1
    world.now += 2 / QUESTIONS_PER_SECOND
    assert await world.get("a newcomer")


async def test_questions_under_way_are_bounded() -> None:
    world, gate = World(), asyncio.Event()

    async def slowly() -> bool:
        await gate.wait()
        return True

    waiting = [asyncio.create_task(world.answers.get(n, slowly)) for n in range(MAX_QUESTIONS)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(CannotAsk, match="under way"):
        await world.get("one more")
    gate.set()
    assert all(await asyncio.gather(*waiting))
    assert await world.get("one more")


async def test_memory_is_bounded_and_no_pushes_no_yes_out() -> None:
    world = World()
    assert await world.get("known")
    world.truth = False
    for number in range(2 * MAX_ANSWERS):
        world.now += 1 / QUESTIONS_PER_SECOND
        await world.get(number)
    world.down = True
    assert await world.get("known")
    assert len(world.answers._no) == MAX_ANSWERS


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ask"), st.integers(0, 3)),
            st.tuples(st.just("wait"), st.floats(0, 400)),
            st.tuples(st.just("truth"), st.booleans()),
            st.tuples(st.just("down"), st.booleans()),
        ),
        max_size=40,
    )
)
def test_answers_are_never_older_than_allowed(steps: list[tuple[str, float]]) -> None:
    """Against the plain rule, over any history of changing truths and outages."""

    async def history() -> None:
        world = World()
        told: dict[float, tuple[bool, float]] = {}
        for what, value in steps:
            match what:
                case "wait":
                    world.now += value
                case "truth":
                    world.truth = bool(value)
                case "down":
                    world.down = bool(value)
                case _:
                    answer, since = told.get(value, (False, -1e9))
                    age = world.now - since
                    if age < FRESH_SECONDS:
                        expected: bool | None = answer
                    elif not world.down:
                        expected = world.truth
                        told[value] = (expected, world.now)
                    else:
                        expected = True if answer and age < STALE_SECONDS else None
                    try:
                        assert await world.get(value) is expected
                    except CannotAsk:
                        assert expected is None

    asyncio.run(history())
