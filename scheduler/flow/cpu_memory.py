"""The cost model `CpuMemory`: the network of the published design.

::

    class ── cost rises with i ──► i-th place on a node ──► node ──► sink
      │                                   ▲
      │── quota ─► domain of the class ───┘
      └────────── left without a node ────────────────────────────►

Each unit of a node's capacity is a *machine class* with one place, shared by all task classes, and
the arc to the i-th of them costs what the node's load would be with i pods more: so pods spread. An
arc is drawn only where all hard constraints hold. Weights of preferred terms make it cheaper, and
1000 keeps it positive.

Not all arcs are needed. All pods of the backlog together take at most as many places as there are
pods, so of the places that a class could have, sorted by cost, one of the first ``pods`` is always
free: a class gets arcs to these alone, and the cheapest flow costs the same. That is at most
``classes * pods`` arcs, however many nodes there are and however many pods each takes.

Places are counted for each class alone, so classes that share a node may be sent more than it has.
Such a node takes as many as fit, those first that have few other nodes; the others are posed again
to what is left, with the load that is there by then, until no node takes any of them.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash

from scheduler.flow.network import Arcs, Network
from scheduler.flow.problem import PRICED, UNFIT, Ints, PriceSteps, Problem, Reals, Solution
from scheduler.flow.solver import solve
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, MEMORY

OMEGA = 1000
"""The cost of a full node, and what is added to keep costs with preferences positive."""

FINENESS = 1000
"""Parts of a point: a small pod on a large node costs less than one, and pods spread even so."""

MOST_ARCS = 1_000_000
"""Arcs of one network: some seconds and some hundred MiB. Classes beyond it are posed next."""

MOST_POINTS = 1e6
"""What it costs at most to leave a pod out, beyond the worst node: the solver's numbers end."""

MOST_SOLVED = 8
"""How often pods that a node could not take are posed again to what is left."""

HALVINGS = 24
"""Of the range of costs, to find what a class pays at most: then it is known to a fraction of a
point, and few places more than needed are looked at."""

MANY_NODES = 0.5
"""The share of all nodes from which on a class has a choice."""

_ALMOST = 1e-9


def task_class(pod: PodInfo) -> int:
    """The equivalence class of the design: by owner if the pod has affinity, else by its needs.

    Pods with affinity and without a controller are grouped by their needs and their affinity.
    """
    spec, owner = pod.pod.spec, pod.pod.metadata.controller
    if spec.affinity is not None and owner is not None:
        identity: object = ("owner", owner.uid or owner.name)
    else:
        requests = pod.fit_requests
        needs = requests.get(CPU, 0), requests.get(MEMORY, 0)
        identity = ("needs", *needs, sorted(spec.node_selector.items()), spec.affinity)
    return xxhash.xxh64_intdigest(msgspec.msgpack.encode(identity))


def fit_one_network(domains: int, pods: int) -> bool:
    """Whether so many pods can be solved at once.

    ``domains`` counts for each class those that it is held to, or one: each has arcs of its own.
    """
    return domains * pods <= MOST_ARCS


# Solving


def solved(problem: Problem) -> Solution:
    """The cheapest placements that nodes have room for. Blocks; holds the interpreter."""
    counts = np.zeros(problem.shape, np.int64)
    left = problem
    first: CpuMemoryNetwork | None = None
    build = solving = reading = 0.0
    cost = 0
    for _ in range(MOST_SOLVED):
        started = time.process_time()
        drawn = draw(left)
        built = time.process_time()
        flows, price = solve(drawn.network)
        ended = time.process_time()
        taken = taken_by(left, drawn.pods(flows))
        left = without(left, taken)
        counts += taken
        build, solving = build + built - started, solving + ended - built
        reading += time.process_time() - ended
        if first is None:
            first, cost = drawn, price
        if not taken.any() or not left.supplies.any():
            break
    assert first is not None, "solved at least once"
    of_class, node = np.nonzero(counts)
    return Solution(
        of_class=of_class.astype(np.int64),
        node=node.astype(np.int64),
        pods=counts[of_class, node],
        arcs=first.network.arcs,
        build_seconds=build,
        solve_seconds=solving,
        read_seconds=reading,
        cost=cost,
    )


def taken_by(problem: Problem, pods: Ints) -> Ints:
    """[E, M] What nodes take of the pods that they were sent."""
    free, slots = problem.free.copy(), problem.slots.copy()
    taken = np.zeros_like(pods)
    for e in _order(problem).tolist():
        sent = np.flatnonzero(pods[e])
        room = np.minimum(_takes(problem, e, free)[sent], slots[sent])
        taken[e, sent] = np.minimum(pods[e, sent], np.maximum(room, 0))
        free[:, sent] -= problem.requests[e][:, np.newaxis] * taken[e, sent]
        slots[sent] -= taken[e, sent]
    return taken


def _order(problem: Problem) -> Ints:
    """The classes in the order in which a node takes them that cannot take all.

    First those with few nodes to choose from: as many pods as possible, or as much of the cluster,
    as `unscheduledCost.per` says. Then the others: large pods find no node later.
    """
    total = np.maximum(problem.free.sum(axis=1), 1.0)
    size = (problem.requests / total).max(axis=1, initial=0.0)
    few = (problem.scores != UNFIT).sum(axis=1) < MANY_NODES * problem.shape[1]
    small_first = few & (not problem.by_volume)
    return np.lexsort((np.where(small_first, size, -size), ~few))


def without(problem: Problem, taken: Ints) -> Problem:
    """What is left of a problem when nodes have taken some pods."""
    free = problem.free - problem.requests.T @ taken
    slots = problem.slots - taken.sum(axis=0)
    fit = problem.fit - taken
    for e in range(problem.shape[0]):
        fit[e] = np.minimum(fit[e], _takes(problem, e, free))
    fit = np.minimum(fit, slots)
    return msgspec.structs.replace(
        problem,
        supplies=problem.supplies - taken.sum(axis=1),
        scores=np.where(fit > 0, problem.scores, UNFIT),
        fit=np.maximum(fit, 1),
        free=free,
        slots=slots,
        quotas=_quotas_left(problem, taken),
    )


def _takes(problem: Problem, e: int, free: Reals) -> Ints:
    """How many pods of a class each node takes when so much is free.

    Filters that let a pod pass where nothing was free (resources to ignore) know better.
    """
    ignored = _room(problem.requests[e], problem.free) < problem.fit[e]
    return np.where(ignored, problem.fit[e], _room(problem.requests[e], free))


def _room(requests: Reals, free: Reals) -> Ints:
    """How many such pods fit into what is free of each node."""
    asked = requests > 0
    if not asked.any():
        return np.full(free.shape[1], np.iinfo(np.int64).max)
    shares = free[asked] / requests[asked][:, np.newaxis]
    whole: Ints = np.floor(shares.min(axis=0) + _ALMOST).astype(np.int64)
    return whole


def _quotas_left(problem: Problem, taken: Ints) -> PriceSteps:
    """What domains still take of each class; the cheapest steps were taken first."""
    quotas = problem.quotas
    if not len(quotas.pods):
        return quotas
    of_class, node = np.nonzero(taken)
    stride = _stride(problem)
    used = of_class * stride + problem.domain_of[of_class, node]
    key = quotas.of_class * stride + quotas.domain
    keys, group = np.unique(key, return_inverse=True)
    gone = np.zeros(len(keys), np.int64)
    there = np.isin(used, keys)
    np.add.at(gone, np.searchsorted(keys, used[there]), taken[of_class, node][there])
    order = np.lexsort((quotas.points, group))
    pods = quotas.pods[order]
    total = np.cumsum(pods)
    ranked = group[order]
    before = (total - pods)[np.searchsorted(ranked, ranked)]
    left = np.clip(total - before - gone[ranked], 0, pods)
    remaining = np.zeros(len(pods), np.int64)
    remaining[order] = left
    return msgspec.structs.replace(quotas, pods=remaining)


# Drawing


class NodeSlots(NamedTuple):
    """Places on nodes that a class has arcs to: parallel arrays."""

    of_class: Ints
    node: Ints
    number: Ints
    """Of the place on its node, from 0."""


class CpuMemoryNetwork(NamedTuple):
    """A network, and what the arcs between classes and places stand for."""

    network: Network
    pairs: slice
    places: NodeSlots
    shape: tuple[int, int]

    def pods(self, flows: Ints) -> Ints:
        """[E, M] How many pods of a class flow to a node."""
        classes, nodes = self.shape
        used = flows[self.pairs] > 0
        where = self.places.of_class[used] * nodes + self.places.node[used]
        counts: Ints = np.bincount(where, minlength=classes * nodes)
        return counts.reshape(self.shape)


def draw(problem: Problem) -> CpuMemoryNetwork:
    """The design's network, without the arcs that no cheapest flow needs."""
    classes, nodes = problem.shape
    hard = _hard_quotas(problem)
    places, cost = cheapest_places(problem, hard)
    stride = int(places.number.max(initial=0)) + 1
    shared, place = np.unique(places.node * stride + places.number, return_inverse=True)
    domains = np.unique(hard.of_class * _stride(problem) + hard.domain)
    first_domain = classes + nodes
    first_place = first_domain + len(domains)
    sink = first_place + len(shared)
    arcs = Arcs()
    tail = places.of_class
    if len(domains):
        domain = problem.domain_of[places.of_class, places.node]
        key = places.of_class * _stride(problem) + domain
        found = np.searchsorted(domains, key)
        tail = np.where(np.isin(key, domains), first_domain + found, tail)
    pairs = arcs.add(tail, first_place + place, np.ones(len(cost), np.int64), cost)
    one = np.ones(len(shared), np.int64)
    arcs.add(first_place + np.arange(len(shared)), classes + shared // stride, one, 0)
    arcs.add(classes + np.arange(nodes), sink, problem.slots, 0)
    if len(domains):
        head = np.searchsorted(domains, hard.of_class * _stride(problem) + hard.domain)
        arcs.add(hard.of_class, first_domain + head, hard.pods, 0)
    # A pod is left out only if no exchange of places, each of which moves one pod of a class at
    # most, lets it fit.
    leaving = problem.leaving
    price = max(int(cost.max(initial=0)), 1) * (classes + 1)
    extra = np.rint(np.minimum(leaving.points, MOST_POINTS) * FINENESS).astype(np.int64)
    arcs.add(leaving.of_class, sink, leaving.pods, price + extra)
    supply = np.zeros(sink + 1, np.int64)
    supply[:classes] = problem.supplies
    supply[sink] = -supply.sum()
    return CpuMemoryNetwork(arcs.network(supply), pairs, places, problem.shape)


def arc_cost(problem: Problem, of_class: Ints, node: Ints, number: Ints) -> Reals:
    """What the i-th further pod of a class costs on a node, counted from 0, in points."""
    costs = Costs(problem)
    lines = [costs.line(int(e), np.array([m])) for e, m in zip(of_class, node, strict=True)]
    return np.array([float(b[0] + s[0] * (i + 1)) for (b, s), i in zip(lines, number, strict=True)])


class Costs:
    """What places cost: a straight line for each class and node, as a node fills evenly."""

    def __init__(self, problem: Problem) -> None:
        there, free = problem.allocatable[:PRICED], problem.free[:PRICED]
        self._problem = problem
        self._part = np.divide(OMEGA, there, out=np.zeros_like(there), where=there > 0)
        used = np.where(there > 0, (there - free) * self._part, OMEGA)
        self._load: Reals = used.mean(axis=0)

    def line(self, e: int, nodes: Ints) -> tuple[Reals, Reals]:
        """What a pod of a class costs on nodes as they are, and what each pod more adds to that."""
        problem = self._problem
        asked = problem.requests[e, :PRICED, np.newaxis]
        # Pods without requests spread as well.
        slope = np.maximum((asked * self._part[:, nodes]).mean(axis=0), 1 / FINENESS)
        base = self._load[nodes]
        if problem.soft.size and problem.preferring[e]:
            soft = problem.soft[e]
            base = base + max(int(soft.max(initial=0)), OMEGA) - soft[nodes]
        return base, slope


def cheapest_places(problem: Problem, hard: PriceSteps) -> tuple[NodeSlots, Ints]:
    """For each class, and each domain of it, as many of its cheapest places as there are pods.

    With what each costs. O(classes * (nodes + pods)).
    """
    costs = Costs(problem)
    pods = int(problem.supplies.sum())
    most = np.minimum(problem.slots, pods)
    parts: list[tuple[Ints, Ints, Ints, Ints]] = []
    for e in np.flatnonzero(problem.supplies).tolist():
        rooms = np.minimum(problem.fit[e], most)
        nodes = np.flatnonzero((problem.scores[e] != UNFIT) & (rooms > 0))
        group = np.zeros(len(nodes), np.int64)
        mine = hard.of_class == e
        if mine.any():
            # A class that is held to domains has no place in those that take none of it.
            domain = problem.domain_of[e, nodes]
            nodes = nodes[(domain == 0) | np.isin(domain, hard.domain[mine])]
            group = np.unique(problem.domain_of[e, nodes], return_inverse=True)[1]
        base, slope = costs.line(e, nodes)
        upto = _upto(base, slope, rooms[nodes], group, pods)
        pair = np.repeat(np.arange(len(nodes)), upto)
        number = np.arange(len(pair)) - np.repeat(np.cumsum(upto) - upto, upto)
        cost = np.rint((base[pair] + slope[pair] * (number + 1)) * FINENESS).astype(np.int64)
        keep = _cheapest(cost, group[pair], pods)
        parts.append((np.full(len(keep), e), nodes[pair[keep]], number[keep], cost[keep]))
    if not parts:
        none = np.zeros(0, np.int64)
        return NodeSlots(none, none, none), none
    of_class, node, which, price = (np.concatenate(part) for part in zip(*parts, strict=True))
    return NodeSlots(of_class, node, which), price


def _upto(base: Reals, slope: Reals, room: Ints, group: Ints, pods: int) -> Ints:
    """How many places of each node are among the cheapest of its group, or a few more.

    Halves the range of what the dearest of them costs, until about as many cost less as there
    are pods.
    """
    if not len(base):
        return np.zeros(0, np.int64)
    have = np.bincount(group, room)
    wanted = np.minimum(have, pods)
    close = wanted + np.bincount(group)

    def below(limit: Reals) -> Reals:
        return np.clip(np.floor((limit[group] - base) / slope), 0, room)

    low = np.full(len(wanted), float(base.min()))
    high = np.full(len(wanted), float((base + slope * room).max()) + 1.0)
    for _ in range(HALVINGS):
        if (have <= close).all():
            break
        middle = (low + high) / 2
        count = np.bincount(group, below(middle))
        enough = count >= wanted
        have = np.where(enough, count, have)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.minimum(below(high) + 1, room).astype(np.int64)


def _cheapest(cost: Ints, group: Ints, pods: int) -> Ints:
    """As many of the cheapest of each group as there are pods, in their order."""
    if len(cost) <= pods:
        return np.arange(len(cost))
    order = np.lexsort((cost, group))
    ranked = group[order]
    rank = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    return np.sort(order[rank < pods])


def _hard_quotas(problem: Problem) -> PriceSteps:
    """The quotas of classes that must keep to them. What should be has no place in this model."""
    quotas = problem.quotas
    priced = np.unique(quotas.of_class[quotas.points > 0])
    keep = ~np.isin(quotas.of_class, priced)
    return PriceSteps(
        quotas.of_class[keep], quotas.domain[keep], quotas.pods[keep], quotas.points[keep]
    )


def _stride(problem: Problem) -> int:
    """More than any domain, so that a class and a domain make one number."""
    domains = problem.domain_of.max(initial=0), problem.quotas.domain.max(initial=0)
    return int(max(domains)) + 1
