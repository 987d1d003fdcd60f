"""What remedies do for all equal pods of a workload together; each is followed as well."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import inspection
from scheduler.explaining.remedies import workloads
from scheduler.explaining.remedies.search import find
from scheduler.explaining.remedies.workloads import MOST_NEW_NODES
from scheduler.model.podinfo import PodInfo
from scheduler.simulation import explain, place
from scheduler.simulation.loading import load, offline_core
from scheduler.simulation.outlet import OfflineOutlet, StillClock
from tests.builders import Json, PodBuilder, constraint, make_node, make_pod, make_worker, pod_term
from tests.explaining.support import applied, fits
from tests.gangs.support import gang_stage

HOSTNAME = "kubernetes.io/hostname"


def remedies(objects: list[Json], pod: PodBuilder, count: int) -> list[Json]:
    """What is proposed for so many pods, after it was followed."""
    core = offline_core(None, objects, OfflineOutlet(), StillClock())
    load(core, objects)
    info = PodInfo(pod.struct(), core.config.equipoise.limits)
    before = {name: core.state.describe(name) for name in core.state.names()}
    try:
        found = find(core.frameworks["equipoise"], core.state, info, count=count)
        assert {name: core.state.describe(name) for name in core.state.names()} == before
    finally:
        asyncio.run(core.stop())
    for remedy in found:
        assert set(remedy["opens"]) <= set(fits(objects, pod.obj(), remedy["changes"])), remedy
        assert running(objects, pod.obj(), remedy, count) == remedy["replicas"]["fit"], remedy
    return found


def running(objects: list[Json], pod: Json, remedy: Json, count: int) -> int:
    """How many of so many pods get nodes once a remedy is followed."""
    changed, own = applied(objects, pod, remedy["changes"])
    copies = []
    for number in range(count):
        names = {"name": f"copy-{number}", "uid": f"copy-{number}"}
        copies.append({**own, "metadata": {**own["metadata"], **names}})
    placed = place([*changed, *copies])
    return sum(node is not None for key, node, _ in placed if key.startswith("default/copy-"))


def said(found: list[Json]) -> list[tuple[str, int]]:
    return [(remedy["summary"], remedy["replicas"]["fit"]) for remedy in found]


def workers(number: int) -> list[Json]:
    return [make_worker(f"n{i}").label(**{HOSTNAME: f"n{i}"}).obj() for i in range(number)]


def test_a_remedy_says_how_many_pods_it_lets_in_and_what_lets_in_all_comes_first() -> None:
    objects = [*workers(1), make_pod("q").on("n0").cpu(3).priority(9).obj()]
    objects.append(make_worker("t").taint("x").obj())
    assert said(remedies(objects, make_pod("p").cpu(2), 5)) == [
        ("lower the request for cpu from 2 to 200m, for all 5 pods", 5),
        ("add 3 nodes like n0, for all 5 pods", 5),
        ("lower the request for cpu from 2 to 1", 1),
        ("tolerate the taint x:NoSchedule", 2),
        ("remove the taint x:NoSchedule from node t", 2),
        ("add 1 node like n0", 2),
    ]


def test_what_lets_in_the_rest_where_only_some_fit() -> None:
    assert said(remedies(workers(1), make_pod("p").cpu(2), 5)) == [
        ("lower the request for cpu from 2 to 800m, for all 5 pods", 5),
        ("add 2 nodes like n0, for all 5 pods", 5),
        ("add 1 node like n0", 4),
    ]
    assert remedies(workers(1), make_pod("p").cpu(2), 2) == []


def test_pods_that_keep_apart_are_placed_one_by_one() -> None:
    pod = make_pod("p").label(app="x").cpu(1).apart(pod_term(HOSTNAME, {"app": "x"}))
    first, *_ = remedies(workers(2), pod, 4)
    assert (first["summary"], first["replicas"]["fit"]) == (
        "add 2 nodes like n0, for all 4 pods",
        4,
    )


@pytest.mark.parametrize(
    ("name", "labels", "owner"),
    [
        pytest.param(
            "web-5f7", {"pod-template-hash": "5f7"}, "Deployment web", id="a Deployment's"
        ),
        pytest.param("web-5f7", {}, "ReplicaSet web-5f7", id="one of its own"),
    ],
)
def test_the_workload_that_people_change_is_named_though_its_replica_set_is_not_known(
    name: str, labels: dict[str, str], owner: str
) -> None:
    pod = make_pod("p").cpu(9).owner("ReplicaSet", name).label(**labels)
    first, *_ = explain(workers(1), pod.obj())["remedies"]
    assert first["affects"] == [f"{owner}: new pods from its template need the same change"]


def test_new_nodes_are_counted_with_their_daemons() -> None:
    daemon = make_pod("agent").on("n0").cpu(2).owner("DaemonSet", "agent").obj()
    full = make_pod("q").on("n0").cpu(2).priority(9).obj()
    found = explain([*workers(1), daemon, full], make_pod("p").cpu(2).obj(), count=3)["remedies"]
    assert "add 3 nodes like n0, for all 3 pods" in [each["summary"] for each in found]


def test_no_more_nodes_are_proposed_than_a_bound() -> None:
    found = remedies(workers(1), make_pod("p").cpu(4), MOST_NEW_NODES + 2)
    assert [each["summary"] for each in found] == [
        "lower the request for cpu from 4 to 60m, for all 66 pods",
        "add 1 node like n0",
    ]


def test_names_of_new_nodes_are_not_given_twice() -> None:
    objects = [*workers(1), make_node("n0-copy-2").obj()]
    (more,) = [
        each
        for each in remedies(objects, make_pod("p").cpu(3), 4)
        if "for all" in each["summary"] and each["summary"].startswith("add")
    ]
    names = [change["object"]["metadata"]["name"] for change in more["changes"]]
    assert names == ["n0-copy-1", "n0-copy-3", "n0-copy-4"]


def test_where_too_many_would_have_to_be_placed_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workloads, "MOST_PLACED", 3)
    pod = make_pod("p").label(app="x").cpu(9)
    pod.spread(constraint(HOSTNAME, labelSelector={"matchLabels": {"app": "x"}}))
    found = explain(workers(2), pod.obj(), count=5)["remedies"]
    assert found
    assert all(each["replicas"] is None for each in found)


def test_the_running_scheduler_says_it_too() -> None:
    async def asked() -> Json:
        stage = gang_stage()
        stage.see(*(make_worker(f"n{i}") for i in range(2)))
        pod = make_pod("p").cpu(3)
        return await inspection.explain(stage.core, {}, "default/p", manifest=pod.struct(), count=3)

    answer = asyncio.run(asked())
    assert answer["replicas"]["message"] == "2 of 3 fit together"
    first: dict[str, Any] = answer["remedies"][0]
    assert first["summary"] == "lower the request for cpu from 3 to 2, for all 3 pods"
    assert first["replicas"] == {"asked": 3, "fit": 3}


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 30), max_size=3),
    st.integers(1, 50),
    st.integers(2, 9),
    st.sampled_from(["", "apart", "spread", "taint"]),
)
@settings(max_examples=40)
def test_as_many_run_as_is_said(
    cpus: list[int], taken: list[int], asked: int, count: int, rule: str
) -> None:
    objects: list[Json] = []
    for number, cpu in enumerate(cpus):
        node = make_node(f"n{number}").cpu(cpu).label(**{HOSTNAME: f"n{number}"})
        objects.append(node.taint("x").obj() if rule == "taint" and number else node.obj())
    for number, tenths in enumerate(taken):
        on = f"n{number % len(cpus)}"
        objects.append(make_pod(f"q{number}").on(on).cpu(f"{tenths}00m").priority(9).obj())
    pod = make_pod("p").label(app="x").cpu(f"{asked}00m")
    if rule == "apart":
        pod.apart(pod_term(HOSTNAME, {"app": "x"}))
    if rule == "spread":
        pod.spread(constraint(HOSTNAME, labelSelector={"matchLabels": {"app": "x"}}))
    remedies(objects, pod, count)
