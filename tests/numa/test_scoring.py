"""Scores by scheduler-plugins' formulas, against a version that does one cell at a time."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.plugin_api.cycle import Cycle
from tests.builders import PodBuilder, make_pod
from tests.numa.support import Numa, TopologyBuilder, make_topology, pinned, with_container


def score_of(numa: Numa, pod: PodBuilder, node: str = "n1") -> int:
    row = numa.state.row(node)
    assert row is not None
    cycle = Cycle(pod.info(), numa.state)
    score = int(numa.plugin.score(cycle, np.array([row]))[0])
    assert numa.plugin.score_one(cycle, row) == score
    return score


def strategy(kind: str, **weights: int) -> dict[str, Any]:
    resources = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {"scoringStrategy": {"type": kind, "resources": resources}}


def cells(*sizes: tuple[Any, Any], scope: str = "container") -> TopologyBuilder:
    topology = make_topology(scope=scope).knows()
    for cpu, memory in sizes:
        topology.cell(cpu, memory)
    return topology


# By hand


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("LeastAllocated", 62), ("MostAllocated", 25), ("BalancedAllocation", 96)],
)
def test_the_worst_cell_counts(kind: str, expected: int) -> None:
    numa = Numa(**strategy(kind)).nodes("n1").publish(cells((4, "8Gi"), (8, "8Gi")))
    assert score_of(numa, pinned("p", 2, "2Gi")) == expected


@pytest.mark.parametrize(
    ("title", "topology", "pod", "expected"),
    [
        ("a pod that is not Guaranteed", cells((4, "8Gi")), make_pod("p").cpu(2), 100),
        ("a pod that asks for nothing", cells((4, "8Gi")), make_pod("p"), 100),
        (
            "another policy",
            make_topology(policy="restricted").cell(4).cell(4).knows(),
            pinned("p", 2),
            0,
        ),
        (
            "a cell that has too little of everything does not count",
            cells((1, "1Gi"), (4, "8Gi")),
            pinned("p", 2, "4Gi"),
            50,
        ),
        ("no cell has enough", cells((1, "1Gi"), (1, "1Gi")), pinned("p", 2, "2Gi"), 0),
        ("fractions are rounded up", cells((4, "8Gi")), pinned("p", "1500m", "4Gi"), 50),
    ],
)
def test_least_allocated(
    title: str, topology: TopologyBuilder, pod: PodBuilder, expected: int
) -> None:
    assert score_of(Numa().nodes("n1").publish(topology), pod) == expected, title


def test_a_node_without_cells_scores_nothing() -> None:
    assert score_of(Numa().nodes("n1"), pinned("p", 2)) == 0


def test_weights_count_and_those_of_others_are_one() -> None:
    numa = Numa(**strategy("LeastAllocated", cpu=3)).nodes("n1")
    numa.publish(cells((4, "8Gi")))
    assert score_of(numa, pinned("p", 1, "8Gi")) == (3 * 75 + 0) // 4


def test_containers_are_averaged() -> None:
    numa = Numa().nodes("n1").publish(cells((8, "8Gi")))
    pod = with_container(pinned("p", 2, "2Gi"), {"cpu": 4, "memory": "5Gi"})
    assert score_of(numa, pod) == (75 + (50 + 37) // 2) // 2


def test_the_pod_scope_looks_at_the_sum() -> None:
    numa = Numa().nodes("n1").publish(cells((8, "8Gi"), scope="pod"))
    pod = with_container(pinned("p", 2, "2Gi"), {"cpu": 4, "memory": "4Gi"})
    assert score_of(numa, pod) == 25


def test_a_single_resource_is_always_in_balance() -> None:
    numa = (
        Numa(**strategy("BalancedAllocation")).nodes("n1").publish(cells((8, "8Gi"), scope="pod"))
    )
    pod = make_pod("p").spec(resources={"limits": {"cpu": "2", "memory": "1Gi"}}).cpu(2)
    assert score_of(numa, pod) == 100


def test_containers_that_request_nothing_are_no_trouble() -> None:
    numa = Numa().nodes("n1").publish(cells((8, "8Gi")))
    pod = make_pod("p").spec(resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    assert score_of(numa, pod) == 100


def test_unsettled_nodes_look_half_as_large_as_they_are_at_least() -> None:
    numa = Numa().nodes("n1").publish(cells((8, "64Gi"), (8, "64Gi")))
    assert score_of(numa, pinned("p", 2, "16Gi")) == 75
    numa.assume(pinned("a", 4, "4Gi"))
    # 4 CPUs and 60 GiB are sure in both cells.
    assert score_of(numa, pinned("p", 1, "15Gi")) == 50


# Against a naive version

amounts = st.tuples(st.integers(0, 6), st.integers(0, 6))
wanted = st.tuples(st.sampled_from(["1", "2", "3", "500m", "1500m"]), st.integers(1, 5))


def naive_cell(kind: str, cell: tuple[int, int], want: tuple[str, int], weight: int) -> int:
    milli = int(want[0][:-1]) if want[0].endswith("m") else int(want[0]) * 1000
    pairs = [(Fraction(milli, 1000), Fraction(cell[0])), (Fraction(want[1]), Fraction(cell[1]))]
    if kind == "BalancedAllocation":
        units = [(ceil(req), ceil(free)) for req, free in pairs]
        shares = [1.0 if free == 0 else req / free for req, free in units]
        if any(share > 1 for share in shares):
            return 0
        mean = sum(shares) / 2
        return int((1 - sum((share - mean) ** 2 for share in shares)) * 100)
    total = 0
    for (req, free), counts in zip(pairs, (weight, 1), strict=True):
        if free == 0 or req > free:
            continue
        part = (ceil(free) - ceil(req)) if kind == "LeastAllocated" else ceil(req)
        total += counts * (part * 100 // ceil(free))
    return total // (weight + 1)


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated", "BalancedAllocation"])
@given(data=st.data())
def test_all_strategies_against_one_cell_at_a_time(kind: str, data: st.DataObject) -> None:
    numa = SCORERS[kind]
    sizes = data.draw(st.lists(amounts, min_size=1, max_size=4))
    containers = data.draw(st.lists(wanted, min_size=1, max_size=2))
    # Memory in units that are divided without a remainder either way.
    topology = cells(*((cpu, memory) for cpu, memory in sizes))
    numa.publish(topology.version(data.draw(st.integers(1, 10**9))))
    pod = make_pod("p").no_containers()
    for cpu, memory in containers:
        with_container(pod, {"cpu": cpu, "memory": memory})
    values = []
    for want in containers:
        each = [naive_cell(kind, size, want, 3) for size in sizes]
        values.append(min((value for value in each if value), default=0))
    assert score_of(numa, pod) == sum(values) // len(values)


SCORERS = {
    kind: Numa(reserve=False, **strategy(kind, cpu=3)).nodes("n1")
    for kind in ("LeastAllocated", "MostAllocated", "BalancedAllocation")
}


# The fewest cells


def far_apart(*sizes: int, max_cells: int = 8, policy: str = "none") -> TopologyBuilder:
    """Cells of a ring: neighbours are nearer than others."""
    topology = make_topology(policy=policy).knows()
    topology.attribute("topologyManagerMaxNUMANodes", str(max_cells))
    for cpu in sizes:
        topology.cell(cpu)
    count = len(sizes)
    for i, zone in enumerate(topology.zones):
        zone["costs"] = [
            {"name": f"node-{j}", "value": 10 + 10 * min(abs(i - j), count - abs(i - j))}
            for j in range(count)
        ]
    return topology


FEWEST = strategy("LeastNUMANodes")


@pytest.mark.parametrize(
    ("sizes", "cpus", "max_cells", "expected"),
    [
        pytest.param((8, 8, 8, 8), 8, 8, 94, id="one cell"),
        pytest.param((8, 8, 8, 8), 16, 8, 82, id="two neighbours"),
        pytest.param((8, 0, 8, 0), 16, 8, 76, id="two that are far apart"),
        pytest.param((8, 8, 8, 8), 24, 8, 70, id="three"),
        pytest.param((8, 8, 8, 8), 32, 8, 58, id="all four"),
        pytest.param((8, 8, 8, 8), 33, 8, 0, id="too many"),
        pytest.param((8, 8, 8, 8), 8, 2, 75, id="one of at most two"),
        pytest.param((8, 8, 8, 8), 16, 2, 25, id="two of at most two"),
        pytest.param((8, 8, 8, 8), 24, 2, 0, id="more than the kubelet aligns"),
        pytest.param((8, 8, 8, 8), 8, 16, 97, id="one of at most sixteen"),
        pytest.param((8, 8, 8, 8), 8, 9, 94, id="one of at most nine"),
        pytest.param((8, 8, 8, 8), 8, 200, 100, id="no difference can be made"),
    ],
)
def test_the_fewest_and_closest_cells(
    sizes: tuple[int, ...], cpus: int, max_cells: int, expected: int
) -> None:
    numa = Numa(**FEWEST).nodes("n1").publish(far_apart(*sizes, max_cells=max_cells))
    assert score_of(numa, pinned("p", cpus)) == expected


def test_without_distances_all_cells_are_close() -> None:
    numa = Numa(**FEWEST).nodes("n1").publish(make_topology().cell(8).cell(8).knows())
    assert score_of(numa, pinned("p", 16)) == 82


def test_containers_take_from_their_cells_before_the_next() -> None:
    numa = Numa(**FEWEST).nodes("n1").publish(far_apart(8, 8, 8, 8))
    pod = with_container(pinned("p", 8), {"cpu": 16, "memory": "1Gi"})
    assert score_of(numa, pod) == 82
    pod = with_container(pod, {"cpu": 16, "memory": "1Gi"})
    assert score_of(numa, pod) == 0


def test_what_no_cell_lists_makes_no_difference() -> None:
    numa = Numa(**FEWEST).nodes("n1").publish(far_apart(8, 8))
    amounts: dict[str, Any] = {"cpu": 8, "memory": "1Gi", "ephemeral-storage": "1Gi"}
    assert score_of(numa, with_container(make_pod("p").no_containers(), amounts)) == 94


def test_many_cells_take_no_forever() -> None:
    numa = Numa(**FEWEST).nodes("n1").publish(far_apart(*([1] * 40)))
    assert score_of(numa, pinned("p", 1)) == 94
    assert score_of(numa, pinned("p", 3)) == 70


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(1, 9))
def test_the_fewest_cells_against_all_sets(sizes: list[int], cpus: int) -> None:
    RING.publish(far_apart(*sizes).version(hash((tuple(sizes), cpus)) % 10**9))
    count = len(sizes)
    expected = 0
    for size in range(1, count + 1):
        sets = list(combinations(range(count), size))
        spans = [_mean_distance(each, count) for each in sets]
        fitting = [
            span
            for each, span in zip(sets, spans, strict=True)
            if sum(sizes[c] for c in each) >= cpus
        ]
        if fitting:
            expected = 100 - size * 12 + (6 if min(fitting) == min(spans) else 0)
            break
    assert score_of(RING, pinned("p", cpus, 1)) == expected


RING = Numa(reserve=False, **FEWEST).nodes("n1")


def _mean_distance(cells: tuple[int, ...], count: int) -> Fraction:
    total = sum(10 + 10 * min(abs(i - j), count - abs(i - j)) for i in cells for j in cells)
    return Fraction(total, len(cells) ** 2)
