"""When a binding fails: the pod is unreserved and forgotten, and others are not affected."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.fairness import Shares
from scheduler.framework.registry import merge
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error
from scheduler.pipeline.open_bindings import SLOW_LIMIT, SLOW_SECONDS
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.outlet import StaleReason, never_stale
from scheduler.plugins.table import IN_TREE
from tests.builders import make_node, make_pod, make_worker
from tests.patience import PATIENCE
from tests.pipeline.support import RecordingOutlet, Stage, Word, turns


class HeldBinding:
    """An API server that takes its time: each binding waits until the test sets its outcome."""

    def __init__(self) -> None:
        self.answers: dict[str, asyncio.Future[Status]] = {}

    async def __call__(self, pod: PodInfo, node: str) -> Status:
        self.answers[pod.key] = asyncio.get_running_loop().create_future()
        return await self.answers[pod.key]

    def end(self, pod: str, status: Status) -> None:
        self.answers[f"default/{pod}"].set_result(status)


@pytest.fixture
async def stage() -> Stage:
    stage = Stage()
    stage.see(make_node("n1").cpu("2"))
    return stage


@pytest.fixture
async def held(stage: Stage) -> HeldBinding:
    held = HeldBinding()
    stage.outlet.answer = held
    return held


async def start(stage: Stage, name: str) -> None:
    """See a pod of 2 CPUs and bring it to its binding."""
    stage.see(make_pod(name).cpu("2"))
    stage.attempt()
    await turns()


async def test_a_refused_binding_gives_the_node_back_and_wakes_others(
    stage: Stage, held: HeldBinding
) -> None:
    await start(stage, "p")
    await start(stage, "q")
    assert stage.tiers() == {"q": "unschedulable"}
    held.end("p", error("etcd is full"))
    await stage.idle()
    assert stage.cpu("n1") == 0
    assert stage.tiers() == {"p": "error-backoff", "q": "backoff"}
    said = 'running Bind plugin "DefaultBinder": etcd is full'
    assert stage.outlet.conditions[-1] == Word("default/p", "SchedulerError", said)
    stage.check()


async def test_a_failed_pod_is_tried_again_after_its_back_off(stage: Stage) -> None:
    answers = iter([error("timeout"), SUCCESS])

    async def answer(pod: PodInfo, node: str) -> Status:
        return next(answers)

    stage.outlet.answer = answer
    stage.see(make_pod("p").cpu("2"))
    await stage.run()
    assert stage.outlet.bound == []
    await stage.later(2.0)
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_an_outlet_that_raises_costs_one_attempt(stage: Stage) -> None:
    async def answer(pod: PodInfo, node: str) -> Status:
        raise ConnectionError("cut")

    stage.outlet.answer = answer
    stage.see(make_pod("p").cpu("2"))
    await stage.run()
    assert stage.cpu("n1") == 0
    (word,) = stage.outlet.conditions
    assert word.reason == "SchedulerError"
    assert "ConnectionError: cut" in word.message


async def test_a_pod_deleted_while_it_is_bound_frees_its_node_at_once(
    stage: Stage, held: HeldBinding
) -> None:
    await start(stage, "p")
    await start(stage, "q")
    stage.lose(make_pod("p"))
    assert stage.cpu("n1") == 0
    assert stage.tiers() == {"q": "backoff"}
    held.end("p", error("not found"))
    await stage.idle()
    assert stage.tiers() == {"q": "backoff"}
    stage.check()


async def test_nothing_is_said_about_a_pod_that_is_gone(stage: Stage, held: HeldBinding) -> None:
    await start(stage, "p")
    stage.lose(make_pod("p"))
    held.end("p", error("not found"))
    await stage.idle()
    assert stage.outlet.conditions == []
    assert stage.outlet.events == []


async def test_a_pod_that_others_bound_stays_where_it_is(stage: Stage, held: HeldBinding) -> None:
    stage.see(make_worker("n2").taint("t"))
    await start(stage, "p")
    stage.see(make_pod("p").cpu("2").on("n2"))
    assert (stage.cpu("n1"), stage.cpu("n2")) == (0, 2000)
    held.end("p", error("conflict: already bound"))
    await stage.idle()
    assert (stage.cpu("n1"), stage.cpu("n2")) == (0, 2000)
    assert stage.tiers() == {}
    # It is scheduled, by another scheduler: a condition that denies it would be wrong.
    assert stage.outlet.conditions == []
    stage.check()


async def test_a_confirmation_may_come_before_the_answer(stage: Stage, held: HeldBinding) -> None:
    await start(stage, "p")
    stage.see(make_pod("p").cpu("2").on("n1"))
    held.end("p", SUCCESS)
    await stage.idle()
    assert stage.cpu("n1") == 2000
    assert stage.core.queue.view.counts()["in-flight"] == 0
    stage.check()


async def test_a_binding_that_happened_after_all_is_kept(stage: Stage, held: HeldBinding) -> None:
    """The answer says it failed, the watch says it is there: the watch is right."""
    await start(stage, "p")
    stage.see(make_pod("p").cpu("2").on("n1"))
    held.end("p", error("timeout"))
    await stage.idle()
    assert stage.cpu("n1") == 2000
    assert stage.tiers() == {}
    stage.check()


async def test_a_change_of_the_pod_while_it_is_bound_is_not_lost(
    stage: Stage, held: HeldBinding
) -> None:
    await start(stage, "p")
    stage.see(make_pod("p").cpu("2").label(version="2"))
    held.end("p", error("timeout"))
    await stage.idle()
    stage.clock.advance(2.0)
    await stage.core.scheduler.run_slice()
    await turns()
    retried = stage.core.state.pod("uid-p")
    assert retried is not None
    assert retried.pod.metadata.labels == {"version": "2"}
    held.end("p", SUCCESS)
    await stage.idle()


async def test_no_more_bindings_than_allowed_are_under_way(stage: Stage, held: HeldBinding) -> None:
    stage.core.bindings._limit = 1
    stage.see(make_worker("n2"), make_pod("p"), make_pod("q"))
    await stage.core.scheduler.run_slice()
    await turns()
    assert len(held.answers) == 1
    assert stage.core.queue.view.counts()["active"] == 1
    (first,) = held.answers
    held.end(first.split("/")[1], SUCCESS)
    await stage.core.bindings.room()
    await stage.core.scheduler.run_slice()
    await turns()
    assert len(held.answers) == 2
    await stage.core.bindings.stop()
    assert len(stage.core.bindings) == 0


async def test_bindings_that_hang_leave_the_room_of_others_to_others(
    stage: Stage, held: HeldBinding
) -> None:
    """Room for many is worth waiting for, but not until the last that hang are given up."""
    stage.core.bindings._limit = 16
    stage.see(*(make_worker(f"n{number}") for number in range(2, 5)))
    stage.see(*(make_pod(f"p{number}") for number in range(17)))
    await stage.core.scheduler.run_slice()
    await turns()
    assert stage.core.bindings.full
    held.end(next(iter(held.answers)).split("/")[1], SUCCESS)
    async with asyncio.timeout(PATIENCE):
        await stage.core.bindings.room()
    await stage.core.scheduler.run_slice()
    await turns()
    assert len(held.answers) == 17
    await stage.core.bindings.stop()


async def test_pods_that_wait_for_their_volumes_keep_nobody_from_being_bound() -> None:
    """Preparations may take minutes: only those that are being bound count towards the limit."""

    class Slow:
        name = "Slow"
        ready = asyncio.Event()

        def __init__(self, args: object, handle: Handle) -> None: ...

        async def pre_bind(self, cycle: Cycle, node: str) -> Status:
            if cycle.pod.pod.metadata.labels:
                await self.ready.wait()
            return SUCCESS

    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Slow"}]}}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "equipoise", **profile}],
    }
    stage = Stage(merge(IN_TREE, {"Slow": Slow}), (config,))
    stage.core.bindings._limit = 2
    stage.core.bindings.open.shares = Shares(4)
    stage.see(make_worker("n1"))
    loop = asyncio.create_task(stage.core.scheduler.run())
    stage.see(*(make_pod(f"slow-{number}").label(volume="slow") for number in range(3)))
    await turns(20)
    stage.see(make_pod("quick"))
    await turns(20)
    assert stage.outlet.bound == [("default/quick", "n1")]
    stage.see(*(make_pod(f"slow-{number}").label(volume="slow") for number in range(3, 6)))
    await turns(20)
    assert len(stage.core.bindings) == 4, "their number is bounded too"
    Slow.ready.set()
    await turns(40)
    assert len(stage.outlet.bound) == 7
    loop.cancel()


class HangingOutlet(RecordingOutlet):
    """Sends the bindings of one namespace, and has no answer until told."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        if pod.pod.metadata.namespace == "bad" and not stale():
            await self.answers.wait()
        return await super().bind(pod, node, stale)


async def test_a_namespace_whose_bindings_hang_is_kept_to_a_few_and_others_go_on() -> None:
    outlet = HangingOutlet()
    stage = Stage(outlet=outlet)
    stage.core.bindings._limit = limit = 2 * SLOW_LIMIT
    stage.see(make_node("n1").cpu("1000").pods("5000"))
    stage.see(*(make_pod(f"bad-{number}", "bad") for number in range(3 * limit)))
    while not stage.core.bindings.full:
        stage.attempt()
        await turns(1)
    assert stage.core.bindings.full
    stage.clock.advance(SLOW_SECONDS)
    assert not stage.core.bindings.full
    stage.see(*(make_pod(f"good-{number}") for number in range(50)))
    while stage.core.queue.view.counts()["active"]:
        stage.attempt()
    await turns()
    assert len(outlet.bound) == 50
    assert len(stage.core.bindings) == limit
    assert stage.core.queue.view.counts()["error-backoff"] == 2 * limit
    assert stage.sample("equipoise_bindings_postponed_total") == 2 * limit
    outlet.answers.set()
    for _ in range(100):  # each that ends brings one of those that were put back
        await turns()
        while stage.core.queue.view.counts()["active"]:
            stage.attempt()
    await stage.later(20)
    assert len(outlet.bound) == 50 + 3 * limit
    assert not stage.core.bindings._postponed


async def test_preparations_of_one_namespace_leave_room_for_others(stage: Stage) -> None:
    """Pods that wait for permission or volumes may do so for long: others still get their share."""
    bindings = stage.core.bindings
    bindings.open.shares = Shares(8)
    for _ in range(8):
        bindings.open.begin("waits")
    assert not bindings.full
    assert bindings.open.is_full("waits")
    stage.see(make_pod("other").cpu("1"))
    await stage.run()
    assert stage.outlet.bound == [("default/other", "n1")]
