"""The claims of a pod: which they are, and why the pod cannot use them yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from scheduler.dra import messages
from scheduler.model.devices import ResourceClaim
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import PodResourceClaim


class UnusableClaimError(Exception):
    """A claim is missing, or not the pod's; the pod cannot be placed on any node."""


class Claims(Protocol):
    """Where claims are looked up."""

    def claim(self, key: str) -> ResourceClaim | None:
        """The newest version of a claim, perhaps one that the watch has not shown yet."""
        ...


def usable_claims(pod: PodInfo, claims: Claims) -> Iterator[ResourceClaim]:
    """The claims of a pod, in order; raises UnusableClaimError at the first that it cannot use."""
    namespace, made = pod.pod.metadata.namespace, _made(pod)
    for entry in pod.pod.spec.resource_claims:
        name = entry.resource_claim_name or _claim_name(pod, entry, made)
        if name is None:
            continue
        key = f"{namespace}/{name}"
        claim = claims.claim(key)
        if claim is None:
            raise UnusableClaimError(messages.not_found(key))
        if claim.metadata.deletion_timestamp is not None:
            raise UnusableClaimError(messages.being_deleted(claim))
        if entry.resource_claim_name is None and not _controls(pod, claim):
            raise UnusableClaimError(messages.not_owner(claim, pod))
        yield claim


def _made(pod: PodInfo) -> dict[str, str | None]:
    """The names of the claims that were made for a pod, by the names of its entries."""
    # The first of equal names counts.
    statuses = reversed(pod.pod.status.resource_claim_statuses)
    return {status.name: status.resource_claim_name for status in statuses}


def _claim_name(
    pod: PodInfo, entry: PodResourceClaim, made: Mapping[str, str | None]
) -> str | None:
    """The name of the claim of an entry; None if there is intentionally none."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise UnusableClaimError(messages.unsupported(pod, entry.name))
    if entry.name not in made:
        raise UnusableClaimError(messages.not_created(pod))
    return made[entry.name]


def claim_keys(pod: PodInfo) -> list[str]:
    """The keys of the claims that a pod names, as far as they are known."""
    namespace, made = pod.pod.metadata.namespace, _made(pod)
    names = [
        each.resource_claim_name or made.get(each.name) for each in pod.pod.spec.resource_claims
    ]
    return [f"{namespace}/{name}" for name in names if name]


def _controls(pod: PodInfo, claim: ResourceClaim) -> bool:
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.uid


def doomed_claims(pod: PodInfo, claims: Claims) -> list[ResourceClaim]:
    """The claims of a pod that are being deleted and cannot go, because they are reserved for it.

    A pod without a node has them from a process that ended before its binding. It can never use
    them, and kube-controller-manager keeps a reservation as long as its pod exists.
    """
    found = filter(None, map(claims.claim, dict.fromkeys(claim_keys(pod))))
    return [
        each
        for each in found
        if each.metadata.deletion_timestamp is not None and reserved_for(each, pod)
    ]


def reserved_for(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether a claim is reserved for a pod."""
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)
