"""Which events may cure a pod that DynamicResources rejected.

The rules are kube-scheduler's, with additions: a claim that is deleted while it holds devices frees
them too, and one of the pod's own that is deleted no longer stands in its way; without a slice that
is gone a pool may contradict itself no longer, and a class that goes leaves a resource to another.
A claim that is being deleted and reserved for a pod is given up by its next attempt. One that has
got the pod as its owner can be used.

And they are finer. A pod whose claim is missing waits for that claim: no node, slice or class helps
it, and at a start thousands of these come before the claim does. A pod whose class is missing, or
whose claim is being allocated for another, waits for that. A class concerns pods that name it, or a
resource that it serves. A slice concerns pods of which some request selects a device of its pool,
of whichever slice: it may have made the pool whole, or left it more of its counters. So does a
claim that frees devices. Those that ask for all devices are concerned by every pool. A failed
selector is an error, after which a pod is tried again without any event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from scheduler.devices.demand import demand_key
from scheduler.devices.pools import PoolKey
from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.names import CLASS_PREFIX
from scheduler.dra.pod_claims import UnusableClaimError, claim_keys, doomed_claims, usable_claims
from scheduler.dra.pod_devices import PodDevices, Preparation
from scheduler.model.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.queueing.columns import MOST_KEYS, Answer, Indexed, Term, WaitingColumn, alike
from scheduler.queueing.hints import HintRegistration, by_uid

_RELEASED = "released"
"""With the owner's uid: the token of events by which a claim of that owner went, or its devices."""


class Lack(Enum):
    """What a pod lacks, as far as events can cure it."""

    CLAIM = "claim"
    """One of its claims cannot be used: events of claims and of the pod itself count."""
    CLASS = "class"
    """A class; or a claim that is being allocated for another pod, of which events tell."""
    DEVICES = "devices"
    NOTHING = "nothing"
    """No class serves it any more."""


class Wish(NamedTuple):
    """What a pod waits for."""

    lack: Lack
    claims: Sequence[ResourceClaim] = ()
    """Those that need devices."""
    resources: frozenset[str] = frozenset()
    """Its extended resources, whether or not a class serves them."""
    key: bytes = b""
    """What the claims ask for (`demand_key`)."""


Concern = Callable[[Wish], bool]


class DeviceHints:
    """The hints of one plugin. Each costs O(claims of the pod)."""

    def __init__(self, ledger: DeviceLedger, preparation: Preparation) -> None:
        self._ledger = ledger
        self._preparation = preparation

    def registrations(self) -> Sequence[HintRegistration]:
        """The events and hints; what a claim means to its pods, and what it frees, are two."""
        any_change = Action.ADD | Action.UPDATE | Action.DELETE
        frees = Action.UPDATE | Action.DELETE
        of_nodes = Action.ADD | Action.NODE_LABEL | Action.NODE_ALLOCATABLE
        of_devices, by_demand = self.after_devices, self._by_demand
        return (
            HintRegistration("Node", of_nodes, of_devices, by_demand),
            HintRegistration("ResourceClaim", any_change, self.after_claim, self._by_claim),
            HintRegistration("ResourceClaim", frees, of_devices, by_demand),
            HintRegistration("Pod", Action.POD_GENERATED_CLAIM, self.after_pod, by_uid),
            HintRegistration("DeviceClass", any_change, of_devices, by_demand),
            HintRegistration("ResourceSlice", any_change, of_devices, by_demand),
        )

    def wish(self, pod: PodInfo) -> Wish:
        """What a rejected pod waits for."""
        needs = self._preparation.prepare(pod)
        if isinstance(needs, PodDevices):
            return _wish(Lack.DEVICES, wanted(needs), pod)
        try:
            found = list(usable_claims(pod, self._ledger))
        except UnusableClaimError:
            return Wish(Lack.CLAIM)
        claims = [each for each in found if each.status.allocation is None]
        lack = Lack.NOTHING if needs is None else Lack.CLASS
        return _wish(lack, claims, pod)

    def after_devices(self, pod: PodInfo, event: Event) -> Hint:
        """A node, a class, a slice or what a claim freed may be of use for what the pod asks."""
        return Hint.QUEUE if self._concerned_by(event)(self.wish(pod)) else Hint.SKIP

    def _concerned_by(self, event: Event) -> Concern:
        """Says of wishes whether an event may fulfil them."""
        if event.kind == "DeviceClass":
            return self._by_class(event)
        if event.kind == "Node":
            return lambda wish: wish.lack in (Lack.DEVICES, Lack.NOTHING)
        pools = _pools(event)
        if not pools:
            return lambda wish: False
        index = self._ledger.index
        shapes = index.shapes_of(pools)

        def concerned(wish: Wish) -> bool:
            if wish.lack is not Lack.DEVICES:
                return wish.lack is Lack.NOTHING
            return index.touches(wish.claims, wish.key, shapes)

        return concerned

    def _by_class(self, event: Event) -> Concern:
        both = [each for each in (event.old, event.new) if isinstance(each, DeviceClass)]
        names = {each.metadata.name for each in both}
        served = {each.spec.extended_resource_name or "" for each in both}
        served |= {f"{CLASS_PREFIX}{name}" for name in names}

        def concerned(wish: Wish) -> bool:
            if wish.lack in (Lack.CLAIM, Lack.NOTHING):
                return wish.lack is Lack.NOTHING
            return bool(wish.resources & served) or _named(wish.claims, names)

        return concerned

    def _by_demand(self) -> WaitingColumn:
        return DemandColumn(self.wish, self._concerned_by)

    def after_claim(self, pod: PodInfo, event: Event) -> Hint:
        """A claim of the pod is there or has changed, or no longer stands in its way."""
        old, new = event.old, event.new
        try:
            own = {claim.metadata.uid for claim in usable_claims(pod, self._ledger)}
        except UnusableClaimError:  # the pod waits for that claim, if it does not keep it
            doomed = {each.metadata.uid for each in doomed_claims(pod, self._ledger)}
            concerned = isinstance(new, ResourceClaim) and new.metadata.uid in doomed
            return Hint.QUEUE if concerned else Hint.SKIP
        if _released_owner(event) == pod.uid:
            return Hint.QUEUE
        if not isinstance(new, ResourceClaim) or new.metadata.uid not in own:
            return Hint.SKIP
        if isinstance(old, ResourceClaim) and _means_the_same(old, new):
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

    The wish of the first pod of each demand is kept, and not the pod: it may go before others. A
    pod that lacks a claim is woken by that claim, and asks again for what it needs.
    """

    def __init__(
        self, wish: Callable[[PodInfo], Wish], concerned_by: Callable[[Event], Concern]
    ) -> None:
        self._wish = wish
        self._concerned_by = concerned_by
        self._keys: dict[int, Wish] = {}
        self._groups: dict[Wish, tuple[Wish, set[int]]] = {}
        """By the wish without its claims."""

    def add(self, waiter: int, pod: PodInfo) -> None:
        """Add a waiter to those who ask for the same."""
        wish = self._wish(pod)
        if wish.lack is Lack.CLAIM:
            return
        key = self._keys[waiter] = wish._replace(claims=())
        self._groups.setdefault(key, (wish, set()))[1].add(waiter)

    def remove(self, waiter: int) -> None:
        """Remove a waiter."""
        key = self._keys.pop(waiter, None)
        if key is None:
            return
        waiters = self._groups[key][1]
        waiters.remove(waiter)
        if not waiters:
            del self._groups[key]

    def hopeless(self) -> Collection[int]:
        """None that it knows."""
        return ()

    def answer(self, event: Event) -> Answer:
        """Find the demands that an event concerns.

        To compare one has checkpoints: waiters may come and go meanwhile. Those who come were in
        flight, and the event has been kept for them.
        """
        if not self._groups or (event.kind == "ResourceClaim" and not _pools(event)):
            return Answer()
        if len(self._groups) > MOST_KEYS:  # to compare them all takes too long
            return Answer(list(self._keys))
        concerned = self._concerned_by(event)
        cured = [key for key, (wish, _) in list(self._groups.items()) if concerned(wish)]
        left = (self._groups[key][1] for key in cured if key in self._groups)
        return Answer([waiter for waiters in left for waiter in waiters])


def wanted(needs: PodDevices) -> list[ResourceClaim]:
    """The claims of a pod that need devices, whichever node offers what it asks for."""
    return needs.to_allocate(tuple(needs.served))


def _wish(lack: Lack, claims: Sequence[ResourceClaim], pod: PodInfo) -> Wish:
    return Wish(lack, claims, _resources(pod), demand_key(claims))


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


def _awaited(pod: PodInfo) -> Iterator[Term]:
    yield [[(_RELEASED, pod.uid)]]
    for key in claim_keys(pod):
        yield [[key]]


def _tokens(event: Event) -> Iterator[Hashable]:
    if isinstance(event.new, ResourceClaim):
        yield event.new.metadata.key
    if owner := _released_owner(event):
        yield (_RELEASED, owner)


def _released_owner(event: Event) -> str:
    """The uid of the owner of a claim that is gone, or that gave back what it held.

    A claim for extended resources that an attempt has left keeps its pod from being placed, with or
    without devices.
    """
    old, new = event.old, event.new
    if not isinstance(old, ResourceClaim):
        return ""
    if isinstance(new, ResourceClaim) and _freed(event) is None:
        return ""
    owner = old.metadata.controller
    return owner.uid if owner is not None else ""


def _means_the_same(old: ResourceClaim, new: ResourceClaim) -> bool:
    """Whether a change of a claim leaves its pods where they were."""
    return old.status == new.status and old.metadata.controller == new.metadata.controller


def _pools(event: Event) -> set[PoolKey]:
    """The pools of which an event may have made devices useful."""
    freed = _freed(event)
    if freed is not None:
        return {(each.driver, each.pool) for each in freed.devices.results}
    return {
        (each.spec.driver, each.spec.pool.name)
        for each in (event.old, event.new)
        if isinstance(each, ResourceSlice)
    }


def _freed(event: Event) -> AllocationResult | None:
    """What a claim gave back; None if it did not."""
    old, new = event.old, event.new
    if not isinstance(old, ResourceClaim) or old.status.allocation is None:
        return None
    kept = isinstance(new, ResourceClaim) and new.status.allocation is not None
    return None if kept else old.status.allocation


def _any_devices(pod: PodInfo, event: Event) -> Hint:
    """Whether an event may have made devices useful, to whomever."""
    return Hint.QUEUE if event.kind == "DeviceClass" or _pools(event) else Hint.SKIP


ANY_DEVICES = tuple(
    HintRegistration(kind, actions, _any_devices, alike(_any_devices))
    for kind, actions in (
        ("DeviceClass", Action.ADD | Action.UPDATE | Action.DELETE),
        ("ResourceSlice", Action.ADD | Action.UPDATE | Action.DELETE),
        ("ResourceClaim", Action.UPDATE | Action.DELETE),
    )
)
"""For those who stand for pods that ask for different devices."""
