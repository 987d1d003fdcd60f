"""Constraints for pods that state none: built in or configured, by what selects the pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.plugin_args import DefaultSpreadConstraint, PodTopologySpreadArgs
from scheduler.model.limits import MOST_SELECTOR_ENTRIES
from scheduler.model.objects import KINDS, from_dict
from scheduler.model.selectors import Selector, compile_set
from scheduler.model.status import SUCCESS
from scheduler.plugins.default_selector import MOST_SERVICE_ENTRIES, DefaultSelector
from scheduler.plugins.topology_spread import PodTopologySpread
from scheduler.state.cache import ClusterState
from scheduler.state.objects import ObjectStore
from tests.builders import Json, PodBuilder, constraint, make_node, make_pod, requirement
from tests.plugins.spread_cases import HOSTNAME, RACK, ZONE, Oracle, clusters
from tests.plugins.support import Bench
from tests.plugins.test_topology_spread import CROWDED, bench_of, pending

APP_X = {"matchLabels": {"app": "x"}}


def selecting(kind: str, name: str, selector: Json | None, namespace: str = "default") -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"kind": kind, "metadata": metadata, "spec": {"selector": selector}}


def put(store: ObjectStore, raw: Json) -> None:
    key = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
    store.put(raw["kind"], key, from_dict(raw, KINDS[raw["kind"]].type))


def selector_for(pod: PodBuilder, *objects: Json) -> Selector:
    store = ClusterState().objects
    for raw in objects:
        put(store, raw)
    return DefaultSelector(store).of(pod.info())


LABELS = {"app": "x", "tier": "web"}
POD = make_pod("p").label(**LABELS)
SERVICES = (
    selecting("Service", "app", {"app": "x"}),
    selecting("Service", "tier", {"tier": "web"}),
    selecting("Service", "another app", {"app": "y"}),
    selecting("Service", "more than the pod has", {"app": "x", "track": "canary"}),
    selecting("Service", "without selector", None),
    selecting("Service", "elsewhere", {"app": "x"}, "other"),
)


def owned(kind: str, version: str = "apps/v1") -> PodBuilder:
    return make_pod("p").label(**LABELS).owner(kind, "owner", version)


def test_all_services_of_the_pod_count() -> None:
    assert selector_for(POD, *SERVICES) == Selector(compile_set(LABELS))
    assert selector_for(POD, *SERVICES[2:]) == Selector()


def test_services_are_looked_up_as_they_are_now() -> None:
    store = ClusterState().objects
    selector = DefaultSelector(store)
    assert selector.of(POD.info()) == Selector()
    put(store, SERVICES[0])
    assert selector.of(POD.info()) == Selector(compile_set({"app": "x"}))
    store.put("Service", "default/app", None)
    assert selector.of(POD.info()) == Selector()


SELECTORS = st.sampled_from([None, {}, {"app": "x"}, {"tier": "web"}, LABELS, {"app": "y"}])
CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), SELECTORS), max_size=12)


@given(changes=CHANGES)
def test_services_that_change_count_as_if_all_were_filed_anew(
    changes: list[tuple[str, bool, Json | None]],
) -> None:
    store = ClusterState().objects
    selector = DefaultSelector(store)
    for name, there, labels in changes:
        if there:
            put(store, selecting("Service", name, labels))
        else:
            store.put("Service", f"default/{name}", None)
        assert selector.of(POD.info()) == DefaultSelector(store).of(POD.info())


def test_a_service_that_changes_costs_nothing_for_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = ClusterState().objects
    for raw in SERVICES:
        put(store, raw)
    selector = DefaultSelector(store)
    selector.of(POD.info())
    put(store, selecting("Service", "app", {"app": "y"}))
    monkeypatch.setattr(store, "all", lambda kind: pytest.fail("all services are read"))
    assert selector.of(POD.info()) == Selector(compile_set({"tier": "web"}))


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_set_adds_its_requirements(kind: str) -> None:
    raw = selecting(kind, "owner", {"matchExpressions": [requirement("app", "Exists")]})
    got = selector_for(owned(kind), SERVICES[0], raw)
    assert got.requirements[:1] == compile_set({"app": "x"})
    assert [(each.key, each.operator) for each in got.requirements[1:]] == [("app", "Exists")]
    assert selector_for(owned(kind), selecting(kind, "owner", APP_X), SERVICES[0]) == (
        Selector(compile_set({"app": "x"}))
    )


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_a_selector_that_is_too_long_is_left_out(kind: str) -> None:
    """Each pod of its controller would pay for it."""
    long: Json = {f"key-{i}": "value" for i in range(MOST_SELECTOR_ENTRIES + 1)}
    written = long if kind == "ReplicationController" else {"matchLabels": long}
    pod = owned(kind, "v1" if kind == "ReplicationController" else "apps/v1")
    raw = selecting(kind, "owner", written)
    assert selector_for(pod, SERVICES[0], raw) == Selector(compile_set({"app": "x"}))
    del long["key-0"]
    assert len(selector_for(pod, SERVICES[0], raw).requirements) == MOST_SELECTOR_ENTRIES + 1


@pytest.mark.parametrize("excess", [0, 1])
def test_too_many_services_are_left_out(excess: int) -> None:
    """Each pod with their labels would pay for all of them."""
    others = [selecting("Service", f"s-{i}", {"app": "x", "i": str(i)}) for i in range(2047)]
    last = {"app": "x"} if excess == 0 else {"app": "x", "one": "more"}
    got = selector_for(POD, *others, SERVICES[0], selecting("Service", "last", last))
    assert MOST_SERVICE_ENTRIES == 2 * 2047 + 2
    assert got == (Selector() if excess else Selector(compile_set({"app": "x"})))


def test_a_replication_controller_overrules_services() -> None:
    raw = selecting("ReplicationController", "owner", {"app": "y", "track": "stable"})
    got = selector_for(owned("ReplicationController", "v1"), *SERVICES, raw)
    assert got == Selector(compile_set({"app": "y", "tier": "web", "track": "stable"}))


@pytest.mark.parametrize(
    ("pod", "raw"),
    [
        pytest.param(owned("Job", "batch/v1"), selecting("ReplicaSet", "owner", APP_X), id="job"),
        pytest.param(
            owned("ReplicaSet", "extensions/v1beta1"),
            selecting("ReplicaSet", "owner", APP_X),
            id="group",
        ),
        pytest.param(
            owned("ReplicaSet"), selecting("ReplicaSet", "owner", APP_X, "other"), id="namespace"
        ),
        pytest.param(owned("ReplicaSet"), selecting("ReplicaSet", "owner", None), id="selector"),
        pytest.param(
            owned("ReplicaSet"),
            selecting("ReplicaSet", "owner", {"matchExpressions": [requirement("a", "Like")]}),
            id="unreadable",
        ),
    ],
)
def test_other_owners_say_nothing(pod: PodBuilder, raw: Json) -> None:
    assert selector_for(pod, raw) == Selector()


@given(clusters, st.booleans())
def test_the_built_in_constraints_score_nodes_without_a_zone_too(
    cluster: Json, selected: bool
) -> None:
    cluster["pending"]["labels"] = {"app": "x" if selected else "y"}
    bench = bench_of(cluster)
    put(bench.state.objects, selecting("Service", "s", {"app": "x"}))
    policies = {"nodeAffinityPolicy": None, "nodeTaintsPolicy": None, "labelSelector": APP_X}
    spread = [
        constraint(HOSTNAME, 3, hard=False, **policies),
        constraint(ZONE, 5, hard=False, **policies),
    ]
    want = Oracle(cluster, spread, lenient=True).scores(list(range(len(cluster["nodes"]))))
    got = bench.scores(pending(cluster, []))
    assert got == ({f"n{i}": score for i, score in want.items()} if selected else None)


def test_by_the_built_in_constraints_no_zone_is_a_zone_without_a_name() -> None:
    nodes = [make_node("bare"), make_node("unnamed").label(**{ZONE: ""})]
    nodes.append(make_node("named").label(**{ZONE: "a"}))
    pods = [make_pod(f"q{i}").label(app="x").on("bare") for i in range(9)]
    bench = Bench(PodTopologySpread, nodes, pods)
    put(bench.state.objects, selecting("Service", "s", {"app": "x"}))
    # bare: no label, no part. unnamed: round(9 ln(2 + 2) + 4) = 16. named: 0 + 4.
    want = {"bare": 100, "unnamed": 100 * (16 + 0 - 16) // 16, "named": 100 * (16 + 0 - 4) // 16}
    assert bench.scores(make_pod("p").label(app="x")) == want


def test_configured_constraints_take_the_place_of_the_built_in_ones() -> None:
    listed = DefaultSpreadConstraint(
        max_skew=1, topology_key=RACK, when_unsatisfiable="DoNotSchedule", min_domains=3
    )
    args = PodTopologySpreadArgs(defaulting_type="List", default_constraints=(listed,))
    nodes = [make_node(f"n{i}").label(rack=str(i)) for i in range(2)]
    bench = Bench(PodTopologySpread, nodes, [make_pod("q").label(app="x").on("n0")], args)
    pod = make_pod("p").label(app="x")
    assert bench.verdicts(pod) == {"n0": SUCCESS, "n1": SUCCESS}
    put(bench.state.objects, selecting("Service", "s", {"app": "x"}))
    assert bench.verdicts(pod) == {"n0": CROWDED, "n1": SUCCESS}
    assert bench.scores(pod) is None
    own = constraint(ZONE, hard=False, labelSelector=APP_X)
    assert bench.verdicts(pod.spread(own)) == {"n0": SUCCESS, "n1": SUCCESS}


def test_listed_soft_constraints_leave_out_nodes_without_the_label() -> None:
    listed = DefaultSpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"
    )
    args = PodTopologySpreadArgs(defaulting_type="List", default_constraints=(listed,))
    nodes = [make_node("n0"), make_node("n1").label(**{ZONE: "a"})]
    bench = Bench(PodTopologySpread, nodes, args=args)
    put(bench.state.objects, selecting("Service", "s", {"app": "x"}))
    assert bench.scores(make_pod("p").label(app="x")) == {"n0": 0, "n1": 100}


@pytest.mark.parametrize(("kind", "watched"), [("System", DefaultSelector.KINDS), ("List", ())])
def test_only_what_defaults_need_is_watched(kind: str, watched: tuple[str, ...]) -> None:
    bench = Bench(PodTopologySpread, (), args=PodTopologySpreadArgs(defaulting_type=kind))
    assert bench.framework.observed_kinds() == set(watched)
