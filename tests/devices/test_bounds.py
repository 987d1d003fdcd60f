"""What the index keeps is bounded, and what it forgets changes no answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.devices import DeviceIndex, grouping, index, segments, selectors
from scheduler.devices.selectors import SelectorTable
from scheduler.model.devices import AllocationResult, ResourceClaim
from scheduler.model.objects import from_dict
from tests.devices.support import DRIVER, Json, ask, claim, device, index_of, slice_of
from tests.devices.test_law import Verdict, change, found, indexed
from tests.devices.worlds import World

LIMITS = (
    (segments, "MANY_NUMBERS", -(10**9)),
    (index, "ANSWER_BYTES", -1),
    (grouping, "PATTERN_BYTES", -1),
    (selectors, "MANY_VERDICTS", 1),
)
"""With these nothing is kept from one question to the next."""


def answers(known: DeviceIndex, claims: Sequence[ResourceClaim], rows: int) -> list[Verdict]:
    judged = known.judge(claims, range(rows))
    assert [judged.outcomes[code].fits for code in judged.codes] == [
        known.judge_one(claims, row).fits for row in range(rows)
    ]
    return [found(known, claims, row) for row in range(rows)]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_forgetting_changes_no_answer(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    forgetful = indexed(world)
    claims = [world.claims() for _ in range(2)]
    for _ in range(3):
        for each in claims:
            with ExitStack() as limits:
                for module, name, value in LIMITS:
                    limits.enter_context(patch.object(module, name, value))
                mine = answers(forgetful, each, len(world.nodes))
            assert mine == answers(indexed(world), each, len(world.nodes))
        change(random, world, forgetful)


def share(amount: int) -> AllocationResult:
    """A share of the device, of which there are many sizes."""
    result: Json = {"request": "r", "driver": DRIVER, "pool": "n0", "device": "d"}
    result |= {"shareID": f"s-{amount}", "consumedCapacity": {"memory": f"{amount}"}}
    return from_dict({"devices": {"results": [result]}}, AllocationResult)


def test_numbers_of_shares_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MANY_NUMBERS", 20)
    known = index_of("n0")
    capacity = {"memory": {"value": "1000000"}}
    shared = device("d", allowMultipleAllocations=True, capacity=capacity)
    known.set_slice(None, slice_of("n0", [shared]))
    wanted = [claim(ask(capacity={"requests": {"memory": "1"}}))]
    most = 0
    for amount in range(1, 200):
        known.set_claim("c", share(amount))
        assert known.judge_one(wanted, 0).fits
        most = max(most, known.usage()["device_states"].entries)
    assert 20 < most <= 40


def test_answers_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "ANSWER_BYTES", 10_000)
    known = index_of("n0")
    known.set_slice(None, slice_of("n0", [device(f"d{i}") for i in range(4)]))
    for number in range(100):
        known.judge_one([claim(ask(expression=f"{number} > 0", count=1))], 0)
        assert known.usage()["device_answers"].bytes <= 12_000
    assert known.usage()["device_answers"].evictions > 0


def test_verdicts_of_all_selectors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "MANY_VERDICTS", 50)
    known = index_of("n0")
    devices = [device(f"d{i}", attributes={"serial": f"s{i}"}) for i in range(20)]
    known.set_slice(None, slice_of("n0", devices))
    for number in range(20):
        expression = f'device.attributes["{DRIVER}"].serial != "x{number}"'
        known.judge_one([claim(ask(expression=expression, count=20))], 0)
        assert known.selectors._tally.verdicts <= 50
    assert known.usage()["device_selector_verdicts"].evictions >= 350


def test_long_selectors_are_kept_within_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "SELECTOR_BYTES", 100_000)
    table = SelectorTable()
    for number in range(50):
        table.get(f"device.driver != '{number}{'x' * 100}'")
    assert table.usage().bytes <= 100_000
    assert 0 < table.usage().entries < 50
