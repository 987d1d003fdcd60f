"""The published design's network: its example, its user story, its rules."""

from __future__ import annotations

import numpy as np

from scheduler.flow.cpu_memory import arc_cost, draw, task_class
from scheduler.flow.solver import solve
from scheduler.flow.solving import solved
from scheduler.simulation import place
from tests.builders import Json, make_node, make_pod, requirement, term
from tests.flow.problems import problem

CONFIG: Json = {
    "apiVersion": "equipoise.dev/v1alpha1",
    "kind": "EquipoiseConfiguration",
    "batch": {"enabled": True, "costModel": "CpuMemory", "minPending": 2, "window": "0s"},
}


def test_three_machines_of_two_units_each() -> None:
    """Figure 1: arcs of capacity 1 to each machine's two classes, at 100 and 200."""
    example = problem([3], [[0] * 3], [[1, 1]], [[10, 10]] * 3, slots=2, model="CpuMemory")

    drawn = draw(example)

    costs = drawn.network.cost[drawn.pairs]
    assert drawn.node.tolist() == [0, 0, 1, 1, 2, 2]
    assert costs.tolist() == [100, 200] * 3
    assert (drawn.network.capacity[drawn.pairs] == 1).all()
    # From each machine class on: one arc of capacity 1 and no cost.
    heads = drawn.network.head[drawn.pairs]
    onward = np.isin(drawn.network.tail, heads)
    assert drawn.network.capacity[onward].tolist() == [1] * 6
    assert drawn.network.cost[onward].tolist() == [0] * 6
    # Load is distributed: no machine gets a second task while another has none.
    _, cost = solve(drawn.network)
    assert cost == 300
    assert solved(example).pods.tolist() == [1, 1, 1]


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

    assert set(draw(example).node.tolist()) == {0, 1}
    assert solved(example).node.tolist() == [0, 1]


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
    sized = [node.cpu(2).memory("8Gi").pods(10) for node in nodes]
    return [each.obj() for each in (*sized, *nginx, *httpd)]


def test_the_user_story() -> None:
    """Two of each go to the one node that is right for them, httpd's third to where it can."""
    found = {pod.split("/")[1]: node for pod, node, _ in place(the_story(), CONFIG)}

    nginx = [found[f"nginx-{i}"] for i in range(3)]
    httpd = [found[f"httpd-{i}"] for i in range(3)]
    # The node with y-web takes two; nginx fails rather than go elsewhere.
    assert sorted(map(str, nginx)) == ["None", "medium-y", "medium-y"]
    assert sorted(map(str, httpd)) == ["west", "west-x", "west-x"]
