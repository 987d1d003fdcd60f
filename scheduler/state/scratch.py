"""What-if trials: changes to the state that are reverted at the end.

No checkpoint within a block stops, so no other task sees the state in between. That makes doing
and undoing the cheapest and the most faithful way to ask: filters see the real columns, ports,
counters and terms, changed by the ordinary bookings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from scheduler.model.podinfo import PodInfo
from scheduler.slices import unbroken
from scheduler.state.bundle import PodBundle
from scheduler.state.cache import ClusterState, PodState
from scheduler.state.columns import Rows, Scores


class ScratchListener(Protocol):
    """Called after every change, and for every undone change once all are undone."""

    def added(self, pod: PodInfo, node: str) -> None:
        """A pod is on a node."""
        ...

    def removed(self, pod: PodInfo, node: str) -> None:
        """A pod is no longer on a node."""
        ...


class Scratch:
    """Pods added to and removed from nodes for a while."""

    def __init__(self, state: ClusterState, listener: ScratchListener | None = None) -> None:
        self._state = state
        self._listener = listener
        self._added: dict[str, PodInfo] = {}
        self._removed: dict[str, tuple[PodInfo, PodState]] = {}
        self._bundles: dict[str, PodBundle] = {}
        """By node: pods that were removed together."""

    def add(self, pod: PodInfo, node: str) -> None:
        """Have a pod on a node on which it is not; one that waits, or one removed before."""
        self._added[pod.uid] = self._state.assume(pod, node)
        if self._listener is not None:
            self._listener.added(self._added[pod.uid], node)

    def remove_all(self, bundle: PodBundle) -> None:
        """Have all pods of a bundle gone from their node, at most one bundle for each node.

        The bundle gets the pods that are removed from the node later, and loses those that are
        restored; it keeps what is in it when all is undone.
        """
        self._state.unbook_all(bundle)
        self._bundles[bundle.node] = bundle
        if self._listener is not None:
            for pod in bundle.pods.values():
                self._listener.removed(pod, bundle.node)

    def remove(self, pod: PodInfo) -> None:
        """Have a pod gone from its node."""
        booked = self._state.pod(pod.uid)
        state = self._state.unbook(pod.uid)
        if booked is None or state is None:
            return
        bundle = self._bundles.get(booked.node_name)
        if pod.uid in self._added:
            del self._added[pod.uid]
        elif bundle is not None:
            bundle.add(booked)
            if state is PodState.ASSUMED:
                bundle.assumed[booked.uid] = booked
        else:
            self._removed[pod.uid] = (booked, state)
        if self._listener is not None:
            self._listener.removed(booked, booked.node_name)

    def restore(self, pod: PodInfo) -> None:
        """Have a pod back that was removed."""
        bundle = self._bundles.get(pod.node_name)
        if bundle is not None and pod.uid in bundle.pods:
            booked = bundle.pods[pod.uid]
            state = PodState.ASSUMED if pod.uid in bundle.assumed else PodState.ADDED
            bundle.discard(booked)
        else:
            booked, state = self._removed.pop(pod.uid)
        self._state.book(booked, state)
        if self._listener is not None:
            self._listener.added(booked, booked.node_name)

    def undo(self, *, tell: bool = True) -> None:
        """Take everything back; the state is whole before the listener is called."""
        added, removed = list(self._added.values()), list(self._removed.values())
        self._added.clear()
        self._removed.clear()
        bundles = list(self._bundles.values())
        self._bundles.clear()
        for pod in reversed(added):
            self._state.unbook(pod.uid)
        for booked, state in reversed(removed):
            self._state.book(booked, state)
        for bundle in bundles:
            self._state.book_all(bundle)
        if self._listener is None or not tell:
            return
        for pod in reversed(added):
            self._listener.removed(pod, pod.node_name)
        for booked, _ in reversed(removed):
            self._listener.added(booked, booked.node_name)
        for bundle in bundles:
            for pod in bundle.pods.values():
                self._listener.added(pod, bundle.node)


@contextmanager
def scratch(state: ClusterState, listener: ScratchListener | None = None) -> Iterator[Scratch]:
    """Change the state for the length of a block, which no checkpoint interrupts.

    After an exception in the block the listener is not called any more.
    """
    changes = Scratch(state, listener)
    with unbroken():
        state.changes.begin_trial()
        try:
            yield changes
        except BaseException:
            changes.undo(tell=False)
            raise
        else:
            changes.undo()
        finally:
            state.index.end_trial()  # first: what it forgets was there only on trial
            state.changes.end_trial()


@contextmanager
def as_if_requested(state: ClusterState, requested: Scores, pod_count: Scores) -> Iterator[None]:
    """Have rows show other sums of what is requested, for the length of a block."""
    columns = state.columns
    real = columns.requested, columns.pod_count
    with unbroken():
        state.changes.begin_trial()
        columns.requested, columns.pod_count = requested, pod_count
        try:
            yield
        finally:
            columns.requested, columns.pod_count = real
            state.changes.end_trial()


@contextmanager
def as_if_rows_requested(
    state: ClusterState, rows: Rows, requested: Scores, pod_count: Scores
) -> Iterator[None]:
    """The same for some rows; the sums are those of these rows, in their order."""
    columns = state.columns
    with unbroken():
        state.changes.begin_trial()
        real = columns.requested[:, rows], columns.pod_count[rows]
        columns.requested[:, rows], columns.pod_count[rows] = requested, pod_count
        try:
            yield
        finally:
            columns.requested[:, rows], columns.pod_count[rows] = real
            state.changes.end_trial()
