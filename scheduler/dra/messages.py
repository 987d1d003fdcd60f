"""The texts of verdicts, as kube-scheduler has them."""

from __future__ import annotations

from scheduler.model.devices import ResourceClaim
from scheduler.model.podinfo import PodInfo

NOTHING_FITS = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
NOT_AVAILABLE = "resourceclaim not available on the node"
LEFT_OVER = "cannot schedule extended resource claim"
CANNOT_FIT = "cannot fit resource"
NOTHING_TO_FREE = "no new claims to deallocate"
STILL_NOT = "still not schedulable"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
GIVEN_UP = "reservation of ResourceClaim given up"
"""Ours: kube-scheduler leaves such a reservation."""


def wrapped(text: str) -> str:
    """A fault of the filter as the attempt's error."""
    return f'running "DynamicResources" filter plugin: {text}'


def in_the_process(claim: ResourceClaim) -> str:
    """The claim is being allocated for another pod."""
    return f"resource claim {claim.metadata.key} is in the process of being allocated"


def not_created(pod: PodInfo) -> str:
    """The claim of a template does not exist yet."""
    return f'pod "{pod.key}": ResourceClaim not created yet'


def unsupported(pod: PodInfo, name: str) -> str:
    """An entry of ``spec.resourceClaims`` names neither a claim nor a template."""
    return f'pod "{pod.key}", spec.resourceClaim "{name}": none of the supported fields are set'


def not_found(key: str) -> str:
    """There is no such claim."""
    return f'could not find ResourceClaim "{key}"'


def being_deleted(claim: ResourceClaim) -> str:
    """The claim is going."""
    return f'resourceclaim "{claim.metadata.name}" is being deleted'


def not_owner(claim: ResourceClaim, pod: PodInfo) -> str:
    """A claim made from a template belongs to another pod."""
    key = claim.metadata.key
    return f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)"
