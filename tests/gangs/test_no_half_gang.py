"""The ways in which half a gang might be bound, or a gang be forgotten."""

from __future__ import annotations

from typing import Any

from scheduler.gangs.plugin import Coscheduling
from scheduler.gangs.registry import find_registry
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, unschedulable
from scheduler.model.workloads import POD_GROUP_LABEL
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from tests.builders import make_node, make_pod, make_worker
from tests.gangs.support import bound, configured, gang_stage, make_group, member, messages
from tests.gangs.test_faults import Refusing, Sabotage, stage_with
from tests.gangs.test_pass import nothing_is_left
from tests.pipeline.support import Stage, turns


class RefusingToReserve(Sabotage):
    def reserve(self, cycle: Cycle, node: str) -> Status:
        refused = self.broken and cycle.pod.pod.metadata.name == "bad"
        return unschedulable("not today") if refused else SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None: ...


async def waiting_for_a_third(stage: Stage) -> None:
    """Two members hold nodes at permit, and wait for one who was deleted."""
    stage.see(make_node("n1").cpu("4"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    stage.lose(member("c"))
    stage.attempt()
    await turns()
    assert stage.core.state.assumed_count == 2


async def test_those_who_wait_do_not_go_for_one_whom_others_deny() -> None:
    stage = stage_with(Refusing)
    await waiting_for_a_third(stage)
    stage.see(member("bad"))
    await stage.run()
    assert bound(stage) == []
    nothing_is_left(stage)


async def test_a_spare_member_that_is_denied_takes_nobody_back() -> None:
    for refusing in (Refusing, RefusingToReserve):
        stage = stage_with(refusing)
        stage.see(make_node("n1").cpu("4"), make_group("g", 3))
        stage.see(member("a"), member("bad"), member("c"), member("d"))
        await stage.run()
        assert bound(stage) == ["a", "c", "d"]
        assert messages(stage) == {"bad": "not today"}


async def test_one_whose_time_is_up_does_not_count_any_more() -> None:
    stage = gang_stage()
    await waiting_for_a_third(stage)
    waiting = stage.core.frameworks["equipoise"].waiting
    # Its task has not run yet when the next pass begins.
    waiting["uid-a"].reject("Coscheduling", "timed out")
    stage.see(member("d"))
    stage.attempt()
    await stage.idle()
    assert bound(stage) == []
    nothing_is_left(stage)
    await stage.later(2.0)
    assert bound(stage) == ["a", "b", "d"]


async def test_a_group_that_is_replaced_at_once_counts_nobody_twice() -> None:
    stage = gang_stage()
    await waiting_for_a_third(stage)
    stage.lose(make_group("g", 3))
    stage.see(make_group("g", 3), member("d"))
    stage.attempt()
    await stage.idle()
    assert bound(stage) == []
    await stage.later(2.0)
    assert bound(stage) == ["a", "b", "d"]


async def test_a_member_that_others_bind_lets_those_go_who_wait_for_it() -> None:
    stage = gang_stage()
    await waiting_for_a_third(stage)
    stage.see(member("d").on("n1"))
    await stage.run()
    assert bound(stage) == ["a", "b"]


async def test_a_member_that_others_bind_wakes_those_who_found_no_room() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("2"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    await stage.run()
    assert set(stage.tiers().values()) == {"unschedulable"}
    stage.see(member("c").on("elsewhere"))
    await stage.later(15.0)
    assert bound(stage) == ["a", "b"]


async def test_a_gated_member_that_leaves_its_group_is_a_pod_like_others() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), member("a", "typo"))
    await stage.run()
    assert stage.tiers() == {"a": "gated"}
    stage.see(make_pod("a").cpu("1"))
    await stage.run()
    assert bound(stage) == ["a"]


async def test_a_gated_member_may_be_put_into_another_group() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), make_group("g", 1), member("b"), member("a", "typo"))
    await stage.run()
    assert bound(stage) == ["b"]
    stage.see(make_pod("a").cpu("1").label(**{POD_GROUP_LABEL: "g"}))
    await stage.run()
    assert bound(stage) == ["a", "b"]


async def test_a_member_that_leaves_its_group_waits_for_it_no_longer() -> None:
    stage = gang_stage()
    await waiting_for_a_third(stage)
    stage.see(make_pod("a").cpu("1"))
    await turns()
    assert stage.core.state.assumed_count == 1
    while stage.core.queue.view.counts()["active"] or stage.core.queue.view.counts()["backoff"]:
        stage.attempt()
    await turns()
    assert bound(stage) == ["a"]


async def test_the_end_of_a_running_member_is_room_for_others_of_its_gang() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), make_group("g", 3))
    old = member("old").host_port(80).on("n1")
    stage.see(old.phase("Running"))
    # The port that the old one leaves does not help the first of those that wait.
    stage.see(member("a"), member("b").host_port(80))
    await stage.run()
    assert bound(stage) == []
    stage.see(old.phase("Succeeded"))
    await stage.later(2.0)
    assert bound(stage) == ["a", "b"]


class LosingItsWay(Coscheduling):
    """Cannot even say who belongs to which group."""

    lost = "group_of"

    def group_of(self, pod: PodInfo) -> Any:
        if self.lost == "group_of":
            raise RuntimeError("lost my way")
        return super().group_of(pod)

    def members(self, group: str) -> Any:
        if self.lost == "members":
            raise RuntimeError("lost my way")
        return super().members(group)


async def test_a_plugin_that_does_not_know_its_groups_stops_nobody() -> None:
    for lost in ("group_of", "members"):
        LosingItsWay.lost = lost
        stage = Stage({**IN_TREE, "Coscheduling": LosingItsWay}, (configured(),))
        stage.see(make_worker("n1"), make_group("g", 1), member("a"))
        await stage.run()
        nothing_is_left(stage)
        assert stage.tiers() == {"a": "error-backoff"}
        assert "lost my way" in messages(stage)["a"]


async def test_a_profile_without_permission_only_sorts_by_groups() -> None:
    config = configured()
    config["profiles"][0]["plugins"] = {
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    }
    stage = Stage(config=(config,))
    stage.see(make_node("n1").cpu("1"), make_group("g", 2), member("a"), member("b"))
    await stage.run()
    assert bound(stage) == ["a"]


async def test_a_member_that_leaves_does_not_count_though_an_older_version_is_tried() -> None:
    """As it may be that was asked about outside, and was deleted meanwhile."""
    stage = gang_stage()
    stage.see(make_node("n1").cpu("4"), make_group("g", 1), member("a").deleting())
    stage.core.state.assume(member("a").info(), "n1")
    registry = find_registry(stage.core.state)
    assert registry is not None
    gang = registry.get("default/g")
    assert gang is not None
    assert not gang.is_scheduled
