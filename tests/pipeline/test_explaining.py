"""What a running scheduler says of a pod in each state: never that it goes where it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler import inspection, slices
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, unresolvable
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from tests.builders import Json, PodBuilder, make_node, make_pod
from tests.gangs.support import gang_stage, make_group, member
from tests.numa.support import config, make_topology, pinned
from tests.pipeline.evicting import Arena, make_box
from tests.pipeline.support import Stage, turns


async def explained(stage: Stage, pod: PodBuilder, *, leading: bool = True) -> dict[str, Any]:
    struct = pod.struct()
    return await inspection.explain(stage.core, {struct.key: struct}, struct.key, leading=leading)


async def test_a_gated_pod_goes_nowhere() -> None:
    stage = Stage()
    pod = make_pod("p").gate("example.com/a").gate("example.com/b")
    stage.see(make_node("n1").cpu("2"), pod)
    answer = await explained(stage, pod)
    assert (answer["node"], answer["wouldGoTo"]) == (None, "n1")
    assert answer["standing"]["state"] == "gated"
    assert answer["standing"]["plugins"] == ["SchedulingGates"]
    gates = "waiting for scheduling gates: [example.com/a example.com/b]"
    assert answer["standing"]["message"] == gates


class Doorkeeper:
    """Gates every pod."""

    name = "Doorkeeper"

    def __init__(self, args: Any, handle: Any) -> None: ...

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return unresolvable("not before noon")


class Attendant:
    """Has pods wait at permit."""

    name = "Attendant"

    def __init__(self, args: Any, handle: Any) -> None: ...

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 60.0


class Refuser:
    """Refuses what was chosen."""

    name = "Refuser"

    def __init__(self, args: Any, handle: Any) -> None: ...

    def reserve(self, cycle: Cycle, node: str) -> Status:
        return unresolvable("not today")

    def unreserve(self, cycle: Cycle, node: str) -> None: ...


def with_plugin(plugin: type) -> Stage:
    document: Json = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}],  # type: ignore[attr-defined]  # a plugin
    }
    return Stage({**IN_TREE, plugin.name: plugin}, (document,))  # type: ignore[attr-defined]  # a plugin


async def test_a_pod_that_a_plugin_keeps_out_of_the_queue_goes_nowhere() -> None:
    stage, pod = with_plugin(Doorkeeper), make_pod("p")
    stage.see(make_node("n1"), pod)
    answer = await explained(stage, pod)
    assert (answer["node"], answer["wouldGoTo"]) == (None, "n1")
    assert answer["standing"]["plugins"] == ["Doorkeeper"]
    assert answer["standing"]["message"] == "not before noon"


async def test_a_pod_that_waits_at_permit_holds_its_node() -> None:
    stage, pod = with_plugin(Attendant), make_pod("p").cpu("2")
    stage.see(make_node("n1").cpu("2"), pod)
    stage.attempt()
    answer = await explained(stage, pod)
    standing = answer["standing"]
    assert (standing["state"], standing["node"]) == ("permit", "n1")
    assert standing["plugins"] == ["Attendant"]
    assert answer["fit"] == ["n1"]  # it is not in its own way
    await stage.core.stop()


async def test_a_pod_that_is_being_bound_says_so() -> None:
    stage, pod = Stage(), make_pod("p").cpu("2")
    gate = asyncio.Event()

    async def slowly(pod: PodInfo, node: str) -> Status:
        await gate.wait()
        return SUCCESS

    stage.outlet.answer = slowly
    stage.see(make_node("n1").cpu("2"), pod)
    stage.attempt()
    answer = await explained(stage, pod)
    assert answer["standing"]["state"] == "binding"
    assert answer["standing"]["node"] == "n1"
    gate.set()
    await stage.idle()
    standing = (await explained(stage, pod))["standing"]
    assert (standing["state"], standing["node"]) == ("binding", "n1")
    assert standing["message"] == "the watch has not told of its binding yet"


async def test_a_member_of_a_group_that_is_being_placed_holds_nothing_yet() -> None:
    stage, pod = gang_stage(), member("a")
    stage.see(make_node("n1").cpu("1"), make_group("g", 1), pod)
    stage.core.state.assume(pod.info(), "n1")  # as a pass does, and may take back
    standing = (await explained(stage, pod))["standing"]
    assert (standing["state"], standing["node"]) == ("in-flight", None)


async def test_a_pod_that_backs_off_says_until_when_and_why() -> None:
    stage, pod = with_plugin(Refuser), make_pod("p")
    stage.see(make_node("n1"), pod)
    stage.attempt()
    answer = await explained(stage, pod)
    assert answer["standing"]["message"] == "not today"
    assert answer["standing"]["plugins"] == ["Refuser"]
    stage.see(make_node("n2"))
    answer = await explained(stage, pod)
    assert answer["standing"]["state"] == "backoff"
    assert 0 < answer["standing"]["retrySeconds"] <= 2


async def test_a_rejected_pod_says_so() -> None:
    stage, pod = Stage(), make_pod("p").cpu("4")
    stage.see(make_node("n1").cpu("2"), pod)
    stage.attempt()
    answer = await explained(stage, pod)
    assert answer["standing"]["state"] == "unschedulable"
    assert answer["node"] is None
    assert answer["message"] == "0/1 nodes are available: 1 Insufficient cpu."


async def test_pods_that_are_not_tried() -> None:
    stage = Stage()
    stage.see(make_node("n1").cpu("2"))
    for pod, state in (
        (make_pod("a").deleting(), "terminating"),
        (make_pod("b").on("n1").phase("Succeeded"), "ended"),
        (make_pod("c").scheduler("default-scheduler"), "other-scheduler"),
    ):
        stage.see(pod)
        answer = await explained(stage, pod)
        assert (answer["standing"]["state"], answer["node"]) == (state, None)
        assert answer["wouldGoTo"] == "n1"


async def test_a_bound_pod_is_on_its_node() -> None:
    stage, pod = Stage(), make_pod("p").cpu("2").on("n1")
    stage.see(make_node("n1").cpu("2"), pod)
    answer = await explained(stage, pod)
    assert (answer["standing"]["state"], answer["boundTo"]) == ("bound", "n1")
    assert (answer["fit"], answer["countsItself"]) == (["n1"], None)


async def test_a_plugin_with_books_of_its_own_may_count_the_pod_itself() -> None:
    stage = Stage(config=(config(cacheResyncPeriodSeconds=1),))
    pod = pinned("p", 8)
    node = make_node("n1").cpu(16).memory("128Gi")
    stage.see(node, make_topology("n1").cell(8, of=8).cell(0, of=8), pod)
    await stage.run()
    assert stage.outlet.bound == [("default/p", "n1")]
    stage.see(pod.on("n1"))
    answer = await explained(stage, pod)
    assert (answer["boundTo"], answer["fit"]) == ("n1", [])
    assert answer["countsItself"] == "NodeResourceTopologyMatch"


async def test_a_standby_does_not_speak_for_the_leaders_queue() -> None:
    stage, pod = Stage(), make_pod("p")
    stage.see(make_node("n1"), pod)
    assert (await explained(stage, pod, leading=False))["standing"]["state"] == "standby"
    gated = make_pod("q").gate("example.com/a")
    stage.see(gated)
    assert (await explained(stage, gated, leading=False))["standing"]["state"] == "gated"


async def test_a_pod_beyond_the_limits_fits_nowhere() -> None:
    stage = Stage()
    pod = make_pod("p")
    for number in range(5000):
        pod.toleration(f"key-{number}")
    stage.see(make_node("n1"), pod)
    answer = await explained(stage, pod)
    assert (answer["node"], answer["fit"]) == (None, [])
    assert "pod too large: " in answer["message"]
    assert answer["preemption"] is None


# Groups


async def test_a_member_of_a_group_that_does_not_fit_has_the_verdict_of_the_group() -> None:
    stage = gang_stage()
    first, second = member("a"), member("b")
    stage.see(make_node("n1").cpu("1"), make_group("g", 2), first, second)
    stage.attempt()
    for pod in (first, second):
        answer = await explained(stage, pod)
        assert (answer["node"], answer["wouldGoTo"]) == (None, "n1")
        assert answer["standing"]["state"] == "group"
        assert answer["standing"]["message"].startswith(
            "pod group default/g: 1 of 2 members can be placed"
        )
        assert "evict no pods" in answer["preemption"]["message"]


async def test_a_group_that_was_not_tried_yet_gets_no_node() -> None:
    stage = gang_stage()
    first = member("a")
    stage.see(make_node("n1").cpu("1"), make_group("g", 1), first)
    answer = await explained(stage, first)
    assert (answer["node"], answer["wouldGoTo"]) == (None, "n1")
    assert answer["standing"]["message"] == "pod group default/g has not been tried yet"


async def test_a_member_whose_group_is_incomplete_is_gated() -> None:
    stage, first = gang_stage(), member("a")
    stage.see(make_node("n1"), make_group("g", 2), first)
    answer = await explained(stage, first)
    assert (answer["node"], answer["standing"]["state"]) == (None, "gated")
    assert answer["standing"]["message"] == "pod group default/g: 1 of 2 members exist"


# Preemption


async def test_whom_a_pod_would_evict_is_said_and_nobody_is_evicted() -> None:
    arena, pod = Arena(), make_pod("high").cpu("2").priority(10)
    arena.see(make_box("n1", 2), make_box("n2", 4))
    arena.see(make_pod("a").cpu("2").on("n1"), make_pod("b").cpu("4").priority(5).on("n2"), pod)
    answer = await explained(arena, pod)
    assert answer["node"] is None
    assert answer["preemption"] == {
        "node": "n1",
        "victims": ["default/a"],
        "violations": 0,
        "message": "",
    }
    await arena.core.background.idle()
    assert arena.outlet.evicted == []
    assert not arena.core.state.nominations
    assert await arena.preempt() == "n1"  # and that is what it does
    assert arena.outlet.evicted == ["a"]


async def test_what_is_said_of_evictions_under_way() -> None:
    arena, pod = Arena(), make_pod("high").cpu("2").priority(10)
    victim = make_pod("a").cpu("2").on("n1")
    arena.see(make_box("n1", 2), victim, pod)
    gate = arena.outlet.hold("a")
    arena.attempt()
    answer = await explained(arena, pod)
    assert (answer["nominated"], answer["node"]) == ("n1", None)
    assert answer["preemption"]["message"] == (
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    gate.set()
    await arena.core.background.idle()


async def test_why_nobody_is_evicted() -> None:
    arena = Arena()
    never = make_pod("never").cpu("2").priority(10).spec(preemptionPolicy="Never")
    equal = make_pod("equal").cpu("2")
    arena.see(make_box("n1", 2), make_pod("a").cpu("2").on("n1"), never, equal)
    answer = await explained(arena, never)
    assert answer["preemption"]["node"] is None
    assert answer["preemption"]["message"] == (
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    answer = await explained(arena, equal)
    assert answer["preemption"]["message"] == (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    fits = make_pod("fits")
    arena.see(fits)
    assert (await explained(arena, fits))["preemption"] is None


async def test_a_budget_that_evictions_would_violate_is_counted() -> None:
    arena, pod = Arena(), make_pod("high").cpu("2").priority(10)
    arena.see(make_box("n1", 2), make_pod("a").cpu("2").label(app="a").on("n1"), pod)
    arena.protect("budget", 0, selector={"matchLabels": {"app": "a"}})
    assert (await explained(arena, pod))["preemption"]["violations"] == 1


async def test_a_look_at_evictions_gives_the_loop_back_and_names_who_is_still_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    arena, pod = Arena(), make_pod("high").cpu("2").priority(10)
    boxes = [make_box(f"n{i}", 2) for i in range(6)]
    victims = [make_pod(f"v{i}").cpu("2").on(f"n{i}") for i in range(6)]
    arena.see(*boxes, *victims, pod)
    work = asyncio.ensure_future(explained(arena, pod))
    await turns(3)
    assert not work.done()
    arena.lose(*victims[:5], *boxes[:5])
    answer = await work
    assert answer["preemption"]["victims"] == ["default/v5"]
    assert len(answer["nodes"]) == 6  # they are of the moment at which they were judged
    arena.check()
