"""Finds nodes without room even without all pods of lower priority, before any dry run.

For each priority, the screen keeps what pods of that priority and above request of each row.
NodeResourcesFit filters all rows with these sums once, and rows that it rejects need no dry run.
The other filters see rows that still have all their pods, so their verdicts do not count.
"""

from __future__ import annotations

import numpy as np

from scheduler.equivalence.reads import Reads
from scheduler.equivalence.verdicts import ChangeReader
from scheduler.model.status import Status
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.names import NODE_RESOURCES_FIT
from scheduler.slices import checkpoint, slices_ended
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Mask, Rows, Scores
from scheduler.state.scratch import as_if_requested

MAX_PRIORITIES = 8
_READS = Reads(rows=frozenset({Aspect.REQUESTED}))


class Screen:
    """The requests of rows without pods of lower priority, for ``MAX_PRIORITIES`` at a time."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._kept: dict[int, Above] = {}

    def above(self, priority: int, rows: Rows) -> Above:
        """What pods of a priority and above request of these rows, valid until the next checkpoint.

        Costs the pods on rows that changed since the last call. The event loop may run meanwhile,
        so that some rows may hold other nodes afterwards.
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
    """The sums for one priority, of rows that were screened."""

    def __init__(self, state: ClusterState, priority: int) -> None:
        self._state = state
        self._priority = priority
        self._reader = ChangeReader(state, _READS)
        self._stale: Mask = np.ones(state.columns.capacity, np.bool_)
        self._generation = state.columns.resources.generation
        self.requested: Scores = np.zeros_like(state.columns.requested)
        self.pod_count: Scores = np.zeros_like(state.columns.pod_count)
        self.lower: Scores = np.zeros_like(state.columns.pod_count)
        """How many pods of a row have lower priority."""

    def shaped_like(self, state: ClusterState) -> bool:
        """Whether the sums have the columns of the state, and in the same order."""
        columns = state.columns
        return (
            self.requested.shape == columns.requested.shape
            and self._generation == columns.resources.generation
        )

    def refresh(self, rows: Rows) -> bool:
        """Count the changed ones of the rows again; False if the columns have another shape now."""
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
    """Rows without room even without pods of lower priority, and how many have which status.

    Rows with nominated pods are left to the dry run: filters run twice there.
    """
    state = cycle.state
    named = [state.row(node) for node in state.nominations.nodes()]
    single: Mask = ~np.isin(rows, [row for row in named if row is not None])
    codes: Codes = np.zeros(len(rows), np.int32)
    with as_if_requested(state, above.requested, above.pod_count):
        codes[single] = handle.run.filter(cycle, rows[single])
    distinct, counts = np.unique(codes, return_counts=True)
    lacking = {
        code: count
        for code, count in zip(distinct.tolist(), counts.tolist(), strict=True)
        if code and state.statuses.status(code).plugin == NODE_RESOURCES_FIT
    }
    hopeless: Mask = np.isin(codes, list(lacking))
    return hopeless, {state.statuses.status(code): count for code, count in lacking.items()}
