"""Resources as one quantity that flows: units of the dominant share.

A network carries one quantity, pods take several. So a pod weighs what it takes of the scarcest of
its resources, as a share of all that is free in the cluster, in units of which the largest pod has
200: less is too coarse, more gains nothing. Pods come to a node by *gates*, one for each resource
that is the scarcest for some of them, and a gate takes what the node has of its resource. CPU and
memory, of which every pod takes some, share one gate: it takes the node's share of both, each
counting as much as the backlog is bound by it. The result fits on average and not always, so every
placement is verified afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.flow.problem import PRICED, Ints, Problem, Reals

RESOLUTION = 200
_ALIKE = 1.01


class Units(NamedTuple):
    """What pods weigh and nodes take, in the quantity that flows."""

    of_class: Ints
    """[E] Of one pod."""
    mean: float
    """Of a pod of the backlog."""
    gate_of: Ints
    """[E] The gate by which a class reaches nodes: 0 if it is bound by CPU or memory."""
    gates: Ints
    """[G, M] What a node takes by each gate."""
    weights: Reals
    """[R] How much each resource counts for what the gate 0 takes; 0 beyond CPU and memory."""
    sizes: Reals
    """[R] How much of a resource is one unit."""
    resources: Ints
    """[G - 1] The resources of the other gates."""

    @property
    def of_node(self) -> Ints:
        """[M] What a node takes in all."""
        total: Ints = self.gates.sum(axis=0)
        return total

    def takes(self, free: Reals) -> Ints:
        """[G, M] What gates take if so much of each resource is free."""
        amounts = np.maximum(free, 0.0) / self.sizes[:, np.newaxis]
        units = np.vstack((self.weights @ amounts, amounts[self.resources]))
        found: Ints = np.floor(units + 1e-9).astype(np.int64)
        return found


def measure(problem: Problem) -> Units:
    """Weigh pods and nodes."""
    total = problem.free.sum(axis=1)
    counted = np.where(total > 0, total, np.inf)
    shares = problem.requests / counted
    dominant = shares.max(axis=1, initial=0.0)
    largest = float(dominant.max(initial=0.0))
    if not largest:  # no pod requests anything: pods are limited by their number alone
        one: Ints = np.ones(len(dominant), np.int64)
        none: Ints = np.zeros(len(dominant), np.int64)
        nothing = np.zeros(len(total))
        return Units(one, 1.0, none, problem.slots[np.newaxis], nothing, counted, none[:0])
    smallest = float(dominant.min())
    quantum = largest / (1 if smallest * _ALIKE >= largest else RESOLUTION)
    of_class = np.maximum(np.rint(dominant / quantum), 1).astype(np.int64)
    mean = max(float((of_class * problem.supplies).sum() / max(problem.supplies.sum(), 1)), 1.0)
    bound_by = shares.argmax(axis=1)
    resources = np.unique(bound_by[bound_by >= PRICED])
    gate_of = np.where(bound_by < PRICED, 0, np.searchsorted(resources, bound_by) + 1)
    weights = _weights(bound_by, dominant * problem.supplies, len(total))
    units = Units(
        of_class, mean, gate_of, problem.slots[np.newaxis], weights, counted * quantum, resources
    )
    crowd = np.floor(problem.slots * mean).astype(np.int64)
    return units._replace(gates=np.minimum(units.takes(problem.free), crowd))


def _weights(bound_by: Ints, volume: Reals, resources: int) -> Reals:
    """[R] The part of the volume of classes bound by CPU or memory that is bound by each."""
    parts = np.zeros(resources)
    general = bound_by < PRICED
    np.add.at(parts, bound_by[general], volume[general])
    sum_ = parts.sum()
    if not sum_:
        parts[:PRICED] = 1.0
        sum_ = parts.sum()
    weights: Reals = parts / sum_
    return weights
