"""Clusters full of pod affinity, and what the API documents about them, pod by pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from scheduler.model.status import SUCCESS, Status, unresolvable, unschedulable
from tests.builders import Json, NodeBuilder, PodBuilder, make_node, make_pod
from tests.model.selector_oracle import satisfied

PLUGIN = "InterPodAffinity"
LONELY = unresolvable("node(s) didn't match pod affinity rules").by(PLUGIN)
AVOIDED = unschedulable("node(s) didn't match pod anti-affinity rules").by(PLUGIN)
REPELLED = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules").by(PLUGIN)

NAMESPACES: dict[str, dict[str, str]] = {"prod": {"env": "prod"}, "test": {"env": "test"}}
HOMES = (*NAMESPACES, "unknown")
SELECTORS: list[Json | None] = [
    None,
    {},
    {"matchLabels": {"app": "x"}},
    {"matchLabels": {"app": "x", "tier": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]},
]
NAMESPACE_SELECTORS: list[Json | None] = [
    None,
    None,
    {},
    {"matchLabels": {"env": "prod"}},
    {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
]


def _term(selector: Json | None, key: str, names: list[str], by_labels: Json | None) -> Json:
    term: Json = {"topologyKey": key, "namespaces": names}
    if selector is not None:
        term["labelSelector"] = selector
    if by_labels is not None:
        term["namespaceSelector"] = by_labels
    return term


_terms = st.builds(
    _term,
    st.sampled_from(SELECTORS),
    st.sampled_from(("zone", "host")),
    st.lists(st.sampled_from(HOMES), max_size=1),
    st.sampled_from(NAMESPACE_SELECTORS),
)
_required = st.lists(_terms, max_size=2)
_preferred = st.lists(st.tuples(st.sampled_from((1, 7, 100)), _terms), max_size=2)


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodBuilder:
    """A pod with labels and terms that often meet."""
    pod = make_pod(name, draw(st.sampled_from(HOMES)))
    pod.label(**draw(st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from("xab"))))
    if draw(st.booleans()):
        pod.near(*draw(_required)).apart(*draw(_required))
        for weight, term in draw(_preferred):
            pod.rather_near(weight, term)
        for weight, term in draw(_preferred):
            pod.rather_apart(weight, term)
    return pod


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeBuilder]:
    """A few nodes, some of which lack a label."""
    domains = st.dictionaries(st.sampled_from(("zone", "host")), st.sampled_from(("", "1", "2")))
    return [make_node(f"n{i}").label(**draw(domains)) for i in range(draw(st.integers(1, 5)))]


@st.composite
def running(draw: st.DrawFn, prefix: str = "r") -> list[PodBuilder]:
    """Pods on nodes, of which one may not be there."""
    number = draw(st.integers(0, 5))
    where = st.integers(0, 5).map(lambda i: f"n{i}")
    return [draw(pods(f"{prefix}{i}")).on(draw(where)) for i in range(number)]


@dataclass
class Oracle:
    """Looks at every pod on every node, one by one."""

    nodes: Mapping[str, Mapping[str, str]]
    running: list[Json]

    @staticmethod
    def of(nodes: list[NodeBuilder], running: list[PodBuilder]) -> Oracle:
        labels = {n["metadata"]["name"]: n["metadata"].get("labels", {}) for n in map(_obj, nodes)}
        there = [pod for pod in map(_obj, running) if pod["spec"]["nodeName"] in labels]
        return Oracle(labels, there)

    def verdict(self, pod: Json, node: str) -> Status:
        near, apart = required(pod, "podAffinity"), required(pod, "podAntiAffinity")
        if near and not self._in_company(pod, near, node):
            return LONELY
        if any(
            waiting_means(pod, term, other) and self._together(term, other, node)
            for term in apart
            for other in self.running
        ):
            return AVOIDED
        if any(
            running_means(other, term, pod) and self._together(term, other, node)
            for other in self.running
            for term in required(other, "podAntiAffinity")
        ):
            return REPELLED
        return SUCCESS

    def _in_company(self, pod: Json, terms: list[Json], node: str) -> bool:
        company = [o for o in self.running if all(waiting_means(pod, t, o) for t in terms)]
        if all(any(self._together(t, o, node) for o in company) for t in terms):
            return True
        labelled = all(t["topologyKey"] in self.nodes[node] for t in terms)
        alone = not any(t["topologyKey"] in self._labels(o) for t in terms for o in company)
        return labelled and alone and all(waiting_means(pod, t, pod) for t in terms)

    def scores(self, pod: Json, hard_weight: int) -> dict[str, int] | None:
        """Normalised scores over all nodes; None if no pod has a say."""
        said = [
            (term, other, weight)
            for other in self.running
            for term, weight in _said(pod, other, hard_weight)
            if term["topologyKey"] in self._labels(other)
        ]
        if not said:
            return None
        raw = {
            node: sum(w for term, other, w in said if self._together(term, other, node))
            for node in self.nodes
        }
        low, high = min(raw.values()), max(raw.values())
        return {
            node: int(100 * ((score - low) / (high - low))) if high > low else 0
            for node, score in raw.items()
        }

    def _labels(self, pod: Json) -> Mapping[str, str]:
        return self.nodes[pod["spec"]["nodeName"]]

    def _together(self, term: Json, other: Json, node: str) -> bool:
        key = term["topologyKey"]
        mine, its = self.nodes[node], self._labels(other)
        return key in mine and key in its and mine[key] == its[key]


def _said(pod: Json, other: Json, hard_weight: int) -> Iterator[tuple[Json, int]]:
    """The terms of either pod that speak of the other, and what they add."""
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for weight, term in preferred(pod, kind):
            if waiting_means(pod, term, other):
                yield term, sign * weight
        for weight, term in preferred(other, kind):
            if running_means(other, term, pod):
                yield term, sign * weight
    for term in required(other, "podAffinity"):
        if hard_weight and running_means(other, term, pod):
            yield term, hard_weight


def required(pod: Json, kind: str) -> list[Json]:
    rules = pod["spec"].get("affinity", {}).get(kind, {})
    terms: list[Json] = rules.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return terms


def preferred(pod: Json, kind: str) -> list[tuple[int, Json]]:
    rules = pod["spec"].get("affinity", {}).get(kind, {})
    terms = rules.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return [(term["weight"], term["podAffinityTerm"]) for term in terms]


def running_means(owner: Json, term: Json, pod: Json) -> bool:
    """Whether a term of a running pod speaks of another."""
    return _means(owner, term, pod, [NAMESPACES.get(_home(pod), {})])


def waiting_means(owner: Json, term: Json, pod: Json) -> bool:
    """The same for the pod that waits, where kube-scheduler also tries no namespace labels."""
    return _means(owner, term, pod, [NAMESPACES.get(_home(pod), {}), {}])


def _means(owner: Json, term: Json, pod: Json, namespace_labels: list[dict[str, str]]) -> bool:
    names, by_labels = term["namespaces"], term.get("namespaceSelector")
    if not names and by_labels is None:
        names = [_home(owner)]
    inside = _home(pod) in names or any(_selects(by_labels, tried) for tried in namespace_labels)
    return inside and _selects(term.get("labelSelector"), pod["metadata"].get("labels", {}))


def _selects(selector: Json | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    equal = selector.get("matchLabels", {}).items() <= labels.items()
    return equal and all(satisfied(r, labels) for r in selector.get("matchExpressions", []))


def _home(pod: Json) -> str:
    return str(pod["metadata"]["namespace"])


def _obj(builder: Any) -> Json:
    raw: Json = builder.obj()
    return raw
