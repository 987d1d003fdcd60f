"""Gangs on nodes with cells: a pass that is reverted leaves no trace in the ledgers."""

from __future__ import annotations

import copy

import pytest

from scheduler.model.workloads import POD_GROUP_LABEL
from tests.builders import Json, PodBuilder, make_node
from tests.gangs.support import bound, configured, make_group
from tests.numa.support import PLUGIN, make_topology, pinned
from tests.pipeline.support import Stage


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
