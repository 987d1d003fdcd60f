"""Which events may cure a pod that DynamicResources rejected.

The rules are kube-scheduler's, with additions: a claim that is deleted while it holds devices frees
them too, and one of the pod's own that is deleted no longer stands in its way; without a slice that
is gone a pool may contradict itself no longer, and a class that goes leaves a resource to another.
A claim that is being deleted and reserved for a pod is given up by its next attempt.

And they are finer. A class concerns pods that name it, or a resource that it serves. A slice
concerns pods of which some request selects a device of its pool, of whichever slice: it may have
made the pool whole, or left it more of its counters. Those that ask for all devices are concerned
by every pool. A failed selector is an error, after which a pod is tried again without any event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

from scheduler.devices.demand import demand_key
from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.names import CLASS_PREFIX
from scheduler.dra.pod_claims import UnusableClaimError, claim_keys, doomed_claims, usable_claims
from scheduler.dra.pod_devices import PodDevices, Preparation
from scheduler.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.queueing.columns import MOST_KEYS, Answer, Indexed, Term, WaitingColumn, alike
from scheduler.queueing.hints import HintRegistration, by_uid

Concern = Callable[[Sequence[ResourceClaim], frozenset[str]], bool]

_FREED = "freed"
"""The token of events by which devices became free; no claim has such a key."""
_REMOVED = "removed"
"""With the owner's uid: the token of events by which a claim of that owner went."""


class DeviceHints:
    """The hints of one plugin. Each costs O(claims of the pod)."""

    def __init__(self, ledger: DeviceLedger, preparation: Preparation) -> None:
        self._ledger = ledger
        self._preparation = preparation

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
            HintRegistration(
                "DeviceClass", came_or_changed | Action.DELETE, self.after_devices, self._by_demand
            ),
            HintRegistration(
                "ResourceSlice",
                came_or_changed | Action.DELETE,
                self.after_devices,
                self._by_demand,
            ),
        )

    def after_devices(self, pod: PodInfo, event: Event) -> Hint:
        """A class or a slice may be of use for what the pod asks."""
        try:
            claims = list(usable_claims(pod, self._ledger))
        except UnusableClaimError:
            return Hint.SKIP  # the pod waits for that claim
        needs = self._preparation.prepare(pod)
        if needs is None:
            return Hint.QUEUE  # no class serves it any more
        claims = [each for each in claims if each.status.allocation is None]
        if isinstance(needs, PodDevices):
            claims = wanted(needs)
        concerned = self._concerned_by(event)(claims, _resources(pod))
        return Hint.QUEUE if concerned else Hint.SKIP

    def _concerned_by(self, event: Event) -> Concern:
        """Says of claims, and extended resources of a pod, whether an event may cure them."""
        both = [each for each in (event.old, event.new) if each is not None]
        classes = [each for each in both if isinstance(each, DeviceClass)]
        names = {each.metadata.name for each in classes}
        served = {each.spec.extended_resource_name or "" for each in classes}
        served |= {f"{CLASS_PREFIX}{name}" for name in names}
        pools = {
            (each.spec.driver, each.spec.pool.name)
            for each in both
            if isinstance(each, ResourceSlice)
        }
        index = self._ledger.index
        shapes = index.shapes_of(pools)

        def concerned(claims: Sequence[ResourceClaim], resources: frozenset[str]) -> bool:
            if names:
                return bool(resources & served) or _named(claims, names)
            return index.touches(claims, shapes)

        return concerned

    def _by_demand(self) -> WaitingColumn:
        return DemandColumn(self._preparation, self._concerned_by)

    def after_claim(self, pod: PodInfo, event: Event) -> Hint:
        """A claim of the pod is there or has changed, or some claim has freed devices."""
        old, new = event.old, event.new
        try:
            own = {claim.metadata.uid for claim in usable_claims(pod, self._ledger)}
        except UnusableClaimError:  # the pod waits for that claim, if it does not keep it
            doomed = {each.metadata.uid for each in doomed_claims(pod, self._ledger)}
            concerned = isinstance(new, ResourceClaim) and new.metadata.uid in doomed
            return Hint.QUEUE if concerned else Hint.SKIP
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


class DemandColumn:
    """Pods by what they ask of devices. An event costs O(different demands).

    The claims of the first pod of each demand are kept, and not the pod: it may go before others.
    Pods whose claims cannot be used are asked about one by one.
    """

    def __init__(self, preparation: Preparation, concerned_by: Callable[[Event], Concern]) -> None:
        self._preparation = preparation
        self._concerned_by = concerned_by
        self._keys: dict[int, tuple[bytes, frozenset[str]]] = {}
        self._groups: dict[
            tuple[bytes, frozenset[str]], tuple[Sequence[ResourceClaim], set[int]]
        ] = {}
        self._unknown: dict[int, None] = {}

    def add(self, waiter: int, pod: PodInfo) -> None:
        """Add a waiter to those who ask for the same."""
        needs = self._preparation.prepare(pod)
        if not isinstance(needs, PodDevices):
            self._unknown[waiter] = None
            return
        claims = wanted(needs)
        key = self._keys[waiter] = demand_key(claims), _resources(pod)
        self._groups.setdefault(key, (claims, set()))[1].add(waiter)

    def remove(self, waiter: int) -> None:
        """Remove a waiter."""
        if waiter in self._unknown:
            del self._unknown[waiter]
            return
        key = self._keys.pop(waiter)
        waiters = self._groups[key][1]
        waiters.remove(waiter)
        if not waiters:
            del self._groups[key]

    def hopeless(self) -> Collection[int]:
        """None that it knows."""
        return ()

    def answer(self, event: Event) -> Answer:
        """Find the demands that an event concerns."""
        if len(self._groups) > MOST_KEYS:  # to compare them all takes too long
            return Answer(list(self._keys), self._unknown)
        concerned = self._concerned_by(event)
        cured: list[int] = []
        for (_, resources), (claims, waiters) in self._groups.items():
            if concerned(claims, resources):
                cured.extend(waiters)
        return Answer(cured, self._unknown)


def wanted(needs: PodDevices) -> list[ResourceClaim]:
    """The claims of a pod that need devices, whichever node offers what it asks for."""
    return needs.to_allocate(tuple(needs.served))


def _resources(pod: PodInfo) -> frozenset[str]:
    """The extended resources of a pod, whether or not a class serves them."""
    return frozenset(name for name, amount in pod.fit_requests.items() if amount and "/" in name)


def _named(claims: Sequence[ResourceClaim], names: Collection[str]) -> bool:
    """Whether some request is for one of some classes."""
    return any(
        each.device_class_name in names
        for claim in claims
        for request in claim.spec.devices.requests or ()
        for each in (*((request.exactly,) if request.exactly else ()), *request.first_available)
    )


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
