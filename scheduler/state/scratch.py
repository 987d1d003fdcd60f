"""What if? Changes to the state that are taken back at the end.

A cycle never awaits, so nobody else can see the state in between. That makes doing and undoing the
cheapest and the most faithful way to ask: filters see the real columns, ports, counters and terms,
changed by the ordinary bookings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scheduler.model.podinfo import PodInfo

if TYPE_CHECKING:
    from scheduler.state.cache import ClusterState


class Scratch:
    """Pods added to and removed from nodes for a while."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._undo: list[Callable[[], object]] = []

    def add(self, pod: PodInfo, node: str) -> None:
        """Have a pod on a node on which it is not; one that waits, or one removed before."""
        bound = self._state.assume(pod, node)
        self._undo.append(lambda: self._state.unbook(bound.uid))

    def remove(self, pod: PodInfo) -> None:
        """Have a pod gone from its node."""
        state = self._state.unbook(pod.uid)
        if state is not None:
            self._undo.append(lambda: self._state.book(pod, state))

    def undo(self) -> None:
        """Take everything back, last first."""
        while self._undo:
            self._undo.pop()()


@contextmanager
def scratch(state: ClusterState) -> Iterator[Scratch]:
    """Change the state for the length of a block. Nothing inside may await."""
    changes = Scratch(state)
    try:
        yield changes
    finally:
        changes.undo()
