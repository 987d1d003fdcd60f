"""Which nodes have no room even without all pods of lower priority: most of them, cheaply.

For each priority it is kept what pods of that priority and above request of each row.
NodeResourcesFit is asked once about all rows as they would be, and what it rejects needs no dry
run. The other filters run along on rows that still have all their pods, so what they say there
counts for nothing.
"""

from __future__ import annotations

import numpy as np

from scheduler.equivalence.reads import Reads
from scheduler.equivalence.verdicts import Reader
from scheduler.framework.cycle import Cycle
from scheduler.framework.interface import Handle
from scheduler.model.status import Status
from scheduler.plugins.names import NODE_RESOURCES_FIT
from scheduler.slices import checkpoint, slices_ended
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Mask, Rows, Scores
from scheduler.state.scratch import as_if_requested

MAX_PRIORITIES = 8
_READS = Reads(rows=frozenset({Aspect.REQUESTED}))


class Screen:
    """What is requested of rows without pods of lower priority, for few priorities at a time."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._kept: dict[int, Above] = {}

    def above(self, priority: int, rows: Rows) -> Above:
        """What pods of a priority and above take of these rows, true until the next checkpoint.

        Costs the pods on rows that have changed since they were last asked about. Gives the loop
        back, so some of the rows may be those of other nodes afterwards.
        """
        while True:
            above = self._kept.pop(priority, None)
            if above is None or not above.shaped_like(self._state):
                above = Above(self._state, priority)
            self._kept[priority] = above  # last in the dict: most recently used
            if len(self._kept) > MAX_PRIORITIES:
                del self._kept[next(iter(self._kept))]
            if above.refresh(rows):
                return above


class Above:
    """The sums for one priority, of rows that somebody has asked about."""

    def __init__(self, state: ClusterState, priority: int) -> None:
        self._state = state
        self._priority = priority
        self._reader = Reader(state.changes, _READS)
        self._stale: Mask = np.ones(state.columns.capacity, np.bool_)
        self.requested: Scores = np.zeros_like(state.columns.requested)
        self.pod_count: Scores = np.zeros_like(state.columns.pod_count)
        self.lower: Scores = np.zeros_like(state.columns.pod_count)
        """How many pods of a row are of lower priority."""

    def shaped_like(self, state: ClusterState) -> bool:
        """Whether there are columns for all rows and resources that there are now."""
        return self.requested.shape == state.columns.requested.shape

    def refresh(self, rows: Rows) -> bool:
        """Count those of the rows again that have changed; False if that can no longer be told."""
        while True:
            touched = self._reader.news()
            if not self.shaped_like(self._state):
                return False
            self._stale[slice(None) if touched is None else touched] = True
            stale = rows[self._stale[rows]]
            if not len(stale):
                return True
            for row in stale.tolist():
                self._stale[row] = False
                self._count(row)
                before = slices_ended()
                checkpoint()
                if slices_ended() != before:
                    break

    def _count(self, row: int) -> None:
        state, columns = self._state, self._state.columns
        pods = state.pods_on(state.name(row)) if columns.live[row] else []
        lower = [pod for pod in pods if pod.priority < self._priority]
        self.lower[row] = len(lower)
        self.pod_count[row] = columns.pod_count[row] - len(lower)
        self.requested[:, row] = columns.requested[:, row]
        for pod in lower:
            for resource, amount in pod.requests.items():
                index = columns.resources.find(resource)
                if index is not None:
                    self.requested[index, row] -= amount


def without_room(
    handle: Handle, cycle: Cycle, above: Above, rows: Rows
) -> tuple[Mask, dict[Status, int]]:
    """The rows on which the pod lacks something even without lower pods; how many lack what.

    Rows that have nominated pods are left to the dry run: filters judge each of them twice.
    """
    state = cycle.state
    named = [state.row(node) for node in state.nominations.nodes()]
    single: Mask = ~np.isin(rows, [row for row in named if row is not None])
    codes: Codes = np.zeros(len(rows), np.int32)
    with as_if_requested(state, above.requested, above.pod_count):
        codes[single] = handle.filter(cycle, rows[single])
    distinct, counts = np.unique(codes, return_counts=True)
    lacking = {
        code: count
        for code, count in zip(distinct.tolist(), counts.tolist(), strict=True)
        if code and state.statuses.status(code).plugin == NODE_RESOURCES_FIT
    }
    hopeless: Mask = np.isin(codes, list(lacking))
    return hopeless, {state.statuses.status(code): count for code, count in lacking.items()}
