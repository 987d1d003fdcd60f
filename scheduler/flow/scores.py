"""The cost model `Scores`: the profile's verdicts and scores as arcs, resources as what flows.

::

    class ──────────── pair: pods that fit, what the score lacks ─────► gate ──► node ──► sink
      │ ╲                                                               ▲          segments of what
      │  ╲─ quota ─► domain of the class ── pair ───────────────────────┘          is free, dearer
      │                                                                            as it fills
      └─ leave: what it costs to have no node ──────────────────────────────────────────► sink

A class supplies all its pods at once, a pair has one arc however many pods it takes, and a node has
four: twenty to a hundred times fewer arcs than with one for each place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.flow.network import Arcs, Network
from scheduler.flow.problem import PRICED, UNFIT, Ints, Problem, Reals
from scheduler.flow.units import RESOLUTION, Units, measure

FINENESS = 10 * RESOLUTION
"""Cost of one point for a pod of one unit; costs are whole numbers, and per unit."""

ALL_PAIRS = 150_000
"""Up to so many arcs between classes and nodes all are drawn: a fifth of a second."""
BREADTH = 8
FEWEST = 64
"""Beyond that, a class has arcs to its best nodes, eight for each pod and at least this many. With
fewer, classes that share a crowded pool have nowhere else to go and outbid each other; with eight
the result is that of all arcs, in a fifth of the time."""

FULL = 0.98
NEGLIGIBLE = 0.005
"""The share of what flows that nodes may lack without a second look."""

MOST_POINTS = 1e6
_SPREADER = np.uint64(0x9E3779B97F4A7C15)


class ScoreNetwork(NamedTuple):
    """A network, and what the arcs between classes and nodes stand for."""

    network: Network
    pairs: slice
    of_class: Ints
    node: Ints
    units: Units

    def pods(self, flows: Ints, shape: tuple[int, int]) -> Reals:
        """[E, M] How many pods of a class flow to a node, in parts."""
        classes, nodes = shape
        sums = np.zeros(classes * nodes)
        where = self.of_class * nodes + self.node
        np.add.at(sums, where, flows[self.pairs].astype(np.float64))
        return sums.reshape(shape) / self.units.of_class[:, np.newaxis]


def draw(problem: Problem, units: Units | None = None) -> ScoreNetwork:
    """The network of a backlog; ``units`` say what nodes take, if that is known better."""
    classes, nodes = problem.shape
    units = units or measure(problem)
    of_class, node = candidates(problem)
    domains = _SpreadDomains(problem, first=classes + nodes)
    gates = _Gates(units, nodes, first=classes + nodes + domains.count)
    sink = classes + nodes + domains.count + gates.count
    arcs = Arcs()
    pairs, spent = _add_pairs(arcs, problem, units, domains, gates, of_class, node)
    gates.add(arcs, classes)
    domains.add_quotas(arcs, problem, units)
    _add_segments(arcs, problem, units, sink)
    # Nothing is dearer than to be left out, or pods would stay behind for others' comfort.
    worst = spent + problem.load_price + float(problem.quotas.points.max(initial=0.0))
    _add_leaving(arcs, problem, units, sink, worst)
    supply = np.zeros(sink + 1, np.int64)
    supply[:classes] = problem.supplies * units.of_class
    supply[sink] = -supply.sum()
    return ScoreNetwork(arcs.network(supply), pairs.arcs, pairs.of_class, pairs.node, units)


def corrected(problem: Problem, drawn: ScoreNetwork, flows: Ints) -> Units | None:
    """What nodes take, by the mix of pods that flows to each; None if they take what flows.

    Each gate takes what pods leave that come by the others.
    """
    units = drawn.units
    pods = drawn.pods(flows, problem.shape)
    by_gate = (units.gate_of == np.arange(len(units.gates))[:, np.newaxis]).astype(np.float64)
    sent = (by_gate * units.of_class) @ pods
    taken = np.array([(problem.requests * mine[:, np.newaxis]).T @ pods for mine in by_gate])
    others = taken.sum(axis=0) - taken
    gates = units.takes(problem.free).astype(np.float64)
    gates[0] = _shared_gate(units, sent[0], taken[0], problem.free - others[0])
    for number, resource in enumerate(units.resources.tolist(), 1):
        left = np.maximum(problem.free[resource] - others[number, resource], 0.0)
        gates[number] = left / units.sizes[resource]
    # Pods bound by a GPU may be too many for the CPU of a node, and all may be too many by number.
    squeezed = np.maximum(_most(others[0], problem.free), 1.0)
    gates[1:] = np.where(squeezed > 1.0, np.minimum(gates[1:], sent[1:] / squeezed), gates[1:])
    crowd = np.maximum(pods.sum(axis=0) / np.maximum(problem.slots, 1), 1.0)
    gates = np.where(crowd > 1.0, np.minimum(gates, sent / crowd), gates)
    whole = np.floor(gates + 1e-9).astype(np.int64)
    concerned = (sent >= FULL * units.gates) | (sent > whole)
    if np.abs(whole - units.gates)[concerned].sum() <= NEGLIGIBLE * sent.sum():
        return None
    return units._replace(gates=whole)


def _shared_gate(units: Units, sent: Reals, taken: Reals, left: Reals) -> Reals:
    """[M] What the gate for CPU and memory takes if others leave so much.

    One quantity stands for both, on average. Where more of one was sent than there is, the gate
    takes as much less; where it is full and some of both is left, as much more.
    """
    most = _most(taken, np.maximum(left, 0.0))
    fair = np.divide(sent, most, out=sent.copy(), where=most > 0)
    wrong = (most > 1.0) | ((sent >= FULL * units.gates[0]) & (most > 0))
    return np.where(wrong, fair, np.minimum(units.takes(left)[0], units.gates[0]))


def _most(taken: Reals, free: Reals) -> Reals:
    """[M] The largest part that is taken of what is free of some resource."""
    asked = taken > 1e-9
    load = np.divide(taken, free, out=np.full_like(taken, 2.0), where=free > 0)
    most: Reals = np.where(asked, load, 0.0).max(axis=0, initial=0.0)
    return most


def candidates(problem: Problem) -> tuple[Ints, Ints]:
    """Class and node of each pair that gets an arc, by class, then node."""
    fits = problem.scores != UNFIT
    if int(fits.sum()) > ALL_PAIRS:
        fits = fits.copy()
        wanted = np.maximum(BREADTH * problem.supplies, FEWEST)
        for e in np.flatnonzero(fits.sum(axis=1) > wanted).tolist():
            fits[e, _beyond(problem.scores[e], fits[e], int(wanted[e]), e)] = False
    of_class, node = np.nonzero(fits)
    return of_class.astype(np.int64), node.astype(np.int64)


def _beyond(scores: Ints, fits: Ints, wanted: int, e: int) -> Ints:
    """The nodes of a class that are not among its best; equals are chosen differently by each."""
    nodes = np.flatnonzero(fits)
    mixed = (nodes.astype(np.uint64) + np.uint64(e) * np.uint64(7919)) * _SPREADER
    rank = scores[nodes].astype(np.float64) + (mixed >> np.uint64(11)) / 2.0**53
    return nodes[np.argpartition(-rank, wanted)[wanted:]]


class _Pairs(NamedTuple):
    arcs: slice
    of_class: Ints
    node: Ints


def _add_pairs(
    arcs: Arcs,
    problem: Problem,
    units: Units,
    domains: _SpreadDomains,
    gates: _Gates,
    of_class: Ints,
    node: Ints,
) -> tuple[_Pairs, float]:
    """The arcs between classes and nodes, and the most that one of them costs, in points."""
    room = np.minimum(problem.fit[of_class, node], problem.supplies[of_class])
    room[domains.closed(of_class, node)] = 0
    best = problem.scores.max(axis=1, initial=0)
    lack = (best[of_class] - problem.scores[of_class, node]).astype(np.float64)
    if problem.repeat_price.any():
        of_class, node, room, lack = _stepped(problem, of_class, node, room, lack)
    heavy = units.of_class[of_class]
    tail = domains.tails(of_class, node)
    head = gates.heads(of_class, node, len(problem.supplies))
    added = arcs.add(tail, head, room * heavy, per_unit(lack, heavy))
    return _Pairs(added, of_class, node), float(lack.max(initial=0.0))


def _stepped(
    problem: Problem, of_class: Ints, node: Ints, room: Ints, lack: Reals
) -> tuple[Ints, Ints, Ints, Reals]:
    """Pairs of classes whose pods keep away from each other: first, second and further pods."""
    price = problem.repeat_price[of_class]
    several = price > 0
    second, further = several & (room > 1), several & (room > 2)
    parts = (
        (np.ones(len(room), np.bool_), np.where(several, np.minimum(room, 1), room), 0.0),
        (second, np.ones(len(room), np.int64), 1.0),
        (further, room - 2, 2.0),
    )
    which = np.concatenate([np.flatnonzero(chosen) for chosen, _, _ in parts])
    rooms = np.concatenate([capacity[chosen] for chosen, capacity, _ in parts])
    dearer = np.concatenate([np.full(int(chosen.sum()), times) for chosen, _, times in parts])
    return of_class[which], node[which], rooms, lack[which] + dearer * price[which]


class _SpreadDomains:
    """A node of the network for each domain that a class is spread over."""

    def __init__(self, problem: Problem, first: int) -> None:
        quotas = problem.quotas
        domains = problem.domain_of.max(initial=0), quotas.domain.max(initial=0)
        self._stride = int(max(domains)) + 1
        self._keys = np.unique(quotas.of_class * self._stride + quotas.domain)
        self._first = first
        self._domain_of = problem.domain_of
        self.count = len(self._keys)

    def tails(self, of_class: Ints, node: Ints) -> Ints:
        """Where the arc of each pair begins: at the class, or at its domain of the node."""
        if not self.count:
            return of_class
        domain = self._domain_of[of_class, node]
        return np.where(domain > 0, self._number(of_class, domain), of_class)

    def closed(self, of_class: Ints, node: Ints) -> NDArray[np.bool_]:
        """The pairs whose domain takes no pod of the class: it has no quota there."""
        if not self._domain_of.size:
            return np.zeros(len(node), np.bool_)
        domain = self._domain_of[of_class, node]
        return (domain > 0) & ~np.isin(of_class * self._stride + domain, self._keys)

    def add_quotas(self, arcs: Arcs, problem: Problem, units: Units) -> None:
        """The arcs from classes to their domains."""
        quotas = problem.quotas
        if self.count:
            heavy = units.of_class[quotas.of_class]
            head = self._number(quotas.of_class, quotas.domain)
            cost = per_unit(quotas.points, heavy)
            arcs.add(quotas.of_class, head, quotas.pods * heavy, cost)

    def _number(self, of_class: Ints, domain: Ints) -> Ints:
        found = np.searchsorted(self._keys, of_class * self._stride + domain)
        return self._first + np.minimum(found, self.count - 1)


class _Gates:
    """A node of the network for each node and gate, if classes come by more than one.

    Classes that are bound by a GPU reach a node through what it has of these, and no class
    counts all of them for itself.
    """

    def __init__(self, units: Units, nodes: int, first: int) -> None:
        self._units = units
        self._nodes = nodes
        self._first = first
        self._several = len(units.gates) > 1
        self.count = units.gates.size if self._several else 0

    def heads(self, of_class: Ints, node: Ints, machines: int) -> Ints:
        """Where the arc of each pair ends: at the gate of its class, or at the node itself."""
        if not self._several:
            return machines + node
        return self._first + self._units.gate_of[of_class] * self._nodes + node

    def add(self, arcs: Arcs, machines: int) -> None:
        """The arcs from gates to nodes."""
        if self._several:
            gate = self._first + np.arange(self.count, dtype=np.int64)
            node = machines + np.arange(self.count, dtype=np.int64) % self._nodes
            arcs.add(gate, node, self._units.gates.ravel(), 0)


def _add_segments(arcs: Arcs, problem: Problem, units: Units, sink: int) -> None:
    """What nodes take, in four parts of rising cost, cut finest where the backlog will end."""
    classes, nodes = problem.shape
    room = units.of_node
    demand = float((problem.supplies * units.of_class).sum()) / max(float(room.sum()), 1.0)
    ends = (0.25, 0.5, 0.75, 1.0) if demand >= 0.5 else (demand / 2, demand, 2 * demand, 1.0)
    share = free_share(problem)
    machines = classes + np.arange(nodes, dtype=np.int64)
    begin, taken = 0.0, np.zeros(nodes, np.int64)
    for end in ends:
        upto = np.floor(room * end).astype(np.int64)
        if end == 1.0:
            upto = room
        price = problem.load_price * share * begin
        cost = np.rint(np.minimum(price, MOST_POINTS) * FINENESS / units.mean).astype(np.int64)
        arcs.add(machines, sink, upto - taken, cost)
        begin, taken = end, upto


def _add_leaving(arcs: Arcs, problem: Problem, units: Units, sink: int, worst: float) -> None:
    leaving = problem.leaving
    heavy = units.of_class[leaving.of_class]
    cost = per_unit(worst + leaving.points, heavy)
    arcs.add(leaving.of_class, sink, leaving.pods * heavy, cost)


def free_share(problem: Problem) -> Reals:
    """[M] How much of a node is free: the mean of CPU and memory, by which load is priced."""
    free, allocatable = problem.free[:PRICED], problem.allocatable[:PRICED]
    there = allocatable > 0
    shares = np.divide(free, allocatable, out=np.zeros_like(free), where=there)
    mean: Reals = shares.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return np.clip(mean, 0.0, 1.0)


def per_unit(points: Reals, heavy: Ints) -> Ints:
    """What each unit of a pod costs, so that the pod costs these points."""
    bounded = np.minimum(points, MOST_POINTS)
    return np.rint(bounded * FINENESS / heavy).astype(np.int64)
