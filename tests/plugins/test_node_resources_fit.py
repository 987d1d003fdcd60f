"""NodeResourcesFit against sums and formulas worked out node by node."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.plugin_args import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from tests.builders import PodBuilder, make_node, make_pod, make_worker
from tests.plugins.resource_cases import DEFAULTS, RESOURCES, ClusterCase, NodeCase, clusters
from tests.plugins.support import Bench

SCALARS = ("example.com/gpu",)

weights = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 5), min_size=1)
shapes = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)),
    min_size=1,
    max_size=4,
    unique_by=lambda point: point[0],
).map(sorted)


def verdict(node: NodeCase, asked: dict[str, int]) -> Status:
    reasons = ["Too many pods"] if len(node.pods) + 1 > node.limit else []
    hopeless = False
    for resource, amount in asked.items():
        offered = node.offered.get(resource, 0)
        if amount and amount > offered - node.taken(resource, assumed=False):
            reasons.append(f"Insufficient {resource}")
            hopeless |= amount > offered
    if not reasons:
        return SUCCESS
    code = Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
    return Status(code, tuple(sorted(reasons)), "NodeResourcesFit")


@given(clusters)
def test_every_verdict(case: ClusterCase) -> None:
    bench = Bench(NodeResourcesFit, case.builders(), case.pods())
    got = {
        name: Status(status.code, tuple(sorted(status.reasons)), status.plugin)
        for name, status in bench.verdicts(case.pending()).items()
    }
    assert got == {name: verdict(node, case.asked) for name, node in case.named().items()}


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        pytest.param(make_pod("p").cpu("1").memory("1Gi"), True, id="exactly what is left"),
        pytest.param(make_pod("p").cpu("1001m"), False, id="a thousandth of a CPU too much"),
        pytest.param(make_pod("p").memory(2**30 + 1), False, id="a byte too much"),
    ],
)
def test_the_last_room_is_used(pod: PodBuilder, fits: bool) -> None:
    node = make_node("n").cpu("3").memory("3Gi").pods(2)
    bench = Bench(NodeResourcesFit, [node], [make_pod("q").cpu("2").memory("2Gi").on("n")])
    assert bench.verdicts(pod)["n"].ok is fits


def used(node: NodeCase, asked: dict[str, int], resource: str) -> int:
    """What would be taken with the pod there, silent containers counted by their defaults."""
    return node.taken(resource, assumed=True) + asked.get(resource, DEFAULTS.get(resource, 0))


def counted(node: NodeCase, asked: dict[str, int], resource: str) -> bool:
    return bool(node.offered.get(resource)) and (
        resource not in SCALARS or bool(asked.get(resource))
    )


def weighted_mean(parts: dict[str, int], weights: dict[str, int]) -> int:
    if not parts:
        return 0
    return sum(parts[r] * weights[r] for r in parts) // sum(weights[r] for r in parts)


def scores(case: ClusterCase, strategy: ScoringStrategy) -> dict[str, int] | None:
    args = NodeResourcesFitArgs(scoring_strategy=strategy)
    return Bench(NodeResourcesFit, case.builders(), case.pods(), args).scores(case.pending())


def specs(weights: dict[str, int]) -> tuple[ResourceSpec, ...]:
    return tuple(ResourceSpec(name, weight) for name, weight in weights.items())


@given(clusters, weights)
def test_least_allocated(case: ClusterCase, weights: dict[str, int]) -> None:
    def score(node: NodeCase) -> int:
        parts = {}
        for resource in weights:
            if counted(node, case.asked, resource):
                capacity = node.offered[resource]
                free = max(0, capacity - used(node, case.asked, resource))
                parts[resource] = free * 100 // capacity
        return weighted_mean(parts, weights)

    got = scores(case, ScoringStrategy("LeastAllocated", specs(weights)))
    assert got == {name: score(node) for name, node in case.named().items()}


@given(clusters, weights)
def test_most_allocated(case: ClusterCase, weights: dict[str, int]) -> None:
    def score(node: NodeCase) -> int:
        parts = {}
        for resource in weights:
            if counted(node, case.asked, resource):
                capacity = node.offered[resource]
                parts[resource] = min(used(node, case.asked, resource), capacity) * 100 // capacity
        return weighted_mean(parts, weights)

    got = scores(case, ScoringStrategy("MostAllocated", specs(weights)))
    assert got == {name: score(node) for name, node in case.named().items()}


def on_line(shape: list[tuple[int, int]], utilization: int) -> int:
    """The shape at a utilization, its scores stretched from 0..10 to 0..100, cut towards zero."""
    left = [point for point in shape if point[0] < utilization]
    right = [point for point in shape if point[0] >= utilization]
    if not left or not right:
        return (right[0] if right else left[-1])[1] * 10
    (x0, y0), (x1, y1) = left[-1], right[0]
    return y0 * 10 + int(Fraction((y1 - y0) * 10 * (utilization - x0), x1 - x0))


@given(clusters, weights, shapes)
def test_requested_to_capacity_ratio(
    case: ClusterCase, weights: dict[str, int], shape: list[tuple[int, int]]
) -> None:
    def score(node: NodeCase) -> int:
        total = weight = 0
        for resource, its_weight in weights.items():
            if counted(node, case.asked, resource):
                capacity = node.offered[resource]
                taken = min(used(node, case.asked, resource), capacity)
                part = on_line(shape, taken * 100 // capacity)
                if part:  # a resource that scores nothing does not pull the mean down
                    total += part * its_weight
                    weight += its_weight
        return int(Fraction(total, weight) + Fraction(1, 2)) if weight else 0

    points = tuple(UtilizationShapePoint(x, y) for x, y in shape)
    strategy = ScoringStrategy(
        "RequestedToCapacityRatio", specs(weights), RequestedToCapacityRatioParam(points)
    )
    got = scores(case, strategy)
    assert got == {name: score(node) for name, node in case.named().items()}


@pytest.mark.parametrize(
    ("taken", "score"),
    [
        pytest.param("10%", 75, id="falls from 100 at 0 to 0 at 40: 100 + trunc(-1000 / 40)"),
        pytest.param("33%", 18, id="100 + trunc(-82.5) = 100 - 82: cut towards zero"),
        pytest.param("40%", 0, id="the end of the line"),
        pytest.param("90%", 0, id="flat beyond its end"),
    ],
)
def test_a_falling_shape(taken: str, score: int) -> None:
    shape = (UtilizationShapePoint(0, 10), UtilizationShapePoint(40, 0))
    strategy = ScoringStrategy(
        "RequestedToCapacityRatio", (ResourceSpec("cpu"),), RequestedToCapacityRatioParam(shape)
    )
    args = NodeResourcesFitArgs(scoring_strategy=strategy)
    bench = Bench(NodeResourcesFit, [make_node("n").cpu("100m")], args=args)
    pod = make_pod("p").cpu(taken.replace("%", "m"))
    assert bench.scores(pod) == {"n": score}


def test_ignored_extended_resources_are_not_looked_at() -> None:
    args = NodeResourcesFitArgs(
        ignored_resources=("example.com/gpu",), ignored_resource_groups=("vendor.io",)
    )
    bench = Bench(NodeResourcesFit, [make_worker("n")], args=args)
    pod = make_pod("p").request("example.com/gpu", 1).request("vendor.io/fpga", 1)
    assert bench.verdicts(pod)["n"] == SUCCESS
    pod.request("example.com/nic", 1)
    assert bench.verdicts(pod)["n"].reasons == ("Insufficient example.com/nic",)


@pytest.mark.parametrize("amount", ["1e30", "10E"])
def test_an_absurd_request_fits_not_even_an_absurd_node(amount: str) -> None:
    bench = Bench(NodeResourcesFit, [make_node("n").cpu(amount).memory(amount)])
    status = bench.verdicts(make_pod("p").cpu(amount).memory(amount))["n"]
    assert status.code is Code.UNRESOLVABLE
    assert status.reasons == ("Insufficient cpu", "Insufficient memory")
