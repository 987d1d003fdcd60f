"""The pod state machine of ``ClusterState``, one arrow at a time, and nodes that say odd things."""

from __future__ import annotations

import pytest

from scheduler.model.affinity import PodSet
from scheduler.model.events import Event
from scheduler.model.nodes import Node
from scheduler.model.resources import MAX_AMOUNT
from scheduler.model.selectors import Selector, equals
from scheduler.state.cache import MAX_RESOURCES, ClusterState
from tests.builders import make_node, make_pod, make_worker


@pytest.fixture
def state() -> ClusterState:
    state = ClusterState()
    for name in ("n1", "n2"):
        state.set_node(make_worker(name).struct())
    return state


def cpu(state: ClusterState, node: str) -> int:
    requested: dict[str, int] = state.describe(node)["requested"]
    return requested.get("cpu", 0)


def test_an_assumed_pod_holds_its_node_before_the_api_server_knows(state: ClusterState) -> None:
    state.assume(make_pod("p").cpu("1").info(), "n1")
    assert state.assumed("uid-p")
    assert cpu(state, "n1") == 1000


def test_the_watch_confirms_what_was_assumed(state: ClusterState) -> None:
    state.assume(make_pod("p").cpu("1").info(), "n1")
    state.set_pod(make_pod("p").cpu("1").on("n1").info())
    assert not state.assumed("uid-p")
    assert cpu(state, "n1") == 1000


def test_the_watch_is_right_about_the_node(state: ClusterState) -> None:
    state.assume(make_pod("p").cpu("1").info(), "n1")
    state.set_pod(make_pod("p").cpu("1").on("n2").info())
    assert (cpu(state, "n1"), cpu(state, "n2")) == (0, 1000)


def test_forgetting_gives_the_node_back(state: ClusterState) -> None:
    state.assume(make_pod("p").cpu("1").info(), "n1")
    assert state.forget("uid-p")
    assert cpu(state, "n1") == 0
    assert state.pod("uid-p") is None


def test_a_confirmed_pod_is_not_forgotten(state: ClusterState) -> None:
    state.set_pod(make_pod("p").cpu("1").on("n1").info())
    assert not state.forget("uid-p")
    assert cpu(state, "n1") == 1000


def test_a_pod_cannot_be_assumed_twice(state: ClusterState) -> None:
    state.assume(make_pod("p").info(), "n1")
    with pytest.raises(ValueError, match="already holds resources"):
        state.assume(make_pod("p").info(), "n2")


def test_a_resized_pod_holds_what_it_holds_now(state: ClusterState) -> None:
    state.set_pod(make_pod("p").cpu("1").on("n1").info())
    state.set_pod(make_pod("p").cpu("3").on("n1").info())
    assert cpu(state, "n1") == 3000


def test_pods_outlive_their_node_and_count_again_when_it_is_back(state: ClusterState) -> None:
    state.set_pod(make_pod("p").cpu("1").host_port(80).on("n1").info())
    state.remove_node("n1")
    assert state.row("n1") is None
    state.set_node(make_worker("n3").struct())  # takes over the row
    assert cpu(state, "n3") == 0
    state.set_node(make_worker("n1").struct())
    assert cpu(state, "n1") == 1000


def test_a_pod_may_come_before_its_node(state: ClusterState) -> None:
    state.set_pod(make_pod("p").request("example.com/gpu", 2).on("late").info())
    state.set_node(make_node("late").offer("example.com/gpu", 4).struct())
    assert state.describe("late")["requested"] == {"example.com/gpu": 2}


def test_an_amount_that_cannot_be_read_counts_as_none_and_others_stay(state: ClusterState) -> None:
    state.set_node(make_node("odd").cpu("many").memory("-1").offer("pods", "7").struct())
    row = state.describe("odd")
    assert row["allocatable"] == {}
    assert row["podLimit"] == 7


def test_no_node_offers_what_an_absurd_pod_asks_for(state: ClusterState) -> None:
    state.set_node(make_node("huge").cpu("1e30").memory("10E").struct())
    assert state.describe("huge")["allocatable"] == {
        "cpu": MAX_AMOUNT - 1,
        "memory": MAX_AMOUNT - 1,
    }


def test_a_node_update_replaces_everything(state: ClusterState) -> None:
    state.set_node(make_node("n1").cordoned().taint("t").offer("example.com/gpu", 1).struct())
    assert state.describe("n1") == {
        "name": "n1",
        "unschedulable": True,
        "taints": [{"key": "t", "value": "", "effect": "NoSchedule"}],
        "allocatable": {"example.com/gpu": 1},
        "requested": {},
        "scored": [0, 0],
        "pods": 0,
        "podLimit": 110,
    }


def test_what_is_not_known_cannot_be_removed(state: ClusterState) -> None:
    state.remove_node("nobody")
    assert not state.remove_pod("nobody")
    assert sorted(state.names()) == ["n1", "n2"]


def test_what_no_node_offers_takes_no_room_in_the_columns(state: ClusterState) -> None:
    """A pod that its author put on a node may ask for any number of things."""
    pod = make_pod("p").cpu("1").on("n1")
    for number in range(500):
        pod.request(f"example.com/invented-{number}", 1)
    before = len(state.columns.resources)
    state.set_pod(pod.info())
    assert len(state.columns.resources) == before
    assert state.describe("n1")["requested"] == {"cpu": 1000}


def test_what_is_asked_for_counts_from_the_first_offer_on(state: ClusterState) -> None:
    state.set_pod(make_pod("p").request("example.com/gpu", 2).on("n1").info())
    state.assume(make_pod("q").request("example.com/gpu", 1).info(), "n1")
    state.set_node(make_worker("n2").offer("example.com/gpu", 8).struct())
    assert state.describe("n1")["requested"]["example.com/gpu"] == 3
    assert state.remove_pod("uid-p")
    assert state.describe("n1")["requested"]["example.com/gpu"] == 1


def test_an_update_that_changes_nothing_that_counts_is_taken_over(state: ClusterState) -> None:
    state.assume(make_pod("p").cpu("1").info(), "n1")
    running = make_pod("p").cpu("1").on("n1").phase("Running").info()
    state.set_pod(running)
    assert state.pod("uid-p") is running
    assert state.pods_on("n1") == [running]
    assert state.assumed_count == 0
    assert cpu(state, "n1") == 1000


def test_labels_that_come_with_the_binding_concern_only_who_counts_them(
    state: ClusterState,
) -> None:
    here = frozenset(("default",))
    every = state.index.counter(PodSet(here, Selector()))
    zoned = state.index.counter(PodSet(here, Selector((equals("zone", "a"),))))
    state.assume(make_pod("p").cpu("1").info(), "n1")
    before = state.changes.version
    state.set_pod(make_pod("p").cpu("1").on("n1").label(other="b").info())
    assert state.changes.version == before, "no verdict can be another one"
    state.set_pod(make_pod("p").cpu("1").on("n1").label(zone="a").info())
    assert state.changes.version > before
    assert (every.total, zoned.total, cpu(state, "n1")) == (1, 1, 1000)
    state.remove_pod("uid-p")
    assert (every.total, zoned.total, cpu(state, "n1")) == (0, 0, 0)


def test_labels_that_come_while_a_pod_is_being_bound_count_at_once(state: ClusterState) -> None:
    selector = Selector((equals("app", "web"),))
    web = state.index.counter(PodSet(frozenset(("default",)), selector))
    state.assume(make_pod("p").cpu("1").info(), "n1")
    version = state.node_version("n1")
    state.renew_assumed(make_pod("p").cpu("1").label(app="web").info())
    assert state.assumed("uid-p")
    assert (web.total, cpu(state, "n1")) == (1, 1000)
    assert state.node_version("n1") != version, "the decision is checked again"
    assert state.forget("uid-p")
    assert (web.total, cpu(state, "n1")) == (0, 0)


def test_a_pod_that_is_resized_while_it_is_being_bound_holds_what_it_asks_for_now(
    state: ClusterState,
) -> None:
    state.assume(make_pod("p").cpu("1").info(), "n1")
    version, events = state.node_version("n1"), list[Event]()
    state.connect(events.append)
    state.renew_assumed(make_pod("p").cpu("3").info())
    assert state.assumed("uid-p")
    assert cpu(state, "n1") == 3000
    assert state.node_version("n1") != version, "the decision is checked again"
    state.renew_assumed(make_pod("p").cpu("2").info())
    assert [event.silent for event in events] == [True, False], "taking less may cure others"


def test_a_status_that_changes_while_a_pod_is_being_bound_concerns_nobody(
    state: ClusterState,
) -> None:
    state.assume(make_pod("p").cpu("1").info(), "n1")
    version, changes = state.node_version("n1"), state.changes.version
    state.renew_assumed(make_pod("p").cpu("1").version(7).info())
    assert (state.node_version("n1"), state.changes.version) == (version, changes)


def test_a_pod_that_waits_is_not_booked_by_a_newer_version(state: ClusterState) -> None:
    state.renew_assumed(make_pod("p").cpu("1").info())
    assert state.pod("uid-p") is None


def test_resources_that_nodes_offer_are_bounded_and_what_pods_hold_of_them_counts() -> None:
    state = ClusterState()
    names = [f"example.com/r-{i}" for i in range(2 * MAX_RESOURCES)]
    state.set_node(make_worker("n1").struct())
    state.set_pod(make_pod("p").request("example.com/r-3", "2").on("n1").info())
    rich = make_worker("n1")
    for name in names:
        rich.offer(name, "5")
    state.set_node(rich.struct())
    assert len(state.columns.resources) == MAX_RESOURCES
    assert state.describe("n1")["requested"]["example.com/r-3"] == 2
    assert "example.com/r-2047" not in state.describe("n1")["allocatable"]


def offering(node: str, prefix: str, number: int) -> Node:
    worker = make_worker(node)
    for i in range(number):
        worker.offer(f"example.com/{prefix}-{i}", "5")
    return worker.struct()


def test_columns_of_resources_that_no_node_offers_any_more_are_given_back() -> None:
    state = ClusterState()
    state.set_node(make_worker("n1").offer("example.com/gpu", "8").struct())
    before = len(state.columns.resources)
    state.set_node(offering("n2", "r", 500))
    state.set_pod(make_pod("p").cpu("1").request("example.com/r-3", "2").on("n1").info())
    gpu_user = make_pod("q").request("example.com/gpu", "3").on("n1").info()
    state.set_pod(gpu_user)
    assert len(state.columns.resources) == before + 500
    assert state.usage()["node_resource_columns"].entries == before + 500
    state.remove_node("n2")
    assert len(state.columns.resources) == before
    assert state.columns.requested.shape == (before, state.columns.capacity)
    described = state.describe("n1")
    assert described["allocatable"]["example.com/gpu"] == 8
    assert described["requested"] == {"cpu": 1000, "example.com/gpu": 3}
    state.set_node(offering("n2", "r", 5))
    assert state.describe("n1")["requested"]["example.com/r-3"] == 2, "it counts again"
    state.remove_pod("uid-p")
    state.remove_pod("uid-q")
    assert state.describe("n1")["requested"] == {}


def test_a_node_whose_resources_are_all_others_now_has_columns_for_them() -> None:
    state = ClusterState()
    state.set_node(offering("n1", "old", 2 * MAX_RESOURCES))
    state.set_node(offering("n1", "new", MAX_RESOURCES // 2))
    assert state.describe("n1")["allocatable"]["example.com/new-7"] == 5
    assert len(state.columns.resources) <= MAX_RESOURCES


def test_few_resources_that_no_node_offers_keep_their_columns() -> None:
    """So a node that goes and comes back costs no pass over all pods."""
    state = ClusterState()
    state.set_node(offering("n1", "r", 4))
    generation = state.columns.resources.generation
    state.remove_node("n1")
    state.set_node(offering("n1", "r", 4))
    assert state.columns.resources.generation == generation
