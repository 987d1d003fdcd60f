"""A node that another scheduler uses keeps room for its next pods: our binding waits a while."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.explaining.pod_progress import progress_of
from tests.builders import PodBuilder, make_node, make_pod
from tests.pipeline.support import Stage, turns

SECONDS = 0.02
"""Timers are real, and check the test's clock when they fire."""


def stage_with(**settings: Any) -> Stage:
    own = {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "binding": {"headroomSeconds": SECONDS, **settings},
    }
    stage = Stage(config=(own,))
    stage.see(make_node("n1").cpu("4"))
    return stage


def foreign(name: str = "foreign") -> PodBuilder:
    return make_pod(name).scheduler("other")


def bind_foreign(stage: Stage, name: str = "foreign", cpu: str = "1", node: str = "n1") -> None:
    """Another scheduler binds a pod, as the watch shows it."""
    stage.see(foreign(name).cpu(cpu))
    stage.see(foreign(name).cpu(cpu).on(node))


async def bound_at_once(stage: Stage, pod: PodBuilder) -> bool:
    """Whether a pod's binding does not wait."""
    stage.see(pod)
    stage.attempt()
    await turns(10)
    return bool(stage.outlet.bound)


async def let_time_pass(stage: Stage) -> None:
    stage.clock.advance(2 * SECONDS)
    await stage.idle()


async def test_what_would_take_the_last_room_waits_and_is_then_bound() -> None:
    stage = stage_with()
    bind_foreign(stage, cpu="2")
    assert not await bound_at_once(stage, make_pod("p").cpu("1"))
    assert stage.core.state.assumed_count == 1, "our other pods go elsewhere"
    await let_time_pass(stage)
    assert stage.outlet.bound == [("default/p", "n1")]
    assert stage.sample("equipoise_headroom_waits_total", outcome="bound") == 1
    stage.check()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        pytest.param("1", "1", id="two more pods of that size fit still"),
        pytest.param("0", "4", id="theirs requests nothing of what ours does"),
    ],
)
async def test_what_leaves_room_does_not_wait(theirs: str, ours: str) -> None:
    stage = stage_with()
    bind_foreign(stage, cpu=theirs)
    assert await bound_at_once(stage, make_pod("p").cpu(ours))


async def test_places_for_pods_are_room_too() -> None:
    stage = stage_with()
    stage.see(make_node("n1").cpu("4").pods(3))
    bind_foreign(stage, cpu="100m")
    assert not await bound_at_once(stage, make_pod("p").cpu("100m"))
    await let_time_pass(stage)
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_other_nodes_keep_nothing() -> None:
    stage = stage_with()
    stage.see(make_node("n2").cpu("4").label(kind="quiet"))
    bind_foreign(stage, cpu="2")
    assert await bound_at_once(stage, make_pod("p").cpu("4").node_selector(kind="quiet"))


async def test_a_node_keeps_room_for_some_time_only() -> None:
    stage = stage_with()
    bind_foreign(stage, cpu="2")
    stage.clock.advance(2 * SECONDS)
    assert await bound_at_once(stage, make_pod("p").cpu("2"))


async def test_no_pod_waits_longer_while_others_keep_coming() -> None:
    stage = stage_with()
    bind_foreign(stage, "first", cpu="2")
    assert not await bound_at_once(stage, make_pod("p").cpu("1"))
    stage.clock.advance(0.9 * SECONDS)
    bind_foreign(stage, "second", cpu="1")
    stage.clock.advance(0.2 * SECONDS)  # the second one was bound a moment ago
    await stage.idle()
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_a_pod_whose_room_is_taken_is_tried_again_at_once() -> None:
    stage = stage_with()
    bind_foreign(stage, "first", cpu="2")
    assert not await bound_at_once(stage, make_pod("p").cpu("2"))
    bind_foreign(stage, "second", cpu="2")
    await stage.idle()
    assert stage.outlet.bound == []
    assert stage.core.state.assumed_count == 0
    assert stage.sample("equipoise_headroom_waits_total", outcome="withdrawn") == 1
    assert stage.sample("equipoise_decisions_outdated_total", cause="fit") == 1
    assert stage.tiers() == {"p": "active"}, "without a back-off"
    stage.see(make_node("n2").cpu("4"))
    await stage.run()
    assert stage.outlet.bound == [("default/p", "n2")]
    stage.check()


async def test_pods_that_were_bound_before_we_looked_are_no_traffic() -> None:
    """The first list shows pods on nodes that have been there for long, and so do new nodes."""
    stage = stage_with()
    stage.see(foreign().cpu("2").on("n1"))
    assert await bound_at_once(stage, make_pod("p").cpu("2"))
    assert stage.sample("equipoise_pods_bound_by_others_total") == 0


async def test_pods_of_our_own_are_no_traffic() -> None:
    """As a standby sees those that the leader binds."""
    stage = stage_with()
    stage.see(make_pod("leaders").cpu("2"), make_pod("leaders").cpu("2").on("n1"))
    assert await bound_at_once(stage, make_pod("p").cpu("2"))
    assert stage.sample("equipoise_pods_bound_by_others_total") == 0


async def test_nothing_waits_unless_it_is_configured() -> None:
    stage = stage_with(headroomSeconds=0)
    bind_foreign(stage, cpu="2")
    assert await bound_at_once(stage, make_pod("p").cpu("2"))
    assert stage.sample("equipoise_pods_bound_by_others_total") == 1


async def test_a_pod_that_has_evicted_others_does_not_wait() -> None:
    stage = stage_with()
    bind_foreign(stage, cpu="2")
    pod = make_pod("p").cpu("2").status(nominatedNodeName="n1")
    assert await bound_at_once(stage, pod)


async def test_a_pod_that_is_deleted_while_it_waits_leaves_nothing_behind() -> None:
    stage = stage_with()
    bind_foreign(stage, cpu="2")
    assert not await bound_at_once(stage, make_pod("p").cpu("2"))
    assert len(stage.core.headroom) == 1
    stage.lose(make_pod("p"))
    await let_time_pass(stage)
    assert stage.outlet.bound == []
    assert (len(stage.core.headroom), stage.core.headroom.nodes) == (0, 0)
    stage.check()


async def test_a_stop_ends_the_wait() -> None:
    stage = stage_with(headroomSeconds=3600)
    bind_foreign(stage, cpu="2")
    assert not await bound_at_once(stage, make_pod("p").cpu("2"))
    await stage.core.bindings.stop()
    assert stage.outlet.bound == []
    assert len(stage.core.headroom) == 0
    assert stage.sample("equipoise_headroom_waits_total", outcome="cancelled") == 1


async def test_waiting_pods_do_not_count_as_bindings_under_way() -> None:
    stage = stage_with(headroomSeconds=3600)
    bind_foreign(stage, cpu="2")
    assert not await bound_at_once(stage, make_pod("p").cpu("2"))
    assert stage.core.bindings.writing == 0
    assert stage.sample("equipoise_waiting_pods", held_by="headroom") == 1
    await stage.core.bindings.stop()


async def test_traffic_of_many_nodes_is_forgotten_in_time() -> None:
    stage = stage_with()
    for number in range(50):
        stage.see(make_node(f"m{number}").cpu("4"))
        bind_foreign(stage, f"f{number}", node=f"m{number}")
    assert stage.core.headroom.nodes == 50
    stage.clock.advance(2 * SECONDS)
    assert stage.core.headroom.nodes == 0


async def test_an_explanation_names_the_node_and_the_time() -> None:
    stage = stage_with(headroomSeconds=3600)
    bind_foreign(stage, cpu="2")
    pod = make_pod("p").cpu("2")
    assert not await bound_at_once(stage, pod)
    stage.clock.advance(600)
    progress = progress_of(stage.core, pod.struct(), pod.info(), True)
    assert (progress.state, progress.node) == ("binding", "n1")
    assert "node n1 keeps room for pods of another scheduler" in progress.message
    assert "bound in 3000.0 s" in progress.message
    await stage.core.bindings.stop()
