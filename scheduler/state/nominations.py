"""Pods that are nominated to a node: their victims are still leaving."""

from __future__ import annotations

from collections.abc import Callable, Collection

from scheduler.model.podinfo import PodInfo


class Nominations:
    """Waiting pods by the node that they are nominated to. A pod has at most one."""

    def __init__(self, changed: Callable[[str], None] = lambda node: None) -> None:
        self._changed = changed
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._nodes: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def set(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod to a node, instead of any other; "" nominates it to none."""
        self.remove(pod.uid)
        if node:
            self._by_node.setdefault(node, {})[pod.uid] = pod
            self._nodes[pod.uid] = node
            self._changed(node)

    def remove(self, uid: str) -> str:
        """Remove the nomination of a pod; returns its node, or "" if there was none."""
        node = self._nodes.pop(uid, "")
        if node:
            pods = self._by_node[node]
            del pods[uid]
            if not pods:
                del self._by_node[node]
            self._changed(node)
        return node

    def nodes(self) -> Collection[str]:
        """The nodes that pods are nominated to."""
        return self._by_node.keys()

    def uids(self) -> Collection[str]:
        """The pods that are nominated to a node."""
        return self._nodes.keys()

    def node_of(self, uid: str) -> str:
        """The node that a pod is nominated to, or ""."""
        return self._nodes.get(uid, "")

    def on(self, node: str) -> list[PodInfo]:
        """The pods that are nominated to this node."""
        return list(self._by_node.get(node, {}).values())

    def ahead_of(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """The nominated pods that come before this pod: those of its priority or higher."""
        return [
            other
            for other in self._by_node.get(node, {}).values()
            if other.priority >= pod.priority and other.uid != pod.uid
        ]
