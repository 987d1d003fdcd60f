"""The search for nodes where evictions help: which nodes get a dry run, and in which order.

Nodes without room even without all pods of lower priority get none (``screen``). Where filters read
each row alone, many nodes are tried together (``trial``): one run of the filters covers all of
them. Otherwise one node is tried at a time. Between trials the event loop runs; then filters are
prepared again, and deleted nodes are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.preemption.budgets import Budgets
from scheduler.plugins.preemption.screen import Screen, without_room
from scheduler.plugins.preemption.trial import NO_VICTIMS, Outcome, Trial, by_sums, nominated_rows
from scheduler.slices import slices_ended, whole_slice
from scheduler.state.columns import Mask, NodeColumns, Rows

NODES_SCREENED = 512
"""How many nodes are screened first; the number doubles each time."""
MOST_SCREENED = 4096
"""How many are screened at most between two runs of the event loop."""
PODS_IN_STEP = 64
"""How many pods are removed between two runs of the event loop, unless one node has more."""
PODS_IN_SUMS = 256
"""The same where trials only compute sums."""


class _Nodes:
    """Rows with the hashes of their nodes, since a row may get another node later."""

    def __init__(self, rows: Rows, hashes: NDArray[np.uint64]) -> None:
        self.rows = rows
        self._hashes = hashes

    def __len__(self) -> int:
        return len(self.rows)

    def drop_gone(self, columns: NodeColumns) -> None:
        """Drop nodes that were deleted."""
        self._keep(columns.live[self.rows] & (columns.name_hash[self.rows] == self._hashes))

    def put_back(self, others: _Nodes) -> None:
        """Put nodes in front again that were taken."""
        self.rows = np.concatenate((others.rows, self.rows))
        self._hashes = np.concatenate((others._hashes, self._hashes))

    def take(self, chosen: Mask) -> _Nodes:
        """Remove some of the nodes and return them."""
        taken = _Nodes(self.rows[chosen], self._hashes[chosen])
        self._keep(~chosen)
        return taken

    def first(self, count: int) -> Mask:
        """Selects the first nodes."""
        return np.arange(len(self.rows)) < count

    def _keep(self, chosen: Mask) -> None:
        self.rows, self._hashes = self.rows[chosen], self._hashes[chosen]


class Search:
    """The search for nodes where evictions help one pod."""

    def __init__(
        self, handle: Handle, cycle: Cycle, rows: Rows, wanted: Callable[[], bool]
    ) -> None:
        """``wanted`` returns whether the pod still needs a node."""
        self._handle = handle
        self._cycle = cycle
        self._wanted = wanted
        self._began = slices_ended()
        self._version = cycle.state.changes.version
        # Ordered by the hash of names: the same order for all pods, so that outcomes for one pod
        # serve the next.
        hashes = cycle.state.columns.name_hash[rows]
        order = np.argsort(hashes)
        self._unseen = _Nodes(rows[order], hashes[order])
        self._promising = _Nodes(rows[:0], hashes[:0])
        self._screened_next = NODES_SCREENED
        self._rejected = False
        """Whether PreFilter rejects the pod after a change, so that filters are not prepared."""
        self._lost_before: set[int] = set()
        """Rows that changed once during their trial."""

    @property
    def interrupted(self) -> bool:
        """Whether the event loop has run since the search began."""
        return slices_ended() != self._began

    def outcomes(
        self, screen: Screen, budgets: Budgets, notes: Callable[[], dict[int, Outcome]]
    ) -> Iterator[Outcome]:
        """The outcomes on all nodes, lazily; those first that need no dry run.

        Where filters read each row alone, the notes hold outcomes for an equal pod. The event loop
        runs between nodes.
        """
        budgets.compile()
        while self._goes_on() and (len(self._unseen) or len(self._promising)):
            if not len(self._promising):
                yield from self._screened(screen)
                continue
            together = self._handle.run.judges_row_by_row(self._cycle)
            known = notes() if together else {}
            some = self._next(known) if together else self._promising.rows[:1].tolist()
            taken = self._promising.take(self._promising.first(len(some)))
            unknown = [row for row in some if row not in known]
            found = {row: known[row] for row in some if row in known}
            version = self._cycle.state.changes.version
            trial = Trial(self._handle, self._cycle, budgets, unknown, self._look_again)
            tried = dict(zip(unknown, trial.outcomes(), strict=True))
            found.update((row, each) for row, each in tried.items() if each is not None)
            if self._cycle.state.changes.version == version:
                known.update(found)
            if len(found) < len(some):
                self._once_more(taken, {row for row in some if row not in found})
            yield from [found[row] for row in some if row in found]

    def _once_more(self, taken: _Nodes, lost: set[int]) -> None:
        """Try nodes again that changed during their trial, but only once."""
        again = lost - self._lost_before
        self._lost_before |= lost
        taken.drop_gone(self._cycle.state.columns)
        self._promising.put_back(taken.take(np.isin(taken.rows, list(again))))

    def _goes_on(self) -> bool:
        whole_slice()  # some nodes are tried together, which takes most of a slice
        return self._look_again()

    def _look_again(self) -> bool:
        """Drop deleted nodes; False if the pod needs no node any more."""
        state = self._cycle.state
        if self._rejected:
            return False
        if state.changes.version == self._version:
            return not self.interrupted or self._wanted()
        self._version = state.changes.version
        self._unseen.drop_gone(state.columns)
        self._promising.drop_gone(state.columns)
        if not self._wanted():
            return False
        self._rejected = not self._handle.run.prepare(self._cycle)
        return not self._rejected

    def _next(self, known: Mapping[int, Outcome]) -> list[int]:
        """The next rows: those with known outcomes, or those that are tried together."""
        rows: list[int] = self._promising.rows.tolist()
        if rows[0] in known:
            return list(takewhile(known.__contains__, rows))
        pods, pod_count = 0, self._cycle.state.columns.pod_count
        nominated = nominated_rows(self._cycle)
        in_sums = by_sums(self._handle, self._cycle, rows[:1])
        most = PODS_IN_SUMS if in_sums else PODS_IN_STEP
        some: list[int] = []
        for row in rows:
            pods += int(pod_count[row])
            if some and (row in known or pods > most or (in_sums and row in nominated)):
                break
            some.append(row)
        return some

    def _screened(self, screen: Screen) -> list[Outcome]:
        """Screen some more nodes: outcomes where evictions cannot help; the rest is tried."""
        some = self._unseen.take(self._unseen.first(self._screened_next))
        self._screened_next = min(2 * self._screened_next, MOST_SCREENED)
        above = screen.above(self._cycle.pod.priority, some.rows)
        if not self._look_again():
            return []
        some.drop_gone(self._cycle.state.columns)
        alone = len(some.take(above.lower[some.rows] == 0))
        outcomes = [Outcome(NO_VICTIMS, 0, alone)] if alone else []
        if len(some):
            hopeless, lacking = without_room(self._handle, self._cycle, above, some.rows)
            some.take(hopeless)
            outcomes += [Outcome(status, 0, nodes) for status, nodes in lacking.items()]
        self._promising = some
        return outcomes
