"""Clusters and constraints for topology spread, and what the API documents for them."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from tests.builders import Json, constraint, requirement
from tests.model.selector_oracle import satisfied

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
RACK = "rack"
KEYS = (ZONE, RACK, HOSTNAME)
NAMESPACES = ("default", "other")


def labels(**values: tuple[str | None, ...]) -> st.SearchStrategy[dict[str, str]]:
    """Labels with one of the values each; None leaves the label out."""
    drawn = st.fixed_dictionaries({key: st.sampled_from(each) for key, each in values.items()})
    return drawn.map(lambda raw: {key: value for key, value in raw.items() if value is not None})


# Rare values are rare here as well: most nodes have most labels, most pods are selected.
nodes = st.fixed_dictionaries(
    {
        "labels": labels(
            **{
                ZONE: ("a", "a", "b", "b", "c", "", None),
                RACK: ("1", "1", "2", "3", None),
                HOSTNAME: ("h1", "h2", "h3", "h4", None),
                "disk": ("ssd", "ssd", "hdd"),
            }
        ),
        "tainted": st.sampled_from((False, False, True)),
    }
)
pod_labels = labels(app=("x", "x", "x", "y", None), version=("1", "2", None))
placed_pods = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from((NAMESPACES[0], *NAMESPACES)),
        "labels": pod_labels,
        "node": st.integers(0, 5),
        "deleting": st.sampled_from((False, False, True)),
    }
)
selectors = st.sampled_from(
    (
        {"matchLabels": {"app": "x"}},
        {"matchLabels": {"app": "x"}},
        {"matchLabels": {"app": "x"}, "matchExpressions": [requirement("version", "Exists")]},
        {"matchExpressions": [requirement("app", "In", "x", "y")]},
        {"matchExpressions": [requirement("version", "NotIn", "1")]},
        {},
        None,
    )
)
policies = st.sampled_from((None, "Honor", "Ignore"))


@st.composite
def constraints(draw: Any) -> Json:
    hard = draw(st.booleans())
    return constraint(
        draw(st.sampled_from(KEYS)),
        draw(st.sampled_from((1, 1, 2, 4))),
        hard=hard,
        labelSelector=draw(selectors),
        minDomains=draw(st.none() | st.integers(1, 4)) if hard else None,
        nodeAffinityPolicy=draw(policies),
        nodeTaintsPolicy=draw(policies),
        matchLabelKeys=draw(st.sampled_from(([], [], ["version"], ["app", "version"]))),
    )


clusters = st.fixed_dictionaries(
    {
        "nodes": st.lists(nodes, min_size=1, max_size=6),
        "pods": st.lists(placed_pods, max_size=20),
        "pending": st.fixed_dictionaries(
            {
                "labels": pod_labels,
                "disk": st.sampled_from((None, "ssd")),
                "tolerant": st.booleans(),
            }
        ),
    }
)


class Oracle:
    """Answers for one cluster, node by node and pod by pod."""

    def __init__(self, cluster: Json, spread: list[Json], *, lenient: bool = False) -> None:
        self.nodes, self.pods, self.pending = (cluster[k] for k in ("nodes", "pods", "pending"))
        self.hard = [each for each in spread if each["whenUnsatisfiable"] == "DoNotSchedule"]
        self.soft = [each for each in spread if each["whenUnsatisfiable"] == "ScheduleAnyway"]
        self.lenient = lenient
        """Nodes that lack a topology key are scored, too."""

    def requirements(self, raw: Json) -> list[Json] | None:
        """The selector with the keys to match; None selects nothing."""
        selector = raw["labelSelector"]
        if selector is None:
            return None
        wanted = dict(selector.get("matchLabels", {}))
        found = [requirement(key, "In", value) for key, value in wanted.items()]
        found += selector.get("matchExpressions", [])
        mine = self.pending["labels"]
        return found + [
            requirement(key, "In", mine[key])
            for key in raw.get("matchLabelKeys") or ()
            if key in mine
        ]

    def selects(self, raw: Json, labels: dict[str, str]) -> bool:
        wanted = self.requirements(raw)
        return wanted is not None and all(satisfied(each, labels) for each in wanted)

    def pods_on(self, raw: Json, index: int) -> int:
        """Pods that count: of the namespace, selected by more than nothing, and here to stay."""
        if not self.requirements(raw):
            return 0
        return sum(
            pod["node"] == index
            and pod["namespace"] == NAMESPACES[0]
            and not pod["deleting"]
            and self.selects(raw, pod["labels"])
            for pod in self.pods
        )

    def counts(self, raw: Json, index: int, among: list[Json]) -> bool:
        """Whether a node's pods and domain count for one of several constraints."""
        node, pending = self.nodes[index], self.pending
        if not self.lenient and not self.keyed(index, among):
            return False
        unsuited = pending["disk"] and node["labels"].get("disk") != pending["disk"]
        if raw["nodeAffinityPolicy"] != "Ignore" and unsuited:
            return False
        repelled = node["tainted"] and not pending["tolerant"]
        return not (raw["nodeTaintsPolicy"] == "Honor" and repelled)

    def keyed(self, index: int, among: list[Json]) -> bool:
        return all(each["topologyKey"] in self.nodes[index]["labels"] for each in among)

    def sums(self, raw: Json, among: list[Json]) -> dict[str, int]:
        """Pods per domain."""
        sums: dict[str, int] = {}
        for index, node in enumerate(self.nodes):
            if self.counts(raw, index, among):
                domain = node["labels"].get(raw["topologyKey"], "")
                sums[domain] = sums.get(domain, 0) + self.pods_on(raw, index)
        return sums

    def verdict(self, index: int) -> str:
        """ "" if the pod fits, else what is wrong."""
        for raw in self.hard:
            domain = self.nodes[index]["labels"].get(raw["topologyKey"])
            if domain is None:
                return "missing"
            sums = self.sums(raw, self.hard)
            enough = len(sums) >= (raw["minDomains"] or 1)
            lowest = min(sums.values()) if enough else 0
            own = self.selects(raw, self.pending["labels"])
            if sums.get(domain, 0) + own - lowest > raw["maxSkew"]:
                return "crowded"
        return ""

    def scores(self, feasible: list[int]) -> dict[int, int]:
        scored = [i for i in feasible if self.lenient or self.keyed(i, self.soft)]
        raw = {i: round(sum(self.part(each, i, scored) for each in self.soft)) for i in scored}
        most = max(raw.values(), default=0)
        least = min(raw.values(), default=0)
        return {
            i: 0 if i not in raw else 100 * (most + least - raw[i]) // most if most else 100
            for i in feasible
        }

    def part(self, raw: Json, index: int, scored: list[int]) -> float:
        key = raw["topologyKey"]
        domain = self.nodes[index]["labels"].get(key)
        if domain is None:
            return 0.0
        if key == HOSTNAME:
            size, count = len(scored), self.pods_on(raw, index)
        else:
            size = len({self.nodes[i]["labels"].get(key, "") for i in scored})
            count = self.sums(raw, self.soft).get(domain, 0)
        return count * math.log(size + 2) + float(raw["maxSkew"]) - 1
