"""A decision is checked again immediately before its request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from tests.builders import make_node, make_pod, pod_term
from tests.pipeline.support import RecordingOutlet, Stage, turns


class Slots:
    """Each binding waits until the test lets it proceed."""

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[Status]] = {}

    async def __call__(self, pod: PodInfo, node: str) -> Status:
        turn: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.waiting[pod.pod.metadata.name] = turn
        return await turn

    def give(self, pod: str) -> None:
        self.waiting.pop(pod).set_result(SUCCESS)


NODE = make_node("n1").cpu("4").label(disk="1")
LONER = make_pod("loner").scheduler("other").apart(pod_term("disk", {"app": "web"})).on("n1")

Change = Callable[[Stage], None]


def gone(stage: Stage) -> None:
    stage.lose(NODE)


def tainted(stage: Stage) -> None:
    stage.see(make_node("n1").cpu("4").taint("t"))


def cordoned(stage: Stage) -> None:
    stage.see(make_node("n1").cpu("4").cordoned())


def shrunk(stage: Stage) -> None:
    stage.see(make_node("n1").cpu("1"))


def taken(stage: Stage) -> None:
    stage.see(make_pod("foreign").scheduler("other").cpu("3").on("n1"))


def deleted(stage: Stage) -> None:
    stage.lose(make_pod("p"))


def being_deleted(stage: Stage) -> None:
    stage.see(make_pod("p").cpu("2").deleting())


def shunned(stage: Stage) -> None:
    stage.see(make_pod("p").cpu("2").label(app="web"))


def enlarged(stage: Stage) -> None:
    stage.see(make_pod("p").cpu("5"))


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        pytest.param(gone, "node", id="the node is gone"),
        pytest.param(tainted, "fit", id="the node has a taint"),
        pytest.param(cordoned, "fit", id="the node is cordoned"),
        pytest.param(shrunk, "fit", id="the node offers less"),
        pytest.param(taken, "fit", id="a pod of another scheduler has the room"),
        pytest.param(shunned, "fit", id="the pod has a label now that a pod on the node shuns"),
        pytest.param(enlarged, "fit", id="the pod requests more now than the node has"),
        pytest.param(deleted, "pod", id="the pod is gone"),
        pytest.param(being_deleted, "pod", id="the pod is being deleted"),
    ],
)
async def test_a_decision_that_no_longer_holds_is_not_written(change: Change, cause: str) -> None:
    stage = Stage()
    slots = stage.outlet.answer = Slots()
    stage.see(NODE, LONER)
    stage.see(make_pod("p").cpu("2"))
    stage.attempt()
    await turns()
    change(stage)
    slots.give("p")
    await stage.idle()
    assert stage.outlet.bound == []
    assert stage.sample("equipoise_decisions_outdated_total", cause=cause) == 1
    assert stage.core.state.assumed_count == 0
    assert stage.outlet.conditions == [], "nobody is told: it is nobody's fault"
    stage.check()


@pytest.mark.parametrize("change", [gone, tainted, cordoned, shrunk, taken])
async def test_the_pod_is_tried_again_at_once_and_finds_another_node(change: Change) -> None:
    stage = Stage()
    slots = stage.outlet.answer = Slots()
    stage.see(NODE, make_pod("p").cpu("2"))
    stage.attempt()
    await turns()
    change(stage)
    stage.see(make_node("n2").cpu("4"))
    slots.give("p")
    await stage.idle()
    assert stage.tiers() == {"p": "active"}
    stage.attempt()
    await turns()
    slots.give("p")
    await stage.idle()
    assert stage.outlet.bound == [("default/p", "n2")]


async def test_the_room_of_a_pod_that_others_bind_elsewhere_is_free() -> None:
    stage = Stage()
    stage.outlet.answer = Slots()
    stage.see(make_node("n1").cpu("4").label(place="n1"), make_node("n2").cpu("4").taint("red"))
    stage.see(make_pod("p").cpu("4"))
    stage.attempt()
    stage.see(make_pod("w").cpu("4").node_selector(place="n1").toleration("red", "Exists"))
    stage.attempt()
    assert stage.tiers() == {"w": "unschedulable"}
    stage.see(make_pod("p").cpu("4").on("n2"))
    assert stage.tiers() == {"w": "backoff"}
    stage.attempt()
    assert stage.cpu("n1") == 4000
    await stage.core.bindings.stop()


def unchanged(stage: Stage) -> None: ...


def labelled(stage: Stage) -> None:
    stage.see(make_pod("p").cpu("2").host_port(80).label(app="web"))


def relabelled(stage: Stage) -> None:
    stage.see(make_node("n1").cpu("4").label(colour="blue"))


def replaced(stage: Stage) -> None:
    stage.lose(NODE)
    stage.see(NODE)


def room_left(stage: Stage) -> None:
    stage.see(make_pod("foreign").scheduler("other").cpu("2").on("n1"))


@pytest.mark.parametrize("change", [unchanged, labelled, relabelled, replaced, room_left])
async def test_a_decision_that_still_holds_is_written(change: Change) -> None:
    stage = Stage()
    slots = stage.outlet.answer = Slots()
    stage.see(NODE, make_pod("p").cpu("2").host_port(80))
    stage.attempt()
    await turns()
    change(stage)
    slots.give("p")
    await stage.idle()
    assert stage.outlet.bound == [("default/p", "n1")]
    stage.check()


async def test_decisions_of_our_own_are_not_looked_at_again() -> None:
    """What we decide later is decided with the earlier pods in their places."""
    stage = Stage()
    slots = stage.outlet.answer = Slots()
    stage.see(NODE, *(make_pod(f"p{number}").cpu("1") for number in range(4)))
    for _ in range(4):
        stage.attempt()
    await turns()
    labels = {"plugin": "NodeResourcesFit", "extension_point": "Filter", "profile": "equipoise"}
    before = stage.sample("scheduler_plugin_evaluation_total", **labels)
    for number in range(4):
        slots.give(f"p{number}")
        await turns()
        stage.see(make_pod(f"p{number}").cpu("1").on("n1"))  # its confirmation is no change
    await stage.idle()
    assert len(stage.outlet.bound) == 4
    assert stage.sample("scheduler_plugin_evaluation_total", **labels) == before


async def test_a_pod_whose_decisions_never_hold_backs_off() -> None:
    stage = Stage()
    slots = stage.outlet.answer = Slots()
    stage.see(make_pod("p").cpu("2"))
    for number in range(5):
        node = make_node(f"n{number}").cpu("4")
        stage.see(node)
        stage.core.queue.flush()
        if stage.attempt() is None:
            break
        await turns()
        stage.lose(node)
        slots.give("p")
        await stage.idle()
    assert number == 4
    assert stage.tiers() == {"p": "error-backoff"}


class CheckingOutlet(RecordingOutlet):
    """Notices a binding to a node that is not there, or on which it does not fit."""

    stage: Stage

    async def bind(self, pod: PodInfo, node: str, stale: Callable[[], str] = lambda: "") -> Status:
        status = await super().bind(pod, node, stale)
        if status.ok:
            seen = self.stage.core.state.describe(node)  # KeyError: there is no such node
            assert seen["requested"].get("cpu", 0) <= seen["allocatable"]["cpu"]
            assert not seen["unschedulable"]
        return status

    async def evict(self, pod: PodInfo, condition: object) -> None: ...

    def nominate(self, pod: PodInfo, node: str) -> None: ...


class FreshnessLaw(RuleBasedStateMachine):
    """Whatever happens between decision and turn: what is written fits when it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.begin())
        self.count = 0

    async def begin(self) -> None:
        outlet = CheckingOutlet()
        self.stage = outlet.stage = Stage(outlet=outlet)
        self.slots = outlet.answer = Slots()
        self.nodes: set[str] = set()

    def teardown(self) -> None:
        self.loop.run_until_complete(self.stage.core.bindings.stop())
        self.loop.close()

    def do(self, act: Callable[[], object]) -> None:
        async def run() -> None:
            act()
            await turns(10)

        self.loop.run_until_complete(run())

    @rule(name=st.sampled_from("abc"), cpu=st.integers(1, 6), cordoned=st.booleans())
    def node(self, name: str, cpu: int, cordoned: bool) -> None:
        node = make_node(name).cpu(str(cpu))
        self.nodes.add(name)
        self.do(lambda: self.stage.see(node.cordoned() if cordoned else node))

    @rule(name=st.sampled_from("abc"))
    def node_goes(self, name: str) -> None:
        if name in self.nodes:
            self.nodes.discard(name)
            self.do(lambda: self.stage.lose(make_node(name)))

    @rule(name=st.sampled_from("abc"), cpu=st.integers(1, 3))
    def foreign(self, name: str, cpu: int) -> None:
        self.count += 1
        pod = make_pod(f"foreign-{self.count}").scheduler("other").cpu(str(cpu)).on(name)
        self.do(lambda: self.stage.see(pod))

    @rule(cpu=st.integers(1, 3))
    def ours(self, cpu: int) -> None:
        self.count += 1
        self.do(lambda: self.stage.see(make_pod(f"p-{self.count}").cpu(str(cpu))))

    @rule()
    def attempt(self) -> None:
        self.do(self.stage.attempt)

    @rule(which=st.integers(0, 5))
    def turn(self, which: int) -> None:
        if which < len(self.slots.waiting):
            pod = list(self.slots.waiting)[which]
            self.do(lambda: self.slots.give(pod))


TestFreshnessLaw = FreshnessLaw.TestCase
