"""All rejections: nominated pods, vetoes, plugins of one's own, faults, and what they share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.explaining.findings import explain
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, unresolvable, unschedulable
from scheduler.plugin_api import Handle, NodeView, PreFilterResult
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import MAX_FACTS, MAX_TEXT, Fact, fact
from scheduler.plugins.table import IN_TREE
from scheduler.state.columns import Codes, Rows
from tests.builders import Json, PodBuilder, make_node, make_pod, pod_term
from tests.pipeline.support import Stage

HOST = "kubernetes.io/hostname"
REJECTS = unresolvable("node(s) displeased").by("Own")


class Own:
    """A plugin of one's own that does what the pod's label ``own`` says."""

    name = "Own"

    def __init__(self, args: Any, handle: Handle) -> None:
        self.worded: list[str] = []

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        match self._does(cycle.pod):
            case "narrows":
                return PreFilterResult(SUCCESS, frozenset(["n2"]))
            case "rejects":
                return PreFilterResult(unschedulable("not this pod"))
        return PreFilterResult()

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        if self._does(cycle.pod) in ("", "narrows", "vetoes"):
            return cycle.reject(rows < 0, REJECTS)
        return cycle.reject(rows >= 0, REJECTS)

    def post_score(self, cycle: Cycle, node: str) -> Status:
        vetoed = self._does(cycle.pod) == "vetoes" and node == "n2"
        return unschedulable("vetoed") if vetoed else SUCCESS

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Hashable]:
        match self._does(cycle.pod):
            case "fails to find failures":
                raise RuntimeError("boom")
            case "finds too few":
                return []
        return [cycle.state.name(row)[:1] + "1" for row in rows.tolist()]

    def facts(self, pod: PodInfo, failure: str) -> Iterable[Fact]:
        self.worded.append(failure)
        match self._does(pod):
            case "fails to tell":
                raise RuntimeError("boom")
            case "tells objects":
                return [fact("own", "odd", value=object())]
            case "tells nothing of use":
                return [{"message": "no type"}]
            case "tells much":
                many = (fact("own", "x" * 10_000, many=["y"] * 1000) for _ in range(10_000))
                return many
        return [fact("own", f"{failure} displeases", node=failure)]

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        if self._does(cycle.pod) == "fails to tell of all":
            raise RuntimeError("boom")
        return [fact("own", "all displease", nodes=len(rows))]

    @staticmethod
    def _does(pod: PodInfo) -> str:
        return pod.pod.metadata.labels.get("own", "")


class Simple:
    """A plugin that judges, and tells facts of, one node at a time."""

    name = "Simple"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter_node(self, cycle: Cycle, node: NodeView) -> Status:
        return unresolvable("node(s) too simple") if node.name == "n1" else SUCCESS

    def node_facts(self, cycle: Cycle, node: NodeView) -> Iterable[Fact]:
        yield fact("simple", f"{node.name} has {len(node.pods)} pods")


REGISTRY = {**IN_TREE, Own.name: Own, Simple.name: Simple}


def stage_with(*names: str) -> Stage:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": name} for name in names]}}}
    config: Json = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    stage = Stage(REGISTRY, (config,))
    stage.see(make_node("n1").cpu(4).memory("8Gi").label(**{HOST: "n1"}))
    stage.see(make_node("n2").cpu(8).memory("8Gi").label(**{HOST: "n2"}))
    return stage


def explained(stage: Stage, pod: PodBuilder) -> dict[str, Any]:
    framework = stage.core.frameworks["equipoise"]
    return explain(framework, stage.core.state, pod.info())


def told(answer: Mapping[str, Any], node: str) -> dict[str, list[str]]:
    entries = answer["nodes"][node]["all"]
    return {each["plugin"]: [told["message"] for told in each["facts"]] for each in entries}


def test_a_plugin_of_ones_own_gives_facts() -> None:
    answer = explained(stage_with("Own"), make_pod("p").cpu(5).label(own="filters"))
    assert told(answer, "n1") == {
        "NodeResourcesFit": ["requests 5 cpu, 4 free of 4"],
        "Own": ["n1 displeases"],
    }
    assert told(answer, "n2") == {"Own": ["n1 displeases"]}
    assert answer["facts"][0] == {
        "plugin": "Own",
        "nodes": 2,
        "type": "own",
        "message": "all displease",
    }


@pytest.mark.parametrize(
    "label",
    [
        "fails to find failures",
        "finds too few",
        "fails to tell",
        "fails to tell of all",
        "tells objects",
        "tells nothing of use",
    ],
)
def test_a_fault_in_facts_costs_the_facts(label: str) -> None:
    stage = stage_with("Own")
    answer = explained(stage, make_pod("p").cpu(5).label(own=label))
    of_nodes = label == "fails to tell of all"
    assert told(answer, "n2") == {"Own": ["n1 displeases"] if of_nodes else []}
    assert bool([each for each in answer["facts"] if each["plugin"] == "Own"]) != of_nodes
    assert told(answer, "n1")["NodeResourcesFit"] == ["requests 5 cpu, 4 free of 4"]
    errors = stage.sample("equipoise_plugin_errors_total", plugin="Own", extension_point="Facts")
    assert errors


def test_what_plugins_tell_is_bounded() -> None:
    answer = explained(stage_with("Own"), make_pod("p").label(own="tells much"))
    (entry,) = answer["nodes"]["n1"]["all"]
    assert len(entry["facts"]) == MAX_FACTS
    assert all(len(each["message"]) <= MAX_TEXT + 1 for each in entry["facts"])
    assert all(len(each["many"]) == MAX_FACTS for each in entry["facts"])


def test_a_simple_plugin_gives_facts() -> None:
    stage = stage_with("Simple")
    stage.see(make_pod("r").on("n1"))
    answer = explained(stage, make_pod("p"))
    assert told(answer, "n1") == {"Simple": ["n1 has 1 pods"]}
    assert answer["fit"] == ["n2"]


def test_who_narrows_rejects_the_others() -> None:
    answer = explained(stage_with("Own"), make_pod("p").cpu(5).label(own="narrows"))
    first = answer["nodes"]["n1"]["all"][0]
    assert first["reasons"] == ["node(s) didn't satisfy plugin(s) [Own]"]
    assert list(told(answer, "n1")) == ["Own", "NodeResourcesFit"]
    assert answer["fit"] == ["n2"]


def test_whom_pre_filter_rejects_the_other_filters_judge_all_the_same() -> None:
    answer = explained(stage_with("Own"), make_pod("p").cpu(5).label(own="rejects"))
    assert answer["nodes"]["n1"]["reasons"] == ["not this pod"]
    assert list(told(answer, "n1")) == ["Own", "NodeResourcesFit"]
    assert list(told(answer, "n2")) == ["Own"]


def test_a_veto_is_a_rejection() -> None:
    answer = explained(stage_with("Own"), make_pod("p").cpu(1).label(own="vetoes"))
    assert answer["node"] == "n1"
    assert answer["nodes"]["n2"]["all"][0]["reasons"] == ["vetoed"]
    assert answer["nodes"]["n1"]["all"] == []


@pytest.mark.parametrize("apart", [False, True], ids=["row by row", "one at a time"])
def test_a_node_that_fits_only_without_nominated_pods_names_them(apart: bool) -> None:
    stage = stage_with()
    vip = make_pod("vip").cpu(3).priority(10)
    stage.core.state.nominations.set(vip.info(), "n1")
    pod = make_pod("p").cpu(3)
    if apart:
        pod.apart(pod_term(HOST, {"app": "none"}))
        stage.see(make_pod("r").label(app="some").on("n2"))
    answer = explained(stage, pod)
    assert told(answer, "n1") == {
        "NodeResourcesFit": [
            "keeps room for pods nominated to it: default/vip",
            "requests 3 cpu, 1 free of 4",
        ]
    }
    assert answer["fit"] == ["n2"]
    assert stage.core.state.columns.requested[0].sum() == 0, "the trial is reverted"
    answer = explained(stage, make_pod("p").cpu(5))
    assert told(answer, "n1") == {"NodeResourcesFit": ["requests 5 cpu, 1 free of 4"]}


def test_a_nominated_pod_that_is_needed_is_not_blamed() -> None:
    stage = stage_with()
    vip = make_pod("vip").label(app="vip").cpu(3).priority(10)
    stage.core.state.nominations.set(vip.info(), "n1")
    answer = explained(stage, make_pod("p").cpu(3).near(pod_term(HOST, {"app": "vip"})))
    assert list(told(answer, "n1")) == ["NodeResourcesFit", "InterPodAffinity"]
    assert answer["nodes"]["n1"]["plugin"] == "NodeResourcesFit"


def test_nodes_that_fail_alike_share_what_is_said() -> None:
    stage = stage_with()
    for i in range(20):
        stage.see(make_node(f"m{i}").cpu(2).memory("8Gi").taint("dedicated"))
    answer = explained(stage, make_pod("p").cpu(16))
    alike = {id(answer["nodes"][f"m{i}"]["all"]) for i in range(20)}
    assert len(alike) == 1
    assert len({id(each["all"]) for each in answer["nodes"].values()}) == 3


def test_each_failure_is_worded_once() -> None:
    stage = stage_with("Own")
    for i in range(200):
        stage.see(make_node(f"m{i}").cpu(2).memory("8Gi"))
    explained(stage, make_pod("p").label(own="filters"))
    own = stage.core.frameworks["equipoise"].plugins["Own"]
    assert isinstance(own, Own)
    assert own.worded == ["n1", "m1"]


def test_a_fault_of_the_cycle_is_the_verdict_on_every_node() -> None:
    class Broken(Own):
        name = "Own"

        def filter(self, cycle: Cycle, rows: Rows) -> Codes:
            raise RuntimeError("boom")

    stage = Stage(
        {**IN_TREE, "Own": Broken},
        (
            {
                "apiVersion": KUBE_API_VERSION,
                "kind": KUBE_KIND,
                "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Own"}]}}}],
            },
        ),
    )
    stage.see(make_node("n1").cpu(4).memory("8Gi"))
    answer = explained(stage, make_pod("p"))
    (entry,) = answer["nodes"]["n1"]["all"]
    assert entry["code"] == "Error"
    # A filter that fails only on nodes that the cycle never shows to it is left out.
    answer = explained(stage, make_pod("p").cpu(9))
    assert list(told(answer, "n1")) == ["NodeResourcesFit"]
