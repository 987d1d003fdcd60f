"""Compares the columns with the objects of the API server.

Each function looks at one object and takes time in proportion to it (a node: to its pods), so that
a whole cluster can be compared little by little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.resources import MAX_AMOUNT, PODS
from scheduler.state.aspects import Aspect, node_aspects
from scheduler.state.cache import MAX_RESOURCES, ClusterState, allocatable_of

_BEHIND_COLUMNS = (Aspect.LABELS, Aspect.CONDITIONS, Aspect.FEATURES)
"""What `describe` does not show of a node, and filters read."""


def differences(state: ClusterState, nodes: Iterable[Node], pods: Iterable[Pod]) -> list[str]:
    """One line per disagreement between the state and the given objects; empty when they agree.

    Pods that are assumed are our own lead on the API server and no disagreement.
    """
    there = {node.name: node for node in nodes}
    listed = {pod.metadata.uid: pod for pod in pods}
    lines = [line for name, node in there.items() for line in node_differences(state, name, node)]
    for name in state.names():
        if name not in there:
            lines += node_differences(state, name, None)
    for uid, pod in listed.items():
        lines += pod_differences(state, uid, pod.metadata.key, pod)
    for info in state.pods():
        if info.uid not in listed:
            lines += pod_differences(state, info.uid, info.key, None)
    return lines


def node_differences(state: ClusterState, name: str, node: Node | None) -> list[str]:
    """What the row of a node has wrong; None: there is no such node."""
    known = state.node(name)
    if node is None:
        return [] if known is None else [f"node {name}: not in the cluster"]
    if known is None:
        return [f"node {name}: not in the cache"]
    have, want = state.describe(name), _described(state, node)
    lines = [
        f"node {name}: {field} is {have[field]}, should be {want[field]}"
        for field in want
        if have[field] != want[field]
    ]
    stale = [aspect for aspect in node_aspects(known, node) if aspect in _BEHIND_COLUMNS]
    return lines + [f"node {name}: {aspect.name.lower()} are out of date" for aspect in stale]


def pod_differences(state: ClusterState, uid: str, key: str, pod: Pod | None) -> list[str]:
    """What the state has wrong about a pod; None: there is no such pod.

    An assumed pod without a node is no disagreement.
    """
    held = state.pod(uid)
    if pod is None or not pod.spec.node_name or pod.finished:
        if held is None or state.assumed(uid):
            return []
        return [f"pod {key}: not in the cluster" if pod is None else f"pod {key}: holds no node"]
    if held is None:
        return [f"pod {key}: not in the cache"]
    if held.node_name != pod.spec.node_name:
        return [f"pod {key}: on {held.node_name}, should be on {pod.spec.node_name}"]
    if held.pod.metadata.resource_version == pod.metadata.resource_version:
        return []
    same = held.takes_like(PodInfo(pod, held.limits))
    return [] if same else [f"pod {key}: what it takes is out of date"]


def _described(state: ClusterState, node: Node) -> dict[str, Any]:
    """What `ClusterState.describe` should say of a node, from the node and the pods on it."""
    pods = state.pods_on(node.name)
    allocatable = allocatable_of(node)
    limit = allocatable.pop(PODS, 0)
    requested: Counter[str] = Counter()
    for info in pods:
        requested.update(info.requests)
    offered = state.columns.resources
    return {
        "name": node.name,
        "unschedulable": node.spec.unschedulable,
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in node.spec.taints
        ],
        "allocatable": {
            name: min(amount, MAX_AMOUNT - 1)
            for name, amount in allocatable.items()
            if amount and (len(offered) < MAX_RESOURCES or offered.find(name) is not None)
        },
        "requested": {
            name: amount
            for name, amount in requested.items()
            if amount and offered.find(name) is not None
        },
        "scored": [sum(info.nonzero[i] for info in pods) for i in (0, 1)],
        "pods": len(pods),
        "podLimit": limit,
    }
