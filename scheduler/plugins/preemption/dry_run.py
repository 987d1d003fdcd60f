"""Who would have to leave a node for a pod to fit there: tried out on the state itself.

From each node all pods of lower priority are taken away. If the pod fits then, they come back one
after the other, the most important first, and those that leave no room for it are the victims.
Where filters look at each row alone, many nodes are tried in step: one run of the filters answers
for all of them. Otherwise each node is tried while all the others are as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.framework.cycle import Cycle
from scheduler.framework.interface import Handle
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, unresolvable
from scheduler.plugins.preemption.budgets import Budgets
from scheduler.plugins.preemption.candidates import Candidate, importance
from scheduler.state.columns import Rows
from scheduler.state.interning import StatusTable
from scheduler.state.scratch import Scratch

NODES_IN_STEP = 100
NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


def lower_pods(cycle: Cycle, node: str) -> list[PodInfo]:
    """The pods on a node that have to give way to the pod, the most important first."""
    pods = (pod for pod in cycle.state.pods_on(node) if pod.priority < cycle.pod.priority)
    return sorted(pods, key=importance)


class Outcome(NamedTuple):
    """What came of a trial on one node."""

    result: Candidate | Status
    effort: int
    """What it costs to find out, in pods tried out."""


def outcomes(
    handle: Handle, cycle: Cycle, rows: Rows, budgets: Budgets, notes: dict[int, Outcome]
) -> Iterator[list[Outcome]]:
    """What would come of evictions on the rows, in order and some at a time. Lazy.

    Where filters look at each row alone, what was found for an equal pod is in the notes.
    """
    together = handle.judges_row_by_row(cycle)
    step = NODES_IN_STEP if together else 1
    for first in range(0, len(rows), step):
        some = rows[first : first + step].tolist()
        unknown = [row for row in some if not together or row not in notes]
        trial = Trial(handle, cycle, budgets, unknown)
        found = dict(zip(unknown, trial.outcomes(), strict=True))
        if together:
            notes.update(found)
        yield [found.get(row) or notes[row] for row in some]


class _Site:
    """A node on which a trial is made."""

    __slots__ = ("code", "lower", "node", "order", "protected", "row", "victims")

    def __init__(self, cycle: Cycle, row: int) -> None:
        self.row = row
        self.node = cycle.state.name(row)
        self.lower = lower_pods(cycle, self.node)
        self.code = 0
        """The verdict on the node without all those."""
        self.order: list[PodInfo] = []
        """In which they come back."""
        self.protected = 0
        """How many at the head of ``order`` no disruption budget allows to go."""
        self.victims: dict[int, PodInfo] = {}
        """Those that did not come back, by their turn."""

    def outcome(self, statuses: StatusTable) -> Outcome:
        return Outcome(self._result(statuses), 1 + len(self.lower))

    def _result(self, statuses: StatusTable) -> Candidate | Status:
        if not self.lower:
            return NO_VICTIMS
        if self.code:
            return statuses.status(self.code)
        if not self.victims:
            # Some filter says yes now and said no before, to the same question.
            return unresolvable(f'expected at least one victim pod on node "{self.node}"')
        violations = sum(turn < self.protected for turn in self.victims)
        return Candidate(self.node, sorted(self.victims.values(), key=importance), violations)


class Trial:
    """Some nodes, tried in step. Costs a few bookings for each pod of lower priority on them."""

    def __init__(self, handle: Handle, cycle: Cycle, budgets: Budgets, rows: Sequence[int]) -> None:
        self._handle = handle
        self._cycle = cycle
        self._budgets = budgets
        self._sites = [_Site(cycle, row) for row in rows]

    def outcomes(self) -> list[Outcome]:
        """For each node the victims that would do, or why none would; the state is as before."""
        if not self._sites:
            return []
        with self._handle.trial(self._cycle) as changes:
            for site in self._sites:
                for pod in site.lower:
                    changes.remove(pod)
            for site, code in self._judge(self._sites):
                site.code = code
            self._reprieve(changes, [s for s in self._sites if s.lower and not s.code])
        return [site.outcome(self._cycle.state.statuses) for site in self._sites]

    def _reprieve(self, changes: Scratch, sites: Sequence[_Site]) -> None:
        """Bring back whoever leaves enough room, first those whom a budget protects."""
        for site in sites:
            protected, others = self._budgets.split(site.lower)
            site.order = [*protected, *others]
            site.protected = len(protected)
        for turn in range(max((len(site.order) for site in sites), default=0)):
            due = [site for site in sites if turn < len(site.order)]
            for site in due:
                changes.restore(site.order[turn])
            for site, code in self._judge(due):
                if code:
                    changes.remove(site.order[turn])
                    site.victims[turn] = site.order[turn]

    def _judge(self, sites: Sequence[_Site]) -> Iterator[tuple[_Site, int]]:
        rows = np.array([site.row for site in sites], np.intp)
        return zip(sites, self._handle.filter(self._cycle, rows).tolist(), strict=True)
