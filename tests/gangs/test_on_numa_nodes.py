"""Gangs on nodes with cells: a pass that is reverted leaves no trace in the ledgers."""

from __future__ import annotations

import asyncio
import copy

import pytest

from scheduler import slices
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.model.workloads import POD_GROUP_LABEL
from tests.builders import Json, PodBuilder, make_node
from tests.gangs.support import bound, configured, make_group, member
from tests.numa.support import PLUGIN, make_topology, pinned
from tests.pipeline.support import Stage, turns


def numa_and_gangs(**args: object) -> Json:
    """The default profile with both plugins."""
    document = copy.deepcopy(configured())
    (profile,) = document["profiles"]
    profile["plugins"]["multiPoint"]["enabled"].append({"name": PLUGIN, "weight": 1})
    profile["pluginConfig"].append({"name": PLUGIN, "args": args})
    return document


def pinned_member(name: str) -> PodBuilder:
    return pinned(name, 2).label(**{POD_GROUP_LABEL: "g"})


CACHES: list[Json] = [
    {"cacheResyncPeriodSeconds": 5},
    {"discardReservedNodes": True},
]


@pytest.mark.parametrize("args", CACHES, ids=["reserve", "discard"])
async def test_a_gang_that_does_not_fit_does_not_wake_itself(args: Json) -> None:
    """Two cells for two members, and a third member: nothing happens for five minutes."""
    stage = Stage(config=(numa_and_gangs(**args),))
    stage.see(make_node("n").cpu(64).memory("512Gi").pods(20), make_group("g", 3))
    stage.see(make_topology("n").cell(3, "32Gi", of=3).cell(3, "32Gi", of=3).knows())
    stage.see(*(pinned_member(name) for name in "abc"))
    await stage.run()
    for _ in range(29):
        await stage.later(10.0)

    assert bound(stage) == []
    assert set(stage.tiers().values()) == {"unschedulable"}
    assert stage.sample("equipoise_gang_passes_total", result="unplaced") == 1


async def test_a_pod_is_bound_that_waited_for_a_node_which_only_a_reverted_gang_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pass holds the node while another binding to it is confirmed, and is then reverted."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    stage = Stage(config=(numa_and_gangs(discardReservedNodes=True),))
    state, attempts = stage.core.state, stage.core.scheduler
    answered = asyncio.Event()

    async def answer(pod: PodInfo, node: str) -> Status:
        if pod.key == "default/first":
            await answered.wait()
        return SUCCESS

    stage.outlet.answer = answer
    stage.see(make_node("n").cpu(64).memory("512Gi").pods(20), make_group("g", 3))
    stage.see(make_topology("n").cell(8, "64Gi", of=8).cell(8, "64Gi", of=8).knows())
    for name in ("first", "second"):  # the second one waits: the node is reserved
        stage.see(pinned(name, 2))
        await attempts.in_turn(stage.attempt)
        await turns()
    assert stage.tiers() == {"second": "unschedulable"}

    stage.see(member("a"), member("b"), member("c", cpu="1000"))
    task = asyncio.create_task(attempts.in_turn(stage.attempt))
    while not any(pod.key == "default/a" for pod in state.assumed_pods()):
        assert not task.done()
        await turns(1)
    stage.see(pinned("first", 2).on("n"))
    answered.set()
    await task
    await stage.later(10.0)
    assert bound(stage) == ["first", "second"]
