"""NodeResourcesBalancedAllocation: prefer nodes whose resources would be used evenly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.config.plugin_args import CPU_AND_MEMORY, NodeResourcesBalancedAllocationArgs
from scheduler.framework.cycle import Cycle
from scheduler.framework.interface import MAX_SCORE, Handle
from scheduler.model.status import SKIP, SUCCESS, Status
from scheduler.plugins.allocation import AllocationScorer, Amount, least_allocated
from scheduler.plugins.names import BALANCED_ALLOCATION
from scheduler.state.columns import Rows, Scores


class NodeResourcesBalancedAllocation:
    """Scores what the pod does to the balance, so an already uneven node is not held against it."""

    name = BALANCED_ALLOCATION

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        self._resources = (args and args.resources) or CPU_AND_MEMORY
        self._gatherer = AllocationScorer(self._resources, least_allocated)

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status:
        """A pod that asks for none of the resources changes no balance."""
        asks = any(cycle.pod.requests.get(spec.name) for spec in self._resources)
        return SUCCESS if asks else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """50 for the worst change of balance, 75 for none, 100 for the best."""
        requests = cycle.pod.requests
        taken, capacity = self._gatherer.gather(cycle, rows, requests, nonzero=False)
        asked = np.array([[requests.get(spec.name, 0)] for spec in self._resources], np.int64)
        change = _evenness(taken + asked, capacity) - _evenness(taken, capacity)
        half = MAX_SCORE // 2
        return half + (half + change) // 2

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Scores lie within 50..100 already."""
        return scores


def _evenness(taken: Amount, capacity: Amount) -> Scores:
    """100 minus the standard deviation of the used shares, in percent, truncated."""
    counted = capacity > 0
    shares = np.minimum(taken / np.maximum(capacity, 1), 1.0)
    deviation = _deviation(np.where(counted, shares, 0.0), counted)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _deviation(shares: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The population standard deviation over the counted resources of each row.

    Summed in the order of the resources, and for two of them as half their distance: the same
    arithmetic as kube-scheduler's, so that truncation falls the same way.
    """
    number = counted.sum(axis=0)
    total = np.zeros(shares.shape[1])
    for share in shares:
        total += share
    mean = total / np.maximum(number, 1)
    squares = np.zeros(shares.shape[1])
    for share, counts in zip(shares, counted, strict=True):
        squares += np.where(counts, (share - mean) * (share - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(number, 1))
    # Of two resources, the sum of both minus twice the smaller is their distance.
    largest = np.where(counted, shares, -np.inf).max(axis=0)
    smallest = np.where(counted, shares, np.inf).min(axis=0)
    with np.errstate(invalid="ignore"):
        halved = np.abs((largest - smallest) / 2)
    return np.where(number == 2, halved, np.where(number > 2, deviation, 0.0))
