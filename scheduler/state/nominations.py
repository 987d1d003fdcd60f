"""Pods that were promised a node: their victims are still leaving."""

from __future__ import annotations

from collections.abc import Callable, Collection

from scheduler.model.podinfo import PodInfo


class Nominations:
    """Waiting pods by the node that was promised to them. A pod has at most one."""

    def __init__(self, changed: Callable[[str], None] = lambda node: None) -> None:
        self._changed = changed
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._nodes: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def set(self, pod: PodInfo, node: str) -> None:
        """Promise a node to a pod, instead of any that was promised before; "" promises none."""
        self.remove(pod.uid)
        if node:
            self._by_node.setdefault(node, {})[pod.uid] = pod
            self._nodes[pod.uid] = node
            self._changed(node)

    def remove(self, uid: str) -> str:
        """Take back what was promised; returns the node, or "" if none was."""
        node = self._nodes.pop(uid, "")
        if node:
            pods = self._by_node[node]
            del pods[uid]
            if not pods:
                del self._by_node[node]
            self._changed(node)
        return node

    def nodes(self) -> Collection[str]:
        """The nodes that are promised to somebody."""
        return self._by_node.keys()

    def uids(self) -> Collection[str]:
        """The pods that were promised a node."""
        return self._nodes.keys()

    def node_of(self, uid: str) -> str:
        """The node promised to a pod, or ""."""
        return self._nodes.get(uid, "")

    def on(self, node: str) -> list[PodInfo]:
        """The pods that were promised this node."""
        return list(self._by_node.get(node, {}).values())

    def ahead_of(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """The pods on whose promise this pod must not intrude: of its priority or higher."""
        return [
            other
            for other in self._by_node.get(node, {}).values()
            if other.priority >= pod.priority and other.uid != pod.uid
        ]
