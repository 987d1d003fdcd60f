"""Pods that were promised a node: their victims are still leaving."""

from __future__ import annotations

from scheduler.model.podinfo import PodInfo


class Nominations:
    """Waiting pods by the node that was promised to them. A pod has at most one."""

    def __init__(self) -> None:
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

    def remove(self, uid: str) -> bool:
        """Take back what was promised; tells whether anything was."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return False
        pods = self._by_node[node]
        del pods[uid]
        if not pods:
            del self._by_node[node]
        return True

    def node_of(self, uid: str) -> str:
        """The node promised to a pod, or ""."""
        return self._nodes.get(uid, "")

    def on(self, node: str) -> list[PodInfo]:
        """The pods that were promised this node."""
        return list(self._by_node.get(node, {}).values())

    def before(self, pod: PodInfo) -> dict[str, list[PodInfo]]:
        """By node, the promised pods that this pod must not displace: of its priority or higher."""
        if not self._nodes:
            return {}
        ahead = {
            node: [o for o in pods.values() if o.priority >= pod.priority and o.uid != pod.uid]
            for node, pods in self._by_node.items()
        }
        return {node: pods for node, pods in ahead.items() if pods}
