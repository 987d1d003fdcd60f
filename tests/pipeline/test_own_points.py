"""After-filter and post-score: with and without kept verdicts, with nominations, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND
from scheduler.explaining.findings import explain
from scheduler.model.events import Action
from scheduler.model.status import SUCCESS, Status, error, unresolvable, unschedulable
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from scheduler.queueing.hints import HintRegistration
from scheduler.state.columns import Rows
from tests.builders import make_node, make_pod
from tests.pipeline.evicting import Arena, make_box
from tests.pipeline.support import Stage, Word


class Reviewer:
    """Does what the pod's labels say: ``veto`` nodes, ``reject`` it, or ``fail``."""

    name = "Reviewer"

    def __init__(self, args: Any, handle: Handle) -> None:
        self.seen: list[str] = []
        self.asked: list[str] = []

    def after_filter(self, cycle: Cycle, rows: Rows) -> Status:
        self.seen.append(" ".join(sorted(cycle.state.name(int(row)) for row in rows)))
        verdict = cycle.pod.pod.metadata.labels.get("after", "")
        if verdict == "raise":
            raise RuntimeError("boom")
        return {"": SUCCESS, "reject": unresolvable("not today"), "error": error("broken")}[verdict]

    def post_score(self, cycle: Cycle, node: str) -> Status:
        self.asked.append(node)
        labels = cycle.pod.pod.metadata.labels
        if labels.get("post") == "raise":
            raise RuntimeError("boom")
        if labels.get("post") == "error":
            return error("broken")
        vetoed = labels.get("veto", "").split(".")
        return unschedulable("node(s) were vetoed") if node in vetoed else SUCCESS

    def hints(self) -> Sequence[HintRegistration]:
        return (HintRegistration("Node", Action.NODE_LABEL),)


REGISTRY = {**IN_TREE, Reviewer.name: Reviewer}


def documents(*, kept: bool, listed: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """A profile with the plugin at all its points; or at our points only, in our document."""
    chosen = {"enabled": [{"name": Reviewer.name}]}
    kube: dict[str, Any] = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND}
    own: dict[str, Any] = {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND}
    own["equivalence"] = {"enabled": kept}
    if listed:
        own["extensionPoints"] = [{"afterFilter": chosen, "postScore": chosen}]
    else:
        kube["profiles"] = [{"plugins": {"multiPoint": chosen}}]
    return kube, own


@pytest.fixture(params=[True, False], ids=["verdicts kept", "looked at anew"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """Three nodes; the larger the number, the emptier and so the better the node."""
    stage = Stage(REGISTRY, documents(kept=request.param))
    for i in (1, 2, 3):
        stage.see(make_node(f"n{i}").cpu(8 * i).memory(f"{8 * i}Gi"))
    return stage


def reviewer(stage: Stage | Arena) -> Reviewer:
    plugin = stage.core.frameworks["equipoise"].plugins[Reviewer.name]
    assert isinstance(plugin, Reviewer)
    return plugin


async def test_after_filter_sees_the_feasible_nodes_of_every_pod(stage: Stage) -> None:
    stage.see(make_pod("small").cpu(1), make_pod("large").cpu(20), make_pod("huge").cpu(99))
    stage.see(make_pod("huge-too").cpu(99))
    await stage.run()
    assert reviewer(stage).seen == ["n1 n2 n3", "n3", "", ""]
    assert stage.outlet.bound == [("default/small", "n3"), ("default/large", "n3")]


async def test_after_filter_may_reject_the_pod_as_a_whole(stage: Stage) -> None:
    stage.see(make_pod("p").cpu(1).label(after="reject"))
    await stage.run()
    text = "0/3 nodes are available: not today."
    assert stage.outlet.conditions == [Word("default/p", "Unschedulable", text)]
    assert stage.tiers() == {"p": "unschedulable"}
    stage.see(make_node("n1").cpu(8).label(day="other"))
    assert stage.tiers() == {"p": "backoff"}, "the plugin's hints wake it"


@pytest.mark.parametrize(
    ("label", "point", "text"),
    [
        ("after", "AfterFilter", "RuntimeError: boom"),
        ("post", "PostScore", "RuntimeError: boom"),
        ("after", "AfterFilter", "broken"),
        ("post", "PostScore", "broken"),
    ],
)
async def test_a_fault_ends_the_attempt(stage: Stage, label: str, point: str, text: str) -> None:
    stage.see(make_pod("p").label(**{label: "error" if text == "broken" else "raise"}))
    await stage.run()
    text = f"plugin 'Reviewer' failed at {point}: {text}"
    assert stage.outlet.conditions == [Word("default/p", "SchedulerError", text)]
    assert stage.sample("equipoise_plugin_errors_total", plugin="Reviewer", extension_point=point)


async def test_a_veto_leads_to_the_next_best_node(stage: Stage) -> None:
    stage.see(make_pod("p").cpu(1).label(veto="n3.n2"))
    await stage.run()
    assert reviewer(stage).asked == ["n3", "n2", "n1"]
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_a_veto_is_forgotten_with_its_attempt(stage: Stage) -> None:
    stage.see(make_pod("p").cpu(1).label(veto="n3"), make_pod("q").cpu(1))
    await stage.run()
    assert stage.outlet.bound == [("default/p", "n2"), ("default/q", "n3")]


async def test_a_pod_all_of_whose_nodes_are_vetoed_is_unschedulable(stage: Stage) -> None:
    stage.see(make_pod("p").cpu(10).label(veto="n3.n2.n1"))
    await stage.run()
    text = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were vetoed."
    assert stage.outlet.conditions == [Word("default/p", "Unschedulable", text)]
    stage.see(make_pod("q").cpu(10))
    await stage.run()
    assert stage.outlet.bound == [("default/q", "n3")]
    stage.see(make_node("n1").cpu(8).memory("8Gi").label(day="other"))
    assert stage.tiers() == {"p": "backoff"}, "the plugin's hints wake it"
    stage.check()


async def test_equal_pods_are_each_asked_about(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.see(make_pod(name).cpu(1).label(veto="n3.n2.n1"))
    await stage.run()
    assert reviewer(stage).asked == ["n3", "n2", "n1"] * 3
    assert len(stage.outlet.conditions) == 3


@pytest.mark.parametrize("vetoed", ["", "n"])
async def test_a_nominated_node_may_be_vetoed(vetoed: str) -> None:
    arena = Arena(REGISTRY, documents(kept=True))
    low = make_pod("low").on("n").cpu(4)
    pod = make_pod("vip").cpu(4).priority(10)
    assert await arena.preempt(make_box("n"), low, pod) == "n"
    reviewer(arena).seen.clear()
    arena.see(make_box("spare"), pod.label(veto=vetoed))
    arena.lose(low)
    await arena.later(20)
    if vetoed:
        assert arena.outlet.bound == [("default/vip", "spare")]
        assert reviewer(arena).seen == ["n", "n spare"]
    else:
        assert arena.outlet.bound == [("default/vip", "n")]
        assert reviewer(arena).seen == ["n"]
    assert len(arena.core.state.nominations) == 0


async def test_nobody_is_evicted_for_a_pod_that_was_rejected_after_filtering() -> None:
    arena = Arena(REGISTRY, documents(kept=True))
    pod = make_pod("vip").cpu(4).priority(10).label(after="reject")
    arena.see(make_box("n"), make_pod("low").on("n").cpu(4), pod)
    arena.attempt()
    await arena.later(0)
    assert arena.outlet.evicting == {}
    assert reviewer(arena).seen == [""]


async def test_our_document_enables_our_points() -> None:
    stage = Stage(REGISTRY, documents(kept=True, listed=True))
    stage.see(make_node("n1"), make_pod("p"))
    await stage.run()
    assert reviewer(stage).asked == ["n1"]
    assert reviewer(stage).seen == ["n1"]


def test_what_explain_makes_of_it(stage: Stage) -> None:
    framework, state = stage.core.frameworks["equipoise"], stage.core.state
    some = explain(framework, state, make_pod("p").cpu(1).label(veto="n3").info())
    assert (some["node"], some["fit"], some["message"]) == ("n2", ["n1", "n2"], "")
    assert some["nodes"]["n3"]["plugin"] == Reviewer.name
    assert list(some["scores"]) == ["n1", "n2"]
    none = explain(framework, state, make_pod("p").cpu(1).label(veto="n3.n2.n1").info())
    assert (none["node"], none["fit"]) == (None, [])
    assert none["message"] == "0/3 nodes are available: 3 node(s) were vetoed."
    whole = explain(framework, state, make_pod("p").cpu(1).label(after="reject").info())
    assert (whole["node"], whole["fit"]) == (None, [])
    assert whole["message"] == "0/3 nodes are available: not today."
