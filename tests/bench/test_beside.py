"""Who is beyond: in the API server's order of bindings, whoever comes to a full node."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from bench.cluster.beside import PER_NODE, Binding, beyond
from bench.core.beside import fill
from tests.sim.loop import VirtualLoop

OURS, THEIRS = "equipoise", "kube-scheduler"


def bindings(*sides_and_nodes: tuple[str, str]) -> list[Binding]:
    return [Binding(number, *each, 0.0) for number, each in enumerate(sides_and_nodes)]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param([(OURS, "a"), (THEIRS, "a")], (0, 0), id="the node is just full"),
        pytest.param([(OURS, "a"), (OURS, "a"), (THEIRS, "a")], (0, 1), id="theirs came last"),
        pytest.param([(THEIRS, "a"), (THEIRS, "a"), (OURS, "a")], (1, 0), id="ours came last"),
        pytest.param([(OURS, "a"), (THEIRS, "b"), (OURS, "a"), (OURS, "b")], (0, 0), id="two"),
        pytest.param([(OURS, "a")] * 3 + [(THEIRS, "a")], (1, 1), id="both"),
    ],
)
def test_bindings_to_full_nodes_are_counted(
    seen: list[tuple[str, str]], expected: tuple[int, int]
) -> None:
    found = beyond(reversed(bindings(*seen)), per_node=2)
    assert (found[OURS], found[THEIRS]) == expected


def filled(nodes: int, seconds: float) -> list[Binding]:
    """Both sides fill nodes in virtual time, with real cores."""
    make = partial(VirtualLoop, random.Random(0), shuffle=False)
    with asyncio.Runner(loop_factory=make) as runner:
        api, _ = runner.run(fill(nodes, 400, seconds, seed=0))
    return api.bindings


def test_room_that_is_left_to_others_is_what_they_take() -> None:
    without, with_room = (
        sum(beyond(filled(100, seconds), PER_NODE).values()) for seconds in (0.0, 5.0)
    )
    assert without >= 8
    assert with_room <= without // 4


def test_the_same_seed_is_the_same_history() -> None:
    assert filled(10, 1.0) == filled(10, 1.0)
