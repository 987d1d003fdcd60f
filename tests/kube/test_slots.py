"""Turns: bindings before events, in order, never too many, and nobody forgotten."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.kube.slots import Slots

TOTAL, LEAST, MOST = 3, 1, 2


class Writer:
    """A task that takes a slot and keeps it until told."""

    def __init__(self, slots: Slots, *, patient: bool) -> None:
        self.patient = patient
        self.holds = False
        self._slots = slots
        self._finish = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self._slots.take(patient=self.patient)
        self.holds = True
        try:
            await self._finish.wait()
        finally:
            self.holds = False
            self._slots.release(patient=self.patient)

    def finish(self) -> None:
        self._finish.set()


async def settle() -> None:
    """Let everybody go who may: one who is finished before its turn passes it on at once."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("urgent", "patient", "holding"),
    [
        pytest.param(5, 0, (3, 0), id="bindings up to the total"),
        pytest.param(0, 5, (0, 2), id="events up to their most"),
        pytest.param(2, 5, (2, 1), id="events in what bindings leave"),
        pytest.param(5, 5, (3, 1), id="one event beside any number of bindings"),
    ],
)
async def test_who_may_write(urgent: int, patient: int, holding: tuple[int, int]) -> None:
    slots = Slots(TOTAL, least=LEAST, most=MOST)
    writers = [Writer(slots, patient=False) for _ in range(urgent)]
    await settle()
    writers += [Writer(slots, patient=True) for _ in range(patient)]
    await settle()
    holds = [writer for writer in writers if writer.holds]
    assert (
        sum(not writer.patient for writer in holds),
        sum(writer.patient for writer in holds),
    ) == holding
    for writer in writers:
        writer.task.cancel()
    await asyncio.gather(*(writer.task for writer in writers), return_exceptions=True)


async def test_bindings_that_come_later_go_before_events_that_wait() -> None:
    slots = Slots(1, least=0, most=1)
    first = Writer(slots, patient=False)
    await settle()
    event, binding = Writer(slots, patient=True), Writer(slots, patient=False)
    await settle()
    first.finish()
    await settle()
    assert (event.holds, binding.holds) == (False, True)
    binding.finish()
    await settle()
    assert event.holds
    event.finish()
    await event.task


async def test_a_turn_that_comes_together_with_a_cancellation_is_passed_on() -> None:
    slots = Slots(1, least=0, most=1)
    await slots.take()
    cancelled, next_one = Writer(slots, patient=False), Writer(slots, patient=False)
    await settle()
    slots.release()
    cancelled.task.cancel()
    await settle()
    assert next_one.holds
    next_one.finish()
    await next_one.task


class SlotsLaw(RuleBasedStateMachine):
    """Against the naive rule: with nobody running in between, whoever may go has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.writers: list[Writer] = []
        self.slots = Slots(TOTAL, least=LEAST, most=MOST)

    def teardown(self) -> None:
        for writer in self.writers:
            writer.task.cancel()
        self.settle()
        self.loop.close()

    def settle(self, act: Callable[[], None] = lambda: None) -> None:
        async def run() -> None:
            act()
            await settle()

        self.loop.run_until_complete(run())
        self.writers = [writer for writer in self.writers if not writer.task.done()]

    @rule(patient=st.lists(st.booleans(), min_size=1, max_size=5))
    def come(self, patient: list[bool]) -> None:
        self.settle(
            lambda: self.writers.extend(Writer(self.slots, patient=each) for each in patient)
        )

    @rule(choices=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=4))
    def end(self, choices: list[tuple[int, bool]]) -> None:
        def act() -> None:
            for number, cancel in choices:
                if number < len(self.writers):
                    writer = self.writers[number]
                    if cancel:
                        writer.task.cancel()
                    else:
                        writer.finish()

        self.settle(act)

    def count(self, *, patient: bool, holds: bool) -> int:
        return sum(w.patient is patient and w.holds is holds for w in self.writers)

    @invariant()
    def limits_hold(self) -> None:
        urgent = self.count(patient=False, holds=True)
        patient = self.count(patient=True, holds=True)
        assert urgent <= TOTAL
        assert patient <= MOST

    @invariant()
    def nobody_waits_without_a_reason(self) -> None:
        urgent = self.count(patient=False, holds=True)
        patient = self.count(patient=True, holds=True)
        if self.count(patient=False, holds=False):
            assert urgent == TOTAL
        if self.count(patient=True, holds=False):
            assert patient >= LEAST
            assert patient == MOST or urgent + patient >= TOTAL

    @invariant()
    def turns_go_by_arrival(self) -> None:
        for patient in (False, True):
            holds = [w.holds for w in self.writers if w.patient is patient]
            assert holds == sorted(holds, reverse=True)


TestSlotsLaw = SlotsLaw.TestCase
