"""Many equal pods that fit nowhere: one verdict, few events, and no pod is forgotten."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, error
from tests.builders import Json, NodeBuilder, PodBuilder, make_node, make_pod
from tests.pipeline.evicting import Arena, make_box
from tests.pipeline.support import Stage, TickingClock

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def full_node() -> NodeBuilder:
    return make_node("full").cpu("1")


def big_pods(count: int) -> list[PodBuilder]:
    return [make_pod(f"p{number}").cpu("4") for number in range(count)]


def waiting_behind(stage: Stage) -> dict[str, str]:
    return {entry.pod: entry.behind for entry in stage.core.queue.view.snapshot()}


async def test_each_is_told_and_all_wait_behind_the_first() -> None:
    stage = Stage()
    stage.see(full_node(), *big_pods(3))
    await stage.run()
    assert [word.message for word in stage.outlet.conditions] == [NO_ROOM] * 3
    assert waiting_behind(stage) == {
        "default/p0": "",
        "default/p1": "default/p0",
        "default/p2": "default/p0",
    }


async def test_as_many_follow_as_fit() -> None:
    stage = Stage()
    stage.see(full_node(), *big_pods(5))
    await stage.run()
    stage.see(make_node("large").cpu("12"))
    await stage.later(5.0)
    assert stage.outlet.bound == [(f"default/p{number}", "large") for number in range(3)]
    assert stage.tiers() == {"p3": "unschedulable", "p4": "unschedulable"}
    assert [entry.attempts for entry in stage.core.queue.view.snapshot()] == [2, 1]


async def test_the_next_does_not_wait_for_the_binding_of_the_first() -> None:
    stage = Stage()
    stage.see(full_node(), *big_pods(2))
    await stage.run()
    stage.see(make_node("large").cpu("12"))
    stage.clock.advance(5)
    stage.core.queue.flush()
    stage.attempt()
    assert stage.tiers() == {"p1": "active"}
    await stage.run()
    assert len(stage.outlet.bound) == 2


async def test_pods_that_differ_do_not_wait_for_each_other() -> None:
    stage = Stage()
    stage.see(full_node(), make_pod("four").cpu("4"), make_pod("two").cpu("2"))
    await stage.run()
    assert set(waiting_behind(stage).values()) == {""}
    stage.see(make_node("middle").cpu("3"))
    await stage.later(5.0)
    assert stage.outlet.bound == [("default/two", "middle")]


async def test_the_volume_of_a_service_account_does_not_make_pods_different() -> None:
    stage = Stage()
    stage.see(full_node())
    for pod, name in zip(big_pods(2), ("x7k2p", "m9q4t"), strict=True):
        token = {"name": f"kube-api-access-{name}", "projected": {"sources": []}}
        stage.see(pod.spec(volumes=[token]))
    await stage.run()
    assert waiting_behind(stage) == {"default/p0": "", "default/p1": "default/p0"}


async def test_pods_with_claims_of_their_own_are_not_equal() -> None:
    stage = Stage()
    stage.see(full_node())
    for pod, name in zip(big_pods(2), ("one", "two"), strict=True):
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        stage.see(pod.spec(volumes=[claim]))
    await stage.run()
    assert set(waiting_behind(stage).values()) == {""}


async def test_pods_that_are_nominated_to_a_node_do_not_wait_behind_their_equals() -> None:
    arena = Arena()
    victims = [make_pod(f"low-{node}").on(node).cpu(4) for node in "ab"]
    vips = [make_pod(f"vip-{number}").cpu(4).priority(100) for number in range(4)]
    arena.see(make_box("a"), make_box("b"), *victims, *vips)
    await arena.run()
    await arena.core.background.idle()
    assert len(arena.core.state.nominations) == 2
    behind = waiting_behind(arena)
    assert sorted(behind.values()) == ["", "", "", "default/vip-2"]

    arena.lose(victims[1])
    await arena.later(12)
    assert len(arena.outlet.bound) == 1
    assert arena.outlet.bound[0][1] == "b"
    arena.lose(victims[0])
    await arena.later(12)
    assert {pod for pod, _ in arena.outlet.bound} == {"default/vip-0", "default/vip-1"}


async def test_without_classes_every_pod_is_woken_and_tried_while_there_is_room() -> None:
    stage = Stage(config=(equipoise(equivalence={"enabled": False}),))
    stage.see(full_node(), *big_pods(3))
    await stage.run()
    assert set(waiting_behind(stage).values()) == {""}
    stage.see(make_node("large").cpu("4"))
    await stage.later(5.0)
    assert [entry.attempts for entry in stage.core.queue.view.snapshot()] == [1, 1]
    assert stage.sample("equipoise_attempts_spared_total") == 2


def equipoise(**fields: Json) -> Json:
    return {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration", **fields}


# Words.


async def test_the_same_failure_is_told_once_a_minute() -> None:
    stage = Stage()
    stage.see(full_node(), make_pod("p").cpu("4"))
    await stage.run()
    for seconds in (10, 20, 30, 10, 60):
        stage.core.queue.activate(["default/p"])
        await stage.later(seconds)
    # Failed at 0, 10, 30, 60, 70 and 130 seconds.
    assert len(stage.outlet.events) == len(stage.outlet.conditions) == 3
    assert (
        stage.sample(
            "scheduler_schedule_attempts_total", result="unschedulable", profile="equipoise"
        )
        == 6
    )


async def test_another_failure_is_told_at_once() -> None:
    stage = Stage()
    stage.see(full_node(), make_pod("p").cpu("4"))
    await stage.run()
    stage.see(make_node("second").cpu("1"))
    stage.core.queue.activate(["default/p"])
    await stage.run()
    assert [word.message for word in stage.outlet.conditions] == [
        NO_ROOM,
        "0/2 nodes are available: 2 Insufficient cpu.",
    ]


async def test_a_fault_of_many_pods_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(pod: PodInfo, _node: str) -> Status:
        return error(f"the API server is on fire and forbids {pod.key}")

    stage = Stage()
    stage.outlet.answer = refuse
    stage.see(make_node("large").cpu("64"), *(make_pod(f"p{n}").cpu("1") for n in range(20)))
    with caplog.at_level(logging.INFO, logger="scheduler"):
        await stage.run()
        await stage.later(61)
    faults = [each for each in caplog.records if each.getMessage() == "Scheduling a pod failed"]
    assert len(faults) == 2
    assert len(stage.outlet.events) == 40


# Placements.

Step = tuple[str, int]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("pods"), st.sampled_from((2, 3, 4))),
        st.tuples(st.just("node"), st.integers(1, 9)),
        st.tuples(st.just("leave"), st.integers(0, 30)),
    ),
    min_size=2,
    max_size=10,
)


async def play(history: Sequence[Step], *, classes: bool) -> list[tuple[str, str]]:
    """Pods come, three alike at a time and the larger ones first; nodes come, placed pods leave."""
    config = (equipoise(equivalence={"enabled": classes}),)
    stage = Stage(config=config, clock=TickingClock())
    pods: dict[str, PodBuilder] = {}
    placed: list[PodBuilder] = []
    for number, (what, amount) in enumerate(history):
        if what == "pods":
            for copy in range(3):
                pod = make_pod(f"p{number}-{copy}").cpu(str(amount)).priority(amount)
                pods[f"default/p{number}-{copy}"] = pod
                stage.see(pod)
        elif what == "node":
            stage.see(make_node(f"n{number}").cpu(str(amount)))
        elif placed:
            stage.lose(placed.pop(amount % len(placed)))
        seen = len(stage.outlet.bound)
        await stage.later(12.0)  # longer than any back-off; shorter than the timeout, all in all
        for key, node in stage.outlet.bound[seen:]:
            stage.see(pods[key].on(node))
            placed.append(pods[key])
    return stage.outlet.bound


@settings(max_examples=40, deadline=None)
@given(history=steps)
async def test_placements_are_the_same_with_and_without_classes(history: list[Step]) -> None:
    assert await play(history, classes=True) == await play(history, classes=False)
