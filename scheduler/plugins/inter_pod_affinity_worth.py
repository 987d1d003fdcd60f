"""What each row is worth to a pod's preferences, where every node is a domain of its own.

Between two pods with the same preferences, pods have come to a row or two. So the numbers are kept
for the preferences that were asked about last, and only rows that have changed are added up again.
"""

from __future__ import annotations

import numpy as np

from scheduler.bounded import Usage
from scheduler.equivalence.reads import Reads
from scheduler.equivalence.verdicts import ChangeReader
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Scores
from scheduler.state.podindex import PodCounter, TermCounter

Counter = PodCounter | TermCounter
"""Where some pods are, by row."""
Counted = tuple[tuple[int, Counter], ...]
"""What each pod of a counter is worth, and the counter."""

_KEPT = 8
_FEW_COUNTERS = 32
"""The sums of more counters are not kept: counters that were dropped would be kept with them."""
_FEW_CHANGES = 16
"""After more changes than that the sums are made anew: with arrays, that takes less time."""
_READS = Reads(rows=frozenset({Aspect.PODS}))


class WorthByRow:
    """The sums of the weights of pods on each row, for the sets of counters asked about last.

    A counter that was dropped is never asked about again: a new one takes its place.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._kept: dict[Counted, tuple[ChangeReader, Scores]] = {}

    def of(self, counted: Counted) -> Scores:
        """What each row is worth; valid until the state changes, and not to be changed."""
        if self._state.changes.on_trial or len(counted) > _FEW_COUNTERS:
            return self._sum(counted)  # no log tells what a trial changes
        known = self._kept.pop(counted, None)
        reader = known[0] if known is not None else ChangeReader(self._state, _READS)
        touched = reader.news()
        few = touched is not None and len(touched) <= _FEW_CHANGES
        if known is None or not few or len(known[1]) != self._state.columns.capacity:
            numbers = self._sum(counted)
        else:
            numbers = known[1]
            for row in touched or ():
                numbers[row] = sum([weight * counter.at(row) for weight, counter in counted])
        self._kept[counted] = reader, numbers  # last in the dict: most recently used
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return numbers

    def _sum(self, counted: Counted) -> Scores:
        worth: Scores = np.zeros(self._state.columns.capacity, np.int64)
        for weight, counter in counted:
            counter.add_to(worth, weight)
        return worth

    def usage(self) -> Usage:
        """How much is kept."""
        return Usage(len(self._kept), sum(numbers.nbytes for _, numbers in self._kept.values()))
