"""Scores from how much of a node's resources would be taken.

Integer division truncates as kube-scheduler's does: totals must agree to the last point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.config.plugin_args import ResourceSpec, ScoringStrategy
from scheduler.model.resources import CPU, MEMORY, Amounts, is_scalar
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import MAX_SCORE
from scheduler.state.columns import Mask, Rows, Scores, where

Amount = NDArray[np.int64]


class ShareScore(Protocol):
    """A scoring strategy for one resource of one row, where that is all there is to it."""

    def __call__(self, requested: int, capacity: int) -> int:
        """The score of the resource; capacity is positive."""
        ...


class ResourceScore(Protocol):
    """A scoring strategy: from (resource, row) amounts to a score per row."""

    def __call__(
        self, requested: Amount, capacity: Amount, weights: Amount, counted: Mask
    ) -> Scores:
        """``counted`` marks the resources that exist on a row; capacity is positive there."""
        ...


_BASIC = {CPU: 0, MEMORY: 1}


class AllocationScorer:
    """Gathers what a strategy needs for its resources, and asks it."""

    def __init__(self, resources: Sequence[ResourceSpec], strategy: ResourceScore) -> None:
        self._resources = resources
        self._strategy = strategy
        self._kinds = [
            (spec.name, is_scalar(spec.name), _BASIC.get(spec.name), spec.weight)
            for spec in resources
        ]
        """Name, whether it is scalar, its place among the amounts that have defaults, weight."""
        self._weights = np.array([[spec.weight] for spec in resources], np.int64)

    def score(self, cycle: Cycle, rows: Rows, requests: Amounts, *, nonzero: bool) -> Scores:
        """The strategy's score per row, with the pod on it.

        ``nonzero`` counts pods without requests with the default amounts of cpu and memory.
        """
        taken, capacity = self.gather(cycle, rows, requests, nonzero=nonzero)
        asked = np.array([[requests.get(spec.name, 0)] for spec in self._resources], np.int64)
        return self._strategy(taken + asked, capacity, self._weights, capacity > 0)

    def score_one(
        self, cycle: Cycle, row: int, requests: Amounts, share: ShareScore, *, nonzero: bool
    ) -> int:
        """The same for one row, by a strategy that takes the mean of its resources' scores."""
        columns = cycle.state.columns
        total = weight = 0
        for name, scalar, basic, each in self._kinds:
            index = columns.resources.find(name)
            asked = requests.get(name, 0)
            if index is None or (scalar and not asked):
                continue
            capacity = columns.allocatable.item(index, row)
            if capacity:
                if nonzero and basic is not None:
                    taken = columns.nonzero.item(basic, row)
                else:
                    taken = columns.requested.item(index, row)
                total += each * share(taken + asked, capacity)
                weight += each
        return total // max(weight, 1)

    def gather(
        self, cycle: Cycle, rows: Rows, requests: Amounts, *, nonzero: bool
    ) -> tuple[Amount, Amount]:
        """What is taken and what there is, (resource, row); zero capacity where it does not count.

        Scalar resources that the pod does not request do not count.
        """
        columns = cycle.state.columns
        shape, at = (len(self._resources), len(rows)), where(rows)
        taken, capacity = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for i, (name, scalar, basic, _) in enumerate(self._kinds):
            index = columns.resources.find(name)
            if index is None or (scalar and not requests.get(name)):
                continue
            capacity[i] = columns.allocatable[index][at]
            source = (
                columns.nonzero[basic]
                if nonzero and basic is not None
                else columns.requested[index]
            )
            taken[i] = source[at]
        return taken, capacity


def least_allocated(requested: Amount, capacity: Amount, weights: Amount, counted: Mask) -> Scores:
    """The share that stays free, averaged by weight: spreads pods."""
    free = np.maximum(capacity - requested, 0)
    return _weighted_mean(_share(free, capacity), weights, counted)


def most_allocated(requested: Amount, capacity: Amount, weights: Amount, counted: Mask) -> Scores:
    """The share that is taken, averaged by weight: packs pods."""
    used = np.minimum(requested, capacity)
    return _weighted_mean(_share(used, capacity), weights, counted)


def least_allocated_share(requested: int, capacity: int) -> int:
    """`least_allocated` for one resource of one row."""
    return max(capacity - requested, 0) * MAX_SCORE // capacity


def most_allocated_share(requested: int, capacity: int) -> int:
    """`most_allocated` for one resource of one row."""
    return min(requested, capacity) * MAX_SCORE // capacity


def requested_to_capacity_ratio(strategy: ScoringStrategy) -> ResourceScore:
    """A piecewise linear function of utilization, averaged by weight over resources above zero."""
    ratio = strategy.requested_to_capacity_ratio
    points = ratio.shape if ratio else ()
    # Shape scores run to 10, node scores to 100.
    curve = _broken_line([(point.utilization, point.score * 10) for point in points])

    def score(requested: Amount, capacity: Amount, weights: Amount, counted: Mask) -> Scores:
        utilization = np.where(
            requested > capacity, MAX_SCORE, _share(np.minimum(requested, capacity), capacity)
        )
        scores = curve[utilization]
        positive = counted & (scores > 0)
        total = np.where(positive, scores * weights, 0).sum(axis=0)
        weight = np.where(positive, weights, 0).sum(axis=0)
        # The only strategy that rounds, half away from zero; scores are never negative.
        mean = total / np.maximum(weight, 1)
        return np.where(weight > 0, np.floor(mean + 0.5).astype(np.int64), 0)

    return score


def _broken_line(points: Sequence[tuple[int, int]]) -> Scores:
    """The function through the points at every utilization of 0..100, flat beyond its ends."""
    values = np.zeros(MAX_SCORE + 1, np.int64)
    for p in range(MAX_SCORE + 1):
        values[p] = points[-1][1] if points else 0
        for i, (x, y) in enumerate(points):
            if p <= x:
                if i == 0:
                    values[p] = y
                else:
                    x0, y0 = points[i - 1]
                    values[p] = y0 + _truncated((y - y0) * (p - x0), x - x0)
                break
    return values


def _truncated(numerator: int, denominator: int) -> int:
    """Integer division towards zero, which matters on falling lines."""
    quotient = abs(numerator) // denominator
    return quotient if numerator >= 0 else -quotient


def _share(part: Amount, whole: Amount) -> Scores:
    return part * MAX_SCORE // np.maximum(whole, 1)


def _weighted_mean(scores: Scores, weights: Amount, counted: Mask) -> Scores:
    mean: Scores
    if counted.all():  # nearly always, and dividing by one number is much cheaper
        mean = _sum(scores * weights) // max(int(weights.sum()), 1)
        return mean
    weight = _sum(np.where(counted, weights, 0))
    mean = _sum(np.where(counted, scores * weights, 0)) // np.maximum(weight, 1)
    return mean


def _sum(parts: Amount) -> Amount:
    """The sum over resources; there are few, and NumPy is slow along so short an axis."""
    total: Amount = np.zeros(parts.shape[1], np.int64)
    for part in parts:
        total += part
    return total
