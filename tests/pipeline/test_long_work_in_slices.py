"""Long synchronous work of the pipeline yields to the event loop, and stays correct."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler import inspection, slices
from scheduler.explaining.queries import QueueQuery
from scheduler.slices import in_slices
from scheduler.state.attachments import COUNTED_AT_ONCE, Attachments
from tests.builders import make_node, make_pod
from tests.pipeline.support import Stage, turns
from tests.plugins.storage import a_claim, a_class, a_csi_node, a_volume, csi, struct
from tests.plugins.storage import a_pod as a_volume_pod


@pytest.fixture(autouse=True)
def _slices_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)


class Steps:
    """Counts the turns that others get while something runs, and what is done between two."""

    def __init__(self) -> None:
        self.done = [0]

    async def run(self, work: Any) -> Any:
        task = asyncio.ensure_future(work)
        while not task.done():
            self.done.append(0)
            await asyncio.sleep(0)
        return await task

    def count(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        real = getattr(owner, name)

        def counted(*args: Any) -> Any:
            self.done[-1] += 1
            return real(*args)

        monkeypatch.setattr(owner, name, counted)


def see(stage: Stage, *raws: dict[str, Any]) -> None:
    for raw in raws:
        change = type("Change", (), {"old": None, "new": struct(raw)})
        stage.core.event_handlers.handler(raw["kind"])([change])


def with_volumes(nodes: int) -> Stage:
    stage = Stage()
    see(stage, a_class("late"))
    for i in range(nodes):
        stage.see(make_node(f"n{i}").cpu("4"))
        see(stage, a_csi_node(f"n{i}", {"csi.example.com": 1}))
        if i:  # all but one have as many volumes as they may
            see(stage, a_volume(f"pv{i}", spec=csi(f"h{i}")), a_claim(f"c{i}", volume=f"pv{i}"))
            see(stage, a_volume_pod(f"v{i}").claim(f"c{i}").on(f"n{i}").obj())
    see(stage, a_volume("pv", spec=csi("h")), a_claim("c", volume="pv"))
    return stage


@pytest.mark.parametrize("nodes", [100, 200])
async def test_the_first_pod_with_volumes_counts_few_rows_at_once(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, steps = with_volumes(nodes), Steps()
    see(stage, a_volume_pod("p").claim("c").obj())
    steps.count(monkeypatch, Attachments, "_count")
    await steps.run(stage.core.scheduler.in_turn(stage.attempt))
    await turns()
    assert stage.outlet.bound == [("default/p", "n0")]
    assert sum(steps.done) >= nodes
    assert max(steps.done) <= COUNTED_AT_ONCE + 1


async def test_a_pod_that_is_deleted_while_volumes_are_counted_is_not_attempted() -> None:
    stage = with_volumes(100)
    pod = a_volume_pod("p").claim("c")
    stage.see(pod)
    task = asyncio.create_task(stage.core.scheduler.in_turn(stage.attempt))
    await asyncio.sleep(0)
    stage.lose(pod)
    await task
    await turns()
    assert stage.outlet.bound == []
    assert stage.core.state.assumed_count == 0
    assert stage.core.queue.view.counts()["in-flight"] == 0


@pytest.mark.parametrize("limit", [1, 5, 100])
async def test_the_head_of_the_queue_is_listed_as_in_the_whole(limit: int) -> None:
    stage = Stage()
    stage.see(make_node("n").cpu("1"))
    stage.see(*(make_pod(f"large{i}").cpu("2").priority(i) for i in range(4)))
    await stage.run()
    stage.see(*(make_pod(f"gated{i}").gate("later") for i in range(3)))
    stage.see(*(make_pod(f"ready{i}").priority(-i % 3) for i in range(5)))
    whole = stage.core.queue.view.snapshot()
    assert await in_slices(stage.core.queue.view.first, limit) == whole[:limit]
    assert len(whole) == 12


async def test_pods_that_leave_while_the_queue_is_listed_are_left_out() -> None:
    stage = Stage()
    pods = [make_pod(f"p{i}") for i in range(20)]
    stage.see(*pods)
    task = asyncio.create_task(in_slices(inspection.queue, stage.core, QueueQuery(20)))
    await turns(3)
    stage.lose(*pods[10:])
    answer = await task
    assert {entry["tier"] for entry in answer["pods"]} == {"active"}
    assert 10 <= len(answer["pods"]) < 20


@pytest.mark.parametrize("nodes", [50, 100])
async def test_an_explanation_is_of_one_moment_and_given_in_slices(nodes: int) -> None:
    stage, steps = Stage(), Steps()
    stage.see(*(make_node(f"n{i}").cpu("4" if i % 2 else "1") for i in range(nodes)))
    pods = {"default/p": make_pod("p").cpu("2").struct()}
    work = asyncio.ensure_future(inspection.explain(stage.core, pods, "default/p"))
    await turns(3)
    stage.lose(*(make_node(f"n{i}") for i in range(nodes)))
    answer = await steps.run(work)
    assert len(answer["nodes"]) == nodes
    assert len(answer["fit"]) == len(answer["scores"]) == nodes // 2
    assert answer["node"] in answer["fit"]
    assert len(steps.done) >= nodes
