"""Remedies are searched in slices: nothing is done for many nodes between two checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from scheduler import slices
from scheduler.explaining.remedies import occupancy, taints
from scheduler.explaining.remedies.scene import Scene, World, WrittenObjects
from scheduler.slices import in_slices
from tests.builders import PodBuilder, make_node, make_pod
from tests.pipeline.support import Stage

NODES = 60


@pytest.fixture(autouse=True)
def _slices_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)


def scene(pod: PodBuilder, nodes: int = NODES) -> Scene:
    """A pod among nodes no two of which are alike."""
    stage = Stage()
    stage.see(*(make_node(f"n{i:02}").cpu(f"{100 + i}m").taint(f"k{i}") for i in range(nodes)))
    (framework,) = stage.core.frameworks.values()
    return Scene(World(framework, stage.core.state, pod.info(), WrittenObjects()))


async def turns_of(work: Callable[[], Any]) -> tuple[Any, int]:
    """The result of some work, and how often others ran meanwhile."""
    turns, task = 0, asyncio.ensure_future(in_slices(work))
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    return task.result(), turns


async def test_sets_of_taints_are_compared_in_slices() -> None:
    there, names = scene(make_pod("p")), [f"n{i:02}" for i in range(NODES)]
    steps, turns = await turns_of(lambda: list(taints.tolerate(there, names)))
    expected = [f"tolerate the taint k{i}:NoSchedule" for i in range(taints.MOST_SETS)]
    assert [step.summary for step in steps] == expected
    assert turns >= 2 * NODES  # once for each node, and once for each set


async def test_shapes_of_nodes_are_compared_in_slices() -> None:
    there, names = scene(make_pod("p")), [f"n{i:02}" for i in range(NODES)]
    found, turns = await turns_of(lambda: occupancy.shapes(there, names))
    assert found == names[: occupancy.MOST_SHAPES]
    assert turns >= 2 * NODES


async def test_nodes_that_lack_least_are_found_in_slices() -> None:
    there, names = scene(make_pod("p").cpu("50m")), [f"n{i:02}" for i in range(NODES)]
    found, turns = await turns_of(lambda: list(occupancy.wait(there, names)))
    assert found == []  # no pod is being deleted
    assert turns >= 2 * NODES


async def test_nodes_that_go_meanwhile_are_left_out() -> None:
    there = scene(make_pod("p"))
    names = ["gone", *(f"n{i:02}" for i in range(NODES))]
    found = occupancy.shapes(there, names)
    assert found == names[1 : 1 + occupancy.MOST_SHAPES]
