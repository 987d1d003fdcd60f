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
Such a node takes the largest pods first, as many as fit; the others are posed again to what is
left, with the load that is there by then, until all have a node or no node takes any of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash

from scheduler.flow.network import Arcs, Network
from scheduler.flow.problem import UNFIT, Ints, Problem, Reals, Solution, Steps
from scheduler.flow.solver import solve
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, MEMORY

OMEGA = 1000
"""The cost of a full node, and what is added to keep costs with preferences positive."""

FINENESS = 1000
"""Parts of a point: a small pod on a large node costs less than one, and pods spread even so."""

RESOURCES = 2
"""CPU and memory, a problem's first resources. Others bound places, and cost nothing."""

MOST_ARCS = 1_500_000
"""Arcs of one network: some seconds and some hundred MiB. Classes beyond it are posed next."""

MOST_SOLVED = 8
"""How often pods that a node could not take are posed again to what is left."""

HALVINGS = 24
"""Of the range of costs, to find what a class pays at most: then it is known to a fraction of a
point, and few places more than needed are looked at."""

_ALMOST = 1e-9


def task_class(pod: PodInfo) -> int:
    """The equivalence class of the design: by owner if the pod has affinity, else by its needs."""
    spec, metadata = pod.pod.spec, pod.pod.metadata
    if spec.affinity is not None:
        owner = metadata.controller
        identity: object = ("owner", owner.uid or owner.name if owner else pod.uid)
    else:
        requests = pod.fit_requests
        needs = requests.get(CPU, 0), requests.get(MEMORY, 0)
        identity = ("needs", *needs, sorted(spec.node_selector.items()))
    return xxhash.xxh64_intdigest(msgspec.msgpack.encode(identity))


def posed_together(supplies: Sequence[int]) -> int:
    """How many of these classes, the first ones, a network takes; at least one."""
    pods = 0
    for count, supply in enumerate(supplies):
        pods += supply
        if count and (count + 1) * pods > MOST_ARCS:
            return count
    return len(supplies)


# Solving


def solved(problem: Problem) -> Solution:
    """The cheapest placements that nodes have room for. Blocks; holds the interpreter."""
    counts = np.zeros(problem.shape, np.int64)
    left = problem
    first: Drawn | None = None
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
    """[E, M] What nodes take of the pods that they were sent, the largest first."""
    free, slots = problem.free.copy(), problem.slots.copy()
    total = np.maximum(problem.free.sum(axis=1), 1.0)
    size = (problem.requests / total).max(axis=1, initial=0.0)
    taken = np.zeros_like(pods)
    for e in np.argsort(-size, kind="stable").tolist():
        sent = np.flatnonzero(pods[e])
        room = np.minimum(_room(problem.requests[e], free[:, sent]), slots[sent])
        taken[e, sent] = np.minimum(pods[e, sent], np.maximum(room, 0))
        free[:, sent] -= problem.requests[e][:, np.newaxis] * taken[e, sent]
        slots[sent] -= taken[e, sent]
    return taken


def without(problem: Problem, taken: Ints) -> Problem:
    """What is left of a problem when nodes have taken some pods."""
    free = problem.free - problem.requests.T @ taken
    slots = problem.slots - taken.sum(axis=0)
    fit = problem.fit - taken
    for e in range(problem.shape[0]):
        fit[e] = np.minimum(fit[e], _room(problem.requests[e], free))
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


def _room(requests: Reals, free: Reals) -> Ints:
    """How many such pods fit into what is free of each node."""
    asked = requests > 0
    if not asked.any():
        return np.full(free.shape[1], np.iinfo(np.int64).max)
    shares = free[asked] / requests[asked][:, np.newaxis]
    whole: Ints = np.floor(shares.min(axis=0) + _ALMOST).astype(np.int64)
    return whole


def _quotas_left(problem: Problem, taken: Ints) -> Steps:
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


class Places(NamedTuple):
    """Places on nodes that a class has arcs to: parallel arrays."""

    of_class: Ints
    node: Ints
    number: Ints
    """Of the place on its node, from 0."""


class Drawn(NamedTuple):
    """A network, and what the arcs between classes and places stand for."""

    network: Network
    pairs: slice
    places: Places
    shape: tuple[int, int]

    def pods(self, flows: Ints) -> Ints:
        """[E, M] How many pods of a class flow to a node."""
        classes, nodes = self.shape
        used = flows[self.pairs] > 0
        where = self.places.of_class[used] * nodes + self.places.node[used]
        counts: Ints = np.bincount(where, minlength=classes * nodes)
        return counts.reshape(self.shape)


def draw(problem: Problem) -> Drawn:
    """The design's network, without the arcs that no cheapest flow needs."""
    classes, nodes = problem.shape
    hard = _hard_quotas(problem)
    places = cheapest_places(problem, hard)
    points = arc_cost(problem, places.of_class, places.node, places.number)
    cost = np.rint(points * FINENESS).astype(np.int64)
    stride = int(places.number.max(initial=0)) + 1
    shared, place = np.unique(places.node * stride + places.number, return_inverse=True)
    domains = np.unique(hard.of_class * _stride(problem) + hard.domain)
    first_domain = classes + nodes
    first_place = first_domain + len(domains)
    sink = first_place + len(shared)
    arcs = Arcs()
    tail = places.of_class
    if len(domains):
        key = places.of_class * _stride(problem) + _domain(problem, places.of_class, places.node)
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
    # most, makes room for it.
    leaving = problem.leaving
    price = max(int(cost.max(initial=0)), 1) * (classes + 1)
    extra = np.rint(leaving.points * FINENESS).astype(np.int64)
    arcs.add(leaving.of_class, sink, leaving.pods, price + extra)
    supply = np.zeros(sink + 1, np.int64)
    supply[:classes] = problem.supplies
    supply[sink] = -supply.sum()
    return Drawn(arcs.network(supply), pairs, places, problem.shape)


def arc_cost(problem: Problem, of_class: Ints, node: Ints, number: Ints) -> Reals:
    """What the i-th further pod of a class costs on a node, counted from 0, in points."""
    base, slope = _line(problem, of_class, node)
    cost: Reals = base + slope * (number + 1)
    return cost


def _line(problem: Problem, of_class: Ints, node: Ints) -> tuple[Reals, Reals]:
    """What a pod of a class costs on a node as it is, and what each pod more adds to that."""
    there = problem.allocatable[:RESOURCES].T[node]
    held = there - problem.free[:RESOURCES].T[node]
    load = np.divide(held, there, out=np.ones_like(held), where=there > 0).mean(axis=1)
    asked = problem.requests[:, :RESOURCES][of_class]
    slope = np.divide(asked, there, out=np.zeros_like(asked), where=there > 0).mean(axis=1)
    # Pods that ask for nothing spread as well.
    slope = np.maximum(slope * OMEGA, 1 / FINENESS)
    base = load * OMEGA
    if problem.soft.size:
        offset = np.maximum(problem.soft.max(axis=1, initial=0), OMEGA)
        prefers = problem.preferring[of_class] > 0
        base += np.where(prefers, offset[of_class] - problem.soft[of_class, node], 0)
    return base, slope


def cheapest_places(problem: Problem, hard: Steps) -> Places:
    """For each class, and each domain of it, as many of its cheapest places as there are pods."""
    pods = int(problem.supplies.sum())
    fits = (problem.scores != UNFIT) & (problem.supplies > 0)[:, np.newaxis]
    rooms = np.minimum(np.where(fits, problem.fit, 0), np.minimum(problem.slots, pods))
    of_class, node = np.nonzero(rooms)
    of_class, node = of_class.astype(np.int64), node.astype(np.int64)
    domain = np.zeros(len(node), np.int64)
    if len(hard.pods):
        domain = _domain(problem, of_class, node)
        key, quota = (e * _stride(problem) + d for e, d in ((of_class, domain), _keys(hard)))
        # A class that is held to domains has no place in those that take none of it.
        held = np.isin(of_class, hard.of_class) & (domain > 0)
        keep = ~held | np.isin(key, quota)
        of_class, node, domain = of_class[keep], node[keep], np.where(held, domain, 0)[keep]
    room = rooms[of_class, node]
    _, group = np.unique(of_class * _stride(problem) + domain, return_inverse=True)
    base, slope = _line(problem, of_class, node)
    upto = _upto(base, slope, room, group, pods)
    each = np.repeat(np.arange(len(upto)), upto)
    number = np.arange(len(each)) - np.repeat(np.cumsum(upto) - upto, upto)
    return _first(pods, group[each], Places(of_class[each], node[each], number), problem)


def _keys(steps: Steps) -> tuple[Ints, Ints]:
    return steps.of_class, steps.domain


def _upto(base: Reals, slope: Reals, room: Ints, group: Ints, pods: int) -> Ints:
    """How many places of each pair are among the cheapest of its group, or a few more.

    Halves the range of what the dearest of them costs, for all groups at once.
    """
    wanted = np.minimum(np.bincount(group, room), pods)

    def below(limit: Reals) -> Reals:
        return np.clip(np.floor((limit[group] - base) / slope), 0, room)

    low = np.full(len(wanted), -1.0)
    high = np.full(len(wanted), float((base + slope * room).max(initial=0.0)) + 1.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = np.bincount(group, below(middle)) >= wanted
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.minimum(below(high) + 1, room).astype(np.int64)


def _first(pods: int, group: Ints, places: Places, problem: Problem) -> Places:
    """As many of the cheapest places of each group as there are pods; of equals, lower ones."""
    cost = arc_cost(problem, *places)
    order = np.lexsort((places.node, places.number, cost, group))
    ranked = group[order]
    rank = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    keep = np.sort(order[rank < pods])
    return Places(places.of_class[keep], places.node[keep], places.number[keep])


def _hard_quotas(problem: Problem) -> Steps:
    """The quotas of classes that must keep to them. What should be has no place in this model."""
    quotas = problem.quotas
    priced = np.unique(quotas.of_class[quotas.points > 0])
    keep = ~np.isin(quotas.of_class, priced)
    return Steps(quotas.of_class[keep], quotas.domain[keep], quotas.pods[keep], quotas.points[keep])


def _stride(problem: Problem) -> int:
    return int(problem.domain_of.max(initial=0)) + 1


def _domain(problem: Problem, of_class: Ints, node: Ints) -> Ints:
    if not problem.domain_of.size:
        return np.zeros(len(node), np.int64)
    return problem.domain_of[of_class, node]
