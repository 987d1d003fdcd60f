"""Why a kubelet refuses a pod that was bound to its node."""

from __future__ import annotations

from scheduler.model.pods import Pod

_REASONS = frozenset(
    {
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "NodeAffinity",
        "NodePorts",
        "NodeName",
        "InvalidNodeInfo",
        "PodFeatureUnsupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
    }
)


def admission_error(pod: Pod) -> str:
    """The kubelet's reason for refusing a pod, "" if it did not; one of a fixed set of words."""
    if pod.status.phase != "Failed" or not pod.spec.node_name:
        return ""
    reason = pod.status.reason
    if reason in _REASONS:
        return reason
    return "OutOfOther" if reason.startswith("OutOf") else ""
