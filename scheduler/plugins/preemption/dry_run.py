"""Who would have to leave a node for a pod to fit there: tried out on the state itself.

From each node all pods of lower priority are taken away (nodes where that is of no use are left out
before, see ``screen``). If the pod fits then, they come back one
after the other, the most important first, and those that leave no room for it are the victims.
Where filters look at each row alone, many nodes are tried in step: one run of the filters answers
for all of them. Otherwise each node is tried while all the others are as they are. Between trials
the loop is given back; after that filters are prepared anew, and nodes that went away are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.cycle import Cycle
from scheduler.framework.interface import Handle
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, unresolvable
from scheduler.plugins.preemption.budgets import Budgets
from scheduler.plugins.preemption.candidates import Candidate, importance
from scheduler.plugins.preemption.screen import Screen, without_room
from scheduler.slices import checkpoint, slices_ended
from scheduler.state.columns import Mask, NodeColumns, Rows
from scheduler.state.interning import StatusTable
from scheduler.state.scratch import Scratch

NODES_SCREENED = 512
"""How many nodes are screened first; twice as many each time, while none of them promises room."""
MOST_SCREENED = 4096
"""How many are screened at most before the loop may be given back."""
PODS_IN_STEP = 64
"""So many pods are tried out before the loop may be given back, unless one node has more."""
NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


def lower_pods(cycle: Cycle, node: str) -> list[PodInfo]:
    """The pods on a node that have to give way to the pod, the most important first."""
    pods = (pod for pod in cycle.state.pods_on(node) if pod.priority < cycle.pod.priority)
    return sorted(pods, key=importance)


class Outcome(NamedTuple):
    """What came of a trial on one node, or of a look at nodes that all lack the same."""

    result: Candidate | Status
    effort: int
    """What it costs to find out, in pods tried out."""
    nodes: int = 1
    """How many nodes it is true of."""


class _Nodes:
    """Rows of nodes that can be told from other nodes which get their rows later."""

    def __init__(self, rows: Rows, hashes: NDArray[np.uint64]) -> None:
        self.rows = rows
        self._hashes = hashes

    def __len__(self) -> int:
        return len(self.rows)

    def drop_gone(self, columns: NodeColumns) -> None:
        """Leave out the nodes that went away."""
        self._keep(columns.live[self.rows] & (columns.name_hash[self.rows] == self._hashes))

    def take(self, chosen: Mask) -> _Nodes:
        """Some of the nodes, which are left out here."""
        taken = _Nodes(self.rows[chosen], self._hashes[chosen])
        self._keep(~chosen)
        return taken

    def first(self, count: int) -> Mask:
        """Which nodes are the first ones."""
        return np.arange(len(self.rows)) < count

    def _keep(self, chosen: Mask) -> None:
        self.rows, self._hashes = self.rows[chosen], self._hashes[chosen]


class Search:
    """The search for nodes on which evictions would help one pod."""

    def __init__(
        self, handle: Handle, cycle: Cycle, rows: Rows, wanted: Callable[[], bool]
    ) -> None:
        """``wanted`` says whether the pod still has a use for a node."""
        self._handle = handle
        self._cycle = cycle
        self._wanted = wanted
        self._began = slices_ended()
        self._version = cycle.state.changes.version
        # In an order that depends on nothing but names: the same for all pods, so that what was
        # found out for one is of use to the next.
        hashes = cycle.state.columns.name_hash[rows]
        order = np.argsort(hashes)
        self._unseen = _Nodes(rows[order], hashes[order])
        self._promising = _Nodes(rows[:0], hashes[:0])
        self._screened_next = NODES_SCREENED

    @property
    def interrupted(self) -> bool:
        """Whether others have had their turn since the search began."""
        return slices_ended() != self._began

    def outcomes(
        self, screen: Screen, budgets: Budgets, notes: Callable[[], dict[int, Outcome]]
    ) -> Iterator[Outcome]:
        """What would come of evictions on all nodes, those first that need no dry run. Lazy.

        Where filters look at each row alone, what was found for an equal pod is in the notes.
        The loop is given back between nodes.
        """
        while self._goes_on() and (len(self._unseen) or len(self._promising)):
            if not len(self._promising):
                yield from self._screened(screen)
                continue
            together = self._handle.judges_row_by_row(self._cycle)
            known = notes() if together else {}
            some = self._next(known) if together else self._promising.rows[:1].tolist()
            self._promising.take(self._promising.first(len(some)))
            unknown = [row for row in some if row not in known]
            trial = Trial(self._handle, self._cycle, budgets, unknown)
            known.update(zip(unknown, trial.outcomes(), strict=True))
            yield from [known[row] for row in some]

    def _goes_on(self) -> bool:
        checkpoint()
        return self._look_again()

    def _look_again(self) -> bool:
        """Leave out nodes that went away; False if the pod has no use for any node now."""
        state = self._cycle.state
        if state.changes.version == self._version:
            return not self.interrupted or self._wanted()
        self._version = state.changes.version
        self._unseen.drop_gone(state.columns)
        self._promising.drop_gone(state.columns)
        return self._wanted() and self._handle.prepare(self._cycle)

    def _next(self, known: Mapping[int, Outcome]) -> list[int]:
        """The rows that are tried together before the loop may be given back."""
        pods, pod_count = 0, self._cycle.state.columns.pod_count
        some: list[int] = []
        for row in self._promising.rows.tolist():
            if row not in known:
                pods += int(pod_count[row])
                if some and pods > PODS_IN_STEP:
                    break
            some.append(row)
        return some

    def _screened(self, screen: Screen) -> list[Outcome]:
        """Look at some more nodes: what evictions cannot cure there, and which nodes they may."""
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
