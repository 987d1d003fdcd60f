"""The check before a binding, for pods whose cells are charged already."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api.outlet import StaleReason, never_stale
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


async def test_a_pod_that_may_be_bound_already_holds_its_cells_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numa = Numa().nodes("n1")
    numa.publish(make_topology().cell(16).knows())
    stage, reasons, cells = numa.stage, list[str](), list[object]()

    async def bind(pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        reasons.append(stale())
        # The answer is lost: the kubelet has the pod, and the watch of pods is late.
        numa.publish(make_topology().cell(10).knows("p").version(2))
        cells.append(numa.cache.cells.of_node(node))
        stage.see(large_node("n1", 64, "512Gi").label(colour="blue"))
        reasons.append(stale())
        cells.append(numa.cache.cells.of_node(node))
        return SUCCESS

    monkeypatch.setattr(stage.outlet, "bind", bind)
    numa.see(pinned("p", 6))
    stage.attempt()
    await stage.idle()
    assert reasons == ["", ""]
    assert cells[0] == cells[1]
