"""The published design's network: its example, its user story, its rules."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.assembly import Core
from scheduler.flow.cpu_memory import (
    FINENESS,
    arc_cost,
    draw,
    task_class,
    without,
)
from scheduler.flow.problem import PriceSteps, Problem
from scheduler.flow.solver import solve
from scheduler.flow.solving import solved
from scheduler.simulation import Placed, played
from tests.builders import Json, make_node, make_pod, requirement, term
from tests.flow.oracle import cheapest
from tests.flow.problems import problem, problems
from tests.flow.unit_arcs import unit_arcs, unit_cost

CONFIG: Json = {
    "apiVersion": "equipoise.dev/v1alpha1",
    "kind": "EquipoiseConfiguration",
    "batch": {"enabled": True, "costModel": "CpuMemory", "minPending": 2, "window": "0s"},
}


def test_three_machines_of_two_units_each() -> None:
    """Figure 1: arcs of capacity 1 to each machine's two classes, at 100 and 200."""
    machines = [[10.0, 10.0]] * 3
    drawn = draw(problem([6], [[0] * 3], [[1, 1]], machines, slots=2, model="CpuMemory"))

    costs = drawn.network.cost[drawn.pairs]
    assert drawn.places.node.tolist() == [0, 0, 1, 1, 2, 2]
    assert (costs / FINENESS).tolist() == [100, 200] * 3
    assert (drawn.network.capacity[drawn.pairs] == 1).all()
    # From each machine class on: one arc of capacity 1 and no cost.
    heads = drawn.network.head[drawn.pairs]
    onward = np.isin(drawn.network.tail, heads)
    assert drawn.network.capacity[onward].tolist() == [1] * 6
    assert drawn.network.cost[onward].tolist() == [0] * 6
    # Load is distributed: no machine gets a second task while another has none.
    fewer = solved(problem([3], [[0] * 3], [[1, 1]], machines, slots=2, model="CpuMemory"))
    assert fewer.cost == 300 * FINENESS
    assert fewer.pods.tolist() == [1, 1, 1]


def test_all_six_places_are_used_and_the_seventh_task_is_left() -> None:
    example = problem([7], [[0] * 3], [[1, 1]], [[10, 10]] * 3, slots=2, model="CpuMemory")

    assert solved(example).pods.tolist() == [2, 2, 2]


def test_a_second_machine_class_is_shared_by_task_classes() -> None:
    """However many task classes there are, a machine takes as many tasks as it has classes."""
    example = problem([2, 2], [[0], [0]], [[1, 1]] * 2, [[10, 10]], slots=2, model="CpuMemory")

    assert int(solved(example).pods.sum()) == 2


def test_soft_constraints_make_arcs_cheaper_and_1000_keeps_them_positive() -> None:
    both = problem(
        [1, 1],
        [[0, 0], [0, 0]],
        [[1, 1]] * 2,
        [[10, 10]] * 2,
        soft=np.array([[80, 0], [0, 0]]),
        preferring=np.array([1, 0]),
        model="CpuMemory",
    )
    of_class, node = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])

    costs = arc_cost(both, of_class, node, np.zeros(4, np.int64))

    assert costs.tolist() == [1020, 1100, 100, 100]


def test_arcs_are_drawn_only_where_hard_constraints_hold() -> None:
    """Figure 3: machines M0 and M1 meet the requirements, M2 does not."""
    example = problem([4], [[0, 0, -1]], [[1, 1]], [[10, 10]] * 3, slots=2, model="CpuMemory")

    assert set(draw(example).places.node.tolist()) == {0, 1}
    assert solved(example).node.tolist() == [0, 1]


@st.composite
def cpu_memory_problems(draw_: st.DrawFn) -> Problem:
    """Small backlogs with preferences, and classes that are held to domains."""
    made = draw_(problems())
    classes, nodes = made.shape
    weight = st.integers(0, 300)
    row = st.lists(weight, min_size=nodes, max_size=nodes)
    soft = np.array(draw_(st.lists(row, min_size=classes, max_size=classes)), np.int64)
    prefers = draw_(st.lists(st.integers(0, 1), min_size=classes, max_size=classes))
    domain_of = np.zeros(made.shape, np.int64)
    steps: list[tuple[int, int, int]] = []
    if draw_(st.booleans()):
        held = draw_(st.integers(0, classes - 1))
        domain_of[held] = 1 + np.arange(nodes) % 2
        steps = [(held, domain, draw_(st.integers(1, 4))) for domain in draw_(_DOMAINS)]
    of_class, domain, pods = (np.array([s[i] for s in steps], np.int64) for i in range(3))
    return msgspec.structs.replace(
        made,
        soft=soft,
        preferring=np.array(prefers, np.int64),
        domain_of=domain_of if steps else np.zeros(0, np.int64),
        quotas=PriceSteps(of_class, domain, pods, np.zeros(len(steps))),
        model="CpuMemory",
    )


_DOMAINS = st.sampled_from([(1,), (2,), (1, 2)])


@given(cpu_memory_problems())
@settings(max_examples=150, deadline=None)
def test_the_cheapest_flow_costs_what_it_costs_with_an_arc_for_every_place(
    given_: Problem,
) -> None:
    """Arcs that are not drawn are arcs that no cheapest flow needs."""
    drawn = draw(given_)
    _, cost = solve(drawn.network)

    leave = int(drawn.network.cost[len(drawn.network.cost) - 1])
    full = unit_arcs(given_, leave)

    assert drawn.network.arcs <= full.arcs
    assert cost == pytest.approx(cheapest(full), abs=0.5)


@given(cpu_memory_problems())
@settings(max_examples=100, deadline=None)
def test_no_node_is_sent_more_than_it_has(given_: Problem) -> None:
    solution = solved(given_)
    counts = np.zeros(given_.shape, np.int64)
    np.add.at(counts, (solution.of_class, solution.node), solution.pods)

    assert (given_.requests.T @ counts <= given_.free + 1e-6).all()
    assert (counts.sum(axis=0) <= given_.slots).all()
    assert (counts <= np.where(given_.scores < 0, 0, given_.fit)).all()
    assert (counts.sum(axis=1) <= given_.supplies).all()
    for e, domain, pods in zip(*msgspec.structs.astuple(given_.quotas)[:3], strict=True):
        assert counts[e, given_.domain_of[e] == domain].sum() <= pods


@given(cpu_memory_problems())
@settings(max_examples=100, deadline=None)
def test_pods_are_left_out_only_if_no_node_has_room_for_them(given_: Problem) -> None:
    solution = solved(given_)
    counts = np.zeros(given_.shape, np.int64)
    np.add.at(counts, (solution.of_class, solution.node), solution.pods)
    left = without(given_, counts)

    alone = [e for e in range(given_.shape[0]) if not (given_.quotas.of_class == e).any()]
    for e in alone:
        assert not left.supplies[e] or (left.scores[e] < 0).all()


@given(cpu_memory_problems())
@settings(max_examples=60, deadline=None)
def test_one_class_gets_the_cheapest_places_that_there_are(given_: Problem) -> None:
    """By the model's own cost nothing is better, pod by pod included: each takes the next."""
    only = np.zeros(given_.shape[0], np.int64)
    only[0] = given_.supplies[0]
    alone = msgspec.structs.replace(
        given_, supplies=only, quotas=PriceSteps(), domain_of=PriceSteps().pods
    )
    solution = solved(alone)

    rooms = [
        (m, i)
        for m in np.flatnonzero(alone.scores[0] >= 0).tolist()
        for i in range(min(int(alone.fit[0, m]), int(alone.slots[m])))
    ]
    costs = sorted(unit_cost(alone, 0, m, i) for m, i in rooms)
    placed = [
        unit_cost(alone, 0, int(m), i)
        for m, pods in zip(solution.node, solution.pods, strict=True)
        for i in range(int(pods))
    ]
    assert len(placed) == min(int(only[0]), len(costs))
    assert sum(placed) == sum(costs[: len(placed)])


def test_classes_of_one_pod_each_share_a_node() -> None:
    """A place is the i-th pod of a node, of whatever class."""
    pods = problem([1] * 8, [[0, 0]] * 8, [[1, 1]] * 8, [[10, 10]] * 2, model="CpuMemory")

    assert np.bincount(solved(pods).node).tolist() == [4, 4]


def test_pods_that_have_waited_for_ages_are_still_solved() -> None:
    """What it costs to leave them out stays within what the solver can count."""
    one = problem([3], [[0] * 2], [[1, 1]], [[2, 2], [1, 1]], leave=1e30, model="CpuMemory")

    assert int(solved(one).pods.sum()) == 3


def test_small_pods_on_large_nodes_spread() -> None:
    tiny = problem([12], [[0] * 4], [[0.001, 0.001]], [[64, 256]] * 4, model="CpuMemory")

    assert solved(tiny).pods.tolist() == [3, 3, 3, 3]


def test_many_preferred_terms_keep_their_order() -> None:
    """Weights of more than ten terms exceed 1000: the dearest is still positive."""
    example = problem(
        [1], [[0, 0]], [[1, 1]], [[10, 10]] * 2,
        soft=np.array([[1500, 1400]]), preferring=np.array([1]), model="CpuMemory",
    )  # fmt: skip

    cost = arc_cost(example, np.zeros(2, int), np.arange(2), np.zeros(2, int))

    assert cost.tolist() == [100, 200]


def test_arcs_do_not_grow_with_the_number_of_nodes() -> None:
    """Each of ten classes has as many arcs to places as there are pods, on 500 nodes of 110."""
    example = problem(
        [5] * 10, [[0] * 500] * 10, [[1, 1]] * 10, [[200, 200]] * 500, model="CpuMemory"
    )

    assert len(draw(example).places.node) == 10 * 50


class TestTaskClasses:
    """A hash of CPU, memory and nodeSelector; with affinity, of the owner."""

    def test_same_needs_same_class(self) -> None:
        first = make_pod("a").cpu(1).memory("1Gi").label(app="x").owner("ReplicaSet", "one").info()
        second = make_pod("b").cpu("1000m").memory("1024Mi").owner("ReplicaSet", "two").info()

        assert task_class(first) == task_class(second)

    def test_other_needs_or_selectors_other_class(self) -> None:
        plain = make_pod("a").cpu(1).info()
        larger = make_pod("b").cpu(2).info()
        choosy = make_pod("c").cpu(1).spec(nodeSelector={"disk": "ssd"}).info()

        assert len({task_class(pod) for pod in (plain, larger, choosy)}) == 3

    def test_with_affinity_the_owner_decides(self) -> None:
        affinity: Json = {"nodeAffinity": {}}
        of_one = make_pod("a").cpu(1).owner("Job", "one").spec(affinity=affinity).info()
        also = make_pod("b").cpu(9).owner("Job", "one").spec(affinity=affinity).info()
        of_two = make_pod("c").cpu(1).owner("Job", "two").spec(affinity=affinity).info()

        assert task_class(of_one) == task_class(also) != task_class(of_two)

    def test_with_affinity_and_no_owner_needs_and_affinity_decide(self) -> None:
        """As many classes as there are kinds of pods, and not one for each pod."""
        web = {"weight": 5, "preference": term(requirement("web", "In", "yes"))}
        rules: Json = {"preferredDuringSchedulingIgnoredDuringExecution": [web]}
        first = make_pod("a").cpu(1).spec(affinity={"nodeAffinity": {}}).info()
        same = make_pod("b").cpu(1).spec(affinity={"nodeAffinity": {}}).info()
        larger = make_pod("c").cpu(2).spec(affinity={"nodeAffinity": {}}).info()
        other = make_pod("d").cpu(1).spec(affinity={"nodeAffinity": rules}).info()

        assert task_class(first) == task_class(same)
        assert len({task_class(pod) for pod in (first, larger, other)}) == 3


INSTANCE, REGION = "beta.kubernetes.io/instance-type", "failure-domain.beta.kubernetes.io/region"
BALANCER = "example.com/load-balancer"


def the_story() -> list[Json]:
    """nginx on m3.medium with y-web; httpd in us-west-2 with a load-balancer, rather on x-web."""
    nodes = [
        make_node("medium").label(**{INSTANCE: "m3.medium", REGION: "us-east-1"}),
        make_node("medium-y").label(**{INSTANCE: "m3.medium", REGION: "us-east-1", "y-web": "yes"}),
        make_node("large-y").label(**{INSTANCE: "m3.large", REGION: "us-west-2", "y-web": "yes"}),
        make_node("west").label(**{INSTANCE: "m3.large", REGION: "us-west-2", BALANCER: "true"}),
        make_node("west-x").label(
            **{INSTANCE: "m3.large", REGION: "us-west-2", BALANCER: "true", "x-web": "yes"}
        ),
        make_node("east-x").label(
            **{INSTANCE: "m3.large", REGION: "us-east-1", BALANCER: "true", "x-web": "yes"}
        ),
    ]
    required = term(requirement("y-web", "In", "yes"))
    west = term(requirement(REGION, "In", "us-west-2"), requirement(BALANCER, "In", "true"))
    rather = {"weight": 50, "preference": term(requirement("x-web", "In", "yes"))}
    empty = {"weight": 100, "preference": {}}
    nginx = [
        make_pod(f"nginx-{i}")
        .cpu(1)
        .memory("1Gi")
        .owner("ReplicaSet", "nginx")
        .spec(
            nodeSelector={INSTANCE: "m3.medium"},
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [required]
                    }
                }
            },
        )
        for i in range(3)
    ]
    httpd = [
        make_pod(f"httpd-{i}")
        .cpu(1)
        .memory("1Gi")
        .owner("ReplicaSet", "httpd")
        .spec(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [west]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [rather, empty],
                }
            }
        )
        for i in range(3)
    ]
    sized = [node.cpu(4).memory("8Gi").pods(10) for node in nodes]
    sized[1].cpu(2)
    return [each.obj() for each in (*sized, *nginx, *httpd)]


def told(*, batch: bool) -> tuple[dict[str, str | None], dict[str, str]]:
    """The node of each pod of the story, and the cost model that chose it, if one did."""

    def look(core: Core, _: object, placed: list[Placed]) -> Any:
        models = {d.pod: d.model for d in core.decisions.latest(100) if d.result == "scheduled"}
        return {pod: node for pod, node, _ in placed}, models

    found, models = played(the_story(), CONFIG, look, batch=batch)
    return (
        {pod.split("/")[1]: node for pod, node in found.items()},
        {pod.split("/")[1]: model for pod, model in models.items()},
    )


def nodes_of(app: str, found: dict[str, str | None]) -> list[str]:
    return sorted(str(found[f"{app}-{i}"]) for i in range(3))


def test_the_user_story() -> None:
    """nginx goes to the one node that will do, or fails; httpd to its region, rather on x-web.

    A pod costs 187.5 of 1000 points there and x-web is worth 50, so one of three pods goes without.
    """
    found, models = told(batch=True)

    # The node with y-web takes two; nginx fails rather than go elsewhere.
    assert nodes_of("nginx", found) == ["None", "medium-y", "medium-y"]
    assert nodes_of("httpd", found) == ["west", "west-x", "west-x"]
    assert models == {pod: "CpuMemory" for pod, node in found.items() if node}


def test_one_by_one_the_story_ends_otherwise() -> None:
    """So it is the model that placed the pods: to the profile, x-web is worth more than load."""
    found, models = told(batch=False)

    assert nodes_of("httpd", found) == ["west-x", "west-x", "west-x"]
    assert set(models.values()) == {""}
