"""A gang is placed whole or not at all."""

from __future__ import annotations

import asyncio

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error
from tests.builders import make_node, make_pod, make_worker
from tests.gangs.support import bound, gang_stage, make_group, member, messages
from tests.pipeline.support import Stage, Word, turns

UNSCHEDULABLE = {"result": "unschedulable", "profile": "equipoise"}


def nothing_is_left(stage: Stage) -> None:
    """No pod is assumed, in flight or waiting at permit; the state is that of the watch."""
    assert stage.core.state.assumed_count == 0
    assert stage.core.queue.view.counts()["in-flight"] == 0
    assert not stage.core.frameworks["equipoise"].waiting
    assert stage.sample("equipoise_gang_pods_waiting") == 0
    stage.check()


async def test_a_gang_that_does_not_fit_is_undone_at_once() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("2"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    await stage.run()
    assert bound(stage) == []
    nothing_is_left(stage)
    assert stage.tiers() == dict.fromkeys("abc", "unschedulable")
    message = (
        "pod group default/g: 2 of 3 members can be placed; "
        "default/c: 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert stage.outlet.conditions == [
        Word(f"default/{name}", "Unschedulable", message) for name in "abc"
    ]


async def test_two_gangs_and_room_for_one_and_a_half() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 2), make_group("h", 2))
    # They come interleaved, so each would take half of the room if tried one by one.
    stage.see(member("g1"), member("h1", "h"), member("g2"), member("h2", "h"))
    await stage.run()
    assert bound(stage) == ["g1", "g2"]
    assert stage.tiers() == dict.fromkeys(("h1", "h2"), "unschedulable")
    stage.see(member("g1").on("n1"), member("g2").on("n1"))
    nothing_is_left(stage)
    stage.lose(member("g1").on("n1"))
    await stage.later(15.0)
    assert bound(stage) == ["g1", "g2", "h1", "h2"]


async def test_a_gang_is_woken_as_one_and_tried_once() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("2"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    await stage.run()
    stage.see(make_node("n2").cpu("1"))
    assert sorted(stage.tiers().values()) == ["backoff", "unschedulable", "unschedulable"]
    await stage.later(2.0)
    assert bound(stage) == ["a", "b", "c"]
    assert stage.sample("equipoise_gang_passes_total", result="unplaced") == 1
    assert stage.sample("equipoise_gang_passes_total", result="placed") == 1


async def test_new_members_and_changes_of_a_gang_that_backs_off_cost_no_pass_each() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("2"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    await stage.run()
    for number in range(10):
        stage.see(make_group("g", 4 + number % 2), member(f"new-{number}"))
        stage.see(make_pod(f"other-{number}").cpu("10"))
        await stage.run()
    assert stage.sample("equipoise_gang_passes_total", result="unplaced") <= 2
    assert stage.sample("scheduler_schedule_attempts_total", **UNSCHEDULABLE) >= 10
    stage.see(make_node("n2").cpu("100"))
    await stage.later(15.0)
    assert set("abc") <= set(bound(stage))
    assert {f"new-{number}" for number in range(10)} <= set(bound(stage))


async def test_a_new_member_of_a_gang_that_backs_off_is_tried_at_once_if_nothing_else_is() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 3), member("a"), member("b", cpu="3"))
    stage.see(member("c"))
    await stage.run()
    stage.lose(member("b", cpu="3"))
    stage.see(member("d"))
    await stage.run()
    assert bound(stage) == ["a", "c", "d"]


async def test_an_event_that_cannot_help_wakes_nobody() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("2"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    await stage.run()
    stage.see(make_node("small").cpu("500m"))
    assert set(stage.tiers().values()) == {"unschedulable"}


async def test_members_that_differ_are_woken_by_room_for_any_of_them() -> None:
    stage = gang_stage()
    # The small one takes the only large node; what it needs is another small one.
    stage.see(make_node("large").cpu("4").label(size="l"), make_group("g", 2))
    stage.see(member("a", cpu="1"), member("b", cpu="4").node_selector(size="l"))
    await stage.run()
    assert bound(stage) == []
    stage.see(make_node("small").cpu("1"))
    assert "backoff" in stage.tiers().values()


async def test_more_members_than_needed() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 2))
    stage.see(*(member(name) for name in "abcd"))
    await stage.run()
    assert bound(stage) == ["a", "b", "c"]
    assert messages(stage) == {"d": "0/1 nodes are available: 1 Insufficient cpu."}
    stage.see(make_node("n2").cpu("1"))
    await stage.later(2.0)
    assert bound(stage) == ["a", "b", "c", "d"]


async def test_a_small_member_may_make_up_for_a_large_one() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("2"), make_group("g", 2))
    stage.see(member("a"), member("b", cpu="9"), member("c"))
    await stage.run()
    assert bound(stage) == ["a", "c"]


async def test_higher_priority_goes_first_within_a_gang() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("2"), make_group("g", 2))
    stage.see(member("a"), member("b"), member("c").priority(5))
    await stage.run()
    assert bound(stage) == ["a", "c"]


async def test_a_member_that_is_gated_by_others_holds_the_gang_back() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), make_group("g", 2), member("a"), member("b").gate("later"))
    await stage.run()
    assert stage.tiers() == {"a": "unschedulable", "b": "gated"}
    assert messages(stage)["a"] == ("pod group default/g: 1 of 2 members are ready to be scheduled")
    nothing_is_left(stage)
    stage.see(member("b").uid("uid-b"))
    await stage.run()
    assert bound(stage) == ["a", "b"]


async def test_min_resources_are_looked_at_before_anybody_is_tried() -> None:
    stage = gang_stage()
    group = make_group("g", 2).spec(minResources={"cpu": "4"})
    stage.see(make_node("n1").cpu("3"), group, member("a"), member("b"))
    await stage.run()
    assert stage.sample("equipoise_gang_passes_total", result="refused") == 1
    assert messages(stage)["a"] == (
        "pod group default/g: spec.minResources: not enough cpu is free in the cluster"
    )
    stage.see(make_node("n2").cpu("1"))
    await stage.later(2.0)
    assert bound(stage) == ["a", "b"]


async def test_min_resources_of_an_unheard_of_kind() -> None:
    stage = gang_stage()
    group = make_group("g", 1).spec(minResources={"example.com/gpu": 1})
    stage.see(make_worker("n1"), group, member("a"))
    await stage.run()
    assert "not enough example.com/gpu is free" in messages(stage)["a"]


async def test_other_pods_go_in_between_gangs() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("2"), make_group("g", 3))
    stage.see(member("a"), member("b"), make_pod("p").cpu("2"), member("c"))
    await stage.run()
    assert bound(stage) == ["p"]


async def test_a_gang_backs_off_together() -> None:
    stage = gang_stage(podGroupBackoffSeconds=30)
    stage.see(make_node("n1").cpu("1"), make_group("g", 2), member("a"), member("b"))
    await stage.run()
    stage.see(make_node("n2").cpu("1"))
    entry = next(e for e in stage.core.queue.view.snapshot() if e.tier == "backoff")
    assert entry.retry_seconds == 30.0


async def test_a_binding_that_fails_is_retried_alone() -> None:
    stage = gang_stage()
    refusals = ["default/b"]

    async def answer(pod: PodInfo, node: str) -> Status:
        if pod.key in refusals:
            refusals.remove(pod.key)
            return error("the API server is busy")
        return SUCCESS

    stage.outlet.answer = answer
    stage.see(make_node("n1").cpu("2"), make_group("g", 2), member("a"), member("b"))
    await stage.run()
    assert bound(stage) == ["a"]
    stage.see(member("a").on("n1"))
    await stage.later(3.0)
    assert bound(stage) == ["a", "b"]


async def test_a_member_is_deleted_and_another_is_made() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    stage.lose(member("c"))
    stage.attempt()
    await turns()
    # Both hold their nodes, and wait for the third, who is being made.
    assert bound(stage) == []
    assert stage.core.state.assumed_count == 2
    assert stage.sample("equipoise_gang_passes_total", result="waiting") == 1
    assert stage.sample("equipoise_gang_pods_waiting") == 2
    stage.see(member("d"))
    await stage.run()
    assert bound(stage) == ["a", "b", "d"]
    assert stage.sample("equipoise_gang_pods_waiting") == 0


async def test_those_who_wait_give_up_when_the_newcomer_does_not_fit() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    stage.lose(member("c"))
    stage.attempt()
    await turns()
    stage.see(member("d", cpu="2"))
    await stage.run()
    assert bound(stage) == []
    nothing_is_left(stage)
    assert "2 of 3 members can be placed; default/d: 0/1 nodes" in messages(stage)["a"]
    # Capacity for the new member requeues all of them.
    stage.see(make_node("n2").cpu("2"))
    await stage.later(3.0)
    assert bound(stage) == ["a", "b", "d"]


async def test_those_who_wait_in_vain_give_up_together() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 3).spec(scheduleTimeoutSeconds=0))
    stage.see(member("a"), member("b"), member("c"))
    stage.lose(member("c"))
    await stage.run()
    assert bound(stage) == []
    nothing_is_left(stage)
    reasons = messages(stage)
    assert "default/a timed out waiting on permit" in reasons["a"]
    stage.see(member("d"))
    await stage.run()
    assert bound(stage) == ["a", "b", "d"]


async def test_a_waiting_member_is_deleted_while_the_others_wait_on() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    stage.lose(member("c"))
    stage.attempt()
    await turns()
    stage.lose(member("b"))
    await turns()
    assert stage.core.state.assumed_count == 1
    stage.see(member("d"), member("e"))
    await stage.run()
    assert bound(stage) == ["a", "d", "e"]


async def test_the_group_is_deleted_while_members_wait_for_permission() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    stage.lose(member("c"))
    stage.attempt()
    await turns()
    stage.lose(make_group("g", 3))
    await stage.idle()
    nothing_is_left(stage)
    assert messages(stage)["a"] == "pod group default/g was deleted"
    stage.see(make_group("g", 2))
    await stage.later(15.0)
    assert bound(stage) == ["a", "b"]


async def test_the_group_is_deleted_before_its_members_are_tried() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), make_group("g", 2), member("a"), member("b"))
    stage.lose(make_group("g", 2))
    await stage.run()
    assert messages(stage) == dict.fromkeys("ab", "pod group default/g does not exist")
    nothing_is_left(stage)


async def test_the_minimum_is_lowered_while_members_wait_for_permission() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    stage.lose(member("c"))
    stage.attempt()
    await turns()
    stage.see(make_group("g", 2))
    await stage.run()
    assert bound(stage) == ["a", "b"]


async def test_members_that_leave_do_not_count() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("2"), make_group("g", 2))
    stage.see(*(member(name).on("n1").phase("Running").deleting() for name in "ab"))
    stage.see(member("c"), member("d"))
    await stage.run()
    # Not one of the new pair takes over before there is room for both.
    assert bound(stage) == []
    stage.lose(member("a").on("n1"))
    await stage.later(2.0)
    assert bound(stage) == []
    stage.lose(member("b").on("n1"))
    await stage.later(5.0)
    assert bound(stage) == ["c", "d"]


async def test_bindings_of_a_gang_go_out_together() -> None:
    stage = gang_stage()
    gate = asyncio.Event()
    asked: list[str] = []

    async def answer(pod: PodInfo, node: str) -> Status:
        asked.append(pod.key)
        await gate.wait()
        return SUCCESS

    stage.outlet.answer = answer
    stage.see(make_node("n1").cpu("3"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    stage.attempt()
    await turns()
    assert len(asked) == 3
    gate.set()
    await stage.idle()
    assert bound(stage) == ["a", "b", "c"]
