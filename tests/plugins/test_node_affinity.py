"""NodeAffinity against selectors evaluated node by node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.plugin_args import NodeAffinityArgs
from scheduler.model.status import SUCCESS, unresolvable
from scheduler.plugins.node_affinity import NodeAffinity
from tests.builders import Json, NodeBuilder, PodBuilder, make_node, make_pod, requirement, term
from tests.model.selector_oracle import labels, requirements, satisfied
from tests.plugins.support import Bench

MISMATCH = unresolvable("node(s) didn't match Pod's node affinity/selector").by("NodeAffinity")
NOT_NAMED = unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]").by("NodeAffinity")
CONFLICT = unresolvable("pod affinity terms conflict").by("NodeAffinity")

fields = st.builds(
    lambda operator, name: requirement("metadata.name", operator, name),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n0", "n1", "elsewhere"]),
)
terms = st.builds(
    lambda expressions, names: term(*expressions, fields=tuple(names)),
    st.lists(requirements(ordered=True), max_size=2),
    st.lists(fields, max_size=2),
)
clusters = st.lists(labels, min_size=1, max_size=5)


def matches(raw: Json, name: str, having: dict[str, str]) -> bool:
    """Whether a node matches a term; one without requirements matches nothing."""
    facts = [satisfied(each, having) for each in raw["matchExpressions"]]
    facts += [satisfied(each, {"metadata.name": name}) for each in raw["matchFields"]]
    return bool(facts) and all(facts)


def named(required: list[Json] | None) -> set[str] | None:
    """The only nodes worth a look: those named by terms, if each term names some."""
    if not required:
        return None
    names: set[str] = set()
    for each in required:
        fixed = [set(f["values"]) for f in each["matchFields"] if f["operator"] == "In"]
        if not fixed:
            return None
        names |= set.intersection(*fixed)
    return names


def nodes_of(cluster: list[dict[str, str]]) -> dict[str, NodeBuilder]:
    return {f"n{i}": make_node(f"n{i}").label(**having) for i, having in enumerate(cluster)}


@given(clusters, labels, st.none() | st.lists(terms, max_size=3))
def test_every_verdict(
    cluster: list[dict[str, str]], selector: dict[str, str], required: list[Json] | None
) -> None:
    pod = make_pod("p").node_selector(**selector)
    if required is not None:
        pod.required(*required)
    nodes = nodes_of(cluster)
    only = named(required)
    want = {}
    for (name, _), having in zip(nodes.items(), cluster, strict=True):
        fits = selector.items() <= having.items() and (
            required is None or any(matches(each, name, having) for each in required)
        )
        want[name] = SUCCESS if fits else MISMATCH
        if only is not None and name not in only:
            want[name] = NOT_NAMED if only else CONFLICT
    if only is not None and not only:
        want = dict.fromkeys(want, CONFLICT)
    assert Bench(NodeAffinity, nodes.values()).verdicts(pod) == want


@given(clusters, st.lists(st.tuples(st.integers(1, 100), terms), max_size=4))
def test_every_score(cluster: list[dict[str, str]], preferred: list[tuple[int, Json]]) -> None:
    pod = make_pod("p")
    for weight, preference in preferred:
        pod.preferred(weight, preference)
    nodes = nodes_of(cluster)
    raw = {
        name: sum(weight for weight, each in preferred if matches(each, name, having))
        for name, having in zip(nodes, cluster, strict=True)
    }
    most = max(raw.values()) or 1
    got = Bench(NodeAffinity, nodes.values()).scores(pod)
    want = {name: 100 * sum_ // most for name, sum_ in raw.items()}
    assert got == (want if preferred else None)


def test_an_empty_term_beside_a_name_lets_all_nodes_be_looked_at() -> None:
    """It matches nothing, but neither does it name a node: the names do not narrow the search."""
    pod = make_pod("p").required(term(), term(fields=(requirement("metadata.name", "In", "n1"),)))
    got = Bench(NodeAffinity, [make_node("n1"), make_node("n2")]).verdicts(pod)
    assert got == {"n1": SUCCESS, "n2": MISMATCH}


@pytest.mark.parametrize("bound", ["many", "", "1.5", "0x10", "9223372036854775808"])
def test_a_bound_that_is_no_integer_holds_nowhere_and_spoils_nothing_else(bound: str) -> None:
    """The API server accepts it; kube-scheduler goes on with the other terms."""
    odd = term(requirement("gen", "Gt", bound), requirement("disk", "Exists"))
    pod = make_pod("p").required(odd, term(requirement("disk", "In", "ssd")))
    nodes = [make_node("n1").label(disk="ssd", gen="9"), make_node("n2").label(disk="x", gen="9")]
    assert Bench(NodeAffinity, nodes).verdicts(pod) == {"n1": SUCCESS, "n2": MISMATCH}


def test_a_term_that_holds_nowhere_still_names_its_nodes() -> None:
    named_node = requirement("metadata.name", "In", "n1")
    odd = term(requirement("gen", "Lt", "few"), fields=(named_node,))
    got = Bench(NodeAffinity, [make_node("n1"), make_node("n2")]).verdicts(
        make_pod("p").required(odd)
    )
    assert got == {"n1": MISMATCH, "n2": NOT_NAMED}


def added(required: Json | None = None, preferred: Json | None = None) -> NodeAffinityArgs:
    """Affinity that the profile adds to every pod."""
    pod = make_pod("p")
    if required:
        pod.required(required)
    if preferred:
        pod.preferred(1, preferred)
    affinity = pod.struct().spec.affinity
    assert affinity is not None
    return NodeAffinityArgs(added_affinity=affinity.node_affinity)


def test_added_affinity_is_enforced_before_the_pods_own() -> None:
    args = added(required=term(requirement("pool", "In", "batch")))
    nodes = [make_node("n1").label(pool="batch"), make_node("n2"), make_node("n3")]
    nodes[2].label(pool="batch", disk="ssd")
    bench = Bench(NodeAffinity, nodes, args=args)
    refused = unresolvable("node(s) didn't match scheduler-enforced node affinity").by(
        "NodeAffinity"
    )

    def fits(pod: PodBuilder) -> list[object]:
        return list(bench.verdicts(pod).values())

    assert fits(make_pod("p")) == [SUCCESS, refused, SUCCESS]
    assert fits(make_pod("p").node_selector(disk="ssd")) == [MISMATCH, refused, SUCCESS]


def test_added_preferences_score_every_pod() -> None:
    args = added(preferred=term(requirement("disk", "Exists")))
    bench = Bench(NodeAffinity, [make_node("n1"), make_node("n2").label(disk="ssd")], args=args)
    assert bench.scores(make_pod("p")) == {"n1": 0, "n2": 100}


def test_an_added_preference_that_no_node_can_meet_is_a_score_all_the_same() -> None:
    assert Bench(NodeAffinity, [make_node("n1")], args=added(preferred=term())).scores(
        make_pod("p")
    ) == {"n1": 0}
