"""Resources as one quantity that flows: units of the dominant share.

A network carries one quantity, pods take several. So a pod weighs what it takes of the scarcest of
its resources, as a share of all that is free in the cluster, in units of which the largest pod has
200: less is too coarse, more gains nothing. What a node takes is its share of each resource, each
counting as much as the backlog is bound by it. The result fits on average and not always, so every
placement is verified afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.flow.problem import Ints, Problem, Reals

RESOLUTION = 200
_ALIKE = 1.01


class Units(NamedTuple):
    """What pods weigh and nodes take, in the quantity that flows."""

    of_class: Ints
    """[E] Of one pod."""
    of_node: Ints
    """[M] What is free."""
    mean: float
    """Of a pod of the backlog."""


def measure(problem: Problem) -> Units:
    """Weigh pods and nodes."""
    total = problem.free.sum(axis=1)
    counted = total > 0
    shares = problem.requests[:, counted] / total[counted]
    dominant = shares.max(axis=1, initial=0.0)
    largest = float(dominant.max(initial=0.0))
    if not largest:  # nobody asks for anything: pods are limited by their number alone
        one: Ints = np.ones(len(dominant), np.int64)
        return Units(one, problem.slots, 1.0)
    smallest = float(dominant.min())
    quantum = largest / (1 if smallest * _ALIKE >= largest else RESOLUTION)
    of_class = np.maximum(np.rint(dominant / quantum), 1).astype(np.int64)
    mean = max(float((of_class * problem.supplies).sum() / max(problem.supplies.sum(), 1)), 1.0)
    free = problem.free[counted] / total[counted, np.newaxis]
    volume = _bound_by(shares, dominant * problem.supplies)
    of_node = np.floor(volume @ free / quantum + 1e-9)
    crowd = np.floor(problem.slots * mean)
    return Units(of_class, np.minimum(of_node, crowd).astype(np.int64), mean)


def _bound_by(shares: Reals, volume: Reals) -> Reals:
    """[R] The part of the backlog's volume whose scarcest resource this is."""
    parts = np.zeros(shares.shape[1])
    np.add.at(parts, shares.argmax(axis=1), volume)
    sum_ = parts.sum()
    return parts / sum_ if sum_ else np.full(len(parts), 1 / max(len(parts), 1))
