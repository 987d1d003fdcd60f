"""How pods of one class keep away from each other, as a network can say it.

Apart on every node: a node takes one pod of the class. Apart in every zone, or evenly spread over
zones: the class reaches the nodes of each zone through a node of its own, which takes as many pods
as the zone is to have. What should be, rather than must, costs points instead. What a network
cannot say (several such keys at once) is left to verification.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from scheduler.equivalence.classes import SCORE
from scheduler.flow.problem import Ints
from scheduler.model.affinity import PodSet, SpreadConstraint
from scheduler.model.podinfo import PodInfo
from scheduler.pipeline.batch.eligibility import Member
from scheduler.pipeline.evaluation import evaluate
from scheduler.plugin_api.cycle import Cycle
from scheduler.state.columns import Rows, Scores
from scheduler.state.scratch import scratch

HOSTNAME = "kubernetes.io/hostname"


class Quota(NamedTuple):
    """How many pods a domain takes at what price."""

    domain: int
    pods: int
    points: float


class Relations(NamedTuple):
    """What keeps the pods of a class apart."""

    per_node: int | None = None
    """The most pods of the class on a node; None: as many as fit."""
    domain_of: Ints | None = None
    """The domain of each row that fits, from 1; 0: none."""
    quotas: tuple[Quota, ...] = ()
    repeat_price: float = 0.0
    """The points that a further pod on the same node loses."""


NONE = Relations()


class _Spread(NamedTuple):
    """Domains of one key over which the class is spread, or in each of which it is alone."""

    key: str
    hard: bool
    skew: int
    alone: bool
    pods: PodSet | None


def relations(member: Member, number: int, rows: Rows, totals: Scores) -> Relations:
    """What keeps a class's pods apart, of which there are ``number``, on rows that fit."""
    pod = member.cycle.pod
    spreads = [*_anti_affinity(member), *_constraints(member, pod)]
    live = any(not each.kept for each, _ in member.pod_class.plugins[SCORE])
    if not spreads and not live and not pod.host_ports:
        return NONE
    on_node = [s.skew for s in spreads if s.hard and s.key == HOSTNAME]
    per_node = min([*on_node, 1] if pod.host_ports else on_node, default=None)
    chosen = next((s for s in sorted(spreads, key=_rank) if s.key != HOSTNAME), None)
    drop = _drop(member, rows, totals) if live and number > 1 else np.zeros(len(rows))
    best = int(totals.argmax())
    repeat = max(float(drop[best]), 0.0)
    if chosen is None:
        return Relations(per_node, repeat_price=repeat)
    ids = member.cycle.state.columns.labels.column(chosen.key).ids[rows].astype(np.int64)
    near = (ids == ids[best]) & (ids > 0)
    near[best] = False
    dearer = max(float(np.median(drop[near])), 1.0) if near.any() else repeat
    quotas = _quotas(member, chosen, number, ids, dearer)
    # What a pod costs the whole domain is in the price of the domain already.
    return Relations(per_node, ids, quotas, max(repeat - (0 if chosen.hard else dearer), 0.0))


def _rank(spread: _Spread) -> tuple[bool, bool]:
    return not spread.hard, not spread.alone


def _anti_affinity(member: Member) -> list[_Spread]:
    """The pod's anti-affinity to its own kind."""
    pod, index = member.cycle.pod, member.cycle.state.index
    terms = pod.affinity
    return [
        _Spread(term.topology_key, hard, 1, True, term.pods)
        for hard, each in ((True, terms.anti_required), (False, terms.anti_preferred))
        for term in each
        if index.belongs(pod, (term.pods,))
    ]


def _constraints(member: Member, pod: PodInfo) -> list[_Spread]:
    """What plugins hold the class to, as far as its own pods count."""
    found: list[SpreadConstraint] = []
    for plugin in member.spreading:
        found += plugin.spreads(pod)
    metadata = pod.pod.metadata
    return [
        _Spread(
            each.topology_key,
            each.hard,
            max(each.max_skew, 1),
            False,
            PodSet(frozenset((metadata.namespace,)), each.selector),
        )
        for each in found
        if each.selector.matches(metadata.labels)
    ]


def _quotas(
    member: Member, spread: _Spread, number: int, ids: Ints, dearer: float
) -> tuple[Quota, ...]:
    """How many pods each domain of the rows is to get."""
    domains = np.unique(ids[ids > 0])
    if spread.alone:
        levels = {int(domain): 1 for domain in domains}
    else:
        levels = _levels(member, spread, number, domains)
    quotas = []
    for domain, pods in levels.items():
        if pods:
            quotas.append(Quota(domain, pods, 0.0))
        if not spread.hard and number > pods:
            quotas.append(Quota(domain, number - pods, dearer))
    return tuple(quotas)


def _levels(member: Member, spread: _Spread, number: int, domains: Ints) -> dict[int, int]:
    """How many pods bring the domains to one level, counting those that are there."""
    state = member.cycle.state
    column = state.columns.labels.column(spread.key).ids
    counts = np.zeros(int(domains.max(initial=0)) + 1, np.int64)
    if spread.pods is not None:
        there = state.index.counter(spread.pods, living_only=True).counts
        rows = state.rows()
        rows = rows[np.isin(column[rows], domains)]
        np.add.at(counts, column[rows], there[rows])
    have = np.sort(counts[domains])
    # Water is poured into the emptiest domains until it has one level in all that it reaches.
    reached = np.cumsum(have) + number
    level = int(np.ceil((reached / np.arange(1, len(have) + 1)).min())) if len(have) else 0
    slack = (spread.skew - 1) // 2
    return {int(d): max(level + slack - int(counts[d]), 0) for d in domains}


def _drop(member: Member, rows: Rows, totals: Scores) -> Scores:
    """The points that each row loses when a pod of the class is placed on the best one.

    Of the scores that are not kept alone: what others lose by load is priced for all classes.
    """
    state = member.cycle.state
    best = state.name(int(rows[totals.argmax()]))
    before = _live_totals(member, rows)
    twin = copy.copy(member.cycle.pod)
    twin.uid = f"{twin.uid}/twin"
    with scratch(state) as changes:
        changes.add(twin, best)
        after = _live_totals(member, rows)
    return before - after


def _live_totals(member: Member, rows: Rows) -> Scores:
    cycle = Cycle(member.cycle.pod, member.cycle.state)
    live = evaluate(member.framework, cycle, member.pod_class).live_totals(rows)
    return np.zeros(len(rows), np.int64) if live is None else live
