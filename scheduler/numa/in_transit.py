"""Nodes to which a pod is being bound: ``discardReservedNodes`` leaves them alone until it is."""

from __future__ import annotations

import numpy as np

from scheduler.framework.interface import Handle
from scheduler.model.events import Action, Event
from scheduler.model.nodes import NodeResourceTopology
from scheduler.model.podinfo import PodInfo
from scheduler.numa.board import touch
from scheduler.state.columns import Mask, Rows


class InTransit:
    """The pods that are assumed and not yet confirmed by the watch, by node."""

    def __init__(self, handle: Handle) -> None:
        self._state = handle.state
        self._tell = handle.tell
        self._pods: dict[str, set[str]] = {}
        self._released: tuple[object, str] | None = None
        handle.state.residents.watch(self._follow)

    def reserved(self, rows: Rows) -> Mask:
        """The rows on which a pod is in transit."""
        known = [row for node in self._pods if (row := self._state.row(node)) is not None]
        return np.isin(rows, known)

    def _follow(self, info: PodInfo, node: str, came: bool, assumed: bool) -> None:
        if came and assumed:
            self._pods.setdefault(node, set()).add(info.uid)
            touch(self._state, node)
        elif node in self._pods:
            self._remove(info.uid, node, tried=assumed)

    def _remove(self, uid: str, node: str, *, tried: bool) -> None:
        """The pod is bound, or will not be; the node is there for others again.

        Who was rejected was so without those that were only ``tried``, and is not told.
        """
        pods = self._pods[node]
        pods.discard(uid)
        if not pods:
            del self._pods[node]
            touch(self._state, node)
            if tried:
                return
            newest = self._state.objects.get(NodeResourceTopology, node)
            self._released = (newest, node)
            self._tell(Event("NodeResourceTopology", Action.UPDATE, None, newest))

    def released(self, newest: object) -> str | None:
        """The node that was released last, if this is its object."""
        last = self._released
        return last[1] if last is not None and last[0] is newest else None
