"""Plugins that answer for one node, or compare two pods: the same verdicts as in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.equivalence.reads import Reads
from scheduler.framework.faults import PluginFault
from scheduler.framework.registry import points_of
from scheduler.framework.simple import completed
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, error, unschedulable
from scheduler.plugin_api import Handle, NodeView
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from scheduler.queueing.heap import KeyedHeap
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from tests.builders import make_node, make_pod, make_worker
from tests.framework.fakes import a_cycle, faults, framework_of
from tests.pipeline.support import Stage

CLOSED = unschedulable("node(s) were closed")


class Simple:
    """All simple methods at once."""

    name = "Simple"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter_node(self, cycle: Cycle, node: NodeView) -> Any:
        return CLOSED if node.labels.get("closed") else SUCCESS

    def score_node(self, cycle: Cycle, node: NodeView) -> Any:
        return min(100, node.allocatable("cpu") // 1000)

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        return a.info.key < b.info.key


def made(plugin: Any) -> Any:
    return completed(plugin)(None, None)  # type: ignore[arg-type]  # it needs no handle


def test_simple_methods_stand_for_points() -> None:
    assert points_of(Simple) == {"filter", "score", "queueSort"}


def test_a_plugin_in_columns_is_left_alone() -> None:
    assert all(completed(plugin) is plugin for plugin in IN_TREE.values())


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_columns_are_made_of_single_verdicts(closed: list[bool]) -> None:
    state = ClusterState()
    for i, shut in enumerate(closed):
        worker = make_worker(f"n{i}")
        state.set_node((worker.label(closed="yes") if shut else worker).struct())
    framework, cycle = framework_of(made(Simple)), Cycle(make_pod("p").info(), state)
    codes = framework.run_filters(cycle, state.rows())
    assert codes.dtype == np.int32
    assert [bool(code) for code in codes] == closed
    assert {state.statuses.status(int(c)) for c in codes if c} <= {CLOSED.by("Simple")}
    assert [
        framework.filters.judge_one("Simple", cycle, row) for row in range(len(closed))
    ] == list(codes)


def test_what_a_view_shows() -> None:
    state = ClusterState()
    state.set_node(make_node("n").cpu("4").label(zone="z").taint("k", "v", "NoSchedule").struct())
    state.set_pod(make_pod("p").on("n").cpu("1500m").info())
    row = state.row("n")
    assert row is not None
    view = NodeView(state, row)
    assert (view.name, view.labels["zone"], view.taints[0].key) == ("n", "z", "k")
    assert (view.allocatable("cpu"), view.requested("cpu")) == (4000, 1500)
    assert (view.allocatable("example.com/unheard-of"), view.object.name) == (0, "n")
    assert [pod.key for pod in view.pods] == ["default/p"]


class Odd(Simple):
    """Answers what it must not, for n1 only."""

    def __init__(self, verdict: Any = SUCCESS, score: Any = 1) -> None:
        self.verdict = verdict
        self.rate = score

    def filter_node(self, cycle: Cycle, node: NodeView) -> Any:
        return self.verdict if node.name == "n1" else SUCCESS

    def score_node(self, cycle: Cycle, node: NodeView) -> Any:
        if isinstance(self.rate, Exception) and node.name == "n1":
            raise self.rate
        return self.rate if node.name == "n1" else 50


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (None, "TypeError: filter_node returned NoneType, not Status"),
        (False, "TypeError: filter_node returned bool, not Status"),
        (error("broken"), "RuntimeError: broken"),
        (Status(Code.WAIT), "RuntimeError: Wait"),
    ],
)
def test_a_verdict_that_is_none_is_a_fault(verdict: Any, text: str) -> None:
    plugin = completed(Odd)(verdict, None)  # type: ignore[arg-type]  # it needs no handle
    framework, cycle = framework_of(plugin), a_cycle()
    with pytest.raises(PluginFault, match=f"plugin 'Simple' failed at Filter: {text}"):
        framework.run_filters(cycle, cycle.state.rows())


@pytest.mark.parametrize(
    "score", [RuntimeError("boom"), None, "9", float("nan"), 101, -1, [1], 10**30]
)
def test_a_faulty_score_costs_that_node_only(score: Any) -> None:
    plugin = completed(Odd)(SUCCESS, score)
    framework, cycle = framework_of(plugin), a_cycle()
    assert framework.run_scores(cycle, cycle.state.rows()).totals.tolist() == [50, 0, 50]
    assert faults(framework, "Simple", "Score") == 1


def queued(name: str, priority: int = 0) -> QueuedPod:
    return QueuedPod(make_pod(name).priority(priority).info(), 0.0)


def test_less_sorts() -> None:
    heap: KeyedHeap[QueuedPod] = KeyedHeap(framework_of(made(Simple)).sort_key)
    for name in ("c", "a", "b"):
        heap.put(name, queued(name))
    assert [pod.info.pod.metadata.name for pod in heap] == ["a", "b", "c"]


class BadLess(Simple):
    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        raise RuntimeError("boom")


def test_a_comparison_that_fails_leaves_it_to_priority() -> None:
    framework = framework_of(made(BadLess))
    heap: KeyedHeap[QueuedPod] = KeyedHeap(framework.sort_key)
    for name, priority in (("a", 1), ("b", 3), ("c", 2)):
        heap.put(name, queued(name, priority))
    assert [pod.info.pod.metadata.name for pod in heap] == ["b", "c", "a"]
    assert faults(framework, "Simple", "QueueSort") > 0


class Declared(Simple):
    """Says what it reads, and counts how often it is asked."""

    name = "Declared"
    filter_reads = Reads(rows=frozenset({Aspect.LABELS}))
    asked = 0

    def filter_key(self, pod: PodInfo) -> str:
        return ""

    def filter_node(self, cycle: Cycle, node: NodeView) -> Any:
        Declared.asked += 1
        return super().filter_node(cycle, node)


async def test_a_simple_plugin_that_declares_is_asked_about_changes_only() -> None:
    profile = {"plugins": {"filter": {"enabled": [{"name": "Declared"}]}}}
    kube = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    stage = Stage({**IN_TREE, "Declared": Declared}, ({**kube, "profiles": [profile]},))
    stage.see(make_worker("n1"), make_worker("n2").label(closed="yes"))
    Declared.asked = 0
    for i in range(4):
        stage.see(make_pod(f"p{i}"))
    await stage.run()
    assert {node for _, node in stage.outlet.bound} == {"n1"}
    assert Declared.asked == 2
    stage.see(make_worker("n2"), make_pod("q"))
    await stage.run()
    assert Declared.asked == 3
    assert stage.outlet.bound[-1] == ("default/q", "n2")
