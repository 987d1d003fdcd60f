"""How many pods equal to one fit together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.explaining import replicas as module
from scheduler.explaining.replicas import replicas
from scheduler.model.podinfo import PodInfo
from scheduler.simulation import place
from scheduler.simulation.loading import load, offline_core
from scheduler.simulation.outlet import OfflineOutlet, StillClock
from tests.builders import Json, PodBuilder, constraint, make_node, make_pod, pod_term

HOSTNAME = "kubernetes.io/hostname"


def counted(objects: list[Json], pod: PodBuilder, count: int) -> dict[str, Any]:
    core = offline_core(None, objects, OfflineOutlet(), StillClock())
    load(core, objects)
    info = PodInfo(pod.struct(), core.config.equipoise.limits)
    before = {name: core.state.describe(name) for name in core.state.names()}
    try:
        return replicas(core, core.frameworks["equipoise"], info, count)
    finally:
        assert {name: core.state.describe(name) for name in core.state.names()} == before
        asyncio.run(core.stop())


def workers(number: int, cpu: int = 4) -> list[Json]:
    return [make_node(f"n{i}").cpu(cpu).label(**{HOSTNAME: f"n{i}"}).obj() for i in range(number)]


def test_nodes_are_filled() -> None:
    found = counted(workers(2), make_pod("p").cpu("1500m"), 10)
    assert found == {
        "asked": 10,
        "fit": 4,
        "nodes": {"n0": 2, "n1": 2},
        "message": "4 of 10 fit together",
    }


def test_a_pod_that_keeps_apart_from_its_own_fits_once_on_each_node() -> None:
    pod = make_pod("p").label(app="x").apart(pod_term(HOSTNAME, {"app": "x"}))
    assert counted(workers(3), pod, 5)["nodes"] == {"n0": 1, "n1": 1, "n2": 1}


def test_no_more_are_placed_than_are_asked_for() -> None:
    assert counted(workers(3), make_pod("p").cpu(1), 2)["fit"] == 2
    assert counted(workers(3), make_pod("p").cpu(1), 0)["fit"] == 0


def test_a_pod_that_no_node_takes() -> None:
    assert counted(workers(2), make_pod("p").cpu(9), 2)["message"] == "0 of 2 fit together"
    assert counted([], make_pod("p"), 2)["fit"] == 0


def test_very_many_are_counted_by_sums_and_placed_some_way() -> None:
    found = counted(workers(3, cpu=100), make_pod("p").cpu("100m"), 300)
    assert (found["fit"], sum(found["nodes"].values())) == (300, 300)


def test_sums_of_very_large_requests_do_not_overflow() -> None:
    node = make_node("n").cpu(4).pods(1_000_000).offer("ephemeral-storage", "300Ti").obj()
    pod = make_pod("p").request("ephemeral-storage", "200Ti")
    assert counted([node], pod, 100_000)["fit"] == 1


def test_more_than_can_be_placed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ONE_BY_ONE", 3)
    pod = make_pod("p").label(app="x")
    pod.spread(constraint(HOSTNAME, labelSelector={"matchLabels": {"app": "x"}}))
    found = counted(workers(5), pod, 5)
    assert found["fit"] == 3
    assert "no more than 3 were tried" in found["message"]


@given(
    st.lists(st.integers(1, 6), max_size=4),
    st.sampled_from(["400m", "1", "1500m"]),
    st.integers(0, 12),
    st.booleans(),
)
def test_as_many_fit_as_are_placed(cpus: list[int], cpu: str, count: int, spread: bool) -> None:
    objects = [
        make_node(f"n{i}").cpu(cpu).pods(3).label(**{HOSTNAME: f"n{i}"}).obj()
        for i, cpu in enumerate(cpus)
    ]
    pod = make_pod("p").cpu(cpu).label(app="x")
    if spread:
        pod.spread(constraint(HOSTNAME, labelSelector={"matchLabels": {"app": "x"}}))
    copies = []
    for number in range(count):
        copy = pod.obj()
        copy["metadata"] |= {"name": f"p-{number}", "uid": f"p-{number}"}
        copies.append(copy)
    placed = sum(node is not None for _, node, _ in place([*objects, *copies]))
    assert counted(objects, pod, count)["fit"] == placed
