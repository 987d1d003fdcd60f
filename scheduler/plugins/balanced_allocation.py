"""NodeResourcesBalancedAllocation: prefer nodes whose resources would be used evenly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler.config.plugin_args import CPU_AND_MEMORY, NodeResourcesBalancedAllocationArgs
from scheduler.equivalence.reads import Key, Reads
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, MEMORY
from scheduler.model.status import SKIP, SUCCESS, Status
from scheduler.plugin_api import MAX_SCORE, Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.allocation import AllocationScorer, Amount, least_allocated
from scheduler.plugins.names import BALANCED_ALLOCATION
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Mask, Rows, Scores


class NodeResourcesBalancedAllocation:
    """Scores what the pod does to the balance, so an already uneven node is not held against it."""

    name = BALANCED_ALLOCATION
    traits = PluginTraits(absolute=True)
    score_reads = Reads(rows=frozenset({Aspect.ALLOCATABLE, Aspect.REQUESTED}), claims=False)

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        self._resources = (args and args.resources) or CPU_AND_MEMORY
        names = tuple(spec.name for spec in self._resources)
        self._pair = names if set(names) == {CPU, MEMORY} else None
        self._gatherer = AllocationScorer(self._resources, least_allocated)

    def score_key(self, pod: PodInfo) -> Key:
        """Its requests; a pod that requests none of the resources changes no balance."""
        asked = tuple(pod.requests.get(spec.name, 0) for spec in self._resources)
        return asked if any(asked) else None

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status:
        """Skip pods that change no balance."""
        return SKIP if self.score_key(cycle.pod) is None else SUCCESS

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """50 for the worst change of balance, 75 for none, 100 for the best."""
        requests = cycle.pod.requests
        taken, capacity = self._gatherer.gather(cycle, rows, requests, nonzero=False)
        asked = np.array([[requests.get(spec.name, 0)] for spec in self._resources], np.int64)
        counted = capacity > 0
        whole = np.maximum(capacity, 1).astype(np.float64)
        change = _evenness(taken + asked, whole, counted) - _evenness(taken, whole, counted)
        half = MAX_SCORE // 2
        return half + (half + change) // 2

    def score_one(self, cycle: Cycle, row: int) -> int:
        """The same for one row, if it is about two resources that every node has."""
        columns, requests = cycle.state.columns, cycle.pod.requests
        before, after = [], []
        for name in self._pair or ():
            index = columns.resources.find(name)
            if index is None or not (capacity := columns.allocatable.item(index, row)):
                break
            taken = columns.requested.item(index, row)
            before.append(min(taken / capacity, 1.0))
            after.append(min((taken + requests.get(name, 0)) / capacity, 1.0))
        if len(after) < 2:
            return int(self.score(cycle, np.array([row]))[0])
        half = MAX_SCORE // 2
        return half + (half + _evenness_of_two(*after) - _evenness_of_two(*before)) // 2

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Scores lie within 50..100 already."""
        return scores


def _evenness(taken: Amount, whole: NDArray[np.float64], counted: Mask) -> Scores:
    """100 minus the standard deviation of the used shares, in percent, truncated."""
    shares = np.minimum(taken / whole, 1.0)
    deviation = _deviation(np.where(counted, shares, 0.0), counted)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _evenness_of_two(one: float, other: float) -> int:
    """`_evenness` for two shares."""
    return int((1 - abs((one - other) / 2)) * MAX_SCORE)


def _deviation(shares: NDArray[np.float64], counted: Mask) -> NDArray[np.float64]:
    """The population standard deviation over the counted resources of each row.

    Summed in the order of the resources, and for two of them as half their distance: the same
    arithmetic as kube-scheduler's, so that truncation falls the same way.
    """
    if len(shares) == 2:
        return np.where(counted.all(axis=0), np.abs((shares[0] - shares[1]) / 2), 0.0)
    number = counted.sum(axis=0)
    mean = _sum(shares) / np.maximum(number, 1)
    distances = np.where(counted, shares - mean, 0.0)
    deviation = np.sqrt(_sum(distances * distances) / np.maximum(number, 1))
    # Where two of more resources count, the largest and the smallest share are those two.
    largest = np.where(counted, shares, 0.0).max(axis=0)
    smallest = np.where(counted, shares, 1.0).min(axis=0)
    halved = np.abs((largest - smallest) / 2)
    return np.where(number == 2, halved, np.where(number > 2, deviation, 0.0))


def _sum(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """A sum in the order given; NumPy's own may pair the terms differently."""
    total = np.zeros(parts.shape[1])
    for part in parts:
        total += part
    return total
