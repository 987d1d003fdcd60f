"""What if? Changes to the state that are taken back at the end.

A cycle never awaits, so nobody else can see the state in between. That makes doing and undoing the
cheapest and the most faithful way to ask: filters see the real columns, ports, counters and terms,
changed by the ordinary bookings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scheduler.model.podinfo import PodInfo

if TYPE_CHECKING:
    from scheduler.state.cache import ClusterState, PodState


class Scratch:
    """Pods added to and removed from nodes for a while."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._added: dict[str, None] = {}
        self._removed: dict[str, tuple[PodInfo, PodState]] = {}

    def add(self, pod: PodInfo, node: str) -> None:
        """Have a pod on a node on which it is not; one that waits, or one removed before."""
        self._state.assume(pod, node)
        self._added[pod.uid] = None

    def remove(self, pod: PodInfo) -> None:
        """Have a pod gone from its node."""
        booked = self._state.pod(pod.uid)
        state = self._state.unbook(pod.uid)
        if pod.uid in self._added:
            del self._added[pod.uid]
        elif booked is not None and state is not None:
            self._removed[pod.uid] = (booked, state)

    def restore(self, pod: PodInfo) -> None:
        """Have a pod back that was removed."""
        self._state.book(*self._removed.pop(pod.uid))

    def undo(self) -> None:
        """Take everything back."""
        while self._added:
            self._state.unbook(self._added.popitem()[0])
        while self._removed:
            self._state.book(*self._removed.popitem()[1])


@contextmanager
def scratch(state: ClusterState) -> Iterator[Scratch]:
    """Change the state for the length of a block. Nothing inside may await."""
    changes = Scratch(state)
    state.changes.begin_trial()
    try:
        yield changes
    finally:
        changes.undo()
        state.changes.end_trial()
