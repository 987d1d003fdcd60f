"""What a search for remedies costs: nothing grows with the square of anything, or cannot stop."""

from __future__ import annotations

import asyncio
import difflib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.explaining.remedies.scene import Blockers
from scheduler.explaining.remedies.spelling import LONGEST, close_to
from scheduler.simulation import explain
from scheduler.slices import in_slices
from tests.builders import constraint, make_node, make_pod

NAMES = st.text("ab-1", min_size=1, max_size=8)


class Compared(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Compared.compared += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def test_the_nearest_nodes_are_found_with_one_look_at_each() -> None:
    names = [Compared(f"n{number}") for number in range(200)]
    blockers = Blockers(names, (), (), "PodSpec")
    Compared.compared = 0
    assert blockers.nearest([Compared(name) for name in names])[2] == names
    assert Compared.compared <= 4 * len(names)


@given(NAMES, st.lists(NAMES, unique=True, max_size=12), st.integers(1, 3))
def test_names_are_compared_as_difflib_does(name: str, known: list[str], most: int) -> None:
    assert close_to(name, known, most, 0.6) == difflib.get_close_matches(name, known, most, 0.6)


async def test_names_are_compared_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.slices.SLICE_SECONDS", 0.0)
    switches: list[Any] = []
    known = [f"data-{number}" for number in range(50)]

    async def others() -> None:
        while True:
            switches.append(None)
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert await in_slices(close_to, "data-7x", known, 1, 0.6) == ["data-7"]
    task.cancel()
    assert len(switches) >= len(known)


def test_a_text_that_is_no_name_is_not_compared() -> None:
    name = "x" * (LONGEST + 1)
    assert close_to(name, [name[1:]], 1, 0.6) == []
    assert close_to(name[1:], [name], 1, 0.6) == []


@pytest.mark.parametrize("skew", [-5, -1, 0])
def test_a_skew_that_the_api_server_would_refuse_stops_nothing(skew: int) -> None:
    nodes = [make_node(f"n{i}").cpu(4).label(zone=f"z{i}").obj() for i in range(2)]
    placed = [make_pod("q").label(app="a").on("n0").obj()]
    spread = constraint("zone", labelSelector={"matchLabels": {"app": "a"}}, maxSkew=skew)
    answer = explain([*nodes, *placed], make_pod("p").label(app="a").spread(spread).obj())
    assert all(remedy["opens"] for remedy in answer["remedies"])
