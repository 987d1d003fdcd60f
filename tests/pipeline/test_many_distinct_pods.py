"""Many different pods that fit nowhere: an event costs the same however many they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scheduler import slices
from scheduler.slices import in_slices
from tests.builders import PodBuilder, make_node, make_pod, pod_term
from tests.pipeline.support import Change, Stage

NODES = 8


def hint_calls(stage: Stage) -> int:
    """How often hints and columns were asked."""
    (family,) = stage.metrics.queueing_hint_execution_duration.collect()
    return round(sum(s.value for s in family.samples if s.name.endswith("_count")))


async def crowded(*waiting: PodBuilder) -> tuple[Stage, list[PodBuilder]]:
    """A full cluster, and pods that wait for room."""
    stage = Stage()
    stage.see(*(make_node(f"n{i}").cpu("4").label(zone=f"z{i % 2}") for i in range(NODES)))
    running = [make_pod(f"r{i}").cpu("3").on(f"n{i % NODES}") for i in range(NODES)]
    stage.see(*running, *waiting)
    await stage.run()
    assert stage.core.queue.view.counts()["unschedulable"] == len(waiting)
    return stage, running


KINDS = {
    "requests": lambda i: make_pod(f"w{i}").cpu(f"{5000 + i}m"),
    "labels of nodes": lambda i: make_pod(f"w{i}").node_selector(zone=f"elsewhere-{i}"),
    "labels of pods": lambda i: make_pod(f"w{i}").near(pod_term("zone", {"app": f"a{i}"})),
    "tolerations": lambda i: make_pod(f"w{i}").cpu("5").toleration(f"k{i}", "Exists"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_events_cost_as_many_calls_for_twice_as_many_kinds_of_pods(kind: str) -> None:
    calls = []
    for count in (20, 40):
        stage, running = await crowded(*map(KINDS[kind], range(count)))
        before = hint_calls(stage)
        stage.lose(*running[:4])
        stage.see(make_pod("new").cpu("1").label(app="other").on("n0"))
        stage.see(make_node("n1").cpu("4").label(zone="z1", rack="r"))
        calls.append(hint_calls(stage) - before)
        assert stage.core.queue.view.counts()["unschedulable"] == count
    assert calls[0] == calls[1]


async def test_room_for_one_costs_one_attempt_though_many_would_fit() -> None:
    pods = [make_pod(f"w{i:03}").cpu(f"{2000 + i}m") for i in range(150)]
    stage, running = await crowded(*pods)
    stage.clock.advance(60)
    before = sum(entry.attempts for entry in stage.core.queue.view.snapshot())
    stage.lose(running[0])
    stage.see(make_pod("late").cpu("1"))
    await stage.run()
    assert stage.outlet.bound == [("default/w000", "n0"), ("default/late", "n0")]
    after = sum(entry.attempts for entry in stage.core.queue.view.snapshot())
    assert before - after == 1  # that of the one that is bound
    assert stage.core.queue.view.counts()["unschedulable"] == 149


async def test_one_who_finds_the_room_taken_is_woken_when_there_is_room_again() -> None:
    pods = [make_pod(f"w{i:03}").cpu(f"{2000 + i}m") for i in range(100)]
    stage, running = await crowded(*pods)
    stage.clock.advance(60)
    for node in running:
        stage.lose(node)
        await stage.run()
    assert len(stage.outlet.bound) == NODES
    assert [pod for pod, _ in stage.outlet.bound] == [f"default/w{i:03}" for i in range(NODES)]


async def test_pods_that_may_not_go_to_the_freed_node_are_not_tried() -> None:
    pods = [make_pod(f"w{i}").cpu("2").label(n=str(i)).node_selector(zone="z1") for i in range(5)]
    stage, running = await crowded(*pods)
    stage.clock.advance(60)
    stage.lose(running[0])  # in zone z0
    await stage.run()
    assert {entry.attempts for entry in stage.core.queue.view.snapshot()} == {1}


class Turns:
    """How often the event loop runs while something runs in slices that end at once."""

    def __init__(self) -> None:
        self.count = 0

    async def of(self, work: Callable[[], object]) -> int:
        task = asyncio.create_task(self._count())
        await in_slices(work)
        task.cancel()
        return self.count

    async def _count(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


@pytest.fixture
def _slices_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)


@pytest.mark.usefixtures("_slices_end_at_once")
async def test_changes_are_taken_in_one_by_one() -> None:
    stage = Stage()
    changes = [Change(None, make_pod(f"p{i}").struct()) for i in range(50)]
    assert await Turns().of(lambda: stage.core.event_handlers.handler("Pod")(changes)) >= 50


@pytest.mark.usefixtures("_slices_end_at_once")
async def test_pods_that_go_back_without_an_attempt_hold_up_nobody() -> None:
    stage, running = await crowded(*(make_pod(f"w{i}").cpu(f"{2000 + i}m") for i in range(100)))
    stage.see(make_node("n0").cpu("4").pods("1").label(zone="z0"))
    stage.clock.advance(60)
    stage.lose(running[0])
    stage.see(make_pod("tiny").cpu("10m").on("n0"))  # there is room, but for no further pod
    assert await Turns().of(stage.core.queue.pop) >= 100
    assert stage.core.queue.view.counts()["unschedulable"] == 100


@pytest.mark.usefixtures("_slices_end_at_once")
async def test_back_offs_that_end_together_hold_up_nobody() -> None:
    stage, _ = await crowded(*(make_pod(f"w{i}").cpu(f"{2000 + i}m") for i in range(100)))
    stage.see(*(make_node(f"new{i}").cpu("1") for i in range(2)))
    stage.clock.advance(301)
    assert await Turns().of(stage.core.queue.flush) >= 50
