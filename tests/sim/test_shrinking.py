"""Shrinking: what does not matter goes, what matters stays, and the search is bounded."""

from __future__ import annotations

from tests.sim.drawing import draw
from tests.sim.plan import AddPod, At, Compact, DeletePod, NodePlan, Plan, PodPlan
from tests.sim.shrinking import Shrinking


def a_plan() -> Plan:
    pods = [At(float(number), AddPod(PodPlan(f"p{number}"))) for number in range(30)]
    others = [At(12.0, Compact()), At(13.0, DeletePod("p5"))]
    nodes = tuple(NodePlan(f"n{number}") for number in range(10))
    actions = tuple(sorted(pods + others, key=lambda each: each.seconds))
    return Plan(1, 40.0, 75.0, ("a", "b", "c"), True, True, True, nodes, actions)


def needs_two(plan: Plan) -> bool:
    """Fails if the history is compacted after p7 came, and there are two nodes."""
    kinds = [each.action for each in plan.actions]
    came = [each for each in kinds if isinstance(each, AddPod) and each.pod.name == "p7"]
    return bool(came) and Compact() in kinds and len(plan.nodes) >= 2


def test_only_what_matters_is_left() -> None:
    smallest = Shrinking(needs_two).shrink(a_plan())
    assert [each.action for each in smallest.actions] == [AddPod(PodPlan("p7")), Compact()]
    assert len(smallest.nodes) == 2
    assert smallest.replicas == ("a",)
    assert not smallest.webhook
    assert not smallest.plugin
    assert not smallest.batch
    assert smallest.seconds == 13.0


def test_a_plan_of_which_everything_matters_stays_as_it_is() -> None:
    plan = draw(4)
    assert Shrinking(lambda candidate: candidate == plan).shrink(plan) == plan


def test_the_search_is_bounded() -> None:
    tried: list[Plan] = []

    def fails(plan: Plan) -> bool:
        tried.append(plan)
        return needs_two(plan)

    Shrinking(fails, most_runs=10).shrink(a_plan())
    assert len(tried) == 10
