"""What the watch reports becomes state and queue, one change at a time, whatever it reports."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from scheduler.model.events import WATCHED_POD, Event
from scheduler.model.nodes import Node
from scheduler.model.objects import KINDS, from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.pipeline.event_handlers import EventListener
from scheduler.state.cache import ClusterState
from scheduler.state.scratch import scratch
from tests.builders import PodBuilder, make_node, make_pod, make_worker, pod_term
from tests.gangs.support import gang_stage, make_group, member
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
    stage.core.event_handlers.handler("Node")(changes)
    assert sorted(stage.core.state.names()) == ["n1", "n2"]
    assert "Event could not be applied" in caplog.text


async def test_objects_of_other_kinds_are_events_for_plugins() -> None:
    stage = Stage()
    stage.see(make_worker("n1"))
    service = make_node("web").struct()  # any object with metadata will do
    stage.core.event_handlers.handler("Service")([Change(None, service), Change(service, None)])
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


def recorded(stage: Stage) -> list[tuple[str, str]]:
    """What each row of the table is called with from now on: destination and label."""
    handlers, calls = stage.core.event_handlers, list[tuple[str, str]]()

    def recording(row: EventListener) -> EventListener:
        def handle(event: Event) -> Event | None:
            calls.append((row.destination, event.label))
            return row.handle(event)

        return row._replace(handle=handle)

    handlers.table = tuple(map(recording, handlers.table))
    handlers._calls.clear()
    return calls


@pytest.mark.parametrize(
    ("make", "first", "last"),
    [
        pytest.param(Stage, ["numa"], [], id="the default profile"),
        pytest.param(gang_stage, ["gangs"], ["gangs"], id="gangs are activated after the queue"),
    ],
)
async def test_the_order_of_the_table(
    make: Callable[[], Stage], first: list[str], last: list[str]
) -> None:
    between = ["memories", "refusals", "headroom", "bindings", "suspension", "queue"]
    destinations = [row.destination for row in make().core.event_handlers.table]
    assert destinations == [*first, *between, *last]


async def test_a_gang_is_activated_when_state_and_queue_know_its_last_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("3"), make_group("g", 2), member("a"))
    known: list[bool] = []
    retry = stage.core.queue.retry

    def retrying(keys: Collection[str]) -> None:
        known.append(stage.core.queue.contains("default/b", "uid-b"))
        retry(keys)

    monkeypatch.setattr(stage.core.queue, "retry", retrying)
    stage.see(member("b"))
    assert known == [True]
    assert stage.tiers() == {"a": "active", "b": "active"}


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_every_watched_kind_goes_through_the_table_to_the_queue(kind: str) -> None:
    stage = Stage()
    calls = recorded(stage)
    new: Any = from_dict({"metadata": {"name": "x", "uid": "u"}}, KINDS[kind].type)
    if kind == "Pod":
        new = make_pod("x").struct()
    stage.core.event_handlers.handler(kind)([Change(None, new), Change(new, None)])
    label = "UnschedulablePod" if kind == "Pod" else kind
    queued = [called for destination, called in calls if destination == "queue"]
    assert queued == [f"{label}Add", f"{label}Delete"]


async def test_what_we_assume_and_forget_goes_through_the_same_table() -> None:
    stage = Stage()
    stage.see(make_node("n1").cpu("1"))
    calls = recorded(stage)
    pod = PodInfo(make_pod("p").cpu("1").struct())
    stage.core.state.assume(pod, "n1")
    stage.core.state.forget(pod.uid)
    # Nobody waits for what we assume, so that event is silent.
    deleted = [(each, "AssignedPodDelete") for each in ("numa", "bindings", "suspension", "queue")]
    assert calls == [("numa", "AssignedPodAdd"), *deleted]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        pytest.param(None, make_pod("p"), "Pod", id="added"),
        pytest.param(None, make_pod("p").on("n1"), "Pod", id="added on a node"),
        pytest.param(None, make_pod("p").on("n1").phase("Failed"), "EndedPod", id="finished"),
        pytest.param(make_pod("p"), make_pod("p").label(a="b"), "Pod", id="updated"),
        pytest.param(make_pod("p"), make_pod("p").on("n1"), "BoundPod", id="bound"),
        pytest.param(
            make_pod("p"),
            make_pod("p").on("n1").phase("Succeeded"),
            "EndedPod",
            id="bound and finished between two looks",
        ),
        pytest.param(make_pod("p"), make_pod("p").uid("other"), "EndedPod", id="replaced"),
        pytest.param(make_pod("p"), None, "EndedPod", id="deleted"),
    ],
)
async def test_what_ends_or_binds_a_pod_has_a_kind_of_its_own(
    old: PodBuilder | None, new: PodBuilder | None, kind: str
) -> None:
    handlers = Stage().core.event_handlers
    seen: list[str] = []

    def note(event: Event) -> None:
        seen.append(event.kind)

    handlers.table = (EventListener("test", WATCHED_POD, note),)
    was, now = (each and each.struct() for each in (old, new))
    handlers.handler("Pod")([Change(was, now)])
    assert seen == [kind]


async def test_trials_are_not_published() -> None:
    stage = Stage()
    stage.see(make_node("n1").cpu("1"))
    calls = recorded(stage)
    with scratch(stage.core.state) as changes:
        changes.add(PodInfo(make_pod("p").cpu("1").struct()), "n1")
    assert calls == []
