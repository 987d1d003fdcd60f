"""A plugin with a bug costs a pod one attempt, never the loop; a plugin may also make pods wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, unschedulable
from scheduler.plugin_api import PluginFactory
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from scheduler.state.columns import Codes, Rows
from tests.builders import make_node, make_pod
from tests.pipeline.support import Stage, Word, turns

BAD = "bad"


class Sabotage:
    """Fails for the pod called ``bad`` at whatever point a subclass implements."""

    name = "Sabotage"

    def __init__(self, args: Any, handle: Any) -> None:
        self.undone: list[str] = []

    def act(self, pod: PodInfo) -> None:
        if pod.pod.metadata.name == BAD:
            raise RuntimeError("boom")


class BadFilter(Sabotage):
    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        self.act(cycle.pod)
        return np.zeros(len(rows), np.int32)


class BadReserve(Sabotage):
    def reserve(self, cycle: Cycle, node: str) -> Status:
        self.act(cycle.pod)
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.act(cycle.pod)


class BadPermit(Sabotage):
    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        self.act(cycle.pod)
        return SUCCESS, 0.0


class BadPreBind(Sabotage):
    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        self.act(cycle.pod)
        return SUCCESS


class BadPostBind(Sabotage):
    def post_bind(self, cycle: Cycle, node: str) -> None:
        self.act(cycle.pod)


class Undecided(Sabotage):
    """Has every pod wait for its permission."""

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 60.0


class Refusing(Sabotage):
    """Refuses to reserve anything."""

    def reserve(self, cycle: Cycle, node: str) -> Status:
        return unschedulable("all devices are taken")

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.undone.append(node)


def staged(plugin: PluginFactory) -> Stage:
    """A stage whose profile has one more plugin, with one node of 2 CPUs."""
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Sabotage"}]}}}
    config = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    stage = Stage({**IN_TREE, "Sabotage": plugin}, (config,))
    stage.see(make_node("n1").cpu("2"))
    return stage


@pytest.mark.parametrize(
    ("plugin", "point"),
    [
        (BadFilter, "Filter"),
        (BadReserve, "Reserve"),
        (BadPermit, "Permit"),
        (BadPreBind, "PreBind"),
    ],
)
async def test_an_exception_costs_the_pod_one_attempt(plugin: PluginFactory, point: str) -> None:
    stage = staged(plugin)
    stage.see(make_pod(BAD).cpu("1").priority(1), make_pod("good").cpu("1"))
    await stage.run()
    text = f"plugin 'Sabotage' failed at {point}: RuntimeError: boom"
    assert stage.outlet.conditions == [Word(f"default/{BAD}", "SchedulerError", text)]
    assert stage.outlet.bound == [("default/good", "n1")]
    assert stage.tiers() == {BAD: "error-backoff"}
    assert stage.cpu("n1") == 1000
    stage.check()


async def test_an_exception_after_binding_changes_nothing_any_more() -> None:
    stage = staged(BadPostBind)
    stage.see(make_pod(BAD))
    await stage.run()
    assert stage.outlet.bound == [(f"default/{BAD}", "n1")]
    assert stage.outlet.conditions == []
    assert stage.sample(
        "equipoise_plugin_errors_total", plugin="Sabotage", extension_point="PostBind"
    )


async def test_a_refused_reservation_is_undone() -> None:
    stage = staged(Refusing)
    stage.see(make_pod("p").cpu("2"))
    await stage.run()
    assert stage.cpu("n1") == 0
    plugin = stage.core.frameworks["equipoise"].plugins["Sabotage"]
    assert getattr(plugin, "undone", None) == ["n1"]
    assert stage.outlet.conditions == [Word("default/p", "Unschedulable", "all devices are taken")]


# Waiting for permission


async def waiting() -> Stage:
    stage = staged(Undecided)
    stage.see(make_pod("p").cpu("2"))
    stage.attempt()
    await turns()
    assert list(stage.core.frameworks["equipoise"].waiting) == ["uid-p"]
    assert stage.cpu("n1") == 2000
    return stage


async def test_a_waiting_pod_holds_its_node_until_it_is_allowed() -> None:
    stage = await waiting()
    stage.see(make_pod("q").cpu("2"))
    stage.attempt()
    assert stage.tiers() == {"q": "unschedulable"}
    stage.core.frameworks["equipoise"].waiting["uid-p"].allow("Sabotage")
    await stage.idle()
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_a_waiting_pod_that_is_rejected_gives_its_node_back() -> None:
    stage = await waiting()
    stage.core.frameworks["equipoise"].waiting["uid-p"].reject("Sabotage", "gang is incomplete")
    await stage.idle()
    assert stage.cpu("n1") == 0
    assert stage.outlet.conditions[-1] == Word("default/p", "Unschedulable", "gang is incomplete")
    assert stage.tiers() == {"p": "unschedulable"}


async def test_a_waiting_pod_that_is_deleted_gives_its_node_back() -> None:
    stage = await waiting()
    stage.lose(make_pod("p"))
    await stage.idle()
    assert stage.cpu("n1") == 0
    assert stage.tiers() == {}
    assert stage.outlet.bound == []
    assert stage.core.frameworks["equipoise"].waiting == {}
    stage.check()
