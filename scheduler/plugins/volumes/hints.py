"""Queueing hints of the volume plugins: which pods an event of storage or of a node may help.

A volume concerns its bound claim, the claim that its ``claimRef`` names, and, while it is free,
matching claims of its storage class. Other events of volumes wake no pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from scheduler.model.csi_migration import migration_of
from scheduler.model.events import Event, Hint
from scheduler.model.limits import more_entries_than
from scheduler.model.nodes import CSINode, Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.quantity import QuantityError, value
from scheduler.model.selectors import SelectorError
from scheduler.model.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.model.volumes import DELAYED, SELECTED_NODE, class_of, fully_bound
from scheduler.plugins.volumes.catalog import (
    available_volume,
    class_and_claim_of,
    limit_of,
    usable_nodes,
)
from scheduler.plugins.volumes.matching import ClaimRequirements
from scheduler.plugins.volumes.versions import differs
from scheduler.queueing.columns import Indexed, Term
from scheduler.state.attachments import migrated_on
from scheduler.state.objects import ObjectStore

_FEW_ENTRIES = 64


def after_claim(pod: PodInfo, event: Event) -> Hint:
    """A claim that the pod uses was added or changed."""
    claim = event.new
    if not isinstance(claim, PersistentVolumeClaim):
        return Hint.SKIP
    used = any(use.key == claim.metadata.key for use in pod.volumes.claims)
    return _queue(used)


def by_claim() -> Indexed:
    """The index for `after_claim`: pods by the claims that they use."""
    return Indexed(claims_of, _claim_of)


def claims_of(pod: PodInfo) -> list[Term]:
    """The claims of a pod as terms of the index."""
    return [[[use.key]] for use in pod.volumes.claims]


def _claim_of(event: Event) -> Iterable[str]:
    claim = event.new
    return (claim.metadata.key,) if isinstance(claim, PersistentVolumeClaim) else ()


def _queue(cured: bool) -> Hint:
    return Hint.QUEUE if cured else Hint.SKIP


class VolumeHints:
    """Hints that look up the claims of a pod. Each costs O(claims of the pod)."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def claims(self, pod: PodInfo) -> Iterator[PersistentVolumeClaim]:
        """The claims of a pod that exist."""
        for use in pod.volumes.claims:
            claim = self._objects.get(PersistentVolumeClaim, use.key)
            if claim is not None:
                yield claim

    # Volumes

    def after_volume(self, pod: PodInfo, event: Event) -> Hint:
        """A volume of a claim, or one that a claim may get, was added or changed.

        A deleted volume helps only the claim that it names: that may get another one now.
        """
        versions = _curing(event)
        return _queue(
            any(_concerns(volume, claim) for claim in self.claims(pod) for volume in versions)
        )

    def by_volume(self) -> Indexed:
        """The index for `after_volume`: pods by the volumes and classes of their claims."""
        return Indexed(self._volumes_of, _volume_tokens)

    def _volumes_of(self, pod: PodInfo) -> Iterator[Term]:
        """Computed again when a claim changes, since `after_claim` then queues the pod.

        An assumed binding may be forgotten without an event, so the class of a claim counts until
        the API server has bound it.
        """
        for use in pod.volumes.claims:
            for claim in {
                id(each): each
                for each in (
                    self._objects.get(PersistentVolumeClaim, use.key),
                    self._objects.confirmed(PersistentVolumeClaim, use.key),
                )
                if each is not None
            }.values():
                name = claim.spec.volume_name
                yield [[("volume", name) if name else ("class", class_of(claim))]]

    # Storage classes, drivers and capacity

    def delayed(self, pod: PodInfo) -> Iterator[PersistentVolumeClaim]:
        """Claims of a pod that are bound only when the pod has a node."""
        return (claim for claim in self.claims(pod) if not fully_bound(claim))

    def after_class(self, pod: PodInfo, event: Event) -> Hint:
        """The class of an unbound claim was added, or allows other nodes."""
        old, new = event.old, event.new
        if not isinstance(new, StorageClass):
            return Hint.SKIP
        if isinstance(old, StorageClass) and old.allowed_topologies == new.allowed_topologies:
            return Hint.SKIP
        return _queue(any(class_of(claim) == new.metadata.name for claim in self.delayed(pod)))

    def after_driver(self, pod: PodInfo, event: Event) -> Hint:
        """A driver that provisions volumes for the pod no longer reports its capacity."""
        old, new = event.old, event.new
        if not isinstance(old, CSIDriver) or not isinstance(new, CSIDriver):
            return Hint.QUEUE
        if not old.spec.storage_capacity or new.spec.storage_capacity:
            return Hint.SKIP
        return _queue(new.metadata.name in self._provisioners(pod))

    def _provisioners(self, pod: PodInfo) -> Iterator[str]:
        for claim in self.delayed(pod):
            storage_class = self._objects.get(StorageClass, class_of(claim))
            if storage_class is not None:
                yield storage_class.provisioner

    def after_capacity(self, pod: PodInfo, event: Event) -> Hint:
        """There is more capacity for a storage class of the pod."""
        old, new = event.old, event.new
        if not isinstance(new, CSIStorageCapacity):
            return Hint.SKIP
        if isinstance(old, CSIStorageCapacity):
            before, now = limit_of(old), limit_of(new)
            if now is None or not (before is None or value(now) > value(before)):
                return Hint.SKIP
        return _queue(any(class_of(each) == new.storage_class_name for each in self.delayed(pod)))

    # Nodes

    def after_csi_node(self, pod: PodInfo, event: Event) -> Hint:
        """On some node CSI migration was turned on or off for a volume of the pod."""
        old, new = event.old, event.new
        before = migrated_on(old if isinstance(old, CSINode) else None)
        changed = before ^ migrated_on(new if isinstance(new, CSINode) else None)
        return _queue(bool(changed) and any(each in changed for each in self._in_tree(pod)))

    def _in_tree(self, pod: PodInfo) -> Iterator[str]:
        for claim in self.claims(pod):
            volume = self._objects.get(PersistentVolume, claim.spec.volume_name)
            migration = migration_of(volume.spec) if volume is not None else None
            if migration is not None:
                yield migration.plugin

    def after_node(self, pod: PodInfo, event: Event) -> Hint:
        """A node was added or has other labels, and all claims of the pod may be used there.

        A pod with a missing claim, or with an unbound immediate one, waits for that claim instead.
        """
        node = event.new
        if not isinstance(node, Node):
            return Hint.SKIP
        for use in pod.volumes.claims:
            claim = self._objects.get(PersistentVolumeClaim, use.key)
            if claim is None or not self._usable(claim, node):
                return Hint.SKIP
        return Hint.QUEUE

    def _usable(self, claim: PersistentVolumeClaim, node: Node) -> bool:
        if not fully_bound(claim):
            storage_class = self._objects.get(StorageClass, class_of(claim))
            if storage_class is None or storage_class.volume_binding_mode != DELAYED:
                return False
            return claim.metadata.annotations.get(SELECTED_NODE, node.metadata.name) == (
                node.metadata.name
            )
        volume = self._objects.get(PersistentVolume, claim.spec.volume_name)
        if volume is None:
            return False
        return migration_of(volume.spec) is not None or _usable_on(volume, node.metadata.labels)


def _curing(event: Event) -> Sequence[PersistentVolume]:
    """The versions of a volume by which it may have helped a claim."""
    old = event.old if isinstance(event.old, PersistentVolume) else None
    new = event.new if isinstance(event.new, PersistentVolume) else None
    if new is None:
        return (old,) if old is not None and old.spec.claim_ref is not None else ()
    if old is None:
        return (new,)
    return (old, new) if differs(old, new) else ()


def _concerns(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is that of a claim, or may become so."""
    if claim.spec.volume_name:
        return claim.spec.volume_name == volume.metadata.name
    shelf, class_name = class_and_claim_of(volume), class_of(claim)
    if shelf == (class_name, claim.metadata.key):
        return True
    if shelf != (class_name, ""):
        return False
    if more_entries_than(_FEW_ENTRIES, claim.spec.selector):
        return True  # compiling its selector for each event may cost more than an attempt
    try:
        offer = available_volume(volume)
        return offer is not None and ClaimRequirements(claim).suits(offer)
    except (QuantityError, SelectorError):
        return True  # the pod's next attempt reports what is wrong with its claim


def _volume_tokens(event: Event) -> Iterator[Hashable]:
    for volume in (event.old, event.new):
        if isinstance(volume, PersistentVolume):
            yield "volume", volume.metadata.name
            yield "class", class_of(volume)


def _usable_on(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    affinity = volume.spec.node_affinity
    return any(
        all(each.accepts(labels.get(each.key)) for each in requirements)
        for requirements in usable_nodes(affinity.required if affinity else None)
    )
