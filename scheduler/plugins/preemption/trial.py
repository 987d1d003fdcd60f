"""The dry run: which pods of lower priority must be evicted for a pod to fit on some nodes.

All of them are removed. If the pod fits then, they are restored one after the other, highest
priority first, and those that leave no room for it are the victims. Where filters read only the
requests of a row, sums are computed and the state is not changed. Otherwise the state itself is
changed, which no other task may see: so after some turns it is restored, the event loop runs, and
the pods that were out are removed again, together (``state/bundle``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, unresolvable
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.preemption.budgets import Budgets
from scheduler.plugins.preemption.candidates import Candidate, importance
from scheduler.slices import checkpoint
from scheduler.state.bundle import PodBundle
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows
from scheduler.state.interning import StatusTable
from scheduler.state.scratch import as_if_rows_requested

TURNS_IN_STEP = 16
"""How many pods of a node are restored between two runs of the event loop."""
MOST_TURNS = 64
"""How many at most. The more bookings it takes to remove what is out, the more turns are taken for
it, so that all steps together cost as much as the turns do."""
BOOKINGS_PER_TURN = 8
NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


def lower_pods(cycle: Cycle, node: str) -> list[PodInfo]:
    """The pods on a node with lower priority than the pod, highest priority first."""
    pods = (pod for pod in cycle.state.pods_on(node) if pod.priority < cycle.pod.priority)
    return sorted(pods, key=importance)


class Outcome(NamedTuple):
    """The outcome of a trial on one node, or of screening nodes with the same shortage."""

    result: Candidate | Status
    effort: int
    """Its cost, in pods removed and restored."""
    nodes: int = 1
    """How many nodes it holds for."""


class _Changes(Protocol):
    """Removes pods from nodes for a while."""

    def remove(self, pod: PodInfo) -> None:
        """Remove a pod from its node."""
        ...

    def restore(self, pod: PodInfo) -> None:
        """Restore a pod that was removed."""
        ...


class _Sums:
    """The requests of some rows without some pods."""

    def __init__(self, state: ClusterState, rows: Sequence[int]) -> None:
        self._state = state
        self._columns = {row: column for column, row in enumerate(rows)}
        self._requested = state.columns.requested[:, rows]
        self._pod_count = state.columns.pod_count[rows]

    def remove(self, pod: PodInfo) -> None:
        self._count(pod, -1)

    def restore(self, pod: PodInfo) -> None:
        self._count(pod, 1)

    def shown(self, rows: Rows) -> AbstractContextManager[None]:
        """Have the state show these sums."""
        columns = [self._columns[row] for row in rows.tolist()]
        requested, pod_count = self._requested[:, columns], self._pod_count[columns]
        return as_if_rows_requested(self._state, rows, requested, pod_count)

    def _count(self, pod: PodInfo, sign: int) -> None:
        row, find = self._state.row(pod.node_name), self._state.columns.resources.find
        if row is None:
            return
        column = self._columns[row]
        self._pod_count[column] += sign
        for resource, amount in pod.requests.items():
            index = find(resource)
            if index is not None:
                self._requested[index, column] += sign * amount


class _Site:
    """A node in a trial."""

    __slots__ = (
        *("_bundle", "changed", "code", "lost", "lower", "node", "order", "protected"),
        *("row", "victims"),
    )

    def __init__(self, cycle: Cycle, row: int) -> None:
        self.row = row
        self.node = cycle.state.name(row)
        self.lower = lower_pods(cycle, self.node)
        self.code = 0
        """The verdict on the node without all of them."""
        self.order = self.lower
        """The order in which they are restored."""
        self.protected = 0
        """How many at the head of ``order`` violate a PodDisruptionBudget if evicted."""
        self.victims: dict[int, PodInfo] = {}
        """Those that were not restored, by their place in ``order``."""
        self.changed = False
        """Whether the state has changed since the trial began."""
        self.lost = False
        """Whether pods or the node are gone, so that there is no outcome."""
        self._bundle: PodBundle | None = None

    def out(self, turn: int) -> Iterator[PodInfo]:
        """The pods that are removed before a turn."""
        yield from self.victims.values()
        yield from self.order[turn:]

    def bundle(self, turn: int) -> PodBundle:
        """The same pods, to be removed together; changes of the state keep it true."""
        if self._bundle is None:
            self._bundle = PodBundle(self.node, self.out(turn))
        return self._bundle

    def refresh(self, cycle: Cycle) -> None:
        """Look the pods up again; the site is lost if one is gone."""
        state = cycle.state
        self.changed = True
        pods = [state.pod(pod.uid) for pod in self.order]
        there = [pod for pod in pods if pod is not None and pod.node_name == self.node]
        if state.row(self.node) != self.row or len(there) < len(pods):
            self.lost = True
            return
        if not all(map(operator.is_, there, self.order)):
            self.order = there
            self.victims = {turn: there[turn] for turn in self.victims}
            self._bundle = None

    def outcome(self, statuses: StatusTable) -> Outcome:
        return Outcome(self._result(statuses), 1 + len(self.lower))

    def _result(self, statuses: StatusTable) -> Candidate | Status:
        if not self.lower:
            return NO_VICTIMS
        if self.code:
            return statuses.status(self.code)
        if not self.victims:
            # Some filter accepts the node now and rejected it before, in the same state.
            return unresolvable(f'expected at least one victim pod on node "{self.node}"')
        violations = sum(turn < self.protected for turn in self.victims)
        return Candidate(self.node, sorted(self.victims.values(), key=importance), violations)


class Trial:
    """Some nodes, tried together turn by turn."""

    def __init__(
        self,
        handle: Handle,
        cycle: Cycle,
        budgets: Budgets,
        rows: Sequence[int],
        look_again: Callable[[], bool],
    ) -> None:
        """``look_again`` returns, after the event loop ran, whether the trial is still needed."""
        self._handle = handle
        self._cycle = cycle
        self._budgets = budgets
        self._look_again = look_again
        self._sites = [_Site(cycle, row) for row in rows]
        self._by_sums = by_sums(handle, cycle, rows)
        self._sums: _Sums | None = None
        self._version = cycle.state.changes.version

    def outcomes(self) -> list[Outcome | None]:
        """For each node the victims, or why there are none; the state is as before.

        None for nodes that are lost: they changed during the trial.
        """
        turn = 0
        while any(turn < len(site.order) for site in self._open()):
            if turn and not self._go_on():
                break
            turn = self._in_sums(turn) if self._by_sums else self._booked(turn)
        statuses = self._cycle.state.statuses
        return [None if site.lost else site.outcome(statuses) for site in self._sites]

    def _open(self) -> list[_Site]:
        """The nodes where evictions may still help."""
        return [s for s in self._sites if s.lower and not s.code and not s.lost]

    def _in_sums(self, turn: int) -> int:
        """Take some turns with sums; returns the next turn."""
        if self._sums is None:
            sites = self._open()
            self._sums = _Sums(self._cycle.state, [site.row for site in sites])
            for site in sites:
                for pod in site.out(turn):
                    self._sums.remove(pod)
        return self._take_turns(self._sums, turn, MOST_TURNS)

    def _booked(self, turn: int) -> int:
        """Take some turns with the state itself; returns the next turn."""
        with self._handle.run.trial(self._cycle) as changes:
            bundles = [site.bundle(turn) for site in self._open()]
            for bundle in bundles:
                changes.remove_all(bundle)
            turns = sum(bundle.bookings for bundle in bundles) // BOOKINGS_PER_TURN
            turns = min(max(turns, TURNS_IN_STEP), MOST_TURNS)
            return self._take_turns(changes, turn, turns)

    def _take_turns(self, changes: _Changes, turn: int, turns: int) -> int:
        if not turn:
            self._begin()
        return self._reprieve(changes, turn, turns)

    def _begin(self) -> None:
        """Filter the nodes without all lower pods, and find the order of restoring these."""
        for site, code in self._judge(self._open()):
            site.code = code
        for site in self._open():
            protected, others = self._budgets.split(site.lower)
            site.order = [*protected, *others]
            site.protected = len(protected)

    def _reprieve(self, changes: _Changes, turn: int, turns: int) -> int:
        """Restore pods that leave enough room, for some turns; returns the next turn."""
        sites = self._open()
        most = max((len(site.order) for site in sites), default=0)
        end = min(turn + turns, most)
        for this in range(turn, end):
            due = [site for site in sites if this < len(site.order)]
            for site in due:
                changes.restore(site.order[this])
            for site, code in self._judge(due):
                if code:
                    changes.remove(site.order[this])
                    site.victims[this] = site.order[this]
        if end == most:
            for site, code in self._judge([site for site in sites if site.changed]):
                site.code = code
        return end

    def _go_on(self) -> bool:
        """Let the event loop run, and refresh what may have changed."""
        checkpoint()
        if not self._look_again():
            self._lose(self._sites)
            return False
        sites = self._open()
        if self._cycle.state.changes.version != self._version:
            self._version = self._cycle.state.changes.version
            self._sums = None
            for site in sites:
                site.refresh(self._cycle)
        if by_sums(self._handle, self._cycle, [site.row for site in sites]) != self._by_sums:
            self._lose(sites)
        return True

    @staticmethod
    def _lose(sites: Sequence[_Site]) -> None:
        for site in sites:
            site.lost = True

    def _judge(self, sites: Sequence[_Site]) -> Iterator[tuple[_Site, int]]:
        if not sites:
            return iter(())
        rows = np.array([site.row for site in sites], np.intp)
        return zip(sites, self._codes(rows).tolist(), strict=True)

    def _codes(self, rows: Rows) -> Codes:
        if self._sums is None:
            return self._handle.run.filter(self._cycle, rows)
        with self._sums.shown(rows):
            return self._handle.run.filter(self._cycle, rows)


def by_sums(handle: Handle, cycle: Cycle, rows: Sequence[int]) -> bool:
    """Whether trials on these rows only compute sums.

    Not on rows with nominated pods: filters run twice there, and change the state for that.
    """
    return handle.run.judges_by_sums(cycle) and nominated_rows(cycle).isdisjoint(rows)


def nominated_rows(cycle: Cycle) -> set[int]:
    """The rows with nominated pods."""
    state = cycle.state
    return {row for node in state.nominations.nodes() if (row := state.row(node)) is not None}
