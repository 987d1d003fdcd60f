"""The laws of all rejections: the first is the cycle's, and each is what its plugin says alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.explaining import findings
from scheduler.model.podinfo import PodInfo
from scheduler.simulation import judge
from tests.builders import Json, PodBuilder, make_node, make_pod, pod_term, requirement, term
from tests.examples import few
from tests.pipeline.support import Stage
from tests.plugins.storage import a_claim, a_class
from tests.plugins.support import only
from tests.test_explaining_law import Given

FILTERS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)
VOLUMES = {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}
HOST = "kubernetes.io/hostname"


@st.composite
def nodes(draw: st.DrawFn) -> list[Json]:
    made = []
    for number in range(draw(st.integers(1, 5))):
        node = make_node(f"n{number}").cpu(draw(st.integers(1, 4))).memory("4Gi")
        node.pods(draw(st.sampled_from([1, 2, 10]))).label(**{HOST: f"n{number}"})
        if draw(st.booleans()):
            node.label(zone=draw(st.sampled_from("ab")))
        if draw(st.booleans()):
            node.label(disk=draw(st.sampled_from(["ssd", "hdd"])))
        if draw(st.booleans()):
            node.offer("example.com/gpu", 1)
        for key in draw(st.sets(st.sampled_from(["dedicated", "broken"]))):
            node.taint(key, draw(st.sampled_from(["", "x"])))
        if draw(st.integers(0, 3)) == 0:
            node.cordoned()
        made.append(node.obj())
    return made


@st.composite
def residents(draw: st.DrawFn) -> list[Json]:
    made = []
    for number in range(draw(st.integers(0, 6))):
        pod = make_pod(f"r{number}").cpu("500m").label(app=draw(st.sampled_from("xy")))
        if draw(st.booleans()):
            pod.host_port(draw(st.sampled_from([80, 81])))
        if draw(st.integers(0, 2)) == 0:
            pod.apart(pod_term(HOST, {"app": "p"}))
        made.append(pod.on(f"n{draw(st.integers(0, 4))}").obj())
    return made


@st.composite
def candidates(draw: st.DrawFn) -> Json:
    pod: PodBuilder = make_pod("p").cpu(draw(st.integers(1, 4))).label(app="p")
    if draw(st.booleans()):
        pod.request("example.com/gpu", 1)
    if draw(st.booleans()):
        pod.memory(draw(st.sampled_from(["1Gi", "8Gi"])))
    if draw(st.booleans()):
        pod.toleration("dedicated", value=draw(st.sampled_from(["", "x"])))
    if draw(st.booleans()):
        pod.node_selector(disk=draw(st.sampled_from(["ssd", "sdd"])))
    match draw(st.integers(0, 4)):
        case 0:
            pod.required(term(requirement("zone", "In", "a")), term(requirement("rack", "Exists")))
        case 1:
            names = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
            pod.required({"matchFields": [names]})
    if draw(st.booleans()):
        pod.host_port(80)
    if draw(st.booleans()):
        key, app = draw(st.sampled_from(["zone", "rack", HOST])), draw(st.sampled_from("xyz"))
        (pod.near if draw(st.booleans()) else pod.apart)(pod_term(key, {"app": app}))
    if draw(st.booleans()):
        pod.spread(
            {
                "maxSkew": 1,
                "topologyKey": draw(st.sampled_from(["zone", HOST])),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": draw(st.sampled_from("xy"))}},
            }
        )
    if draw(st.integers(0, 3)) == 0:
        claim = draw(st.sampled_from(["missing", "unbound"]))
        pod.spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])
    return pod.obj()


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Json], Json]:
    claim = a_claim("unbound", "now")
    soon = a_class("now", mode="Immediate")
    return [*draw(nodes()), *draw(residents()), claim, soon], draw(candidates())


def said(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return entry["plugin"], entry["code"], entry["reasons"]


@settings(deadline=None, max_examples=few(20))
@given(clusters())
def test_each_rejection_is_what_the_plugin_says_alone(cluster: tuple[list[Json], Json]) -> None:
    objects, pod = cluster
    answer = judge(objects, pod)
    alone = {name: judge(objects, pod, only(name, None))["nodes"] for name in FILTERS}
    for node, verdict in answer["nodes"].items():
        told = {entry["plugin"]: said(entry) for entry in verdict["all"]}
        assert len(told) == len(verdict["all"]), "a plugin rejects a node once"
        if not verdict["fit"]:
            assert said(verdict["all"][0]) == said(verdict)
        by_itself = {
            name: said(verdicts[node])
            for name, verdicts in alone.items()
            if not verdicts[node]["fit"]
        }
        assert told == by_itself
        assert verdict["fit"] == (not told)
        in_order = [name for name in FILTERS if name in told]
        assert list(told)[1:] == [name for name in in_order if name != verdict["plugin"]]


@settings(deadline=None, max_examples=60)
@given(clusters())
def test_what_is_told_is_of_the_moment_of_the_verdicts(cluster: tuple[list[Json], Json]) -> None:
    objects, pod = cluster
    stage = Stage()
    given_objects = [Given(each) for each in objects]
    stage.see(*given_objects)
    core = stage.core
    framework = core.frameworks["equipoise"]
    info = PodInfo(Given(pod).struct(), core.config.equipoise.limits)
    first, second = (findings.judge_all(framework, core.state, info) for _ in range(2))
    told = findings.described(first)
    # What was found is worded after other tasks have run: rows belong to other nodes by then.
    stage.lose(*reversed(given_objects))
    stage.see(*(make_node(f"m{i}").label(zone="c", disk="nvme") for i in range(6)))
    assert findings.described(second) == told


@settings(deadline=None, max_examples=60)
@given(clusters())
def test_facts_are_plain_and_name_what_rejects(cluster: tuple[list[Json], Json]) -> None:
    objects, pod = cluster
    answer = judge(objects, pod)
    rejecting = {e["plugin"] for verdict in answer["nodes"].values() for e in verdict["all"]}
    for verdict in answer["nodes"].values():
        for entry in verdict["all"]:
            assert entry["facts"], entry
            for each in entry["facts"]:
                assert each["type"]
                assert each["message"]
    told = {each["plugin"] for each in answer["facts"]}
    # The volume plugins say the same of a claim that is missing, which is told once.
    assert told <= rejecting
    assert told | VOLUMES >= rejecting
    messages = [(each["type"], each["message"]) for each in answer["facts"]]
    assert len(messages) == len(set(messages))
    rejected = [verdict["all"] for verdict in answer["nodes"].values() if verdict["all"]]
    fewest = min(map(len, rejected), default=0)
    near = {entry["plugin"] for each in rejected if len(each) == fewest for entry in each}
    ranks = [(each["plugin"] not in near, -each["nodes"]) for each in answer["facts"]]
    assert ranks == sorted(ranks), "first what the nodes lack that are nearest to fitting"
    assert all(1 <= each["nodes"] <= len(answer["nodes"]) for each in answer["facts"])
