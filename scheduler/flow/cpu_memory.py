"""The cost model `CpuMemory`: the network of the published design, for small and medium clusters.

::

    class ── cost rises with i ──► i-th place on a node ──► node ──► sink
      └────────── left without a node ────────────────────────────►

Each unit of a node's capacity is a *machine class* with one place, shared by all task classes, and
the arc to the i-th of them costs what the node's load would be with i pods more: so pods spread. An
arc is drawn only where all hard constraints hold. Weights of preferred terms make it cheaper, and
1000 keeps it positive. There is an arc for every class and place, so it does not scale; and
places are counted for each class alone, so classes that share a node may ask for more than it has:
what comes out is verified like everything else.
"""

from __future__ import annotations

import msgspec
import numpy as np
import xxhash

from scheduler.flow.network import Arcs
from scheduler.flow.problem import UNFIT, Ints, Problem, Reals
from scheduler.flow.scores import Drawn
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, MEMORY

OMEGA = 1000
"""The cost of a full node, and what is added to keep costs with preferences positive."""

MOST_PLACES = 50
"""Places of one node that get arcs in one round."""


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


def draw(problem: Problem) -> Drawn:
    """The design's network."""
    classes, nodes = problem.shape
    places = np.where(problem.scores == UNFIT, 0, problem.fit)
    places = np.minimum(np.minimum(places, problem.supplies[:, np.newaxis]), problem.slots)
    places = np.minimum(places, MOST_PLACES)
    most = places.max(axis=0, initial=0)
    offset = np.concatenate(([0], np.cumsum(most)))
    first = classes + nodes
    sink = first + int(offset[-1])
    of_class, node, index = _each_place(places)
    arcs = Arcs()
    cost = arc_cost(problem, of_class, node, index)
    one = np.ones(len(cost), np.int64)
    pairs = arcs.add(of_class, first + offset[node] + index, one, cost)
    machine = np.repeat(np.arange(nodes, dtype=np.int64), most)
    arcs.add(first + np.arange(int(offset[-1])), classes + machine, np.ones(len(machine), int), 0)
    arcs.add(classes + np.arange(nodes), sink, most, 0)
    leaving = problem.leaving
    dearest = int(cost.max(initial=0))
    price = dearest + np.rint(leaving.points).astype(np.int64)
    arcs.add(leaving.of_class, sink, leaving.pods, price)
    supply = np.zeros(sink + 1, np.int64)
    supply[:classes] = problem.supplies
    supply[sink] = -supply.sum()
    return Drawn(arcs.network(supply), pairs, of_class, node, np.ones(classes, np.int64), most)


def arc_cost(problem: Problem, of_class: Ints, node: Ints, index: Ints) -> Ints:
    """What the i-th further pod of a class costs on a node, counted from 0."""
    more = (index + 1)[:, np.newaxis] * problem.requests[of_class]
    load = (problem.allocatable - problem.free).T[node] + more
    there = problem.allocatable.T[node]
    shares: Reals = np.divide(load, there, out=np.ones_like(load), where=there > 0)
    cost = np.rint(shares.mean(axis=1) * OMEGA).astype(np.int64)
    if problem.soft.size:
        prefers = problem.preferring[of_class] > 0
        cost += np.where(prefers, OMEGA - problem.soft[of_class, node], 0)
    positive: Ints = np.maximum(cost, 0)
    return positive


def _each_place(places: Ints) -> tuple[Ints, Ints, Ints]:
    """Class, node and number of every place, from how many each pair has."""
    of_class, node = np.nonzero(places)
    counts = places[of_class, node]
    begins = np.cumsum(counts) - counts
    index = np.arange(int(counts.sum())) - np.repeat(begins, counts)
    return np.repeat(of_class, counts), np.repeat(node, counts), index
