"""What the claims of a play hold: devices that the play has given them, not the recorded ones.

The recording shows which claims there are and what they ask for. What becomes of a claim follows
from where this play places its pods: binding a pod writes what was reserved for it, and when the
last pod of a claim is gone its devices are free again, as the controller of a cluster has it.
Claims that were allocated before the recording began, or by another scheduler, are as recorded.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from msgspec.structs import replace

from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.names import EXTENDED_CLAIM
from scheduler.dra.pod_claims import claim_keys
from scheduler.model.devices import (
    AllocationResult,
    ConsumerReference,
    ResourceClaim,
    ResourceClaimStatus,
)
from scheduler.model.podinfo import PodInfo


class PlayedClaims:
    """Follows the claims of one play."""

    def __init__(self) -> None:
        self._as_recorded: set[str] = set()
        """The uids of claims whose devices the recording shows."""
        self._seen: set[str] = set()
        self._used: dict[str, set[str]] = {}
        """By the uid of a pod, the keys of the claims that it uses."""
        self._made: set[str] = set()
        """The uids of claims that this play has made for extended resources."""

    def is_made(self, each: object) -> bool:
        """Whether an object is a claim that the recording does not have."""
        return isinstance(each, ResourceClaim) and each.metadata.uid in self._made

    def in_play(
        self, new: ResourceClaim, known: ResourceClaim | None, ours: Container[str]
    ) -> ResourceClaim | None:
        """A claim as this play has it when the recording shows a version; None: not at all.

        ``ours`` are the uids of pods that this play places. Costs as much as the claim has
        consumers, however many pods there are.
        """
        if EXTENDED_CLAIM in new.metadata.annotations and any(
            owner.uid in ours for owner in new.metadata.owner_references
        ):
            return None  # the play makes its own
        uid = new.metadata.uid
        by_others = any(each.uid not in ours for each in new.status.reserved_for)
        if new.status.allocation is not None and (uid not in self._seen or by_others):
            self._as_recorded.add(uid)
        self._seen.add(uid)
        if uid in self._as_recorded:
            return new
        same = known is not None and known.metadata.uid == uid
        return replace(new, status=known.status if same and known else ResourceClaimStatus())

    def bound(self, pod: PodInfo, ledger: DeviceLedger) -> Iterator[tuple[str, str, ResourceClaim]]:
        """The claims that binding a pod writes, each after the uid and key that it had reserved."""
        used = self._used.setdefault(pod.uid, set())
        written = set()
        for flight in ledger.in_flight_for(pod):
            reserved = flight.claim
            known = ledger.claim(reserved.metadata.key)
            claim = reserved if known is None else known
            if known is None and EXTENDED_CLAIM in reserved.metadata.annotations:
                claim = self._named(reserved, pod)
            written.add(claim.metadata.key)
            used.add(claim.metadata.key)
            metadata = reserved.metadata
            yield metadata.uid, metadata.key, _used_by(claim, pod, flight.allocation)
        for key in claim_keys(pod):
            shared = ledger.claim(key)
            if key not in written and shared is not None and shared.status.allocation is not None:
                used.add(key)
                metadata = shared.metadata
                yield metadata.uid, metadata.key, _used_by(shared, pod, shared.status.allocation)

    def ended(self, uid: str) -> set[str]:
        """The keys of the claims that a pod used which is gone or has ended."""
        return self._used.pop(uid, set())

    def without(self, claim: ResourceClaim, uid: str) -> ResourceClaim | None:
        """A claim after a pod that used it; None if it was made for that pod by this play."""
        if claim.metadata.uid in self._as_recorded:
            return claim
        if EXTENDED_CLAIM in claim.metadata.annotations:
            return None
        left = tuple(each for each in claim.status.reserved_for if each.uid != uid)
        kept = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
        return replace(claim, status=kept)

    def _named(self, claim: ResourceClaim, pod: PodInfo) -> ResourceClaim:
        """A claim for extended resources with a name, as an API server gives it."""
        metadata = claim.metadata
        name = f"{pod.pod.metadata.name}-extended-resources-{len(self._made) + 1}"
        uid = f"{metadata.namespace}/{name}"
        self._made.add(uid)
        return replace(claim, metadata=replace(metadata, name=name, uid=uid))


def _used_by(claim: ResourceClaim, pod: PodInfo, allocation: AllocationResult) -> ResourceClaim:
    consumers = claim.status.reserved_for
    if all(each.uid != pod.uid for each in consumers):
        name = pod.pod.metadata.name
        consumers = (*consumers, ConsumerReference(resource="pods", name=name, uid=pod.uid))
    status = replace(claim.status, allocation=allocation, reserved_for=consumers)
    return replace(claim, status=status)
