"""Allocations, and what PostFilter writes, in plain values: for explanations."""

from __future__ import annotations

from typing import Any

from scheduler.dra.binding import plain
from scheduler.dra.deallocation import TakenBack
from scheduler.dra.names import FINALIZER, PLUGIN
from scheduler.dra.pod_devices import SpecialClaim
from scheduler.model.devices import AllocationResult, ResourceClaim
from scheduler.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.model.status import Status

_ON_NODE = "@node"


def shown_allocation(
    claim: ResourceClaim, allocation: AllocationResult, node: str, special: SpecialClaim | None
) -> dict[str, Any]:
    """What a claim would get on a node.

    ``shareID`` is ``*``, since it is drawn when the claim is allocated. A ``nodeSelector`` of
    ``@node`` selects this node by name.
    """
    devices: list[dict[str, Any]] = plain(allocation.devices.results)
    for device in devices:
        if "shareID" in device:
            device["shareID"] = "*"
    shown: dict[str, Any] = {"claim": claim.metadata.name, "devices": devices}
    if allocation.devices.config:
        shown["config"] = plain(allocation.devices.config)
    if allocation.node_selector is not None:
        own = allocation.node_selector == _only(node)
        shown["nodeSelector"] = _ON_NODE if own else plain(allocation.node_selector)
    if special is not None and special.mappings:
        shown["requests"] = plain(special.claim.spec.devices.requests)
        shown["mappings"] = [plain(each) for each in special.mappings]
    return shown


def _only(node: str) -> NodeSelector:
    by_name = NodeSelectorRequirement("metadata.name", "In", (node,))
    return NodeSelector((NodeSelectorTerm(match_fields=(by_name,)),))


def shown_status(status: Status) -> dict[str, Any]:
    """A verdict on the pod as a whole."""
    return {"code": status.code.value, "reasons": list(status.reasons), "plugin": PLUGIN}


def shown_post_filter(taken: TakenBack) -> dict[str, Any]:
    """What PostFilter says, and writes; of several claims any one may be deallocated."""
    status = taken.status
    shown: dict[str, Any] = {"code": status.code.value, "reasons": list(status.reasons)}
    if taken.give_up:
        write = {"verb": "patch", "resource": "resourceclaims", "subresource": "status"}
        shown["writes"] = [{**write, "name": each.metadata.name} for each in taken.give_up]
    elif len(taken.candidates) > 1:
        shown["anyOf"] = sorted(claim.metadata.name for claim in taken.candidates)
    elif taken.candidates:
        (claim,) = taken.candidates
        write = {"verb": "update", "resource": "resourceclaims", "subresource": "status"}
        shown["writes"] = [{**write, "name": claim.metadata.name, "object": {"status": {}}}]
    elif taken.delete is not None:
        metadata = taken.delete.metadata
        left = [each for each in metadata.finalizers if each != FINALIZER]
        shown["writes"] = [
            {
                "verb": "update",
                "resource": "resourceclaims",
                "name": metadata.name,
                "object": {"metadata": {"finalizers": left}},
            },
            {"verb": "delete", "resource": "resourceclaims", "name": metadata.name},
        ]
    return shown
