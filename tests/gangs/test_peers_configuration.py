"""A configuration file that was written for scheduler-plugins."""

from __future__ import annotations

from tests.builders import Json, make_node, make_pod
from tests.gangs.support import bound, configured, make_group, member
from tests.pipeline.support import Stage


def theirs() -> Json:
    """As scheduler-plugins documents it: its own sort plugin, and no other."""
    config = configured(permitWaitingTimeSeconds=10, podGroupBackoffSeconds=5)
    named = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    config["profiles"][0]["plugins"]["queueSort"] = named
    return config


async def test_it_loads_and_places_gangs() -> None:
    stage = Stage(config=(theirs(),))
    stage.see(make_node("n1").cpu("2"), make_group("g", 2), member("a"), member("b"))
    await stage.run()
    assert bound(stage) == ["a", "b"]


async def test_members_have_the_time_of_their_group() -> None:
    stage = Stage(config=(theirs(),))
    stage.see(make_node("n1").cpu("2"), make_group("g", 2))
    stage.clock.advance(5.0)
    stage.see(make_pod("p").cpu("2"))
    stage.clock.advance(5.0)
    stage.see(member("a"), member("b"))
    await stage.run()
    assert bound(stage) == ["a", "b"]


async def test_profiles_without_gangs_keep_the_same_order() -> None:
    config = configured()
    config["profiles"][0]["schedulerName"] = "equipoise"
    config["profiles"].append({"schedulerName": "plain"})
    stage = Stage(config=(config,))
    stage.see(make_node("n1").cpu("2"), make_pod("p").scheduler("plain"), make_pod("q"))
    await stage.run()
    assert bound(stage) == ["p", "q"]
