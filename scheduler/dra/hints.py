"""Which events may cure a pod that DynamicResources rejected.

The rules are kube-scheduler's, with two additions: a claim that is deleted while it holds devices
frees them too, and one of the pod's own that is deleted no longer stands in its way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.pod_claims import UnusableClaimError, claim_keys, usable_claims
from scheduler.model.devices import ResourceClaim
from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.queueing.columns import Indexed, Term, alike
from scheduler.queueing.hints import HintRegistration, by_uid

_FREED = "freed"
"""The token of events by which devices became free; no claim has such a key."""
_REMOVED = "removed"
"""With the owner's uid: the token of events by which a claim of that owner went."""


class DeviceHints:
    """The hints of one plugin. Each costs O(claims of the pod)."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger

    def registrations(self) -> Sequence[HintRegistration]:
        """The events and hints."""
        came_or_changed = Action.ADD | Action.UPDATE
        of_nodes = Action.ADD | Action.NODE_LABEL | Action.NODE_ALLOCATABLE
        return (
            HintRegistration("Node", of_nodes, _always, alike(_always)),
            HintRegistration(
                "ResourceClaim",
                came_or_changed | Action.DELETE,
                self.after_claim,
                self._by_claim,
            ),
            HintRegistration("Pod", Action.POD_GENERATED_CLAIM, self.after_pod, by_uid),
            HintRegistration("DeviceClass", came_or_changed, _always, alike(_always)),
            HintRegistration("ResourceSlice", came_or_changed, _always, alike(_always)),
        )

    def after_claim(self, pod: PodInfo, event: Event) -> Hint:
        """A claim of the pod is there or has changed, or some claim has freed devices."""
        old, new = event.old, event.new
        try:
            own = {claim.metadata.uid for claim in usable_claims(pod, self._ledger)}
        except UnusableClaimError:
            return Hint.SKIP  # the pod waits for that claim
        if _freed(event) or _removed_owner(event) == pod.uid:
            return Hint.QUEUE
        if not isinstance(new, ResourceClaim) or new.metadata.uid not in own:
            return Hint.SKIP
        if isinstance(old, ResourceClaim) and old.status == new.status:
            return Hint.SKIP
        return Hint.QUEUE

    def after_pod(self, pod: PodInfo, event: Event) -> Hint:
        """The pod's status names its claims, and they all exist."""
        new = event.new
        if not isinstance(new, PodInfo) or new.uid != pod.uid:
            return Hint.SKIP
        try:
            for _ in usable_claims(new, self._ledger):
                pass
        except UnusableClaimError:
            return Hint.SKIP
        return Hint.QUEUE

    def _by_claim(self) -> Indexed:
        return Indexed(_awaited, _tokens)


def _always(pod: PodInfo, event: Event) -> Hint:
    return Hint.QUEUE


def _awaited(pod: PodInfo) -> Iterator[Term]:
    yield [[_FREED]]
    yield [[(_REMOVED, pod.uid)]]
    for key in claim_keys(pod):
        yield [[key]]


def _tokens(event: Event) -> Iterator[Hashable]:
    if _freed(event):
        yield _FREED
    if isinstance(event.new, ResourceClaim):
        yield event.new.metadata.key
    elif owner := _removed_owner(event):
        yield (_REMOVED, owner)


def _removed_owner(event: Event) -> str:
    """The uid of whom a claim belonged to that is gone.

    A claim for extended resources that an attempt has left keeps its pod from being placed, with or
    without devices.
    """
    if not isinstance(event.old, ResourceClaim) or isinstance(event.new, ResourceClaim):
        return ""
    owner = event.old.metadata.controller
    return owner.uid if owner is not None else ""


def _freed(event: Event) -> bool:
    """Whether a claim gave back what it held."""
    old, new = event.old, event.new
    if not isinstance(old, ResourceClaim) or old.status.allocation is None:
        return False
    return not isinstance(new, ResourceClaim) or new.status.allocation is None
