"""InterPodAffinity against pods looked at one by one, and the rules worth a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.plugin_args import InterPodAffinityArgs
from scheduler.model.objects import Namespace, from_dict
from scheduler.model.status import SUCCESS
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.state.columns import Rows, Scores
from scheduler.state.scratch import scratch
from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod, pod_term
from tests.cost.counting import cost
from tests.plugins.affinity_cases import (
    AVOIDED,
    LONELY,
    NAMESPACES,
    REPELLED,
    Oracle,
    nodes,
    pods,
    running,
)
from tests.plugins.support import Bench

X = {"app": "x"}


def bench_of(
    nodes: Iterable[NodeBuilder],
    running: Iterable[PodBuilder] = (),
    args: InterPodAffinityArgs | None = None,
) -> Bench:
    bench = Bench(InterPodAffinity, nodes, running, args)
    for name, labels in NAMESPACES.items():
        set_namespace(bench, name, labels)
    return bench


def live_totals(bench: Bench, cycle: Cycle, rows: Rows) -> Scores | None:
    """The totals of a pod whose scores are not kept."""
    bench.framework.scores.run_pre_score(cycle, rows)
    return bench.framework.scores.totals(cycle, rows)


def set_namespace(bench: Bench, name: str, labels: dict[str, str]) -> None:
    raw = {"metadata": {"name": name, "labels": labels}}
    bench.state.set_object("Namespace", name, from_dict(raw, Namespace))


@given(nodes(), running(), pods("p"))
def test_every_verdict(
    nodes: list[NodeBuilder], running: list[PodBuilder], pod: PodBuilder
) -> None:
    oracle = Oracle.of(nodes, running)
    want = {name: oracle.verdict(pod.obj(), name) for name in oracle.nodes}
    assert bench_of(nodes, running).verdicts(pod) == want


@given(nodes(), running(), pods("p"), st.sampled_from((0, 1, 50)))
def test_every_score(
    nodes: list[NodeBuilder], running: list[PodBuilder], pod: PodBuilder, hard_weight: int
) -> None:
    bench = bench_of(nodes, running, InterPodAffinityArgs(hard_pod_affinity_weight=hard_weight))
    assert bench.scores(pod) == Oracle.of(nodes, running).scores(pod.obj(), hard_weight)


few_or_many = st.one_of(st.integers(-5, 5), st.integers(-1030, 1030), st.integers(-(2**53), 2**53))


@given(st.lists(few_or_many, min_size=1, max_size=20))
def test_shares_that_are_looked_up_are_those_that_are_computed(numbers: list[int]) -> None:
    bench, scores = bench_of([make_node("a")]), np.array(numbers, np.int64)
    plugin = bench.framework.plugins[InterPodAffinity.name]
    assert isinstance(plugin, InterPodAffinity)
    given_scores = scores.copy()
    found = plugin.normalize(Cycle(make_pod("p").info(), bench.state), scores)
    lowest, highest = scores.min(), scores.max()
    if lowest == highest:
        want = np.zeros(len(numbers), np.int64)
    else:
        want = (100 * ((scores - lowest) / (highest - lowest))).astype(np.int64)
    assert found.dtype == want.dtype
    assert found.tolist() == want.tolist()
    assert scores.tolist() == given_scores.tolist()


@given(nodes(), running(), pods("p"), st.data())
def test_a_score_that_is_left_out_as_level_is_zero_everywhere(
    nodes: list[NodeBuilder], running: list[PodBuilder], pod: PodBuilder, data: st.DataObject
) -> None:
    bench = bench_of(nodes, running)
    some = data.draw(st.sets(st.sampled_from(bench.state.rows().tolist()), min_size=1))
    rows = np.array(sorted(some), np.intp)
    scored = bench.framework.run_scores(Cycle(pod.info(), bench.state), rows)
    totals = live_totals(bench, Cycle(pod.info(), bench.state), rows)
    assert scored.totals.tolist() == ([0] * len(rows) if totals is None else totals.tolist())


@pytest.mark.parametrize(
    ("zones", "level"),
    [
        pytest.param(("1", "1"), True, id="one zone for all"),
        pytest.param(("1", "2"), False, id="another zone"),
        pytest.param(("1", ""), False, id="no zone"),
    ],
)
def test_the_score_is_level_only_if_all_nodes_are_in_one_zone(
    zones: tuple[str, str], level: bool
) -> None:
    here, there = (
        make_node(name).label(**({"zone": zone} if zone else {}))
        for name, zone in zip("ab", zones, strict=True)
    )
    bench = bench_of([here, there], [make_pod("r").label(**X).on("a")])
    cycle = Cycle(make_pod("p").rather_near(1, pod_term("zone", X)).info(), bench.state)
    assert (live_totals(bench, cycle, bench.state.rows()) is None) == level


def test_what_rows_are_worth_follows_pods_and_nodes() -> None:
    term = pod_term("host", X)
    pod = make_pod("p").label(**X).rather_near(3, term)
    nodes = {name: make_node(name).label(host=name) for name in "abc"}
    bench, there = bench_of(nodes.values()), dict[str, PodBuilder]()
    seen = set()
    for name, now in (
        ("q", make_pod("q").label(**X).on("a")),
        ("r", make_pod("r").label(**X).rather_near(2, term).on("b")),
        ("s", make_pod("s").rather_apart(9, term).on("b")),
        ("q", make_pod("q").label(app="other").on("a")),
        ("t", make_pod("t").label(**X).on("c")),
        ("s", None),
        ("c", make_node("c").label(host="a")),
        ("t", None),
        ("c", make_node("c").label(host="c")),
        ("q", make_pod("q").label(**X).on("a")),
    ):
        if isinstance(now, NodeBuilder):
            nodes[name] = now
            bench.state.set_node(now.struct())
        elif now is not None:
            there[name] = now
            bench.state.set_pod(now.info())
        else:
            bench.state.remove_pod(there.pop(name).info().uid)
        scores = bench.scores(pod)
        assert scores == bench_of(nodes.values(), there.values()).scores(pod)
        seen.add(tuple((scores or {}).values()))
    assert len(seen) > 4


@pytest.mark.parametrize("terms", [30, 60])
def test_what_rows_are_worth_takes_as_long_however_many_pods_have_come(terms: int) -> None:
    bench = bench_of([make_node(name).label(host=name) for name in "ab"])
    for number in range(terms):  # each states a term of its own, which selects the pod
        rather = make_pod(f"r-{number}").rather_near(number + 1, pod_term("host", X))
        bench.state.set_pod(rather.on("a").info())
    pod = make_pod("p").label(**X).info()

    def after(others: int) -> int:
        for number in range(others):
            bench.state.set_pod(make_pod(f"of-{others}-{number}").on("b").info())
        cycle, rows = Cycle(pod, bench.state), bench.state.rows()
        return cost(lambda: bench.framework.scores.run_pre_score(cycle, rows)).operations

    few, many = after(100), after(1000)
    assert many <= few + 100, (few, many)


def test_the_worth_of_rows_is_kept_for_few_terms_alone() -> None:
    """The counters of the others may be dropped, and would be kept with it."""
    bench = bench_of([make_node("a").label(host="a")])
    bench.state.set_pod(make_pod("q").label(**X).on("a").info())
    for terms, kept in ((2, 1), (40, 1), (3, 2)):
        pod = make_pod("p")
        for number in range(terms):
            pod.rather_near(number + 1, pod_term("host", X))
        assert bench.scores(pod) == {"a": 0}
        plugin = bench.framework.plugins["InterPodAffinity"]
        assert isinstance(plugin, InterPodAffinity)
        assert plugin._worth_by_row.usage().entries == kept


@given(nodes(), running("stays"), running("leaves"), running("comes"), pods("p"))
def test_what_if_counts(
    nodes: list[NodeBuilder],
    stays: list[PodBuilder],
    leaves: list[PodBuilder],
    comes: list[PodBuilder],
    pod: PodBuilder,
) -> None:
    bench = bench_of(nodes, [*stays, *leaves])
    before = bench.verdicts(pod)
    with scratch(bench.state) as changes:
        for old in leaves:
            changes.remove(old.info())
        for new in comes:
            changes.add(new.info(), new.info().node_name)
        oracle = Oracle.of(nodes, [*stays, *comes])
        want = {name: oracle.verdict(pod.obj(), name) for name in oracle.nodes}
        assert bench.verdicts(pod) == want
    assert bench.verdicts(pod) == before


ZONES = (make_node("a").label(zone="1"), make_node("b").label(zone="2"), make_node("bare"))


@pytest.mark.parametrize(
    ("pod", "running", "want"),
    [
        pytest.param(
            make_pod("p").near(pod_term("zone", X)),
            [make_pod("r").label(**X).on("a")],
            [SUCCESS, LONELY, LONELY],
            id="only the zone of the other will do, and a node without a zone is in none",
        ),
        pytest.param(
            make_pod("p").label(**X).near(pod_term("zone", X)),
            [],
            [SUCCESS, SUCCESS, LONELY],
            id="the first of a series may go to any zone",
        ),
        pytest.param(
            make_pod("p").label(**X).near(pod_term("zone", X)),
            [make_pod("r").label(**X).on("bare")],
            [SUCCESS, SUCCESS, LONELY],
            id="one that is in no zone does not make it the second",
        ),
        pytest.param(
            make_pod("p").near(pod_term("zone", X)),
            [],
            [LONELY, LONELY, LONELY],
            id="one that does not match its own term is never the first",
        ),
        pytest.param(
            make_pod("p").near(pod_term("zone", X), pod_term("zone", {"tier": "t"})),
            [make_pod("r").label(**X).on("a"), make_pod("s").label(tier="t").on("a")],
            [LONELY, LONELY, LONELY],
            id="one pod must match all terms",
        ),
        pytest.param(
            make_pod("p").apart(pod_term("zone", X)),
            [make_pod("r").label(**X).on("a")],
            [AVOIDED, SUCCESS, SUCCESS],
            id="a node without a zone is away from everybody",
        ),
        pytest.param(
            make_pod("p").apart(pod_term("zone", X)),
            [make_pod("r").label(**X).on("a").deleting()],
            [AVOIDED, SUCCESS, SUCCESS],
            id="a pod that is being deleted is still there",
        ),
        pytest.param(
            make_pod("p").label(**X),
            [make_pod("r").on("a").apart(pod_term("zone", X))],
            [REPELLED, SUCCESS, SUCCESS],
            id="others keep it away",
        ),
        pytest.param(
            make_pod("p").label(**X).apart(pod_term("zone", X)),
            [make_pod("r").label(**X).on("a").apart(pod_term("zone", X))],
            [AVOIDED, SUCCESS, SUCCESS],
            id="its own anti-affinity is named before that of others",
        ),
    ],
)
def test_rule(pod: PodBuilder, running: list[PodBuilder], want: list[Any]) -> None:
    assert list(bench_of(ZONES, running).verdicts(pod).values()) == want


def test_preferences_of_running_pods_can_be_left_out() -> None:
    friend = make_pod("r").on("a").rather_near(10, pod_term("zone", X))
    plain, choosy = make_pod("p").label(**X), make_pod("p").label(**X)
    choosy.rather_near(1, pod_term("zone", {"app": "nobody"}))
    bench = bench_of(
        ZONES, [friend], InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)
    )
    assert bench.scores(plain) is None
    assert bench.scores(choosy) == {"a": 100, "b": 0, "bare": 0}


def test_preferences_that_cancel_out_still_count_as_said() -> None:
    both = make_pod("p").rather_near(5, pod_term("zone", X)).rather_apart(5, pod_term("zone", X))
    bench = bench_of(ZONES, [make_pod("r").label(**X).on("a")])
    assert bench.scores(both) == {"a": 0, "b": 0, "bare": 0}


def test_pods_in_no_domain_count_for_no_node() -> None:
    pod = make_pod("p").rather_near(1, pod_term("zone", X))
    bench = bench_of(ZONES, [make_pod(f"r{n}").label(**X).on(n) for n in ("a", "bare")])
    assert bench.scores(pod) == {"a": 100, "b": 0, "bare": 0}


def test_a_waiting_pod_that_only_excludes_namespaces_excludes_none() -> None:
    """As kube-scheduler has it; a running pod's term does exclude."""
    elsewhere = pod_term(
        "zone",
        X,
        namespaceSelector={
            "matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]
        },
    )
    bench = bench_of(ZONES, [make_pod("r", "prod").label(**X).on("a")])
    assert bench.verdicts(make_pod("p").apart(elsewhere))["a"] == AVOIDED
    bench = bench_of(ZONES, [make_pod("r").on("a").apart(elsewhere)])
    assert bench.verdicts(make_pod("p", "prod").label(**X))["a"] == SUCCESS
    assert bench.verdicts(make_pod("p", "test").label(**X))["a"] == REPELLED


def test_labels_of_namespaces_may_change() -> None:
    in_prod = {"namespaceSelector": {"matchLabels": {"env": "prod"}}}
    pod = make_pod("p").apart(pod_term("zone", X, **in_prod))
    away = make_pod("q", "other").label(**X)
    owner = make_pod("r").label(**X).on("a").apart(pod_term("zone", X, **in_prod))
    bench = bench_of(ZONES, [make_pod("s", "other").label(**X).on("a"), owner])
    nowhere = dict.fromkeys(("a", "b", "bare"), SUCCESS)
    assert bench.verdicts(pod) == nowhere
    assert bench.verdicts(away) == nowhere
    set_namespace(bench, "other", {"env": "prod"})
    assert bench.verdicts(pod) == nowhere | {"a": AVOIDED}
    assert bench.verdicts(away) == nowhere | {"a": REPELLED}
    bench.state.set_object("Namespace", "other", None)
    assert bench.verdicts(pod) == nowhere


def test_nodes_may_move_to_another_domain() -> None:
    bench = bench_of(ZONES, [make_pod("r").label(**X).on("a")])
    pod = make_pod("p").apart(pod_term("zone", X))
    bench.state.set_node(make_node("a").label(zone="2").struct())
    assert bench.verdicts(pod) == {"a": AVOIDED, "b": AVOIDED, "bare": SUCCESS}
