"""From a watch event to a binding, and back to the queue: the ways of a pod that go right."""

from __future__ import annotations

import asyncio

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from tests.builders import make_node, make_pod, make_worker
from tests.patience import PATIENCE
from tests.pipeline.support import Note, Stage, Word


async def test_a_pod_is_assumed_bound_and_confirmed() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("p").cpu("1"))
    stage.attempt()
    assert stage.core.state.assumed("uid-p")
    assert stage.cpu("n1") == 1000
    await stage.idle()
    assert stage.outlet.bound == [("default/p", "n1")]
    assert stage.core.state.assumed("uid-p")
    stage.see(make_pod("p").cpu("1").on("n1"))
    assert not stage.core.state.assumed("uid-p")
    stage.check()
    assert stage.outlet.events == [
        Note("default/p", "Normal", "Scheduled", "Binding", "Successfully assigned default/p to n1")
    ]
    assert stage.outlet.conditions == []
    assert stage.core.queue.view.counts()["in-flight"] == 0


async def test_the_next_pod_sees_what_was_assumed() -> None:
    stage = Stage()
    stage.see(make_node("n1").cpu("1"), make_node("n2").cpu("1"))
    stage.see(make_pod("p").cpu("1"), make_pod("q").cpu("1"))
    await stage.run()
    assert sorted(node for _, node in stage.outlet.bound) == ["n1", "n2"]


async def test_higher_priority_goes_first() -> None:
    stage = Stage()
    stage.see(make_node("n1").cpu("1"))
    stage.see(make_pod("low").cpu("1"), make_pod("high").cpu("1").priority(10))
    await stage.run()
    assert stage.outlet.bound == [("default/high", "n1")]


async def test_no_node_fits_then_one_appears() -> None:
    stage = Stage()
    stage.see(
        make_node("small").cpu("1"), make_worker("tainted").taint("t"), make_pod("p").cpu("2")
    )
    await stage.run()
    message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    assert stage.outlet.conditions == [Word("default/p", "Unschedulable", message)]
    assert stage.outlet.events == [
        Note("default/p", "Warning", "FailedScheduling", "Scheduling", message)
    ]
    assert stage.tiers() == {"p": "unschedulable"}

    stage.see(make_node("also-small").cpu("1").taint("t"))
    assert stage.tiers() == {"p": "unschedulable"}
    stage.see(make_worker("large"))
    assert stage.tiers() == {"p": "backoff"}
    await stage.later(2.0)
    assert stage.outlet.bound == [("default/p", "large")]
    stage.check()


async def test_without_any_node() -> None:
    stage = Stage()
    stage.see(make_pod("p"))
    await stage.run()
    message = "no nodes available to schedule pods"
    assert stage.outlet.conditions == [Word("default/p", "Unschedulable", message)]
    stage.see(make_worker("n1"))
    await stage.later(2.0)
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_a_gated_pod_is_not_tried_before_its_gates_are_gone() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("p").gate("example.com/wait"))
    await stage.run()
    assert stage.tiers() == {"p": "gated"}
    assert stage.outlet.events == []
    stage.see(make_pod("p"))
    await stage.run()
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_pods_of_other_schedulers_are_accounted_for_and_left_alone() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("theirs").scheduler("default-scheduler").cpu("1"))
    await stage.run()
    assert stage.core.queue.view.snapshot() == []
    stage.see(make_pod("theirs").scheduler("default-scheduler").cpu("1").on("n1"))
    assert stage.cpu("n1") == 1000
    stage.check()


async def test_a_pod_that_is_going_away_is_not_scheduled() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("p").deleting())
    await stage.run()
    assert stage.outlet.bound == []
    assert stage.core.queue.view.counts()["in-flight"] == 0


async def test_the_loop_runs_until_it_is_stopped() -> None:
    stage = Stage()
    bound = asyncio.Event()

    async def answer(pod: PodInfo, node: str) -> Status:
        bound.set()
        return SUCCESS

    stage.outlet.answer = answer
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        tasks.create_task(stage.core.scheduler.run())
        stage.see(make_worker("n1"), make_pod("p"))
        await bound.wait()
        stage.core.scheduler.stop()
        stage.see(make_pod("q"))
    await stage.idle()
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_what_was_decided_can_be_looked_up() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("p"), make_pod("huge").cpu("64"))
    await stage.run()
    newest = {decision.pod: decision for decision in stage.core.decisions.latest(10)}
    assert newest["default/p"].node == "n1"
    assert newest["default/p"].feasible == 1
    assert newest["default/huge"].plugins == ("NodeResourcesFit",)
    assert (
        stage.sample("scheduler_schedule_attempts_total", result="scheduled", profile="equipoise")
        == 1
    )
    assert (
        stage.sample(
            "scheduler_schedule_attempts_total", result="unschedulable", profile="equipoise"
        )
        == 1
    )
