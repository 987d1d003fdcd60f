"""Plugins are asked about a large pod before its attempt; the attempt decides as if they were not.

In between other tasks run, and change whatever they like.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler import slices
from tests.builders import (
    NodeBuilder,
    PodBuilder,
    constraint,
    make_pod,
    make_worker,
    requirement,
    term,
)
from tests.pipeline.support import Stage, turns

ZONE = "zone"


def a_node(number: int, good: bool = True) -> NodeBuilder:
    labels = {ZONE: f"z{number % 2}", "good": "yes" if good else "no"}
    return make_worker(f"node-{number}").label(**labels)


def a_long_pod(name: str) -> PodBuilder:
    """A pod with so many rules that it is rehearsed, of which one allows good nodes."""
    wishes = [term(requirement(f"key-{i}", "Exists")) for i in range(12)]
    pod = make_pod(name).label(app="a").cpu("100m")
    pod.required(*wishes, term(requirement("good", "In", "yes")))
    return pod.spread(constraint(ZONE, 5, labelSelector={"matchLabels": {"app": "a"}}))


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every checkpoint lets others run."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", -1.0)


def stage() -> Stage:
    scene = Stage()
    scene.see(*(a_node(number) for number in range(4)))
    return scene


async def attempt(scene: Stage, at: int, change: Any) -> int:
    """Attempt pods, and make a change at a turn of the loop; how many turns there were."""
    work = asyncio.create_task(scene.core.scheduler.run_slice())
    turn = 0
    while not work.done():
        if turn == at:
            change()
        turn += 1
        await asyncio.sleep(0)
    await work
    await scene.idle()
    if turn <= at:  # it was over before
        change()
    return turn


def test_only_pods_with_long_lists_are_rehearsed() -> None:
    assert a_long_pod("p").info().long
    assert not make_pod("p").required(term(requirement("good", "In", "yes"))).info().long


async def test_a_long_pod_takes_several_turns(short_slices: None) -> None:
    scene = stage()
    scene.see(a_long_pod("first"))
    first = await attempt(scene, -1, None)
    scene.see(a_long_pod("second"))
    assert await attempt(scene, -1, None) < first, "what is known of its class serves the second"
    assert len(scene.outlet.bound) == 2


@pytest.mark.parametrize("at", range(0, 24, 2))
async def test_nodes_that_change_meanwhile_are_judged_as_they_are(
    short_slices: None, at: int
) -> None:
    scene = stage()
    scene.see(a_long_pod("p"))
    placed_before = False

    def spoil() -> None:
        nonlocal placed_before
        placed_before = scene.core.state.pod("uid-p") is not None
        scene.see(*(a_node(number, good=number == 2) for number in range(4)))

    await attempt(scene, at, spoil)
    if not placed_before:
        assert scene.outlet.bound == [("default/p", "node-2")]


@pytest.mark.parametrize("at", range(0, 24, 2))
async def test_nodes_that_go_meanwhile_get_no_pod(short_slices: None, at: int) -> None:
    scene = stage()
    scene.see(a_long_pod("p"))
    placed_before = False

    def lose() -> None:
        nonlocal placed_before
        placed_before = scene.core.state.pod("uid-p") is not None
        scene.lose(*(a_node(number) for number in range(3)))
        scene.see(a_node(7, good=False))

    await attempt(scene, at, lose)
    if not placed_before:
        assert scene.outlet.bound == [("default/p", "node-3")]


@pytest.mark.parametrize("at", range(0, 24, 2))
async def test_a_pod_that_goes_meanwhile_is_not_placed(short_slices: None, at: int) -> None:
    scene = stage()
    scene.see(a_long_pod("p"))
    await attempt(scene, at, lambda: scene.lose(a_long_pod("p")))
    await turns()
    assert scene.core.state.pod("uid-p") is None
