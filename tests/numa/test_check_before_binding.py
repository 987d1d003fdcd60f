"""The check before a binding, for pods whose cells are charged already."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from tests.numa.support import Numa, large_node, make_topology, pinned
from tests.pipeline.support import turns


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("args", [{}, {"discardReservedNodes": True}], ids=["reserve", "discard"])
async def test_a_pod_does_not_stand_in_its_own_way(args: dict[str, bool], taken: bool) -> None:
    numa = Numa(reserve=not args, **args).nodes("n1")
    numa.publish(make_topology().cell(8).knows())
    stage, turn = numa.stage, asyncio.Event()

    async def in_turn(pod: PodInfo, node: str) -> Status:
        await turn.wait()
        return SUCCESS

    stage.outlet.answer = in_turn
    numa.see(pinned("p", 6))
    stage.attempt()
    await turns()
    before = numa.plugin.cache.cells.of_node("n1")
    if taken:  # by a pod of another scheduler, which the node publishes
        numa.runs(pinned("other", 4).scheduler("other"))
        numa.publish(make_topology().cell(4).knows("other").version(2))
    else:
        stage.see(large_node("n1", 64, "512Gi").label(colour="blue"))
    turn.set()
    await stage.idle()
    assert stage.outlet.bound == ([] if taken else [("default/p", "n1")])
    if not taken:
        assert numa.plugin.cache.cells.of_node("n1") == before, "it counts as before"
