"""Is what we believe what is? Compares the columns with the objects of the API server."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.state.cache import ClusterState


def differences(state: ClusterState, nodes: Iterable[Node], pods: Iterable[Pod]) -> list[str]:
    """One line per disagreement between the state and the given objects; empty when they agree.

    Pods that are assumed are our own lead on the API server and no disagreement.
    """
    truth = ClusterState()
    known = truth.columns.resources
    # Some were offered once, by nodes that are gone.
    truth.columns.add_resources(
        [name for name in state.columns.resources.values if known.find(name) is None]
    )
    for node in nodes:
        truth.set_node(node)
    for pod in pods:
        if pod.spec.node_name and not pod.finished:
            truth.set_pod(PodInfo(pod))
    for info in state.assumed_pods():
        if truth.pod(info.uid) is None:
            truth.set_pod(info)
    return [*_node_differences(state, truth), *_pod_differences(state, truth)]


def _node_differences(state: ClusterState, truth: ClusterState) -> list[str]:
    ours, theirs = set(state.names()), set(truth.names())
    lines = [f"node {name}: not in the cache" for name in sorted(theirs - ours)]
    lines += [f"node {name}: not in the cluster" for name in sorted(ours - theirs)]
    for name in sorted(ours & theirs):
        have, want = state.describe(name), truth.describe(name)
        lines += [
            f"node {name}: {field} is {have[field]}, should be {want[field]}"
            for field in want
            if have[field] != want[field]
        ]
    return lines


def _pod_differences(state: ClusterState, truth: ClusterState) -> list[str]:
    ours = {info.uid: info for name in state.nodes_with_pods() for info in state.pods_on(name)}
    theirs = {info.uid: info for name in truth.nodes_with_pods() for info in truth.pods_on(name)}
    lines = [f"pod {info.key}: not in the cache" for uid, info in theirs.items() if uid not in ours]
    for uid, info in ours.items():
        other = theirs.get(uid)
        if other is None:
            lines.append(f"pod {info.key}: not in the cluster")
        elif other.node_name != info.node_name:
            lines.append(f"pod {info.key}: on {info.node_name}, should be on {other.node_name}")
    return lines
