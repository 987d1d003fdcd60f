"""Keys that no node has: a pod may name thousands of them, and the cost stays linear in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import PodBuilder, make_pod, make_worker
from tests.cost.counting import UNLIMITED, cost
from tests.pipeline.support import Stage

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def spread(number: int) -> PodBuilder:
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": f"key-{i}",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
        for i in range(number)
    ]
    return make_pod("wide").spec(topologySpreadConstraints=constraints)


def node_terms(number: int) -> PodBuilder:
    terms = [
        {"matchExpressions": [{"key": f"key-{i}", "operator": "In", "values": ["a"]}]}
        for i in range(number)
    ]
    return make_pod("wide").spec(
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    )


def node_fields(number: int) -> PodBuilder:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [f"node-{i}"]}]}
        for i in range(number)
    ]
    return make_pod("wide").spec(
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    )


def terms(number: int) -> list[dict[str, object]]:
    return [
        {"topologyKey": f"key-{i}", "labelSelector": {}, "namespaceSelector": {}}
        for i in range(number)
    ]


def apart(number: int) -> PodBuilder:
    return make_pod("wide").spec(affinity={"podAntiAffinity": {REQUIRED: terms(number)}})


def stage(nodes: int) -> Stage:
    stage = Stage(config=(UNLIMITED,))
    stage.see(*(make_worker(f"node-{i}").label(**{HOST: f"node-{i}"}) for i in range(nodes)))
    return stage


def attempt_of(stage: Stage, pod: PodBuilder) -> int:
    stage.see(pod)
    return cost(stage.attempt).operations


@pytest.mark.parametrize("wide", [spread, node_terms, node_fields, apart])
async def test_an_attempt_costs_no_more_the_more_nodes_lack_the_keys(
    wide: Callable[[int], PodBuilder],
) -> None:
    """An instruction or two for each node, not for each node and key."""
    few, many = attempt_of(stage(4), wide(32)), attempt_of(stage(64), wide(32))
    assert many - few < 60 * 64


async def test_terms_of_running_pods_by_unknown_keys_cost_other_pods_nothing() -> None:
    """After the first of equal pods has found out that they say nothing.

    That there are terms at all costs something; how many they are, nothing.
    """
    costs = []
    for number in (1, 600):
        scene = stage(8)
        scene.see(apart(number).scheduler("another").on("node-1"))
        attempt_of(scene, make_pod("first").label(app="a"))
        costs.append(attempt_of(scene, make_pod("second").label(app="a")))
    assert costs[1] - costs[0] < 60
