"""The source of cells for the plugin: one protocol, and its implementations.

- `PublishedCells` uses the newest object of each node as it is.
- `ReserveCache` uses an object once its fingerprint matches (``ledger``), and charges every pod
  that is sent to a node to all cells that could hold it (``capacity``). All events come from the
  cluster state, so pods of other schedulers count like our own, and a process that starts or
  takes over learns everything in the same way.
- `NodesBeingBound` is for ``discardReservedNodes``: published cells, and nodes are skipped while a
  pod is being bound to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.model.events import ASSIGNED_POD, ENDED_POD, Action, Event
from scheduler.model.nodes import NodeResourceTopology
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.numa.capacity import NodeCapacityView, TopologyVectors
from scheduler.numa.cells import CellColumns, NodeCells, published_cells
from scheduler.numa.ledger import CapacityChange, Ledger
from scheduler.numa.node_pods import version_of
from scheduler.numa.topology import topology_of
from scheduler.observe.metrics import Children, Metrics
from scheduler.plugin_api import Handle
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows

KIND = "NodeResourceTopology"


class CellCache(Protocol):
    """The cells of all nodes as columns, and of single nodes where columns hold only bounds."""

    cells: CellColumns
    charges_pods: bool
    """Whether unconfirmed pods are charged, so that columns hold only bounds."""

    def capacity_view(self, node: str) -> NodeCapacityView | None:
        """The capacity of one node; None if its cells are not known."""
        ...

    def record_verdicts(self, rows: Rows, fit: Mask) -> list[int]:
        """Rows were filtered; returns those whose capacity changed because they were compared
        with their newest object again."""
        ...

    def record_verdict(self, row: int, fit: bool) -> bool:
        """One row was filtered; returns whether its capacity changed."""
        ...

    def on_event(self, event: Event) -> Event | None:
        """Apply an event; returns that of a node's object with the node, if its cells changed."""
        ...


class PublishedCells:
    """Uses the newest object of each node as it is, and keeps nothing else."""

    charges_pods = False

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.cells = CellColumns(state)
        for name, known in state.objects.all(NodeResourceTopology).items():
            self._changed(name, None, known)

    def capacity_view(self, node: str) -> NodeCapacityView | None:
        """The node as its object describes it."""
        known = self.cells.of_node(node)
        return None if known is None else NodeCapacityView(TopologyVectors(known.topology))

    def record_verdicts(self, rows: Rows, fit: Mask) -> list[int]:
        """Nothing is compared again."""
        return []

    def record_verdict(self, row: int, fit: bool) -> bool:
        """Nothing is compared again."""
        return False

    def on_event(self, event: Event) -> Event | None:
        """Use a node's new object."""
        if event.kind != KIND:
            return None
        node, old, new = _objects(event)
        return replace(event, node=node) if self._changed(node, old, new) else None

    def _changed(
        self, node: str, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> bool:
        """Whether an object has new content."""
        if old is not None and new is not None and _same_content(old, new):
            return False
        self.cells.set(node, None if new is None else published_cells(topology_of(new)))
        _invalidate(self._state, node)
        return True


class ReserveSettings(msgspec.Struct, frozen=True):
    """The plugin's arguments, as far as the reserve cache reads them."""

    compare_after: int = 1
    """How often in a row a dirty node must be filtered out before it is compared again."""
    method: str | None = None
    """The fingerprint's method; None: as objects say."""
    charge_foreign: bool = True
    other_machine_at_once: bool = True
    """Use an object of another machine before its fingerprint matches, with all pods charged."""
    grace: float = 300.0
    """For how many seconds an object is used after it was deleted."""


class ReserveCache:
    """The ledgers of all nodes, and their columns."""

    charges_pods = True

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
        """Names of our own profiles: pods of all other schedulers are foreign."""
        self._dirty: dict[str, float] = {}
        """Dirty nodes, and since when."""
        self._doubtful: dict[str, int] = {}
        """Nodes and the number of their cells that unconfirmed pods may be in."""
        self._withdrawn: dict[str, float] = {}
        """Nodes whose object was deleted, and when its grace period ends; the first ends next."""
        self._comparisons = Children(metrics.numa_comparisons)
        self._begun = False
        self._finished_before: dict[tuple[str, str], str] = {}
        """Nodes of finished pods, while no node publishes cells."""
        for name, known in state.objects.all(NodeResourceTopology).items():
            self._topology(name, None, known)

    # Reading

    def ledger(self, node: str) -> Ledger | None:
        """The ledger of one node."""
        return self._ledgers.get(node)

    def dirty(self) -> Collection[str]:
        """The nodes with charged or released pods."""
        return self._dirty.keys()

    def capacity_view(self, node: str) -> NodeCapacityView | None:
        """The capacity of a node; None if its cells are not known."""
        ledger = self._ledgers.get(node)
        return None if ledger is None else ledger.capacity_view()

    # Filtering

    def record_verdicts(self, rows: Rows, fit: Mask) -> list[int]:
        """Compare dirty nodes again that were filtered out often enough."""
        if not self._dirty:
            return []
        verdicts = list(zip(rows.tolist(), fit.tolist(), strict=True))
        if len(self._dirty) < len(rows):
            dirty = {row for node in self._dirty if (row := self._state.row(node)) is not None}
            verdicts = [(row, fitted) for row, fitted in verdicts if row in dirty]
        return [row for row, fitted in verdicts if self._record(self._state.name(row), fitted)]

    def record_verdict(self, row: int, fit: bool) -> bool:
        """The same for one row."""
        return bool(self._dirty) and self._record(self._state.name(row), fit)

    def _record(self, node: str, fitted: bool) -> bool:
        ledger = self._ledgers.get(node)
        if ledger is None or node not in self._dirty:
            return False
        ledger.rejections = 0 if fitted else ledger.rejections + 1
        return not fitted and self._compare_again(ledger)

    def _compare_again(self, ledger: Ledger) -> bool:
        """Whether the cells of a node changed because its pods now match its newest object.

        A comparison that changes nothing wakes no pods: a gang that does not fit would otherwise
        wake itself, as its pass assumes and forgets members.
        """
        if ledger.rejections < self._settings.compare_after or not ledger.needs_comparison:
            return False
        if not self._compare(ledger):
            return False
        before = self.cells.of_node(ledger.node)
        self._refresh(ledger)
        if self.cells.of_node(ledger.node) == before:
            return False
        self._wake(ledger.node)
        return True

    # Events of the cluster state

    def on_event(self, event: Event) -> Event | None:
        """Apply an event of a node's object, of a pod on a node, or of a finished pod."""
        if event.kind == KIND:
            node, old, new = _objects(event)
            return replace(event, node=node) if self._topology(node, old, new) else None
        if event.kind == ENDED_POD:
            self._follow_finished(event)
        elif self._begun:
            info = event.new or event.old
            assert isinstance(info, PodInfo), "an event of a pod on a node has it"
            assumed = event.trial or (event.own and event.new is not None)
            self._pod(info, info.node_name, event.new is not None, assumed)
        return None

    def _topology(
        self, node: str, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> bool:
        """Whether the cells of a node changed because of its object."""
        if not self._begun:
            self._begin()
        ledger = self._ledger(node)
        self._withdrawn.pop(node, None)
        if new is None:
            ledger.object_deleted()
            if ledger.in_use is not None:
                self._withdrawn[node] = self._clock() + self._settings.grace
        else:
            if old is not None and node not in self._dirty and _same_content(old, new):
                return False
            version = version_of(new.metadata)
            ledger.object_published(
                topology_of(new),
                version,
                other_machine_at_once=self._settings.other_machine_at_once,
            )
            self._compare(ledger)
        before = self.cells.of_node(node)
        self._refresh(ledger)
        changed = self.cells.of_node(node) != before
        self._forget_if_empty(ledger)
        self.forget_withdrawn()
        return changed

    def _begin(self) -> None:
        """Follow pods from the first object on; before that they cost nothing here."""
        self._begun = True
        state = self._state
        for node in state.nodes_with_pods():
            for info in state.pods_on(node):
                self._pod(info, node, True, state.assumed(info.uid))
        for (namespace, name), node in self._finished_before.items():
            self._finished(namespace, name, node, True)
        self._finished_before.clear()

    def forget_withdrawn(self) -> None:
        """Forget the cells of nodes whose object was deleted and whose grace period is over."""
        while self._withdrawn:
            node, deadline = next(iter(self._withdrawn.items()))
            if self._clock() < deadline:
                return
            del self._withdrawn[node]
            ledger = self._ledger(node)
            ledger.object_expired()
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
            change = ledger.pod_changed(info, assumed=assumed, foreign=foreign)
        else:
            change = ledger.pod_removed(info.uid, tried=assumed)
        if change is not CapacityChange.NONE:
            self._refresh(ledger)
        woken = node in self._dirty and self._compare_again(ledger)
        if change is CapacityChange.MORE and not woken and (came or not assumed):
            self._wake(node)
        self._forget_if_empty(ledger)

    def _follow_finished(self, event: Event) -> None:
        was, now = _finished_on(event.old), _finished_on(event.new)
        if was == now:
            return
        if isinstance(event.old, Pod) and was:
            self._finished(event.old.metadata.namespace, event.old.metadata.name, was, False)
        if isinstance(event.new, Pod) and now:
            self._finished(event.new.metadata.namespace, event.new.metadata.name, now, True)

    def _finished(self, namespace: str, name: str, node: str, came: bool) -> None:
        if not self._begun:
            if came:
                self._finished_before[namespace, name] = node
            else:
                self._finished_before.pop((namespace, name), None)
            return
        ledger = self._ledger(node)
        (ledger.pod_finished if came else ledger.finished_pod_deleted)((namespace, name))
        if node in self._dirty:
            self._compare_again(ledger)
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

    # Columns, metrics, the queue

    def _compare(self, ledger: Ledger) -> bool:
        """Compare a node's pods with the fingerprint of its newest object."""
        matches = ledger.compare()
        self._comparisons["settled" if matches else "mismatch",].inc()
        return matches

    def _refresh(self, ledger: Ledger) -> None:
        """Bring columns and metrics in line with a ledger."""
        view = ledger.capacity_view()
        known = None if view is None else view.cells()
        self._count(ledger, known)
        self.cells.set(ledger.node, known)
        _invalidate(self._state, ledger.node)

    def _count(self, ledger: Ledger, known: NodeCells | None) -> None:
        node, metrics = ledger.node, self._metrics
        if ledger.dirty:
            self._dirty.setdefault(node, self._clock())
        elif (since := self._dirty.pop(node, None)) is not None:
            ledger.rejections = 0
            metrics.numa_dirty_duration.observe(self._clock() - since)
        metrics.numa_dirty_nodes.set(len(self._dirty))
        doubtful = 0 if known is None or not known.unconfirmed else _doubtful_cells(known)
        metrics.numa_doubtful_cells.inc(doubtful - self._doubtful.get(node, 0))
        if doubtful:
            self._doubtful[node] = doubtful
        else:
            self._doubtful.pop(node, None)

    def _wake(self, node: str) -> None:
        """Send the queue an event with the node's object, for pods that the node has rejected."""
        _invalidate(self._state, node)
        newest = self._state.objects.get(NodeResourceTopology, node)
        self._tell(Event(KIND, Action.UPDATE, None, newest, node=node))


class NodesBeingBound:
    """The nodes with pods that are assumed and not yet bound, as the watch reports it."""

    def __init__(self, handle: Handle) -> None:
        self._state = handle.state
        self._tell = handle.queue.tell
        self._pods: dict[str, set[str]] = {}
        self._unannounced: set[str] = set()
        """Nodes that a pod has left in earnest while others were still being bound there."""

    def reserved(self, rows: Rows) -> Mask:
        """The rows to which a pod is being bound."""
        known = [row for node in self._pods if (row := self._state.row(node)) is not None]
        return np.isin(rows, known)

    def on_event(self, event: Event) -> None:
        """Apply an event of a pod on a node."""
        if event.kind != ASSIGNED_POD:
            return
        info = event.new or event.old
        assert isinstance(info, PodInfo), "an event of a pod on a node has it"
        if event.new is not None and event.own:
            self._pods.setdefault(info.node_name, set()).add(info.uid)
            _invalidate(self._state, info.node_name)
        elif info.node_name in self._pods:
            self._remove(info.uid, info.node_name, tried=event.trial)

    def _remove(self, uid: str, node: str, *, tried: bool) -> None:
        """The pod is bound, or will not be; the node may be used again.

        A pod that was only ``tried`` has rejected no other pod, so no event is sent.
        """
        pods = self._pods[node]
        pods.discard(uid)
        if not tried:
            self._unannounced.add(node)
        if not pods:
            del self._pods[node]
            _invalidate(self._state, node)
            if node not in self._unannounced:
                return
            self._unannounced.discard(node)
            newest = self._state.objects.get(NodeResourceTopology, node)
            self._tell(Event(KIND, Action.UPDATE, None, newest, node=node))


def cell_listeners(state: ClusterState) -> list[CellCache | NodesBeingBound]:
    """The objects of a cluster that follow its pods and NodeResourceTopology objects."""
    shared = state.shared
    return [
        *shared.all(PublishedCells),
        *shared.all(ReserveCache),
        *shared.all(NodesBeingBound),
    ]


def _objects(
    event: Event,
) -> tuple[str, NodeResourceTopology | None, NodeResourceTopology | None]:
    """The node of an event of a NodeResourceTopology, and its objects."""
    old = event.old if isinstance(event.old, NodeResourceTopology) else None
    new = event.new if isinstance(event.new, NodeResourceTopology) else None
    either = new or old
    assert either is not None, "an event of an object has it"
    return either.metadata.key, old, new


def _finished_on(pod: object) -> str:
    """The node on which a pod is finished, or "" if it is not."""
    return pod.spec.node_name if isinstance(pod, Pod) and pod.finished else ""


def _same_content(old: NodeResourceTopology, new: NodeResourceTopology) -> bool:
    """Whether two versions differ at most in metadata that is not read."""
    return (
        old.zones == new.zones
        and old.attributes == new.attributes
        and old.topology_policies == new.topology_policies
        and old.metadata.annotations == new.metadata.annotations
    )


def _invalidate(state: ClusterState, node: str) -> None:
    """Invalidate all verdicts on a node's cells."""
    row = state.row(node)
    if row is not None:
        state.changes.touch(row, (Aspect.TOPOLOGY,))


def _doubtful_cells(known: NodeCells) -> int:
    """In how many cells less is sure to be available than may be."""
    return sum(
        any(known.sure[name][c] < known.free[name][c] for name in known.free)
        for c in range(len(known.topology.cells))
    )
