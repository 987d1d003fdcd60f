"""All claims, slices and classes of a cluster, and what of the devices is taken.

::

    watch ──► ObjectStore ──► ledger ──► DeviceIndex: pools, shapes, what is free on which row
    Reserve ──► in flight ────┘  └──► log of changes: the rows whose verdicts are stale
    PreBind ──► written ──────┘

What a claim holds is, in this order: what a pod that is being bound has reserved (*in flight*),
what was *written* and is not seen by the watch yet, what the watch shows. So no device is given out
twice between a decision and its event. A watched version that is as new as the written one
replaces it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice

import msgspec
import numpy as np

from scheduler.devices import DeviceIndex, Touched
from scheduler.devices.budget import MOST_WORK
from scheduler.dra.extended_resources import made_for
from scheduler.dra.names import EXTENDED_CLAIM
from scheduler.dra.pod_claims import claim_keys
from scheduler.dra.pod_claims import reserved_for as uses
from scheduler.equivalence.reads import Reads
from scheduler.equivalence.verdicts import ChangeReader
from scheduler.model.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from scheduler.model.podinfo import PodInfo
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState

MOST_CHANGED = 1024
"""So many changes of rows are listed."""

_OF_ROW = (Aspect.DEVICES,)
_OF_CLAIMS = (Aspect.RESOURCE_CLAIMS,)


class InFlight(msgspec.Struct):
    """A claim that is allocated in memory only, for pods that are being bound."""

    claim: ResourceClaim
    allocation: AllocationResult
    users: set[str]
    """The uids of the pods; several only if they are of one pod group."""
    group: str | None = None
    """The pod group of the pod that reserved it, as ``namespace/name``."""


class DeviceLedger:
    """One for each cluster, shared by all profiles."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.index = DeviceIndex()
        self.most_work = MOST_WORK
        """What a search on one node may do, whatever a profile allows."""
        self.rows_changed = 0
        """How many changes of rows there were."""
        self._changed: deque[int] = deque(maxlen=MOST_CHANGED)
        """The rows of the last of them."""
        self._all_changed_at = 0
        """How many changes there had been when all rows had last changed."""
        self._in_flight: dict[str, InFlight] = {}
        """By the uid of the claim."""
        self._written: dict[str, ResourceClaim] = {}
        """By key, versions that the watch has not shown yet."""
        self._held: dict[str, AllocationResult] = {}
        """By uid, what the index counts."""
        self._special: dict[str, dict[str, None]] = {}
        """By the uid of a pod, claims that were made for its extended resources."""
        self.version = 0
        """Grows with every change of claims and classes."""
        self._nodes = ChangeReader(state, Reads(rows=frozenset({Aspect.LABELS})))
        self._rows_known = False
        objects = state.objects
        for name, found in objects.all(DeviceClass).items():
            self.index.set_class(name, found)
        for piece in objects.all(ResourceSlice).values():
            self._touch(self.index.set_slice(None, piece))
        for key, claim in objects.all(ResourceClaim).items():
            self._claim_changed(key, None, claim)
        objects.subscribe(DeviceClass, self._class_changed)
        objects.subscribe(ResourceSlice, self._slice_changed)
        objects.subscribe(ResourceClaim, self._claim_changed)

    @property
    def empty(self) -> bool:
        """Whether there are no devices, classes and claims at all."""
        objects = self._state.objects
        claims, classes = objects.all(ResourceClaim), objects.all(DeviceClass)
        return not claims and not classes and not objects.all(ResourceSlice)

    # Reading

    def claim(self, key: str) -> ResourceClaim | None:
        """The newest version of a claim that is known."""
        return self._written.get(key) or self._state.objects.get(ResourceClaim, key)

    def claims(self) -> Iterator[ResourceClaim]:
        """All claims."""
        for key in list(self._state.objects.all(ResourceClaim)):
            claim = self.claim(key)
            if claim is not None:
                yield claim

    def device_class(self, name: str) -> DeviceClass | None:
        """A class."""
        return self._state.objects.get(DeviceClass, name)

    def in_flight(self, claim: ResourceClaim) -> InFlight | None:
        """What is reserved of a claim and not written."""
        return self._in_flight.get(claim.metadata.uid)

    def in_flight_for(self, pod: PodInfo) -> list[InFlight]:
        """All that is reserved for a pod and not written."""
        return [each for each in self._in_flight.values() if pod.uid in each.users]

    def left_over(self, pod: PodInfo) -> ResourceClaim | None:
        """The claim that an earlier attempt made for a pod's extended resources."""
        for key in self._special.get(pod.uid, ()):
            claim = self.claim(key)
            if claim is not None and made_for(claim, pod):
                return claim
        return None

    def shown(self, claim: ResourceClaim) -> ResourceClaim | None:
        """The claim as the watch shows it, if that is not older than this version."""
        seen = self._state.objects.get(ResourceClaim, claim.metadata.key)
        return seen if seen is not None and _as_new(seen, claim) else None

    def settled(self, key: str) -> bool:
        """Whether all that is known of a claim is what the watch shows."""
        claim = self.claim(key)
        return key not in self._written and (
            claim is None or claim.metadata.uid not in self._in_flight
        )

    def reserved_for(self, pod: PodInfo) -> list[str]:
        """The keys of the claims that a pod uses, its own and those for extended resources."""
        keys = [*claim_keys(pod), *self._special.get(pod.uid, ())]
        return [key for key in keys if (claim := self.claim(key)) is not None and uses(claim, pod)]

    @contextmanager
    def searching_at_most(self, work: int) -> Iterator[None]:
        """Have searches do no more than some work for the length of a block."""
        before, self.most_work = self.most_work, min(work, self.most_work)
        try:
            yield
        finally:
            self.most_work = before

    def follow_nodes(self) -> None:
        """Tell the index which nodes are in which rows. Before it is asked about rows."""
        touched = self._nodes.news()
        nodes = self._state.columns.nodes
        if touched is None or not self._rows_known:
            self._rows_known = True
            live = np.flatnonzero(self._state.columns.live).tolist()
            for row in set(range(len(nodes))) - set(live):
                self.index.set_node(row, None)
            touched = live
        self._rows_changed(touched)
        for row in dict.fromkeys(touched):
            self.index.set_node(row, nodes[row])

    def _rows_changed(self, rows: Collection[int]) -> None:
        self.rows_changed += len(rows)
        self._changed.extend(rows)

    def changed_since(self, mark: int) -> list[int] | None:
        """The rows that changed after ``rows_changed`` was this; None: too many to list."""
        count = self.rows_changed - mark
        if mark < self._all_changed_at or count > len(self._changed):
            return None
        return sorted(set(islice(reversed(self._changed), count)))

    # Reserving and writing

    def reserve(
        self, claim: ResourceClaim, allocation: AllocationResult, pod: PodInfo, group: str | None
    ) -> None:
        """Take the devices of an allocation for a pod that is being bound."""
        uid = claim.metadata.uid
        known = self._in_flight.get(uid)
        if known is not None:
            known.users.add(pod.uid)
            return
        self._in_flight[uid] = InFlight(claim, allocation, {pod.uid}, group)
        self._count(uid, claim.metadata.key)

    def release(self, claim: ResourceClaim, pod: PodInfo) -> InFlight | None:
        """A pod no longer needs what it reserved; returns what no pod needs any more."""
        uid = claim.metadata.uid
        known = self._in_flight.get(uid)
        if known is None:
            return None
        known.users.discard(pod.uid)
        if known.users:
            return None
        del self._in_flight[uid]
        self._count(uid, claim.metadata.key)
        return known

    def wrote(self, reserved: ResourceClaim, claim: ResourceClaim) -> None:
        """A claim was written: what it says counts, for all pods that share it.

        ``reserved`` is the claim as it was when its devices were reserved. That of extended
        resources had no name yet.
        """
        self.written(reserved.metadata.uid, reserved.metadata.key, claim)

    def written(self, reserved_uid: str, reserved_key: str, claim: ResourceClaim) -> None:
        """The same; all that counts of the claim as it was reserved is who it is."""
        if self._state.journal is not None:
            self._state.journal.claim_written(reserved_uid, reserved_key, claim)
        key = claim.metadata.key
        seen = self._state.objects.get(ResourceClaim, key)
        if seen is None or not _as_new(seen, claim):
            self._written[key] = claim
        self._index_special(key, None, claim)
        self._in_flight.pop(reserved_uid, None)
        uid = claim.metadata.uid
        if reserved_uid != uid:
            self._pass_on(reserved_uid, uid)
        self._count(uid, key)
        if reserved_uid in self._held and reserved_uid != uid:
            self._count(reserved_uid, reserved_key)

    def _pass_on(self, reserved_uid: str, uid: str) -> None:
        """A claim has its name from the API server: its devices are the same, and touch no row."""
        if reserved_uid in self._held and uid not in self._held:
            self._held[uid] = self._held.pop(reserved_uid)
            self.index.rename_claim(reserved_uid, uid)

    def deleted(self, uid: str, key: str) -> None:
        """A claim that was written is gone, and the watch may never show that it was there."""
        if self._state.journal is not None:
            self._state.journal.claim_written(uid, key, None)
        if self._written.pop(key, None) is not None:
            self._count(uid, key)

    # Changes

    def _class_changed(self, name: str, old: object, new: DeviceClass | None) -> None:
        self.version += 1
        self.index.set_class(name, new)

    def _slice_changed(
        self, key: str, old: ResourceSlice | None, new: ResourceSlice | None
    ) -> None:
        self._touch(self.index.set_slice(old, new))

    def _claim_changed(
        self, key: str, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> None:
        written = self._written.get(key)
        if written is not None and (new is None or _as_new(new, written)):
            del self._written[key]
        self._index_special(key, old, new)
        for uid in {each.metadata.uid for each in (old, new, written) if each is not None}:
            self._count(uid, key)

    def _index_special(
        self, key: str, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> None:
        for claim, known in ((old, False), (new, True)):
            if claim is None or EXTENDED_CLAIM not in claim.metadata.annotations:
                continue
            for owner in claim.metadata.owner_references:
                if known:
                    self._special.setdefault(owner.uid, {})[key] = None
                elif owner.uid in self._special:
                    self._special[owner.uid].pop(key, None)
                    if not self._special[owner.uid]:
                        del self._special[owner.uid]

    def _count(self, uid: str, key: str) -> None:
        """Have the index count what a claim holds now."""
        self.version += 1
        self._state.changes.touch_all(_OF_CLAIMS)
        flight = self._in_flight.get(uid)
        if flight is not None:
            allocation: AllocationResult | None = flight.allocation
        else:
            claim = self.claim(key)
            same = claim is not None and claim.metadata.uid == uid
            allocation = claim.status.allocation if same and claim is not None else None
        if allocation == self._held.get(uid):
            return
        if allocation is None:
            del self._held[uid]
        else:
            self._held[uid] = allocation
        self._touch(self.index.set_claim(uid, allocation))

    def _touch(self, touched: Touched) -> None:
        changes = self._state.changes
        if touched.rows is None:
            self.rows_changed += self._state.node_count
            self._all_changed_at = self.rows_changed
            changes.touch_all(_OF_ROW)
        else:
            self._rows_changed(touched.rows)
            for row in touched.rows:
                changes.touch(row, _OF_ROW)


def ledger_of(state: ClusterState) -> DeviceLedger:
    """The ledger of a cluster; made by the first call."""
    return state.shared.get_or_make(DeviceLedger, partial(DeviceLedger, state))


def _as_new(seen: ResourceClaim, written: ResourceClaim) -> bool:
    """Whether a watched version is not older than one that was written."""
    if seen.metadata.uid != written.metadata.uid:
        return True
    try:
        return int(seen.metadata.resource_version) >= int(written.metadata.resource_version)
    except ValueError:  # no version that can be compared: the watch is right
        return True
