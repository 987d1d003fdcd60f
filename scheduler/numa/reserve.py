"""The reserve cache: cells less what was sent to them and has not been seen there yet.

Objects are remembered when they come and believed when their fingerprint fits (``ledger``). Between
objects, every pod that is sent to a node is charged to all cells that could hold it (``outlook``).
All news come from the cluster state, so pods of other schedulers count like our own, and a process
that starts or takes over learns everything the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from scheduler.model.events import Action, Event
from scheduler.model.nodes import NodeResourceTopology
from scheduler.model.podinfo import PodInfo
from scheduler.numa.board import same_content, touch
from scheduler.numa.cells import CellColumns, View
from scheduler.numa.ledger import Effect, Ledger
from scheduler.numa.outlook import Outlook
from scheduler.numa.tenants import version_of
from scheduler.numa.topology import topology_of
from scheduler.observe.metrics import Children, Metrics
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows

KIND = "NodeResourceTopology"


class ReserveSettings(msgspec.Struct, frozen=True):
    """How the cache behaves."""

    compare_after: int = 1
    """How often in a row a dirty node must be filtered out before it is looked at again."""
    method: str | None = None
    """The fingerprint's method; None: as objects say."""
    charge_foreign: bool = True
    rebuild: bool = True
    """Believe a machine that has changed at once, all pods on it being charged."""
    grace: float = 300.0
    """For how many seconds cells are believed whose object was deleted."""


class ReserveCache:
    """The ledgers of all nodes, and their columns."""

    reserves = True

    def __init__(
        self,
        state: ClusterState,
        settings: ReserveSettings,
        metrics: Metrics,
        tell: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._settings = settings
        self._metrics = metrics
        self._tell = tell
        self._clock = clock
        self.cells = CellColumns(state)
        self._ledgers: dict[str, Ledger] = {}
        self.profiles: set[str] = set()
        """Names of our own profiles: pods of all others are foreign."""
        self._dirty: dict[str, float] = {}
        """Dirty nodes, and since when they are."""
        self._doubtful: dict[str, int] = {}
        """In how many cells of a node unsettled pods might be."""
        self._withdrawn: dict[str, float] = {}
        """Nodes whose object was deleted, and when their cells are forgotten; the first is next."""
        self._better: tuple[object, str] | None = None
        self._comparisons = Children(metrics.numa_comparisons)
        self._begun = False
        self._finished_before: dict[tuple[str, str], str] = {}
        """Nodes of finished pods, while no node publishes cells."""
        for name, known in state.objects.all(NodeResourceTopology).items():
            self._topology(name, None, known)
        state.objects.subscribe(NodeResourceTopology, self._topology)
        state.residents.watch_finished(self._finished)

    # Reading

    def ledger(self, node: str) -> Ledger | None:
        """The books of one node."""
        return self._ledgers.get(node)

    def dirty(self) -> Collection[str]:
        """The nodes on which something is not settled."""
        return self._dirty.keys()

    def outlook(self, node: str) -> Outlook | None:
        """What a node can be counted on for."""
        ledger = self._ledgers.get(node)
        return None if ledger is None else ledger.outlook()

    def improved(self, cause: object) -> str | None:
        """The node that can be counted on for more because of an object, if one can."""
        better = self._better
        return better[1] if better is not None and better[0] is cause else None

    # Filtering

    def judged(self, rows: Rows, fit: Mask) -> list[int]:
        """Rows were judged: dirty nodes that are filtered out are worth another look."""
        if not self._dirty:
            return []
        verdicts = list(zip(rows.tolist(), fit.tolist(), strict=True))
        if len(self._dirty) < len(rows):
            dirty = {row for node in self._dirty if (row := self._state.row(node)) is not None}
            verdicts = [(row, fitted) for row, fitted in verdicts if row in dirty]
        return [row for row, fitted in verdicts if self._judged(self._state.name(row), fitted)]

    def judged_one(self, row: int, fit: bool) -> bool:
        """The same for one row."""
        return bool(self._dirty) and self._judged(self._state.name(row), fit)

    def _judged(self, node: str, fitted: bool) -> bool:
        ledger = self._ledgers.get(node)
        if ledger is None or node not in self._dirty:
            return False
        ledger.rejections = 0 if fitted else ledger.rejections + 1
        return not fitted and self._look_again(ledger)

    def _look_again(self, ledger: Ledger) -> bool:
        if ledger.rejections < self._settings.compare_after or not ledger.news:
            return False
        if not self._compare(ledger):
            return False
        self._refresh(ledger)
        self._wake(ledger.node)
        return True

    # What the cluster tells

    def _topology(
        self, node: str, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> None:
        if not self._begun:
            self._begin()
        ledger = self._ledger(node)
        self._withdrawn.pop(node, None)
        if new is None:
            ledger.withdraw()
            if ledger.believed is not None:
                self._withdrawn[node] = self._clock() + self._settings.grace
        else:
            if old is not None and node not in self._dirty and same_content(old, new):
                return
            version = version_of(new.metadata)
            ledger.offer(topology_of(new), version, rebuild=self._settings.rebuild)
            self._compare(ledger)
        before = self.cells.view(node)
        self._refresh(ledger)
        if self.cells.view(node) != before:
            self._better = (new, node)
        self._forget_if_empty(ledger)
        self.forget_withdrawn()

    def _begin(self) -> None:
        """The first node publishes cells: learn of the pods that are there.

        Before that pods cost nothing here.
        """
        self._begun = True
        state = self._state
        for node in state.nodes_with_pods():
            for info in state.pods_on(node):
                self._pod(info, node, True, state.assumed(info.uid))
        for (namespace, name), node in self._finished_before.items():
            self._finished(namespace, name, node, True)
        self._finished_before.clear()
        state.residents.watch(self._pod)

    def forget_withdrawn(self) -> None:
        """Believe nothing any more of cells whose object was deleted too long ago."""
        while self._withdrawn:
            node, deadline = next(iter(self._withdrawn.items()))
            if self._clock() < deadline:
                return
            del self._withdrawn[node]
            ledger = self._ledger(node)
            ledger.forget_cells()
            self._count(ledger, None)
            if self._state.row(node) is None:
                self.cells.forget(node)
            else:
                self.cells.withdraw(node)
            self._forget_if_empty(ledger)
            self._wake(node)

    def _pod(self, info: PodInfo, node: str, came: bool, assumed: bool) -> None:
        self.forget_withdrawn()
        ledger = self._ledger(node)
        if came:
            foreign = info.pod.spec.scheduler_name not in self.profiles
            effect = ledger.arrive(info, assumed=assumed, foreign=foreign)
        else:
            effect = ledger.leave(info.uid, tried=assumed)
        if effect is not Effect.NONE:
            self._refresh(ledger)
        looked = node in self._dirty and self._look_again(ledger)
        if effect is Effect.MORE and not looked and (came or not assumed):
            self._wake(node)
        self._forget_if_empty(ledger)

    def _finished(self, namespace: str, name: str, node: str, came: bool) -> None:
        if not self._begun:
            if came:
                self._finished_before[namespace, name] = node
            else:
                self._finished_before.pop((namespace, name), None)
            return
        ledger = self._ledger(node)
        (ledger.finish if came else ledger.delete_finished)((namespace, name))
        if node in self._dirty:
            self._look_again(ledger)
        self._forget_if_empty(ledger)

    def _ledger(self, node: str) -> Ledger:
        ledger = self._ledgers.get(node)
        if ledger is None:
            settings = self._settings
            ledger = self._ledgers[node] = Ledger(
                node, settings.method, charge_foreign=settings.charge_foreign
            )
        return ledger

    def _forget_if_empty(self, ledger: Ledger) -> None:
        if ledger.empty:
            self._ledgers.pop(ledger.node, None)

    # What follows from it

    def _compare(self, ledger: Ledger) -> bool:
        """Compare a node's pods with its newest object, and believe that if it fits."""
        settled = ledger.compare()
        self._comparisons["settled" if settled else "mismatch",].inc()
        return settled

    def _refresh(self, ledger: Ledger) -> None:
        """Bring columns and metrics in line with a ledger."""
        outlook = ledger.outlook()
        view = None if outlook is None else outlook.view()
        self._count(ledger, view)
        self.cells.set(ledger.node, view)
        touch(self._state, ledger.node)

    def _count(self, ledger: Ledger, view: View | None) -> None:
        node, metrics = ledger.node, self._metrics
        if ledger.dirty:
            self._dirty.setdefault(node, self._clock())
        elif (since := self._dirty.pop(node, None)) is not None:
            ledger.rejections = 0
            metrics.numa_dirty_duration.observe(self._clock() - since)
        metrics.numa_dirty_nodes.set(len(self._dirty))
        doubtful = 0 if view is None or not view.unsettled else _doubtful(view)
        metrics.numa_doubtful_cells.inc(doubtful - self._doubtful.get(node, 0))
        if doubtful:
            self._doubtful[node] = doubtful
        else:
            self._doubtful.pop(node, None)

    def _wake(self, node: str) -> None:
        """Tell those whom the node was closed to, by the object that it now is believed to be."""
        touch(self._state, node)
        newest = self._state.objects.get(NodeResourceTopology, node)
        self._better = (newest, node)
        self._tell(Event(KIND, Action.UPDATE, None, newest))


def _doubtful(view: View) -> int:
    """In how many cells less is sure to be free than may be."""
    return sum(
        any(view.sure[name][c] < view.free[name][c] for name in view.free)
        for c in range(len(view.topology.cells))
    )
