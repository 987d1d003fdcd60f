"""What the watch reports becomes state and queue, one change at a time, whatever it reports."""

from __future__ import annotations

import pytest

from scheduler.model.nodes import Node
from scheduler.state.cache import ClusterState
from tests.builders import make_node, make_pod, make_worker, pod_term
from tests.pipeline.support import Change, Stage


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_frees_what_it_held(phase: str) -> None:
    stage = Stage()
    stage.see(make_node("n1").cpu("1"), make_pod("old").cpu("1").on("n1").phase("Running"))
    stage.see(make_pod("p").cpu("1"))
    await stage.run()
    assert stage.tiers() == {"p": "unschedulable"}
    stage.see(make_pod("old").cpu("1").on("n1").phase(phase))
    assert stage.cpu("n1") == 0
    await stage.later(2.0)
    assert stage.outlet.bound == [("default/p", "n1")]
    stage.check()
    stage.lose(make_pod("old"))
    stage.check()


async def test_a_pod_that_shrinks_makes_room() -> None:
    stage = Stage()
    stage.see(make_node("n1").cpu("2"), make_pod("old").cpu("2").on("n1"), make_pod("p").cpu("1"))
    await stage.run()
    stage.see(make_pod("old").cpu("1").on("n1"))
    await stage.later(2.0)
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_a_node_goes_and_comes_back_with_its_pods() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("old").cpu("3").on("n1"))
    stage.lose(make_worker("n1"))
    stage.see(make_pod("p").cpu("3"))
    await stage.run()
    assert stage.outlet.bound == []
    stage.see(make_worker("other").taint("t"), make_worker("n1"))
    assert stage.cpu("n1") == 3000
    stage.check()
    await stage.later(2.0)
    assert stage.outlet.bound == []
    stage.lose(make_pod("old"))
    await stage.later(4.0)
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_a_waiting_pod_that_failed_before_it_got_a_node_leaves_the_queue() -> None:
    stage = Stage()
    stage.see(make_pod("p"))
    stage.see(make_pod("p").phase("Failed"))
    assert stage.tiers() == {}


async def test_a_pod_that_others_bound_before_us_leaves_the_queue() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("p").cpu("1"))
    stage.see(make_pod("p").cpu("1").on("n1"))
    assert stage.tiers() == {}
    assert stage.cpu("n1") == 1000
    stage.check()


async def test_a_pod_that_we_placed_is_company_for_those_that_wait_for_it() -> None:
    stage = Stage()
    stage.see(make_worker("n1").label(zone="a"), make_pod("p").near(pod_term("zone", {"app": "x"})))
    await stage.run()
    assert stage.tiers() == {"p": "unschedulable"}
    stage.see(make_pod("x").label(app="x"))
    await stage.run()
    stage.see(make_pod("x").label(app="x").on("n1"))
    await stage.later(2.0)
    assert stage.outlet.bound == [("default/x", "n1"), ("default/p", "n1")]


async def test_a_pod_that_ran_and_finished_unseen_frees_what_was_assumed() -> None:
    """The watch was down while it ran: from waiting straight to finished."""
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("p").cpu("1"))
    await stage.run()
    assert stage.cpu("n1") == 1000
    stage.see(make_pod("p").cpu("1").on("n1").phase("Succeeded"))
    assert stage.cpu("n1") == 0
    stage.check()


async def test_an_update_without_change_wakes_nobody() -> None:
    stage = Stage()
    stage.see(make_worker("n1").taint("t"), make_pod("p"))
    await stage.run()
    stage.see(make_worker("n1").taint("t"))
    stage.see(make_worker("n1").taint("t").version(7))
    assert stage.tiers() == {"p": "unschedulable"}


async def test_a_change_that_fails_is_skipped_and_the_next_is_applied(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage()
    set_node = ClusterState.set_node

    def fragile(state: ClusterState, node: Node) -> None:
        if node.name == "bad":
            raise RuntimeError("boom")
        set_node(state, node)

    monkeypatch.setattr(ClusterState, "set_node", fragile)
    changes = [Change(None, make_worker(name).struct()) for name in ("n1", "bad", "n2")]
    stage.core.ingest.handler("Node")(changes)
    assert sorted(stage.core.state.names()) == ["n1", "n2"]
    assert "Event could not be applied" in caplog.text


async def test_objects_of_other_kinds_are_events_for_plugins() -> None:
    stage = Stage()
    stage.see(make_worker("n1"))
    service = make_node("web").struct()  # any object with metadata will do
    stage.core.ingest.handler("Service")([Change(None, service), Change(service, None)])
    stage.see(make_pod("p"))
    await stage.run()
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_the_size_of_the_cache_is_a_metric() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_worker("n2"), make_pod("p").on("n1"))
    assert stage.sample("scheduler_cache_size", type="nodes") == 2
    assert stage.sample("scheduler_cache_size", type="pods") == 1


async def test_handling_is_timed_by_what_happened() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("p").on("n1"), make_pod("q"))
    stage.see(make_pod("q").label(app="a"))
    stage.see(make_worker("n1").taint("t"))
    stage.lose(make_pod("p"), make_pod("q"), make_worker("n1"))
    for event in (
        "NodeAdd",
        "NodeUpdateNodeTaint",
        "NodeDelete",
        "AssignedPodAdd",
        "AssignedPodDelete",
        "UnschedulablePodAdd",
        "UnschedulablePodUpdate",
        "UnschedulablePodDelete",
    ):
        name = "scheduler_event_handling_duration_seconds_count"
        assert stage.sample(name, event=event) == 1, event
