"""Nominated pods: waiting pods for which preemption has chosen a node and evicted its victims."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from scheduler.model.podinfo import PodInfo
from scheduler.state.aspects import Aspect, ChangeLog
from scheduler.state.columns import Rows, Scores

_NOBODY = -(2**63)


class Nominations:
    """Waiting pods by the node they are nominated to (``status.nominatedNodeName``)."""

    def __init__(self, rows: Mapping[str, int], changes: ChangeLog) -> None:
        self._rows = rows
        """The row of each node: the state's own mapping, which grows and shrinks with it."""
        self._changes = changes
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._nodes: dict[str, str] = {}
        self._highest: Scores = np.zeros(0, np.int64)
        """The highest priority of pods that are nominated to each row: every attempt asks."""

    def __len__(self) -> int:
        return len(self._nodes)

    def set(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod to a node, in place of an earlier one; "" removes the nomination."""
        self.remove(pod.uid)
        if node:
            self._by_node.setdefault(node, {})[pod.uid] = pod
            self._nodes[pod.uid] = node
            self._log(node)

    def remove(self, uid: str) -> str:
        """Remove a pod's nomination; returns the node, or "" if it had none."""
        node = self._nodes.pop(uid, "")
        if node:
            pods = self._by_node[node]
            del pods[uid]
            if not pods:
                del self._by_node[node]
            self._log(node)
        return node

    def _log(self, node: str) -> None:
        row = self._rows.get(node)
        if row is not None:
            self.on_row(row, node)
            self._changes.touch(row, (Aspect.NOMINATED_PODS,))

    def on_row(self, row: int, node: str) -> None:
        """A row has this node now, or ("") none. O(pods that are nominated to it)."""
        pods = self._by_node.get(node)
        if row >= len(self._highest):
            if not pods:
                return
            extra = row + 1 - len(self._highest) + len(self._rows)
            self._highest = np.pad(self._highest, (0, extra), constant_values=_NOBODY)
        highest = max(pod.priority for pod in pods.values()) if pods else _NOBODY
        self._highest[row] = highest

    def nodes(self) -> Collection[str]:
        """The nodes that have nominated pods."""
        return self._by_node.keys()

    def uids(self) -> Collection[str]:
        """The nominated pods."""
        return self._nodes.keys()

    def node_of(self, uid: str) -> str:
        """The node that a pod is nominated to, or ""."""
        return self._nodes.get(uid, "")

    def on(self, node: str) -> list[PodInfo]:
        """The pods that are nominated to a node."""
        return list(self._by_node.get(node, {}).values())

    def rows_ahead_of(self, pod: PodInfo) -> Rows:
        """The rows with nominated pods for which this pod must leave room."""
        rows = np.flatnonzero(self._highest >= pod.priority)
        own = self._nodes.get(pod.uid)
        if own is not None and not self.ahead_of(pod, own):
            rows = rows[rows != self._rows.get(own)]
        return rows

    def ahead_of(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """The nominated pods for which this pod must leave room: of its priority or higher."""
        return [
            other
            for other in self._by_node.get(node, {}).values()
            if other.priority >= pod.priority and other.uid != pod.uid
        ]
