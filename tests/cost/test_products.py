"""Entries of one object times the number of others: the cost grows with both, not with the product.

`test_law` looks at one object at a time. A tenant can write both: a long selector, and many objects
that it is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from scheduler.plugins import default_selector
from tests.builders import Json, make_pod, make_worker, requirement
from tests.cost.counting import cost
from tests.cost.test_combinations import Written
from tests.cost.test_law import Written as Counted
from tests.cost.test_law import encoders
from tests.pipeline.evicting import Arena
from tests.plugins.storage import a_claim, a_class, a_driver, a_pod, a_room, a_volume

__all__ = ["encoders"]

FEW = 32
SLACK = 1500


def without(*keys: str) -> Json:
    """A selector of all that lack labels."""
    return {"matchExpressions": [requirement(key, "NotIn", "no") for key in keys]}


def long_selector(number: int) -> Json:
    return without(*(f"key-{i}" for i in range(number)))


def claims_and_volumes(scene: Arena, number: int) -> None:
    """A claim with a long selector, and as many free volumes that the last requirement excludes."""
    scene.see(Written(a_class("late")))
    scene.see(
        *(Written(a_volume(f"v-{i}", labels={f"key-{number - 1}": "no"})) for i in range(number))
    )
    scene.see(Written(a_claim("c", spec={"selector": long_selector(number)})))
    scene.see(a_pod("asks").claim("c"))


def claims_and_capacities(scene: Arena, number: int) -> None:
    """Claims of different sizes, and as many nodes that each have a storage capacity."""
    scene.see(Written({**a_class("late"), "provisioner": "csi"}), Written(a_driver("csi")))
    pod = a_pod("asks")
    for i in range(number):
        scene.see(Written(a_room(f"r-{i}", "late", "1Ti", nodeTopology=named(f"n-{i}"))))
        scene.see(Written(a_claim(f"c-{i}", size=f"{i + 1}Gi")))
        pod.claim(f"c-{i}")
    scene.see(pod)


def named(node: str) -> Json:
    return {"matchLabels": {"kubernetes.io/hostname": node}}


def controllers_and_groups(scene: Arena, number: int) -> None:
    """A replica set with a long selector, and as many pods with different labels."""
    for i in range(number):
        scene.see(make_pod(f"r-{i}").label(app="a", number=str(i)).on("n-0"))
    metadata, spec = {"name": "set", "namespace": "default"}, {"selector": long_selector(number)}
    scene.see(Written({"kind": "ReplicaSet", "metadata": metadata, "spec": spec}))
    scene.see(make_pod("asks").label(app="a").owner("ReplicaSet", "set"))


def budgets_and_victims(scene: Arena, number: int) -> None:
    """Budgets that all cover each of as many pods with different labels."""
    for i in range(2 * number):
        scene.see(make_pod(f"r-{i}").label(number=str(i)).cpu("100m").on("n-0"))
        scene.protect(f"b-{i}", 0, selector=without(f"key-{i}"))
    scene.see(make_pod("important").priority(2).cpu("4").on("n-1"))
    scene.see(make_pod("asks").priority(1).cpu("3990m"))


@pytest.fixture(autouse=True)
def everything_went_well(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An attempt that fails costs little."""
    yield
    assert [each.message for each in caplog.records if each.levelname != "DEBUG"] == []


@pytest.mark.parametrize(
    "play", [claims_and_volumes, claims_and_capacities, controllers_and_groups, budgets_and_victims]
)
async def test_twice_as_much_of_both_costs_twice_as_much(
    play: Callable[[Arena, int], Any],
) -> None:
    costs = []
    for number in (FEW, 2 * FEW, 4 * FEW):
        scene = Arena()
        scene.see(*(make_worker(n).label(**{"kubernetes.io/hostname": n}) for n in ("n-0", "n-1")))
        play(scene, number)
        costs.append(cost(partial(scene.attempt)).operations)
    few, more, most = costs
    assert 0 < most - more <= 2.2 * (more - few) + SLACK, costs


def services_and_labels(scene: Arena, number: int) -> None:
    """Services that select all labels of a pod but one, which differs."""
    labels = {f"key-{i}": "value" for i in range(number)}
    for i in range(number):
        metadata = {"name": f"s-{i}", "namespace": "default"}
        spec = {"selector": {**labels, "last": f"value-{i}"}}
        scene.see(Counted("Service", {"metadata": metadata, "spec": spec}))
    scene.see(Counted("Pod", make_pod("asks").label(**labels, last="none").obj()))


async def test_many_services_cost_a_pod_no_more_than_its_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(default_selector, "MOST_SERVICE_ENTRIES", FEW * FEW)
    costs = []
    for number in (2, FEW - 1, 2 * FEW, 4 * FEW):
        scene = Arena()
        scene.see(*(make_worker(n).label(**{"kubernetes.io/hostname": n}) for n in ("n-0", "n-1")))
        services_and_labels(scene, number)
        costs.append(cost(scene.attempt).operations)
    one, below, beyond, far_beyond = costs
    assert below - one > FEW * FEW, "services are compared with labels"
    assert far_beyond - beyond <= 2 * FEW * 200, "only labels are looked at"
