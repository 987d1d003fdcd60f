"""What PodTopologySpread knows about its rejections: the constraint, the skew, the domains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import (
    MAX_FACTS,
    Fact,
    LaterFacts,
    Told,
    closest,
    fact,
    selector_text,
    told,
)
from scheduler.plugins.topology_spread_domains import Domains
from scheduler.state.columns import Rows
from scheduler.state.partition import Counts

_VALUES = 64
"""Of so many domains the values are told; of host names there are too many."""

_Broken = tuple[int, str | None, int]
"""The constraint, the domain (None: the node is in none) and its pods."""


def crowding(cycle: Cycle, constraints: tuple[Domains, ...], rows: Rows) -> Sequence[Told]:
    """The constraints that the pod would break on each row."""
    emptiest = [domains.emptiest for domains in constraints[:MAX_FACTS]]
    parts = [
        _copied(cycle, number, domains, rows)
        for number, domains in enumerate(constraints[:MAX_FACTS])
    ]

    def facts(way: tuple[_Broken, ...]) -> Iterator[Fact]:
        for number, value, pods in way:
            yield _on_node(constraints[number], number, value, pods, emptiest[number])

    def made() -> Sequence[Told]:
        ways: list[list[_Broken]] = [[] for _ in range(len(rows))]
        for part in parts:
            for i, broken in part.broken():
                ways[i].append(broken)
        return told([tuple(way) for way in ways], facts)

    return LaterFacts(len(rows), made)


class _Copied(NamedTuple):
    """What is known of the rows that break one constraint."""

    number: int
    unlabelled: Rows
    """Positions of rows that are in no domain."""
    crowded: Rows
    """Positions of rows whose domain has too many pods, and what these domains are."""
    pods: Counts
    ids: NDArray[np.int32]
    values: Sequence[str | None]
    """The domains by their ids; empty if there are too many to be told."""

    def broken(self) -> Iterator[tuple[int, _Broken]]:
        for i in self.unlabelled.tolist():
            yield i, (self.number, None, 0)
        values = self.values
        for i, pods, id_ in zip(
            self.crowded.tolist(), self.pods.tolist(), self.ids.tolist(), strict=True
        ):
            yield i, (self.number, (values[id_] or "") if values else "", pods)


def _copied(cycle: Cycle, number: int, domains: Domains, rows: Rows) -> _Copied:
    labelled, crowded = domains.labelled(rows), domains.crowded(rows)
    nowhere = np.zeros(len(rows), np.bool_)
    without = nowhere if labelled is None else ~labelled
    at = np.flatnonzero((nowhere if crowded is None else crowded) & ~without)
    column = cycle.state.columns.labels.column(domains.constraint.topology_key)
    values = tuple(column.values.values) if len(column.values) <= _VALUES else ()
    pods, ids = domains.pods_around(rows[at]), column.ids.take(rows[at])
    return _Copied(number, np.flatnonzero(without), at, pods, ids, values)


def _on_node(domains: Domains, number: int, value: str | None, pods: int, emptiest: int) -> Fact:
    constraint = domains.constraint
    key = constraint.topology_key
    if value is None:
        return _fact(domains, number, f"the node has no label {key}", domain=None)
    skew = pods + domains.self_match - emptiest
    place = f"{key}={value}" if value else f"its {key}"
    text = selector_text(constraint.selector.requirements)
    message = (
        f"{place} has {pods} pods with {text} and the emptiest has {emptiest}: "
        f"the skew would be {skew}, at most {constraint.max_skew}"
    )
    return _fact(
        domains,
        number,
        message,
        domain=value or None,
        pods=pods,
        emptiest=emptiest,
        skew=skew,
    )


def crowding_in_cluster(
    cycle: Cycle, constraints: tuple[Domains, ...], rows: Rows
) -> Iterator[Fact]:
    """The pods of each domain, for the constraints that some node breaks."""
    for number, domains in enumerate(constraints[:MAX_FACTS]):
        labelled, crowded = domains.labelled(rows), domains.crowded(rows)
        without = 0 if labelled is None else int(np.count_nonzero(~labelled))
        if without:
            yield _unlabelled(cycle, domains, number, without)
        full = 0 if crowded is None else int(np.count_nonzero(crowded))
        if full:
            yield _crowded(cycle, domains, number, full)


def _unlabelled(cycle: Cycle, domains: Domains, number: int, without: int) -> Fact:
    labels, key = cycle.state.columns.labels, domains.constraint.topology_key
    lack = "lacks" if without == 1 else "lack"
    message = f"{without} of {cycle.state.node_count} nodes {lack} the label {key}"
    if key not in labels:
        meant = closest(key, labels.keys())
        message = f"no node has the label {key}" + (f"; did you mean {meant}?" if meant else "")
    return _fact(domains, number, message, nodes=without)


def _crowded(cycle: Cycle, domains: Domains, number: int, full: int) -> Fact:
    constraint = domains.constraint
    column = cycle.state.columns.labels.column(constraint.topology_key)
    counts = domains.pods_by_domain()
    shown = nlargest(MAX_FACTS, counts.items(), key=lambda pair: (pair[1], -pair[0]))
    by_value = {column.values.values[id_] or "": pods for id_, pods in shown}
    text = selector_text(constraint.selector.requirements)
    told_counts = ", ".join(f"{value} {pods}" for value, pods in list(by_value.items())[:8])
    more = f" and {len(counts) - 8} more" if len(counts) > 8 else ""
    message = (
        f"pods with {text} by {constraint.topology_key}: {told_counts}{more}; "
        f"a skew of at most {constraint.max_skew} closes {full} of {cycle.state.node_count} nodes"
    )
    if len(counts) < constraint.min_domains:
        message += f"; there are {len(counts)} domains, minDomains is {constraint.min_domains}"
    return _fact(domains, number, message, counts=by_value, emptiest=domains.emptiest, nodes=full)


def _fact(domains: Domains, number: int, message: str, **values: object) -> Fact:
    constraint = domains.constraint
    return fact(
        "topologySpread",
        message,
        constraint=number,
        topologyKey=constraint.topology_key,
        maxSkew=constraint.max_skew,
        selector=selector_text(constraint.selector.requirements),
        **values,
    )
