"""Which pods a node takes: situations by class of pod, containers and cells, for both scopes.

Two cells of 10 CPUs, 10 GiB and 2 GPUs; the second cell has 4 CPUs, 4 GiB and no GPU left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.builders import PodBuilder, make_pod
from tests.numa.support import Numa, TopologyBuilder, make_topology, with_container


class Case(NamedTuple):
    """Containers as (CPUs, GiB) or (CPUs, GiB, GPUs), and whether each scope has the pod."""

    title: str
    container_scope: bool
    pod_scope: bool
    apps: tuple[Any, ...]
    inits: tuple[Any, ...] = ()
    sidecars: tuple[Any, ...] = ()
    guaranteed: bool = True


CASES = [
    Case("one container fits a cell", True, True, ((4, 4),)),
    Case("one container fits the larger cell only", True, True, ((10, 10),)),
    Case("one container has too many CPUs for a cell", False, False, ((11, 4),)),
    Case("one container has too much memory for a cell", False, False, ((4, 11),)),
    Case("CPUs fit one cell", True, True, ((5, 5),)),
    Case("fractions of a CPU are not aligned", True, True, (("10500m", 4),)),
    Case("but their memory is", False, False, (("500m", 11),)),
    Case("two containers fit a cell together", True, True, ((5, 5), (5, 5))),
    Case("two containers fit a cell each", True, False, ((8, 8), (4, 4))),
    Case(
        "in the order of containers the first takes the only place",
        True,
        False,
        ((4, 4), (10, 10))[::-1],
    ),
    Case("the first takes what the second needs", False, False, ((4, 4), (10, 10))),
    Case("the second is too large", False, False, ((4, 4), (11, 1))),
    Case("three containers, two cells", True, False, ((5, 1), (5, 1), (4, 1))),
    Case("three containers are too many", False, False, ((5, 1), (5, 1), (5, 1))),
    Case("one shared container beside an exclusive one", True, True, ((10, 1), ("500m", 1))),
    Case("an init container fits", True, True, ((4, 4),), inits=((4, 4),)),
    Case("an init container is too large", False, False, ((4, 4),), inits=((11, 4),)),
    Case("what it held is taken over", True, True, ((10, 5),), inits=((10, 5),)),
    Case("init containers run one after the other", True, True, ((4, 4),), inits=((8, 4), (8, 4))),
    Case("an init container ties the app to its cell", True, True, ((8, 1),), inits=((2, 1),)),
    Case(
        "apps may go elsewhere once it is used up", True, False, ((10, 1), (4, 1)), inits=((10, 1),)
    ),
    Case(
        "memory of a shared init container ties nobody",
        True,
        True,
        ((10, 1),),
        inits=(("500m", 1),),
    ),
    Case("a sidecar stays", True, True, ((5, 5),), sidecars=((5, 5),)),
    Case("a sidecar takes the room of the app", False, False, ((8, 8),), sidecars=((4, 4),)),
    Case("a sidecar and an app too large together", False, False, ((10, 1),), sidecars=((10, 1),)),
    Case("a device in the cell that has one", True, True, ((4, 4, 1),)),
    Case("more devices than a cell has", False, False, ((4, 4, 3),)),
    Case("devices and CPUs in the same cell", True, True, ((10, 10, 2),)),
    Case("the CPUs of the cell with devices are taken", False, False, ((10, 10), (4, 4, 1))),
    Case("the device's container comes first", True, False, ((6, 6, 1), (4, 4), (4, 4))),
    Case(
        "no memory of its own is asked for by Burstable pods",
        True,
        True,
        ((11, 11),),
        guaranteed=False,
    ),
    Case("but devices are", False, False, ((1, 1, 3),), guaranteed=False),
    Case("devices of a Burstable pod fit", True, True, ((11, 11, 2),), guaranteed=False),
]


def amounts(container: tuple[Any, ...]) -> dict[str, Any]:
    cpu, memory, *gpus = container
    wanted = {"cpu": cpu, "memory": f"{memory}Gi"}
    return wanted | ({"example.com/gpu": gpus[0]} if gpus else {})


def pod_of(case: Case) -> PodBuilder:
    if not case.guaranteed:
        pod = make_pod("p")
        for name, amount in amounts(case.apps[0]).items():
            pod.request(name, amount)
        return pod
    pod = make_pod("p").no_containers()
    for container in case.apps:
        with_container(pod, amounts(container))
    for container in case.inits:
        with_container(pod, amounts(container), init=True)
    for container in case.sidecars:
        with_container(pod, amounts(container), sidecar=True)
    return pod


def cells(scope: str) -> TopologyBuilder:
    def resources(cpu: int, memory: int, gpus: int) -> dict[str, tuple[Any, Any]]:
        return {
            "cpu": (cpu, 10),
            "memory": (f"{memory}Gi", "10Gi"),
            "example.com/gpu": (gpus, 2),
        }

    topology = make_topology(scope=scope).knows()
    return topology.zone("node-0", resources(10, 10, 2)).zone("node-1", resources(4, 4, 0))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_what_a_node_takes(case: Case, scope: str) -> None:
    numa = Numa(reserve=False).nodes("n1").publish(cells(scope))
    expected = case.container_scope if scope == "container" else case.pod_scope
    assert numa.fits(pod_of(case)) is expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_clean_node_takes_the_same_with_the_reserve_cache(case: Case, scope: str) -> None:
    numa = Numa().nodes("n1").publish(cells(scope))
    expected = case.container_scope if scope == "container" else case.pod_scope
    assert numa.fits(pod_of(case)) is expected


@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_kubelets_that_refuse_nobody_take_everything(policy: str) -> None:
    topology = make_topology(policy=policy).cell(1).cell(1).knows()
    assert Numa().nodes("n1").publish(topology).fits(pod_of(Case("", True, True, ((16, 1),))))
