"""Plugins that fail or refuse, and preemption: a gang never pays by halves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.gangs.plugin import Coscheduling
from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, unschedulable
from scheduler.plugin_api import PluginFactory
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from scheduler.state.columns import Codes, Rows
from tests.builders import Json, make_node
from tests.gangs.support import bound, configured, gang_stage, make_group, member, messages
from tests.gangs.test_pass import nothing_is_left
from tests.pipeline.evicting import Arena
from tests.pipeline.support import Stage, turns


class Sabotage:
    """Fails for the pod called ``bad``, until it is mended."""

    name = "Sabotage"
    broken = True

    def __init__(self, args: Any, handle: Any) -> None:
        type(self).broken = True

    def act(self, pod: PodInfo) -> None:
        if self.broken and pod.pod.metadata.name == "bad":
            raise RuntimeError("boom")


class BadFilter(Sabotage):
    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        self.act(cycle.pod)
        return np.zeros(len(rows), np.int32)


class BadReserve(Sabotage):
    def reserve(self, cycle: Cycle, node: str) -> Status:
        self.act(cycle.pod)
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None: ...


class BadPermit(Sabotage):
    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        self.act(cycle.pod)
        return SUCCESS, 0.0


class Refusing(Sabotage):
    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        refused = self.broken and cycle.pod.pod.metadata.name == "bad"
        return (unschedulable("not today") if refused else SUCCESS), 0.0


class Slow(Sabotage):
    """Has every pod wait for its permission."""

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 60.0


class BadStanding(Coscheduling):
    """Forgets how its groups stand."""

    def standing(self, group: str) -> Any:
        raise RuntimeError("lost my books")


class BadMembers(Coscheduling):
    """Forgets who belongs to its groups."""

    def members(self, group: str) -> Any:
        raise RuntimeError("lost my books")


class BadGroups(Coscheduling):
    """Forgets its groups."""

    def group_of(self, pod: PodInfo) -> Any:
        raise RuntimeError("lost my books")


def stage_with(factory: PluginFactory) -> Stage:
    config = configured()
    config["profiles"][0]["plugins"]["multiPoint"]["enabled"].append({"name": "Sabotage"})
    return Stage({**IN_TREE, "Sabotage": factory}, (config,))


@pytest.mark.parametrize("factory", [BadFilter, BadReserve, BadPermit])
async def test_a_fault_in_one_member_costs_the_gang_one_attempt(factory: PluginFactory) -> None:
    stage = stage_with(factory)
    stage.see(make_node("n1").cpu("3"), make_group("g", 3))
    stage.see(member("a"), member("bad"), member("c"))
    await stage.run()
    assert bound(stage) == []
    nothing_is_left(stage)
    assert set(stage.tiers().values()) == {"error-backoff"}
    assert "boom" in messages(stage)["a"]
    assert stage.sample("equipoise_gang_passes_total", result="error") == 1
    factory.broken = False  # type: ignore[attr-defined]  # all of them are Sabotage
    await stage.later(3.0)
    assert bound(stage) == ["a", "bad", "c"]


async def test_a_fault_in_a_member_that_is_not_needed_is_its_own() -> None:
    stage = stage_with(BadFilter)
    stage.see(make_node("n1").cpu("3"), make_group("g", 2))
    stage.see(member("a"), member("bad"), member("c"))
    await stage.run()
    assert bound(stage) == ["a", "c"]
    assert stage.tiers() == {"bad": "error-backoff"}


async def test_a_refusal_after_a_node_was_chosen_undoes_the_gang() -> None:
    stage = stage_with(Refusing)
    stage.see(make_node("n1").cpu("3"), make_group("g", 3))
    stage.see(member("a"), member("bad"), member("c"))
    await stage.run()
    assert bound(stage) == []
    nothing_is_left(stage)
    assert "default/bad: not today" in messages(stage)["c"]


async def test_others_may_make_a_gang_wait_as_well() -> None:
    stage = stage_with(Slow)
    stage.see(make_node("n1").cpu("2"), make_group("g", 2), member("a"), member("b"))
    stage.attempt()
    await turns()
    waiting = stage.core.frameworks["equipoise"].waiting
    assert {tuple(pod.pending_plugins) for pod in waiting.values()} == {("Sabotage",)}
    for pod in list(waiting.values()):
        pod.allow("Sabotage")
    await stage.idle()
    assert bound(stage) == ["a", "b"]


async def test_one_whom_others_reject_takes_back_those_who_still_wait_for_it() -> None:
    stage = stage_with(Slow)
    stage.see(make_node("n1").cpu("3"), make_group("g", 3))
    stage.see(member("a"), member("b"), member("c"))
    stage.lose(member("c"))
    stage.attempt()
    await turns()
    waiting = stage.core.frameworks["equipoise"].waiting
    waiting["uid-a"].reject("Sabotage", "not today")
    await stage.idle()
    nothing_is_left(stage)
    assert messages(stage)["b"] == "pod group default/g: default/a was unreserved"


@pytest.mark.parametrize("factory", [BadStanding, BadMembers, BadGroups])
async def test_a_plugin_that_lost_its_books_loses_no_pod(factory: PluginFactory) -> None:
    stage = Stage({**IN_TREE, "Coscheduling": factory}, (configured(),))
    stage.see(make_node("n1").cpu("3"), make_group("g", 2), member("a"), member("b"))
    await stage.run()
    nothing_is_left(stage)
    assert set(stage.tiers().values()) == {"error-backoff"}
    assert "lost my books" in messages(stage)["a"]


class TestPreemption:
    """Gangs evict no pods before they are scheduled."""

    @staticmethod
    def arena() -> Arena:
        config: Json = configured()
        return Arena(config=(config,))

    async def test_nobody_is_evicted_for_a_gang(self) -> None:
        arena = self.arena()
        arena.see(make_node("n1").cpu("3"), make_group("g", 2))
        arena.see(member("old", group="", cpu="2").on("n1"))
        arena.see(member("a").priority(10), member("b").priority(10))
        await arena.run()
        await arena.core.background.idle()
        assert arena.outlet.evicted == []
        assert arena.outlet.bound == []
        assert set(arena.tiers().values()) == {"unschedulable"}

    async def test_further_members_of_a_whole_gang_preempt_like_any_pod(self) -> None:
        arena = self.arena()
        arena.see(make_node("n1").cpu("3"), make_group("g", 2))
        arena.see(member("old", group="", cpu="1").on("n1"))
        arena.see(*(member(name).priority(10) for name in "abc"))
        await arena.run()
        await arena.core.background.idle()
        assert [key for key, _ in arena.outlet.bound] == ["default/a", "default/b"]
        assert arena.outlet.evicted == ["old"]


async def test_negative_arguments_are_refused_by_name() -> None:
    with pytest.raises(Exception, match="podGroupBackoffSeconds: must not be negative, not -1"):
        gang_stage(podGroupBackoffSeconds=-1)
    with pytest.raises(Exception, match="permitWaitingTimeSeconds: must not be negative, not -2"):
        gang_stage(permitWaitingTimeSeconds=-2)


async def test_a_listener_that_fails_on_an_assumed_member_leaves_nothing_behind() -> None:
    stage = gang_stage()
    state, failing = stage.core.state, True
    publish = stage.core.event_handlers.publish

    def fail_once(event: Event) -> None:
        nonlocal failing
        new = event.new
        if failing and event.own and isinstance(new, PodInfo) and new.key == "default/b":
            failing = False
            raise RuntimeError("boom")
        publish(event)

    state.connect(fail_once)
    stage.see(make_node("n").cpu(8).memory("64Gi").pods(20), make_group("g", 2))
    stage.see(member("a"), member("b"))
    await stage.run()
    assert not failing
    assert state.assumed_pods() == []
    for _ in range(4):
        await stage.later(10.0)
    assert bound(stage) == ["a", "b"]
