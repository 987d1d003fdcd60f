"""Who would have to leave a node for a pod to fit there: tried out on the state itself.

From each node all pods of lower priority are taken away. If the pod fits then, they come back one
after the other, the most important first, and those that leave no room for it are the victims.
Where filters look at each row alone, many nodes are tried in step: one run of the filters answers
for all of them. Otherwise each node is tried while all the others are as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.framework.cycle import Cycle
from scheduler.framework.interface import Handle
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, unresolvable
from scheduler.plugins.preemption.budgets import Budgets
from scheduler.plugins.preemption.candidates import Candidate, importance
from scheduler.state.columns import Rows
from scheduler.state.interning import StatusTable
from scheduler.state.scratch import Scratch, scratch

NODES_IN_STEP = 100
PODS_IN_STEP = 1000
NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")

_RUN_EFFORT = 20
"""A run of the filters takes as long as trying out this many pods."""


def lower_pods(cycle: Cycle, node: str) -> list[PodInfo]:
    """The pods on a node that have to give way to the pod, the most important first."""
    pods = (pod for pod in cycle.state.pods_on(node) if pod.priority < cycle.pod.priority)
    return sorted(pods, key=importance)


def trials(handle: Handle, cycle: Cycle, rows: Rows, budgets: Budgets) -> Iterator[Trial]:
    """The rows, in order, as many to a trial as can be tried in step. Lazy."""
    alone = not handle.judges_row_by_row(cycle)
    sites: list[_Site] = []
    pods = 0
    for row in rows.tolist():
        sites.append(_Site(cycle, row))
        pods += len(sites[-1].lower)
        if alone or len(sites) >= NODES_IN_STEP or pods >= PODS_IN_STEP:
            yield Trial(handle, cycle, budgets, sites)
            sites, pods = [], 0
    if sites:
        yield Trial(handle, cycle, budgets, sites)


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

    def outcome(self, statuses: StatusTable) -> Candidate | Status:
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

    def __init__(
        self, handle: Handle, cycle: Cycle, budgets: Budgets, sites: Sequence[_Site]
    ) -> None:
        self.effort = sum(len(site.lower) for site in sites)
        """What it has cost, in pods tried out."""
        self._handle = handle
        self._cycle = cycle
        self._budgets = budgets
        self._sites = sites

    def outcomes(self) -> list[Candidate | Status]:
        """For each node the victims that would do, or why none would; the state is as before."""
        with scratch(self._cycle.state) as changes:
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
        self.effort += _RUN_EFFORT
        rows = np.array([site.row for site in sites], np.intp)
        return zip(sites, self._handle.filter(self._cycle, rows).tolist(), strict=True)
