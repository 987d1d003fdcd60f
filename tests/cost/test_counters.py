"""However many pods there are to count for a new question, no step of counting takes long."""

from __future__ import annotations

import asyncio

import pytest

from scheduler import slices
from scheduler.model.affinity import PodSet
from scheduler.model.meta import ObjectMeta
from scheduler.model.selectors import Requirement, Selector
from scheduler.model.workloads import Namespace
from scheduler.slices import in_slices
from scheduler.state.cache import ClusterState
from tests.builders import make_node, make_pod, make_worker, pod_term
from tests.cost.counting import Cost, cost
from tests.pipeline.support import Change, Stage

BUDGET = 375_000
"""Operations of one step: about 5 ms."""
ALL_BUT_X = PodSet(
    frozenset(("default",)), Selector((Requirement("app", "NotIn", frozenset("x")),))
)


def attempt(groups: int) -> Cost:
    """What an attempt costs whose pod prefers to be near pods of no certain label."""
    scene = Stage()
    scene.see(make_worker("n").label(zone="z"))
    scene.see(*(make_pod(f"p{i}").label(app=f"app-{i}").on("n") for i in range(groups)))
    pod = make_pod("asks")
    for i in range(8):
        selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"x{i}"]}]}
        pod.rather_near(1, pod_term("zone", {}, labelSelector=selector))
    scene.see(pod)
    return cost(scene.attempt)


async def test_no_step_of_counting_exceeds_its_budget() -> None:
    few, many = attempt(250), attempt(500)
    assert many.operations > 1.8 * few.operations, "every group is looked at for every term"
    assert many.operations <= 2.2 * few.operations
    growth = (many.longest - few.longest) / 250
    assert many.longest + growth * 10_000 <= BUDGET


async def test_anti_affinity_of_running_pods_of_a_namespace_costs_pods_of_others_nothing() -> None:
    """Not even if the terms require no certain value of any label."""
    costs: dict[tuple[str, int], int] = {}
    for hostile in (100, 200):
        scene = Stage()
        scene.see(make_worker("n").label(zone="z"))
        for number in range(hostile):
            keys = [{"key": f"k{number}", "operator": "Exists"}]
            term = pod_term("zone", {}, labelSelector={"matchExpressions": keys})
            scene.see(make_pod(f"p{number}", "theirs").apart(term).on("n"))
        for namespace in ("ours", "theirs"):
            scene.see(make_pod("asks", namespace).label(app="x"))
            costs[namespace, hostile] = cost(scene.attempt).operations
    growth = {each: costs[each, 200] - costs[each, 100] for each in ("ours", "theirs")}
    assert growth["theirs"] > 100 * 100, "each may select the pod"
    assert growth["ours"] < 100 * 20


def namespace(scene: Stage, **labels: str) -> None:
    change = Change(None, Namespace(ObjectMeta(name="other", labels=labels)))
    scene.core.event_handlers.handler("Namespace")([change])


async def test_counting_again_after_a_namespace_has_changed_has_checkpoints() -> None:
    """A class that is known has been counted for, but counters may be dropped."""
    costs: dict[tuple[str, int], Cost] = {}
    for groups in (100, 200):
        scene = Stage()
        scene.see(make_worker("n").label(zone="z"))
        scene.see(*(make_pod(f"p{i}").label(app="x", i=str(i)).on("n") for i in range(groups)))
        term = pod_term("zone", {"app": "x"}, namespaceSelector={"matchLabels": {"team": "a"}})
        for number, labels in enumerate(({}, {"team": "b"}, {"team": "a"})):
            namespace(scene, **labels)
            scene.see(make_pod(f"asks-{number}").rather_near(1, term))
            costs[labels.get("team", ""), groups] = cost(scene.attempt)
    unconcerned = costs["b", 200].operations - costs["b", 100].operations
    counted = costs["a", 200].operations - costs["a", 100].operations
    assert counted > 100 * 20, "pods are counted again"
    assert unconcerned < 100, "the namespace is in no set either way"
    assert costs["a", 200].longest - costs["a", 100].longest < 100


async def test_pods_that_come_and_go_while_others_are_counted_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    state = ClusterState()
    state.set_node(make_node("n").struct())
    for i in range(20):
        state.set_pod(make_pod(f"p{i}").label(app=f"app-{i}").on("n").info())
    task = asyncio.create_task(in_slices(state.index.count_ahead, ALL_BUT_X))
    for i in range(10):
        await asyncio.sleep(0)
        assert not task.done()
        state.remove_pod(f"uid-p{2 * i}")
        state.set_pod(make_pod(f"again-{i}").label(app=f"app-{2 * i}").on("n").info())
        state.set_pod(make_pod(f"other-{i}").label(app=f"app-{i}").on("n").info())
        state.set_pod(make_pod(f"new-{i}").label(app=f"new-{i}").on("n").info())
        state.set_pod(make_pod(f"x{i}").label(app="x").on("n").info())
    await task
    expected = sum(pod.pod.metadata.labels["app"] != "x" for pod in state.pods())
    counter = state.index.counter(ALL_BUT_X)
    assert (counter.total, int(counter.counts.sum())) == (expected, expected)
    state.set_pod(make_pod("last").label(app="app-0").on("n").info())
    assert state.index.counter(ALL_BUT_X).total == expected + 1
