"""NodeResourceTopology objects, as an agent on the node makes them from podresources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sandbox.numa.kubelet import CellAmounts, ListedPod, NumaKubelet
from sandbox.numa.machine import Machine, MachineCell
from sandbox.numa.settings import KubeletSettings, PublisherSettings
from scheduler.numa.fingerprint import fingerprint

API_VERSION = "topology.node.k8s.io/v1alpha2"
_ANNOTATION = "topology.node.k8s.io/fingerprint"
_DEPRECATED = {
    "best-effort": "BestEffort",
    "restricted": "Restricted",
    "single-numa-node": "SingleNUMANode",
}
_NEAR, _FAR = 10, 20


def topology(
    kubelet: NumaKubelet, settings: PublisherSettings, *, truth: bool = False
) -> dict[str, Any]:
    """The node's NRT now. ``truth`` shows what cells can give, not what an agent can know of it.

    The two differ by what pods keep of their init containers, which podresources does not list.
    """
    pods = kubelet.listed()
    available = kubelet.free() if truth else _seen(kubelet.machine, pods)
    cells = kubelet.machine.cells
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "NodeResourceTopology",
        "metadata": {"name": kubelet.name},
        "topologyPolicies": _policies(kubelet.settings),
        "attributes": [
            {"name": "topologyManagerPolicy", "value": kubelet.settings.policy},
            {"name": "topologyManagerScope", "value": kubelet.settings.scope},
        ],
        "zones": [_zone(kubelet.machine, cell, available[cell.id]) for cell in cells],
    }
    _sign(body, pods, settings)
    return body


def _policies(settings: KubeletSettings) -> list[str]:
    """The policy in the words of the first version of the API, which agents still fill in."""
    name = _DEPRECATED.get(settings.policy)
    if name is None:
        return ["None"]
    return [f"{name}{'Pod' if settings.scope == 'pod' else 'Container'}Level"]


def _seen(machine: Machine, pods: Iterable[ListedPod]) -> CellAmounts:
    """Allocatable less what listed pods hold."""
    left: CellAmounts = {cell.id: _allocatable(machine, cell) for cell in machine.cells}
    for pod in pods:
        for cell, amounts in pod.held.items():
            for name, amount in amounts.items():
                left[cell][name] = max(0, left[cell][name] - amount)
    return left


def _allocatable(machine: Machine, cell: MachineCell) -> dict[str, int]:
    return {"cpu": len(machine.cpus_of(cell)), **machine.memory_of(cell), **cell.devices}


def _zone(machine: Machine, cell: MachineCell, available: dict[str, int]) -> dict[str, Any]:
    capacity = {"cpu": cell.cpus, "memory": cell.memory, **cell.hugepages, **cell.devices}
    return {
        "name": f"node-{cell.id}",
        "type": "Node",
        "costs": [
            {"name": f"node-{other.id}", "value": _NEAR if other is cell else _FAR}
            for other in machine.cells
        ],
        "resources": [
            {
                "name": name,
                "capacity": str(capacity[name]),
                "allocatable": str(amount),
                "available": str(available[name]),
            }
            for name, amount in _allocatable(machine, cell).items()
        ],
    }


def _sign(body: dict[str, Any], pods: Iterable[ListedPod], settings: PublisherSettings) -> None:
    """Add the fingerprint of the pods that the object counts."""
    if settings.fingerprint == "none":
        return
    annotated = settings.fingerprint == "annotation"
    only_exclusive = settings.method == "with-exclusive-resources" and not annotated
    named = [(pod.namespace, pod.name) for pod in pods if pod.exclusive or not only_exclusive]
    text = fingerprint(named)
    if annotated:
        body["metadata"]["annotations"] = {_ANNOTATION: text}
        return
    body["attributes"] += [
        {"name": "nodeTopologyPodsFingerprint", "value": text},
        {"name": "nodeTopologyPodsFingerprintMethod", "value": settings.method},
    ]
