"""From preemption to binding: victims leave, the nomination holds, and others respect it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.defaults import SCHEDULER_NAME
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.model.status import Code, Status
from scheduler.pipeline.evaluation import with_nominated_pods
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from tests.builders import PodBuilder, make_pod, pod_term
from tests.pipeline.evicting import Arena, make_box
from tests.pipeline.support import turns

UNDER_WAY = "waiting for the preemption for this pod to be finished"


def low(name: str, cpu: int = 2, node: str = "n") -> PodBuilder:
    return make_pod(name).on(node).cpu(cpu)


def vip(name: str = "vip", cpu: int = 4, priority: int = 100) -> PodBuilder:
    return make_pod(name).cpu(cpu).priority(priority)


@pytest.mark.parametrize(
    ("shown", "waits"),
    [
        pytest.param(True, "unschedulable", id="both are seen leaving first"),
        pytest.param(False, "gated", id="one is gone before the other is seen leaving"),
    ],
)
async def test_victims_leave_and_the_pod_gets_their_node(shown: bool, waits: str) -> None:
    arena = Arena()
    assert await arena.preempt(make_box("n"), low("a"), low("b"), vip()) == "n"
    assert sorted(arena.outlet.evicted) == ["a", "b"]
    assert arena.outlet.nominations == [("vip", "n")]
    assert arena.tiers() == {"vip": "unschedulable"}

    if shown:
        arena.see(low("a").deleting(), low("b").deleting())
    arena.lose(low("a"))
    assert arena.tiers() == {"vip": waits}, "half of the room is not enough"
    arena.lose(low("b"))
    await arena.later(2)
    assert arena.outlet.bound == [("default/vip", "n")]
    assert len(arena.core.state.nominations) == 0


PODS = st.lists(
    st.tuples(
        st.integers(0, 4),  # a node; the last one is not there
        st.sampled_from([0, 5, 9]),
        st.integers(0, 3),
        st.sampled_from(["cpu", "example.com/gpu", "example.com/none"]),
    ),
    max_size=8,
)


@given(nominated=PODS, asks=st.integers(1, 4), gone=st.integers(0, 3), apart=st.booleans())
async def test_sums_of_nominated_pods_give_the_verdicts_of_booked_ones(
    nominated: list[tuple[int, int, int, str]], asks: int, gone: int, apart: bool
) -> None:
    arena = Arena()
    boxes = [make_box(f"n{i}", 4).label(name=f"n{i}").pods(1 + i) for i in range(4)]
    arena.see(*(box.offer("example.com/gpu", 2) for box in boxes))
    for number, (node, priority, amount, resource) in enumerate(nominated):
        other = make_pod(f"p{number}").label(app=f"p{number % 2}").priority(priority)
        arena.core.state.nominations.set(other.request(resource, amount).info(), f"n{node}")
    arena.lose(make_box(f"n{gone}"))
    arena.see(make_box(f"n{gone + 10}", 4), make_box(f"n{gone}", 4))
    framework = arena.core.frameworks[SCHEDULER_NAME]
    pod = make_pod("asks").priority(5).cpu(asks)
    if apart:
        pod.apart(pod_term("name", {"app": "p1"}))
    cycle = Cycle(pod.info(), arena.core.state)
    framework.run_pre_filter(cycle)
    cycle.skipped["filter"] |= {"NodeResourceTopologyMatch"}  # as for a class that pins nothing
    assert framework.filters.judge_by_sums(cycle) != apart
    rows = arena.core.state.nominations.rows_ahead_of(cycle.pod)
    names = {arena.core.state.name(row) for row in rows.tolist()}
    assert names == {f"n{node}" for node, priority, *_ in nominated if priority >= 5} - {"n4"}
    in_sums = with_nominated_pods(framework, cycle, rows)
    none = np.zeros(len(rows), np.int32)
    with (
        patch.object(framework.filters, "judge_by_sums", lambda cycle: False),
        patch.object(framework.filters, "run_by_sums", lambda cycle, rows: none),
    ):
        assert in_sums.tolist() == with_nominated_pods(framework, cycle, rows).tolist()


async def test_what_victims_are_told() -> None:
    arena = Arena()
    await arena.preempt(make_box("n"), low("a", 4), vip())
    condition = dict(arena.outlet.evicting["a"])
    assert condition.pop("lastTransitionTime").endswith("Z")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "equipoise: preempting to accommodate a higher priority pod",
    }
    notes = [note for note in arena.outlet.events if note.reason == "Preempted"]
    assert notes == [
        ("default/a", "Normal", "Preempted", "Preempting", "Preempted by pod uid-vip on node n")
    ]


async def test_a_victim_that_is_leaving_already_is_not_evicted_again() -> None:
    arena = Arena()
    leaving = low("a", 4).deleting()
    assert await arena.preempt(make_box("n"), leaving, vip()) == "n"
    assert arena.outlet.evicting == {}
    assert arena.sample("scheduler_preemption_victims_count") == 0


async def test_a_pod_whose_room_went_to_another_is_nominated_until_its_victims_are_gone() -> None:
    arena = Arena()
    await arena.preempt(make_box("n"), low("a"), low("b"), vip())
    arena.see(low("a").deleting(), low("b").deleting())
    arena.lose(low("a"))
    arena.see(vip("higher", cpu=1, priority=1000), make_pod("lower").cpu(3))
    await arena.later(2)
    assert arena.outlet.bound == [("default/higher", "n")]
    assert arena.outlet.nominations == [("vip", "n")]

    arena.lose(low("b"))
    await arena.later(20)
    assert arena.outlet.nominations == [("vip", "n"), ("vip", "")]
    assert arena.outlet.bound == [("default/higher", "n"), ("default/lower", "n")]


# The node goes


async def test_a_pod_whose_node_is_deleted_is_tried_again_and_nominated_no_longer() -> None:
    arena = Arena()
    await arena.preempt(make_box("n"), low("a"), low("b"), vip())
    arena.lose(make_box("n"))
    await arena.run()
    assert arena.outlet.nominations == [("vip", "n"), ("vip", "")]
    assert len(arena.core.state.nominations) == 0


async def test_a_pod_whose_node_is_deleted_while_evictions_are_sent() -> None:
    arena = Arena()
    held = arena.outlet.hold("a")
    arena.see(make_box("n"), low("a"), low("b"), vip())
    arena.attempt()
    await turns()
    arena.lose(make_box("n"))
    await arena.run()
    assert arena.tiers() == {"vip": "gated"}
    held.set()
    await arena.core.background.idle()
    await arena.run()
    assert arena.outlet.nominations == [("vip", "n"), ("vip", "")]
    assert len(arena.core.state.nominations) == 0


# While evictions are sent


async def test_the_pod_is_held_until_the_last_eviction_is_sent() -> None:
    arena = Arena()
    held = arena.outlet.hold("a")
    arena.see(make_box("n"), low("a"), low("b"), vip())
    arena.attempt()
    await turns()
    assert arena.outlet.evicted == [], "the last victim comes after all others"
    arena.lose(low("a"), low("b"))
    await arena.later(2)
    assert arena.tiers() == {"vip": "gated"}
    assert arena.core.queue.view.snapshot()[0].message == UNDER_WAY

    held.set()
    await arena.core.background.idle()
    assert arena.tiers() == {"vip": "active"}, "nobody is left whose going could wake it"
    await arena.run()
    assert arena.outlet.bound == [("default/vip", "n")]


async def test_the_last_victim_seen_leaving_ends_the_wait_before_its_answer_comes() -> None:
    arena = Arena()
    arena.outlet.hold("a")
    arena.see(make_box("n"), low("a", 4), vip())
    arena.attempt()
    await turns()
    arena.lose(low("a", 4))
    assert arena.tiers() == {"vip": "backoff"}
    await arena.later(2)
    assert arena.outlet.bound == [("default/vip", "n")]
    await arena.core.background.stop()


async def test_an_eviction_that_fails_has_the_pod_tried_again_at_once() -> None:
    arena = Arena()
    arena.outlet.refused.add("a")
    assert await arena.preempt(make_box("n"), low("a"), low("b"), vip()) == "n"
    assert arena.tiers() == {"vip": "active"}

    arena.outlet.refused.clear()
    await arena.run()
    await arena.core.background.idle()
    assert {"a", "b"} <= set(arena.outlet.evicted)
    assert arena.tiers() == {"vip": "unschedulable"}


class Hesitant:
    """Has every pod wait for permission."""

    name = "Hesitant"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 60.0


HESITANT = {
    "apiVersion": KUBE_API_VERSION,
    "kind": KUBE_KIND,
    "profiles": [
        {
            "schedulerName": SCHEDULER_NAME,
            "plugins": {"permit": {"enabled": [{"name": Hesitant.name}]}},
        }
    ],
}


async def test_a_victim_that_waits_for_permission_goes_back_to_the_queue() -> None:
    arena = Arena({**IN_TREE, Hesitant.name: Hesitant}, (HESITANT,))
    arena.see(make_box("n"), make_pod("a").cpu(4))
    arena.attempt()
    assert arena.core.state.pods_on("n"), "it is assumed there"

    assert await arena.preempt(vip()) == "n"
    await arena.core.bindings.idle()
    assert arena.outlet.evicting == {}
    assert arena.tiers() == {"a": "error-backoff", "vip": "backoff"}
    notes = [note.note for note in arena.outlet.events if note.reason == "Preempted"]
    assert notes == ["Preempted by pod uid-vip on node n (in scheduler memory)."]


# Who respects a nomination


async def nominated(arena: Arena) -> PodBuilder:
    """A pod that is nominated to node n, whose victim has left."""
    pod = vip(cpu=3)
    await arena.preempt(make_box("n"), low("a", 4), pod)
    arena.lose(low("a", 4))
    return pod


@pytest.mark.parametrize(
    ("priority", "bound"),
    [
        pytest.param(99, False, id="lower priority"),
        pytest.param(100, False, id="the same priority"),
        pytest.param(101, True, id="higher priority"),
    ],
)
async def test_only_a_pod_of_higher_priority_takes_a_nominated_place(
    priority: int, bound: bool
) -> None:
    arena = Arena()
    await nominated(arena)
    arena.see(vip("rival", 2, priority))
    arena.attempt()
    await arena.core.bindings.idle()
    assert arena.outlet.bound == ([("default/rival", "n")] if bound else [])


async def test_a_pod_whose_place_was_taken_preempts_again() -> None:
    arena = Arena()
    await nominated(arena)
    arena.see(make_box("m"), low("b", 4, "m"), vip("rival", 2, 101))
    arena.attempt()
    await arena.later(2)
    await arena.core.background.idle()
    assert arena.outlet.bound == [("default/rival", "n")]
    assert arena.core.state.nominations.node_of("uid-vip") == "m"
    assert arena.outlet.nominations == [("vip", "n"), ("vip", "m")]


async def test_a_nominated_node_is_taken_even_if_others_are_better() -> None:
    arena = Arena()
    arena.see(make_box("n"), make_box("m", 64), low("a", 1))
    arena.see(vip(cpu=1).status(nominatedNodeName="n"))
    await arena.run()
    assert arena.outlet.bound == [("default/vip", "n")]


async def test_other_nodes_are_looked_at_if_the_nominated_one_does_not_do() -> None:
    arena = Arena()
    arena.see(make_box("n"), make_box("m"), low("a", 4))
    arena.see(vip(cpu=1).status(nominatedNodeName="n"))
    await arena.run()
    assert arena.outlet.bound == [("default/vip", "m")]


async def test_lower_pods_that_are_nominated_to_the_node_lose_it() -> None:
    arena = Arena()
    mid = vip("mid", 4, 50)
    assert await arena.preempt(make_box("n"), low("a", 4), mid) == "n"
    assert await arena.preempt(vip()) == "n"
    assert arena.outlet.nominations == [("mid", "n"), ("mid", ""), ("vip", "n")]


async def test_equals_that_share_a_node_evict_no_more_than_they_need() -> None:
    """The second's nomination crowds the first out until the second's victim has left, too."""
    arena = Arena()
    arena.see(make_box("m"), low("c", 4, "m").priority(10))
    assert await arena.preempt(make_box("n"), low("a"), low("b"), vip("first", 2)) == "n"
    assert await arena.preempt(vip("second", 2)) == "n"
    assert sorted(arena.outlet.evicted) == ["a", "b"], "each is told once"

    arena.lose(low("b"))
    await arena.later(2)
    assert sorted(arena.outlet.evicted) == ["a", "b"], "nobody else has to go"
    arena.lose(low("a"))
    await arena.later(20)
    assert sorted(arena.outlet.bound) == [("default/first", "n"), ("default/second", "n")]


# Who gets a place that is not needed


def destined() -> PodBuilder:
    return vip().status(nominatedNodeName="n")


async def placed_elsewhere(arena: Arena) -> None:
    arena.see(make_box("m"), destined().version(2))
    await arena.run()


async def bound_elsewhere(arena: Arena) -> None:
    arena.see(destined().on("m").version(2))


async def nominated_elsewhere(arena: Arena) -> None:
    arena.see(low("b", 4, "m"))
    assert await arena.preempt(make_box("m"), destined().version(2)) == "m"


@pytest.mark.parametrize("change", [placed_elsewhere, bound_elsewhere, nominated_elsewhere])
async def test_a_place_that_was_kept_for_a_pod_is_free_when_that_goes_elsewhere(
    change: Callable[[Arena], Awaitable[None]],
) -> None:
    """No pod leaves the node, so nothing else wakes those that it was kept from."""
    arena = Arena()
    box = make_box("n").label(place="n")
    arena.see(box, make_box("m").taint("red"), low("a", 1).priority(1000))
    arena.see(destined().gate("later"))
    arena.see(make_pod("lower").cpu(3).toleration("red", "Exists").node_selector(place="n"))
    await arena.run()
    assert arena.tiers() == {"vip": "gated", "lower": "unschedulable"}

    await change(arena)
    await arena.later(20)
    assert ("default/lower", "n") in arena.outlet.bound


# What a pod's status says


async def test_a_nomination_follows_the_status() -> None:
    arena = Arena()
    node_of = arena.core.state.nominations.node_of
    pod = vip().gate("later")
    arena.see(make_box("n"), pod.status(nominatedNodeName="n"))
    assert node_of("uid-vip") == "n"
    arena.see(pod.status(nominatedNodeName="m").version(2))
    assert node_of("uid-vip") == "m"
    arena.see(pod.label(app="x").version(3))
    assert node_of("uid-vip") == "m"
    arena.see(pod.status(nominatedNodeName="").version(4))
    assert node_of("uid-vip") == ""


async def test_a_nomination_of_ours_outlives_updates_that_do_not_know_it_yet() -> None:
    arena = Arena()
    pod = vip()
    await arena.preempt(make_box("n"), low("a", 4), pod)
    arena.see(pod.label(app="x").version(2))
    assert arena.core.state.nominations.node_of("uid-vip") == "n"
    (known,) = arena.core.state.nominations.on("n")
    assert known.pod.metadata.labels == {"app": "x"}


@pytest.mark.parametrize("ending", ["deleted", "bound elsewhere", "finished", "replaced"])
async def test_a_nomination_ends_with_the_wait(ending: str) -> None:
    arena = Arena()
    pod = vip().gate("later").status(nominatedNodeName="n")
    arena.see(make_box("n"), pod)
    if ending == "deleted":
        arena.lose(pod)
    elif ending == "bound elsewhere":
        arena.see(pod.on("n").version(2))
    elif ending == "finished":
        arena.see(pod.phase("Failed").version(2))
    else:
        arena.see(vip().uid("another").gate("later"))
    assert len(arena.core.state.nominations) == 0


@pytest.mark.parametrize("ending", ["deleted", "withdrawn"])
async def test_the_end_of_a_nomination_wakes_pods_of_its_priority_or_lower(ending: str) -> None:
    arena = Arena()
    arena.see(make_box("n"))
    holder = vip("holder", 4, 50).gate("later").status(nominatedNodeName="n")
    arena.see(holder, make_pod("same").cpu(4).priority(50), make_pod("low").cpu(4))
    await arena.run()
    assert arena.tiers() == {"holder": "gated", "same": "unschedulable", "low": "unschedulable"}
    if ending == "deleted":
        arena.lose(holder)
    else:
        arena.see(holder.status(nominatedNodeName="").version(2))
    woken = arena.tiers()
    assert (woken["same"], woken["low"]) == ("backoff", "backoff")


async def test_a_fault_takes_the_nomination_back() -> None:
    arena = Arena()

    async def refuse(pod: object, node: str) -> Status:
        return Status(Code.ERROR, ("no",))

    arena.outlet.answer = refuse
    arena.see(make_box("n"), vip().status(nominatedNodeName="n"))
    await arena.run()
    assert arena.outlet.nominations == [("vip", "")]
    assert len(arena.core.state.nominations) == 0
