"""Answers that cost a request elsewhere: remembered for a while, asked for once, and bounded.

Everybody who reaches the port can make us ask, with tokens that nobody issued. So the number of
questions is limited, by rate and at one time, and who was let in a moment ago is let in again when
the API server cannot be asked: a scrape goes on through an outage, and through a flood of such
strangers.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from scheduler.kube.errors import KubeError
from scheduler.kube.pacing import RateLimit

FRESH_SECONDS = 10.0
"""How long an answer holds without asking again; kube-scheduler's default for both reviews."""
STALE_SECONDS = 300.0
"""How long a yes may be used when the question cannot be asked."""
MAX_ANSWERS = 512
"""Of each kind, yes and no; the oldest go first."""
MAX_QUESTIONS = 16
QUESTIONS_PER_SECOND = 20.0
QUESTIONS_BURST = 100

Value = TypeVar("Value")


class CannotAsk(Exception):
    """There is no answer now, neither old nor new; the text says why."""


class _Known(NamedTuple, Generic[Value]):
    value: Value
    since: float


class Questions:
    """How many questions may be asked, of whatever kind."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limit = RateLimit(QUESTIONS_PER_SECOND, QUESTIONS_BURST, clock=clock)
        self._open_again = 0.0
        self._under_way = 0

    def begin(self, *, by_stranger: bool) -> None:
        """Count a question in; raises CannotAsk if strangers have asked too many."""
        if by_stranger:
            if self._under_way >= MAX_QUESTIONS:
                raise CannotAsk(f"{MAX_QUESTIONS} reviews are under way")
            # A reservation cannot be given back, so none is made before the last one is due.
            now = self._clock()
            if now < self._open_again:
                raise CannotAsk(f"there were more than {QUESTIONS_PER_SECOND:g} reviews a second")
            self._open_again = now + self._limit.reserve()
        self._under_way += 1

    def end(self) -> None:
        """Count it out."""
        self._under_way -= 1


class Answers(Generic[Value]):
    """Answers by key. A no (None, False) is never used when stale, nor does it push a yes out.

    Who has a yes that is merely stale is no stranger: the question is asked however many others
    there are.
    """

    def __init__(self, questions: Questions, clock: Callable[[], float] = time.monotonic) -> None:
        self._questions = questions
        self._clock = clock
        self._yes: OrderedDict[Hashable, _Known[Value]] = OrderedDict()
        self._no: OrderedDict[Hashable, _Known[Value]] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Task[Value | CannotAsk]] = {}

    async def get(
        self, key: Hashable, ask: Callable[[], Awaitable[Value]], *, stale: bool = True
    ) -> Value:
        """The answer for `key`, from memory or by `ask`, which may raise KubeError.

        Those who want the same answer at the same time share one question. Raises CannotAsk, also
        instead of a `stale` answer if that will not do.
        """
        known = self._yes.get(key) or self._no.get(key)
        age = self._clock() - known.since if known is not None else math.inf
        if known is not None and age < FRESH_SECONDS:
            return known.value
        good_enough = known is not None and bool(known.value) and age < STALE_SECONDS
        answer = await self._asked(key, ask, by_stranger=not good_enough)
        if not isinstance(answer, CannotAsk):
            return answer
        if known is not None and good_enough and stale:
            return known.value
        raise answer

    async def _asked(
        self, key: Hashable, ask: Callable[[], Awaitable[Value]], *, by_stranger: bool
    ) -> Value | CannotAsk:
        task = self._asking.get(key)
        if task is None:
            # A task of its own, since whoever asked first may hang up before the others.
            question = self._ask(key, ask, by_stranger=by_stranger)
            task = self._asking[key] = asyncio.create_task(question, name="review")
            task.add_done_callback(lambda _: self._asking.pop(key))
        return await asyncio.shield(task)

    async def _ask(
        self, key: Hashable, ask: Callable[[], Awaitable[Value]], *, by_stranger: bool
    ) -> Value | CannotAsk:
        try:
            self._questions.begin(by_stranger=by_stranger)
        except CannotAsk as refusal:
            return refusal
        try:
            value = await ask()
        except KubeError as fault:
            return CannotAsk(str(fault))
        finally:
            self._questions.end()
        self._remember(key, value)
        return value

    def _remember(self, key: Hashable, value: Value) -> None:
        kept, other = (self._yes, self._no) if value else (self._no, self._yes)
        other.pop(key, None)
        kept[key] = _Known(value, self._clock())
        kept.move_to_end(key)
        if len(kept) > MAX_ANSWERS:
            kept.popitem(last=False)
