"""PodTopologySpread against the API's words, followed node by node and pod by pod."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.status import SUCCESS, Status, unresolvable, unschedulable
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.topology_spread import PodTopologySpread
from scheduler.state.scratch import scratch
from tests.builders import Json, NodeBuilder, PodBuilder, constraint, make_node, make_pod
from tests.plugins.spread_cases import ZONE, Oracle, clusters, constraints, placed_pods
from tests.plugins.support import Bench

REASON = "node(s) didn't match pod topology spread constraints"
CROWDED = unschedulable(REASON).by("PodTopologySpread")
NO_DOMAIN = unresolvable(f"{REASON} (missing required label)").by("PodTopologySpread")
VERDICTS = {"": SUCCESS, "crowded": CROWDED, "missing": NO_DOMAIN}
APP_X = {"matchLabels": {"app": "x"}}

spreads = st.lists(constraints(), min_size=1, max_size=3)


def bench_of(cluster: Json) -> Bench:
    nodes = [make_node(f"n{i}").label(**raw["labels"]) for i, raw in enumerate(cluster["nodes"])]
    for node, raw in zip(nodes, cluster["nodes"], strict=True):
        if raw["tainted"]:
            node.taint("keep-off")
    pods = [placed(f"q{i}", raw) for i, raw in enumerate(cluster["pods"])]
    return Bench(PodTopologySpread, nodes, pods)


def placed(name: str, raw: Json) -> PodBuilder:
    pod = make_pod(name, raw["namespace"]).label(**raw["labels"]).on(f"n{raw['node']}")
    return pod.deleting() if raw["deleting"] else pod


def pending(cluster: Json, spread: list[Json]) -> PodBuilder:
    raw = cluster["pending"]
    pod = make_pod("p").label(**raw["labels"]).spread(*spread)
    if raw["disk"]:
        pod.node_selector(disk=raw["disk"])
    return pod.toleration("keep-off", "Exists") if raw["tolerant"] else pod


def filtered(bench: Bench, cycle: Cycle) -> list[Status]:
    """The verdicts of the filter in the current state, for an attempt that is under way."""
    codes = bench.framework.run_filters(cycle, bench.state.rows())
    return [bench.state.statuses.status(int(code)) for code in codes]


@given(clusters, spreads)
def test_every_verdict(cluster: Json, spread: list[Json]) -> None:
    oracle = Oracle(cluster, spread)
    got = bench_of(cluster).verdicts(pending(cluster, spread))
    assert got == {f"n{i}": VERDICTS[oracle.verdict(i)] for i in range(len(cluster["nodes"]))}


@given(clusters, spreads, st.data())
def test_every_score(cluster: Json, spread: list[Json], data: st.DataObject) -> None:
    """Over any feasible nodes: they decide how many domains there are, all nodes what counts."""
    rows = data.draw(st.sets(st.integers(0, len(cluster["nodes"]) - 1), min_size=1), "feasible")
    oracle = Oracle(cluster, spread)
    got = bench_of(cluster).scores(pending(cluster, spread), [f"n{i}" for i in rows])
    want = {f"n{i}": score for i, score in oracle.scores(sorted(rows)).items()}
    assert got == (want if oracle.soft else None)


@given(clusters, spreads, placed_pods)
def test_a_pod_on_trial_counts(cluster: Json, spread: list[Json], raw: Json) -> None:
    """What-if bookings after the attempt began are judged as if the pod had always been there."""
    raw = {**raw, "node": raw["node"] % len(cluster["nodes"]), "deleting": False}
    # To an empty selector pods on trial count and others do not: it has a test of its own.
    spread = [each for each in spread if Oracle(cluster, spread).requirements(each) != []]
    bench, cycle_pod = bench_of(cluster), pending(cluster, spread).info()
    cycle = Cycle(cycle_pod, bench.state)
    bench.framework.run_pre_filter(cycle)
    before = filtered(bench, cycle)
    with scratch(bench.state) as changes:
        changes.add(placed("trial", raw).info(), f"n{raw['node']}")
        during = filtered(bench, cycle)
    oracle = Oracle({**cluster, "pods": [*cluster["pods"], raw]}, spread)
    assert during == [VERDICTS[oracle.verdict(i)] for i in range(len(cluster["nodes"]))]
    assert filtered(bench, cycle) == before


def test_an_empty_selector_counts_the_pod_itself_and_pods_on_trial_only() -> None:
    pods = [make_pod(f"q{i}").on("n0") for i in range(5)]
    nodes = [make_node(f"n{i}").label(**{ZONE: f"z{i}"}) for i in range(2)]
    bench = Bench(PodTopologySpread, nodes, pods)
    pod = make_pod("p").spread(constraint(ZONE, labelSelector={}))
    cycle = Cycle(pod.info(), bench.state)
    bench.framework.run_pre_filter(cycle)
    assert filtered(bench, cycle) == [SUCCESS, SUCCESS]
    with scratch(bench.state) as changes:
        changes.add(make_pod("trial").info(), "n0")
        assert filtered(bench, cycle) == [CROWDED, SUCCESS]


def in_zones(*zones: str) -> list[NodeBuilder]:
    return [make_node(f"n{i}").label(**{ZONE: zone}) for i, zone in enumerate(zones)]


def one_more(**fields: Any) -> PodBuilder:
    """A pod of app x that is to be spread over zones."""
    return make_pod("p").label(app="x").spread(constraint(ZONE, labelSelector=APP_X, **fields))


def test_pods_on_their_way_out_do_not_count() -> None:
    there = make_pod("q").label(app="x").on("n0")
    verdicts = Bench(PodTopologySpread, in_zones("a", "b"), [there]).verdicts(one_more())
    assert verdicts == {"n0": CROWDED, "n1": SUCCESS}
    verdicts = Bench(PodTopologySpread, in_zones("a", "b"), [there.deleting()]).verdicts(one_more())
    assert verdicts == {"n0": SUCCESS, "n1": SUCCESS}


@pytest.mark.parametrize(
    ("policies", "crowded"),
    [
        ({}, False),
        ({"nodeAffinityPolicy": "Ignore"}, True),
        ({"nodeTaintsPolicy": "Ignore"}, False),
    ],
)
def test_nodes_that_the_pod_does_not_select_keep_out_by_default(
    policies: Json, crowded: bool
) -> None:
    """The empty zone b makes a crowded, unless it does not count."""
    nodes = in_zones("a", "b")
    nodes[0].label(disk="ssd")
    bench = Bench(PodTopologySpread, nodes, [make_pod("q").label(app="x").on("n0")])
    pod = one_more(**policies).node_selector(disk="ssd")
    assert bench.verdicts(pod)["n0"] == (CROWDED if crowded else SUCCESS)


@pytest.mark.parametrize("tolerated", [True, False])
@pytest.mark.parametrize("policy", ["Honor", "Ignore", None])
def test_nodes_whose_taints_repel_the_pod_count_by_default(
    policy: str | None, tolerated: bool
) -> None:
    nodes = in_zones("a", "b")
    nodes[1].taint("keep-off")
    bench = Bench(PodTopologySpread, nodes, [make_pod("q").label(app="x").on("n0")])
    pod = one_more(nodeTaintsPolicy=policy)
    if tolerated:
        pod.toleration("keep-off", "Exists")
    counts = tolerated or policy != "Honor"
    assert bench.verdicts(pod)["n0"] == (CROWDED if counts else SUCCESS)


def test_too_few_domains_make_the_lowest_count_zero() -> None:
    bench = Bench(PodTopologySpread, in_zones("a"), [make_pod("q").label(app="x").on("n0")])
    assert bench.verdicts(one_more(minDomains=1)) == {"n0": SUCCESS}
    assert bench.verdicts(one_more(minDomains=2)) == {"n0": CROWDED}


def test_the_first_broken_constraint_is_the_reason() -> None:
    nodes = [
        make_node("crowded, no rack").label(zone="b"),
        make_node("crowded").label(zone="b", rack="1"),
        make_node("empty").label(zone="a", rack="2"),
    ]
    bench = Bench(PodTopologySpread, nodes, [make_pod("q").label(app="x").on("crowded")])
    zone, rack = (constraint(key, labelSelector=APP_X) for key in ("zone", "rack"))

    def verdicts(*spread: Json) -> list[Status]:
        return list(bench.verdicts(make_pod("p").label(app="x").spread(*spread)).values())

    assert verdicts(zone, rack) == [CROWDED, CROWDED, SUCCESS]
    assert verdicts(rack, zone) == [NO_DOMAIN, CROWDED, SUCCESS]


def test_a_node_without_the_label_is_in_no_domain_even_beside_an_empty_one() -> None:
    nodes = [*in_zones("", "a"), make_node("bare")]
    bench = Bench(PodTopologySpread, nodes, [make_pod("q").label(app="x").on("n0")])
    assert bench.verdicts(one_more()) == {"n0": CROWDED, "n1": SUCCESS, "bare": NO_DOMAIN}


@pytest.mark.parametrize("hard", [True, False])
def test_a_pod_without_constraints_that_nothing_selects_is_left_alone(hard: bool) -> None:
    bench = Bench(PodTopologySpread, [make_node("n0")])
    other = constraint(ZONE, hard=hard, labelSelector=APP_X)
    skipped = {"filter": not hard, "score": hard}
    for point, skips in skipped.items():
        cycle = Cycle(make_pod("p").spread(other).info(), bench.state)
        bench.framework.run_pre_filter(cycle)
        bench.framework.run_scores(cycle, bench.state.rows())
        assert (PodTopologySpread.name in cycle.skipped[point]) is skips
    assert bench.scores(make_pod("p")) is None
    assert bench.verdicts(make_pod("p")) == {"n0": SUCCESS}
