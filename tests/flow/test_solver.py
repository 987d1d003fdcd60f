"""The solver finds the cheapest flow, always the same, and pods that it places are whole."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from scheduler.flow import cpu_memory, scores
from scheduler.flow.network import Arcs
from scheduler.flow.problem import UNFIT, PriceSteps, Problem, Solution, decode, encode
from scheduler.flow.scores import draw
from scheduler.flow.solver import Unsolvable, solve
from scheduler.flow.solving import read, solved
from tests.flow.oracle import cheapest
from tests.flow.problems import problem, problems


@pytest.mark.parametrize("model", [scores.draw, cpu_memory.draw], ids=["Scores", "CpuMemory"])
@given(problems())
@settings(max_examples=40, deadline=None)
def test_the_flow_costs_what_a_linear_program_says_is_the_least(
    model: Callable[[Problem], scores.ScoreNetwork | cpu_memory.CpuMemoryNetwork], given_: Problem
) -> None:
    network = model(given_).network

    flows, cost = solve(network)

    assert cost == pytest.approx(cheapest(network), abs=0.5)
    assert (flows >= 0).all()
    assert (flows <= network.capacity).all()


@given(problems())
@settings(max_examples=40, deadline=None)
def test_what_is_read_respects_supplies_and_places(given_: Problem) -> None:
    solution = solved(given_)

    pods = np.bincount(solution.of_class, solution.pods, minlength=len(given_.supplies))
    assert (pods <= given_.supplies).all()
    assert (solution.pods <= given_.fit[solution.of_class, solution.node]).all()
    assert (given_.scores[solution.of_class, solution.node] >= 0).all()


@given(problems())
@settings(max_examples=15, deadline=None)
def test_the_same_problem_has_the_same_solution(given_: Problem) -> None:
    first, second = solved(given_), solved(decode(encode(given_), Problem))

    for name in ("of_class", "node", "pods"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()
    assert (first.cost, first.arcs) == (second.cost, second.arcs)


def test_a_solution_survives_the_way_between_processes() -> None:
    solution = solved(problem([1], [[5]], [[1, 1]], [[2, 2]]))

    again = decode(encode(solution), Solution)

    assert again.node.tolist() == solution.node.tolist()
    assert again.arcs == solution.arcs


def test_pods_that_compete_for_a_node_go_where_all_gain_most() -> None:
    # One by one, the first class takes node 0, which it likes a little and the second one much.
    competing = problem([1, 1], [[100, 90], [100, 0]], [[1, 1], [1, 1]], [[1, 1], [1, 1]])

    solution = solved(competing)

    assert list(zip(solution.of_class.tolist(), solution.node.tolist(), strict=True)) == [
        (0, 1),
        (1, 0),
    ]


def test_classes_share_what_a_node_has_of_a_third_resource() -> None:
    """Two classes of pods with a GPU, one without; the nodes have two GPUs each."""
    gpus = problem(
        [3, 3, 4],
        [[50, 40], [50, 40], [50, 40]],
        [[1, 1, 1], [2, 2, 1], [3, 3, 0]],
        [[20, 20, 2], [20, 20, 2]],
    )
    drawn = draw(gpus)
    flows, _ = solve(drawn.network)

    sent = gpus.requests.T @ drawn.pods(flows, gpus.shape)
    assert sent[2].tolist() == [2, 2], "the flow itself, before anything is rounded"
    solution = solved(gpus)
    assert np.bincount(solution.of_class, solution.pods).tolist()[2] == 4
    assert solution.pods[solution.of_class < 2].sum() == 4


def test_what_comes_by_one_gate_is_not_given_out_by_another() -> None:
    """Pods with a GPU take CPU too: a node drawn again has as much less for those without."""
    mixed = problem([4, 20], [[50], [50]], [[4, 4, 1], [1, 1, 0]], [[20, 20, 4]])

    solution = solved(mixed)

    assert solution.pods.tolist() == [4, 4], "all GPUs, and what they leave of the CPUs"


def test_pods_are_spread_over_nodes_that_are_equally_good() -> None:
    even = problem([8], [[50] * 4], [[1, 1]], [[10, 10]] * 4, load_price=100.0)

    solution = solved(even)

    assert solution.pods.tolist() == [2, 2, 2, 2]


def test_pods_that_keep_away_from_each_other_do_not_share_a_node_without_need() -> None:
    lonely = problem([3], [[60, 55, 50]], [[1, 1]], [[10, 10]] * 3, repeat_price=np.array([30.0]))

    solution = solved(lonely)

    assert solution.pods.tolist() == [1, 1, 1]


def test_a_domain_without_a_quota_takes_nobody() -> None:
    quota = PriceSteps(np.array([0]), np.array([2]), np.array([3]), np.array([0.0]))
    held = problem(
        [3, 1],
        [[50, 50, 50], [UNFIT, UNFIT, 50]],
        [[1, 1], [1, 1]],
        [[4, 4]] * 3,
        quotas=quota,
        domain_of=np.array([[1, 2, 3], [0, 0, 0]]),
    )
    solution = solved(held)
    assert (solution.of_class.tolist(), solution.node.tolist()) == ([0, 1], [1, 2])
    assert solution.pods.tolist() == [3, 1]


def test_only_the_youngest_are_left_out() -> None:
    tight = problem([3], [[50]], [[1, 1]], [[2, 2]])

    assert int(solved(tight).pods.sum()) == 2


def test_each_class_gets_as_many_pods_as_its_flow_amounts_to() -> None:
    halves = problem([2, 1], [[50, 50], [50, 50]], [[2, 2], [1, 1]], [[4, 4], [4, 4]])
    drawn = draw(halves)
    flows = np.zeros(drawn.network.arcs, np.int64)
    # Both pods of the first class are split in two.
    flows[:4] = [200, 200, 100, 0]

    of_class, node, pods = read(halves, drawn, flows)

    assert np.bincount(of_class, pods).tolist() == [2, 1]
    assert node.tolist() == [0, 1, 0]


def test_a_network_without_a_flow_is_reported() -> None:
    arcs = Arcs()
    arcs.add(0, 1, np.array([1]), 1)

    with pytest.raises(Unsolvable, match="INFEASIBLE"):
        solve(arcs.network(np.array([2, -2])))
