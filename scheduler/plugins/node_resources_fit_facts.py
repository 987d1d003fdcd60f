"""What NodeResourcesFit knows about its rejections: how much is asked, how much is free, where."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from scheduler.model.amounts import distinct, exact, rounded
from scheduler.model.resources import Amounts
from scheduler.plugin_api.facts import MAX_FACTS, Fact, LaterFacts, closest, fact, have
from scheduler.state.cache import ClusterState
from scheduler.state.columns import NodeColumns, Rows, where

Failure = tuple[int, ...]
"""Pods and their limit, then free and allocatable of each resource; `_ENOUGH` where nothing lacks.
"""
_ENOUGH = -(2**62)


def shortages(
    columns: NodeColumns, wanted: Amounts, rows: Rows, served: Collection[str] = ()
) -> Sequence[Failure]:
    """What each row lacks of what is wanted; what is ``served`` need not be the node's own."""
    at = where(rows)
    count, limit = columns.pod_count[at], columns.pod_limit[at]
    full = count >= limit
    table = [np.where(full, count, _ENOUGH), np.where(full, limit, _ENOUGH)]
    for resource, amount in wanted.items():
        index = columns.resources.find(resource)
        if index is None:  # no node ever had it
            lacks = _ENOUGH if resource in served else 0
            table += [np.full(len(rows), lacks, np.int64)] * 2
            continue
        allocatable = columns.allocatable[index][at]
        free = allocatable - columns.requested[index][at]
        short = free < amount
        if resource in served:
            short &= allocatable > 0
        table += [np.where(short, free, _ENOUGH), np.where(short, allocatable, _ENOUGH)]
    return LaterFacts(len(rows), lambda: list(zip(*(c.tolist() for c in table), strict=True)))


def facts_of(wanted: Amounts, failure: Failure) -> Sequence[Fact]:
    """What one node lacks."""
    facts = []
    count, limit = failure[:2]
    if count != _ENOUGH:
        facts.append(fact("pods", f"has {count} of at most {limit} pods", count=count, limit=limit))
    for place, (resource, amount) in enumerate(wanted.items(), 1):
        free, allocatable = failure[2 * place : 2 * place + 2]
        if free != _ENOUGH:
            facts.append(_shortage(resource, amount, free, allocatable))
    return facts


def _shortage(resource: str, asked: int, free: int, allocatable: int) -> Fact:
    wanted, left = distinct(resource, asked, free)
    of = rounded(resource, allocatable)
    message = f"requests {wanted} {resource}, {left} free of {of}"
    if not allocatable:
        message = f"requests {wanted} {resource}, the node offers none"
    return fact(
        "resource",
        message,
        resource=resource,
        asked=exact(resource, asked),
        free=exact(resource, free),
        allocatable=exact(resource, allocatable),
    )


def facts_of_cluster(
    state: ClusterState, wanted: Amounts, served: Collection[str] = ()
) -> list[Fact]:
    """For all that some node lacks: how much is asked, and how much is free where most is.

    What is ``served`` by devices is told of by others.
    """
    rows = state.rows()
    own = {name: amount for name, amount in wanted.items() if name not in served}
    return [*_pods(state, rows), *_resources(state, own, rows)]


def _pods(state: ClusterState, rows: Rows) -> Iterator[Fact]:
    columns = state.columns
    limits = columns.pod_limit[rows]
    at_limit = columns.pod_count[rows] >= limits
    full = int(np.count_nonzero(at_limit))
    if full:
        largest = int(limits[at_limit].max())
        take = "takes" if full == 1 else "take"
        message = f"{full} of {len(rows)} nodes {take} no more pods (at most {largest} there)"
        yield fact("pods", message, limit=largest, nodes=full)


def _resources(state: ClusterState, wanted: Amounts, rows: Rows) -> Iterator[Fact]:
    columns = state.columns
    for resource, amount in wanted.items():
        index = columns.resources.find(resource)
        if index is None or not columns.allocatable[index][rows].any():
            yield _offered_nowhere(state, resource, amount, rows)
            continue
        allocatable = columns.allocatable[index][rows]
        free = allocatable - columns.requested[index][rows]
        short = int(np.count_nonzero(free < amount))
        if not short:
            continue
        best = int(free.argmax())
        most, node = int(free[best]), state.name(int(rows[best]))
        asked, left = distinct(resource, amount, most)
        message = f"requests {asked} {resource}, at most {left} free, on {node}"
        if short < len(rows):
            message = f"requests {asked} {resource}, {have(short, len(rows))} less free"
        yield fact(
            "resource",
            message,
            resource=resource,
            asked=exact(resource, amount),
            free=exact(resource, most),
            node=node,
            allocatable=exact(resource, int(allocatable.max())),
            nodes=short,
        )


def _offered_nowhere(state: ClusterState, resource: str, amount: int, rows: Rows) -> Fact:
    """A resource that no node has, and one of a similar name that nodes have."""
    columns = state.columns
    offering = {
        name: number
        for i, name in enumerate(columns.resources.values)
        if name != resource and (number := int(np.count_nonzero(columns.allocatable[i][rows])))
    }
    meant = closest(resource, offering) or _of_same_owner(resource, offering)
    message = f"no node offers {resource}"
    if meant:
        number = offering[meant]
        message += f"; {number} {'offers' if number == 1 else 'offer'} {meant}"
    return fact(
        "resource",
        message,
        resource=resource,
        asked=exact(resource, amount),
        free="0",
        node=None,
        allocatable="0",
        meant=meant,
        nodes=len(rows),
    )


def _of_same_owner(resource: str, offered: Amounts) -> str | None:
    """The one resource that nodes offer of the same domain, as ``nvidia.com``."""
    domain, slash, _ = resource.partition("/")
    same = [name for name in offered if slash and name.startswith(f"{domain}/")][:MAX_FACTS]
    return same[0] if len(same) == 1 else None
