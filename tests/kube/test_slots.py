"""Slots: bindings before events, owners in turn, never too many, and no write forgotten."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.kube.slots import Slots

TOTAL, LEAST, MOST = 3, 1, 2


class Writer:
    """A task that takes a slot and keeps it until told."""

    def __init__(self, slots: Slots, *, patient: bool, owner: str = "a") -> None:
        self.patient = patient
        self.owner = owner
        self.holds = False
        self._slots = slots
        self._finish = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self._slots.take(self.owner, patient=self.patient)
        self.holds = True
        try:
            await self._finish.wait()
        finally:
            self.holds = False
            self._slots.release(self.owner, patient=self.patient)

    def finish(self) -> None:
        self._finish.set()


async def settle() -> None:
    """Let all writes proceed that may: one that ends before its turn passes it on at once."""
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
    slots = Slots(2, least=0, most=2)
    writers = [Writer(slots, patient=patient) for patient in (True, False, False)]
    await settle()
    assert all(writer.holds for writer in writers), "an owner's first event is let through"
    event, binding = Writer(slots, patient=True), Writer(slots, patient=False)
    await settle()
    writers[1].finish()
    await settle()
    assert (event.holds, binding.holds) == (False, True)
    writers[2].finish()
    binding.finish()
    await settle()
    assert event.holds
    event.finish()
    writers[0].finish()
    await asyncio.gather(event.task, writers[0].task)


async def test_a_turn_that_comes_together_with_a_cancellation_is_passed_on() -> None:
    slots = Slots(1, least=0, most=1)
    await slots.take("a")
    cancelled, next_one = Writer(slots, patient=False), Writer(slots, patient=False)
    await settle()
    slots.release("a")
    cancelled.task.cancel()
    await settle()
    assert next_one.holds
    next_one.finish()
    await next_one.task


async def test_requests_of_one_owner_that_hang_leave_slots_to_others() -> None:
    slots = Slots(64, least=0, most=1)
    hanging = [Writer(slots, patient=False, owner="hangs") for _ in range(1000)]
    await settle()
    assert sum(writer.holds for writer in hanging) == 64
    for number in range(10):  # the others come after those that wait, one owner after the other
        other = Writer(slots, patient=False, owner=f"other-{number}")
        await settle()
        assert other.holds
        other.finish()
        await other.task
    for writer in hanging:
        writer.task.cancel()
    await asyncio.gather(*(writer.task for writer in hanging), return_exceptions=True)


async def test_owners_take_turns_whoever_came_first() -> None:
    slots = Slots(1, least=0, most=1)
    await slots.take("x")
    await slots.take("y")
    flood = [Writer(slots, patient=False, owner="flood") for _ in range(50)]
    one = Writer(slots, patient=False, owner="one")
    await settle()
    slots.release("x")
    await settle()
    assert flood[0].holds
    flood[0].finish()
    await settle()
    assert one.holds
    for writer in (*flood, one):
        writer.task.cancel()
    await asyncio.gather(*(writer.task for writer in (*flood, one)), return_exceptions=True)


class SlotsLaw(RuleBasedStateMachine):
    """Against the naive rule: with nothing running in between, all that may go have gone."""

    EACH = 6

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.writers: list[Writer] = []
        self.slots = Slots(self.EACH, least=LEAST, most=MOST)

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

    @rule(some=st.lists(st.tuples(st.booleans(), st.sampled_from("abcd")), min_size=1, max_size=6))
    def come(self, some: list[tuple[bool, str]]) -> None:
        self.settle(
            lambda: self.writers.extend(
                Writer(self.slots, patient=patient, owner=owner) for patient, owner in some
            )
        )

    @rule(choices=st.lists(st.tuples(st.integers(0, 19), st.booleans()), min_size=1, max_size=4))
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

    def count(self, *, patient: bool, holds: bool, owner: str | None = None) -> int:
        return sum(
            w.patient is patient and w.holds is holds and owner in (None, w.owner)
            for w in self.writers
        )

    @invariant()
    def limits_hold(self) -> None:
        assert self.count(patient=False, holds=True) <= self.EACH + self.EACH // 3
        assert self.count(patient=True, holds=True) <= MOST + 1
        for owner in "abcd":
            assert self.count(patient=False, holds=True, owner=owner) <= self.EACH
            assert self.count(patient=True, holds=True, owner=owner) <= MOST

    @invariant()
    def nobody_waits_without_a_reason(self) -> None:
        urgent = self.count(patient=False, holds=True)
        patient = self.count(patient=True, holds=True)
        for owner in "abcd":
            mine = self.count(patient=False, holds=True, owner=owner)
            if self.count(patient=False, holds=False, owner=owner):
                left = self.EACH + self.EACH // 3 - urgent
                assert not left or mine + 1 > 3 * (left - 1)
                assert mine or not left, "who holds nothing has the next slot"
            mine = self.count(patient=True, holds=True, owner=owner)
            if self.count(patient=True, holds=False, owner=owner):
                left = MOST + 1 - patient
                crowded = mine and patient >= LEAST and urgent + patient >= self.EACH
                assert crowded or not left or mine + 1 > 3 * (left - 1)

    @invariant()
    def turns_of_an_owner_go_by_arrival(self) -> None:
        for patient in (False, True):
            for owner in "abcd":
                mine = [w.holds for w in self.writers if (w.patient, w.owner) == (patient, owner)]
                assert mine == sorted(mine, reverse=True)


TestSlotsLaw = SlotsLaw.TestCase
