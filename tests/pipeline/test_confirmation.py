"""Bindings that were answered and that the watch does not show are read back and settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.config.schema import OWN_API_VERSION, OWN_KIND
from scheduler.framework.registry import merge
from scheduler.model.limits import DEFAULT_LIMITS
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import SUCCESS, Status
from scheduler.pipeline.confirmation import IDLE_SECONDS, LOOK_SECONDS, BindingConfirmer
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle, Slot
from scheduler.plugin_api.outlet import WriteError
from scheduler.plugins.table import IN_TREE
from tests.builders import PodBuilder, make_node, make_pod
from tests.pipeline.support import RecordingOutlet, Stage, turns

WITHIN = 15.0


class Server:
    """What the API server has: pods by name. Counts who asks."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.broken = False
        self.reads: list[str] = []

    async def read_pod(self, pod: PodInfo) -> Pod | None:
        self.reads.append(pod.pod.metadata.name)
        await asyncio.sleep(0)
        if self.broken:
            raise WriteError("no answer")
        return self.pods.get(pod.pod.metadata.name)

    def has(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.pods[pod.struct().metadata.name] = pod.struct()


class Scene:
    """A stage with a server beside it."""

    def __init__(self, outlet: RecordingOutlet | None = None, stage: Stage | None = None) -> None:
        self.stage = stage or Stage(outlet=outlet)
        self.server = Server()
        core = self.stage.core
        self.confirmer = BindingConfirmer(
            core.state,
            core.queue,
            core.event_handlers,
            core.unconfirmed,
            core.bindings.open,
            self.stage.outlet,
            self.server,
            self.stage.metrics,
        )

    async def look(self) -> None:
        """One round: who is due is read."""
        await asyncio.gather(*(self.confirmer.read(each) for each in self.confirmer.take_due()))


@pytest.fixture
async def scene() -> Scene:
    """A pod whose binding was answered, and that the watch has not shown."""
    scene = Scene()
    scene.stage.see(make_node("n1").cpu("2"), make_node("n2").cpu("1"), make_pod("p").cpu("2"))
    await scene.stage.run()
    assert scene.stage.outlet.bound == [("default/p", "n1")]
    return scene


async def test_nobody_is_read_before_its_time(scene: Scene) -> None:
    scene.stage.clock.advance(WITHIN - 0.1)
    await scene.look()
    assert scene.server.reads == []


async def test_a_confirmed_pod_is_never_read(scene: Scene) -> None:
    scene.stage.see(make_pod("p").cpu("2").on("n1"))
    scene.stage.clock.advance(100)
    await scene.look()
    assert scene.server.reads == []
    assert not len(scene.stage.core.unconfirmed)


async def test_a_pod_that_is_bound_counts_as_confirmed(scene: Scene) -> None:
    scene.server.has(make_pod("p").cpu("2").on("n1"))
    scene.stage.clock.advance(WITHIN)
    await scene.look()
    assert scene.stage.core.state.assumed_count == 0
    assert scene.stage.cpu("n1") == 2000
    assert scene.stage.sample("equipoise_assumed_pods_settled_total", outcome="bound") == 1


async def test_a_pod_that_was_read_on_its_node_goes_when_the_watch_says_so(scene: Scene) -> None:
    """The watch was silent from before the binding until after the deletion."""
    scene.server.has(make_pod("p").cpu("2").on("n1"))
    scene.stage.clock.advance(WITHIN)
    await scene.look()
    scene.stage.lose(make_pod("p").cpu("2"))
    assert scene.stage.cpu("n1") == 0
    assert scene.stage.core.state.pod("uid-p") is None
    scene.stage.check()


async def test_a_pod_that_was_read_on_its_node_is_not_scheduled_again(scene: Scene) -> None:
    """The watch is late: it still shows versions of the time before the binding."""
    scene.server.has(make_pod("p").cpu("2").on("n1"))
    scene.stage.clock.advance(WITHIN)
    await scene.look()
    scene.stage.see(make_pod("p").cpu("2").label(version="2"))
    assert scene.stage.tiers() == {}
    scene.stage.see(make_pod("p").cpu("2").label(version="2").on("n1"))
    assert scene.stage.cpu("n1") == 2000
    await scene.stage.run()
    assert scene.stage.outlet.bound == [("default/p", "n1")]


async def test_a_pod_that_is_elsewhere_is_moved(scene: Scene) -> None:
    scene.server.has(make_pod("p").cpu("2").on("n2"))
    scene.stage.clock.advance(WITHIN)
    await scene.look()
    assert (scene.stage.cpu("n1"), scene.stage.cpu("n2")) == (0, 2000)
    assert scene.stage.core.state.assumed_count == 0


async def test_a_pod_without_a_node_is_scheduled_again(scene: Scene) -> None:
    stage = scene.stage
    scene.server.has(make_pod("p").cpu("2").label(version="2"))
    stage.clock.advance(WITHIN)
    await scene.look()
    assert stage.cpu("n1") == 0
    assert stage.tiers() == {"p": "active"}
    assert stage.outlet.events[-1].reason == "FailedScheduling"
    assert stage.sample("equipoise_assumed_pods_settled_total", outcome="unbound") == 1
    await stage.run()
    assert stage.outlet.bound == [("default/p", "n1")] * 2
    retried = stage.core.state.pod("uid-p")
    assert retried is not None
    assert retried.pod.metadata.labels == {"version": "2"}, "as it is now"


async def test_a_pod_that_is_scheduled_again_keeps_the_configured_limits() -> None:
    many = {f"l{number}": "" for number in range(DEFAULT_LIMITS.labels + 1)}
    limits = {"labels": len(many)}
    own = {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, "limits": limits}
    scene = Scene(stage=Stage(config=(own,)))
    scene.stage.see(make_node("n").cpu("2"), make_pod("p").cpu("2").label(**many))
    await scene.stage.run()
    scene.server.has(make_pod("p").cpu("2").label(**many))
    scene.stage.clock.advance(WITHIN)
    await scene.look()
    await scene.stage.run()
    assert scene.stage.outlet.bound == [("default/p", "n")] * 2


async def test_a_pod_that_is_gone_is_forgotten(scene: Scene) -> None:
    scene.stage.clock.advance(WITHIN)
    await scene.look()
    assert scene.stage.cpu("n1") == 0
    assert scene.stage.tiers() == {}
    assert scene.stage.sample("equipoise_assumed_pods_settled_total", outcome="gone") == 1


async def test_the_room_it_held_wakes_others(scene: Scene) -> None:
    scene.stage.see(make_pod("q").cpu("2"))
    await scene.stage.run()
    assert scene.stage.tiers() == {"q": "unschedulable"}
    scene.stage.clock.advance(WITHIN)
    await scene.look()
    assert scene.stage.tiers()["q"] != "unschedulable"


async def test_a_pod_that_cannot_be_read_is_read_again_after_a_while(scene: Scene) -> None:
    scene.server.broken = True
    scene.stage.clock.advance(WITHIN)
    for _ in range(10):
        await scene.look()
    assert scene.server.reads == ["p"]
    assert scene.stage.core.state.assumed_count == 1, "nothing is known: it keeps its room"
    scene.stage.clock.advance(WITHIN)
    scene.server.broken = False
    await scene.look()
    assert scene.stage.core.state.assumed_count == 0


async def test_a_watch_that_is_faster_than_the_answer_wins(scene: Scene) -> None:
    scene.server.has(make_pod("p").cpu("2"))
    scene.stage.clock.advance(WITHIN)
    (each,) = scene.confirmer.take_due()
    reading = asyncio.create_task(scene.confirmer.read(each))
    await asyncio.sleep(0)
    scene.stage.see(make_pod("p").cpu("2").on("n1"))
    await reading
    assert scene.stage.cpu("n1") == 2000
    assert scene.stage.tiers() == {}


async def test_reads_are_few_at_a_time_and_shared_by_namespace() -> None:
    scene = Scene()
    scene.stage.see(make_node("n").cpu("1000").pods("1000"))
    scene.stage.see(*(make_pod(f"bad-{number}", "bad") for number in range(100)))
    await scene.stage.run()
    scene.stage.see(make_pod("good"))
    await scene.stage.run()
    scene.stage.clock.advance(WITHIN)
    taken = [each.uid for each in scene.confirmer.take_due()]
    assert len(taken) == 9
    assert "uid-good" in taken


BOOKED: Slot[str] = Slot("what a plugin booked", lasting=True)


class Booking:
    """Reserves something for each pod."""

    name = "Booking"
    undone: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, args: object, handle: Handle) -> None: ...

    def reserve(self, cycle: Cycle, node: str) -> Status:
        cycle.put(BOOKED, f"a licence for {cycle.pod.pod.metadata.name}")
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.undone.append((cycle.get(BOOKED), node))


async def booked_scene() -> Scene:
    """A pod for which a plugin reserved something, and whose binding was answered."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "equipoise",
                "plugins": {"multiPoint": {"enabled": [{"name": "Booking"}]}},
            }
        ],
    }
    Booking.undone.clear()
    scene = Scene(stage=Stage(merge(IN_TREE, {"Booking": Booking}), (config,)))
    scene.stage.see(make_node("n1").cpu("2"), make_pod("p").cpu("2"))
    await scene.stage.run()
    return scene


async def test_what_plugins_booked_is_undone() -> None:
    scene = await booked_scene()
    scene.server.has(make_pod("p").cpu("2"))
    scene.stage.clock.advance(WITHIN)
    await scene.look()
    assert Booking.undone == [("a licence for p", "n1")]


@pytest.mark.parametrize("seen", [True, False], ids=["the watch shows it", "a read shows it"])
async def test_unreserve_is_not_run_for_a_bound_pod_that_was_deleted(seen: bool) -> None:
    scene = await booked_scene()
    if seen:
        scene.stage.lose(make_pod("p").cpu("2"))
    else:
        scene.stage.clock.advance(WITHIN)
        await scene.look()
    assert scene.stage.core.state.assumed_count == 0
    assert len(scene.stage.core.unconfirmed) == 0
    assert Booking.undone == []


class NoWords(RecordingOutlet):
    async def evict(self, pod: PodInfo, condition: object) -> None: ...

    def nominate(self, pod: PodInfo, node: str) -> None: ...


class ConfirmationLaw(RuleBasedStateMachine):
    """An API server that lies about bindings and a watch that loses some of them.

    Nobody is bound twice, nobody is lost, and nobody stays assumed beyond the stated time without
    being read, as long as the server answers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.begin())

    async def begin(self) -> None:
        self.scene = Scene(NoWords())
        self.stage = self.scene.stage
        self.stage.see(make_node("n").cpu("3"))
        self.count = 0
        self.waiting: set[str] = set()
        self.bound: set[str] = set()
        self.unseen: set[str] = set()
        self.assumed_since: dict[str, float] = {}

    def teardown(self) -> None:
        self.loop.run_until_complete(self.stage.core.bindings.stop())
        self.loop.close()

    def do(self, act: Callable[[], object]) -> None:
        async def run() -> None:
            act()
            await turns(10)

        self.loop.run_until_complete(run())

    @rule()
    def submit(self) -> None:
        self.count += 1
        pod = make_pod(f"p{self.count}").cpu("1")
        self.waiting.add(f"p{self.count}")
        self.scene.server.has(pod)
        self.do(lambda: self.stage.see(pod))

    @rule(lies=st.booleans())
    def schedule(self, lies: bool) -> None:
        before = len(self.stage.outlet.bound)
        self.do(self.stage.attempt)
        for key, _ in self.stage.outlet.bound[before:]:
            name = key.split("/")[1]
            assert name not in self.bound, "bound twice"
            self.assumed_since[name] = self.stage.clock.now
            if not lies:
                self.bound.add(name)
                self.unseen.add(name)
                self.scene.server.has(make_pod(name).cpu("1").on("n"))

    @rule()
    def watch(self) -> None:
        if self.unseen:
            name = min(self.unseen)
            self.unseen.discard(name)
            self.do(lambda: self.stage.see(make_pod(name).cpu("1").on("n")))

    @rule()
    def lose(self) -> None:
        """The watch never shows it."""
        if self.unseen:
            self.unseen.discard(min(self.unseen))

    @rule(seconds=st.sampled_from([1.0, 7.0, WITHIN]))
    def later(self, seconds: float) -> None:
        self.stage.clock.advance(seconds)
        self.loop.run_until_complete(self.scene.look())

    @invariant()
    def nobody_is_lost(self) -> None:
        state, queue = self.stage.core.state, self.stage.core.queue
        queued = {entry.pod.split("/")[1] for entry in queue.view.snapshot()}
        for name in self.waiting:
            holds = state.pod(f"uid-{name}") is not None
            assert holds != (name in queued), name

    @invariant()
    def nobody_is_assumed_for_ever(self) -> None:
        for info in self.stage.core.state.assumed_pods():
            since = self.assumed_since[info.pod.metadata.name]
            assert self.stage.clock.now - since < WITHIN


TestConfirmationLaw = ConfirmationLaw.TestCase


async def test_it_looks_often_only_while_a_binding_is_not_confirmed(scene: Scene) -> None:
    assert scene.confirmer.pause() == LOOK_SECONDS
    scene.stage.see(make_pod("p").cpu("2").on("n1"))
    await scene.stage.core.bindings.idle()
    assert scene.confirmer.pause() == IDLE_SECONDS
