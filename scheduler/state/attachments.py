"""Volumes attached to each row, and how many a row may have: the arrays behind volume limits.

What a pod's claim attaches is found through claim, volume and class, so a change of any of them
may change what counts on some rows. Each row remembers the objects it was counted from. A change
makes the rows stale that read the object, and stale rows are counted again when they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.bounded import Usage
from scheduler.model.csi_migration import (
    TranslationError,
    driver_of,
    inline_handle,
    migration_of,
    volume_handle,
)
from scheduler.model.nodes import CSINode
from scheduler.model.podinfo import PodInfo
from scheduler.model.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.model.volumes import class_of, made_for
from scheduler.slices import checkpoint
from scheduler.state.aspects import Aspect

if TYPE_CHECKING:
    from scheduler.state.cache import ClusterState

T = TypeVar("T")

NO_LIMIT = 2**62
MOST_DRIVERS = 256
"""Kubelets name them, and each takes an array over all rows. Of further ones nothing is counted."""
COUNTED_AT_ONCE = 32
"""So many stale rows are left to the next reader."""
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

Counts = NDArray[np.int64]


class Attachable(NamedTuple):
    """A volume by its CSI driver's handle; one that does not exist yet by its claim."""

    driver: str
    handle: str
    claim: str = ""


class Lookup(Protocol):
    """Finds an object by kind and key."""

    def __call__(self, kind: type[T], key: str, /) -> T | None: ...


def claimed_volume(claim: PersistentVolumeClaim, get: Lookup) -> Attachable | None:
    """What a claim attaches to a node, or will; None if no CSI driver counts it."""
    name = claim.spec.volume_name
    volume = get(PersistentVolume, name) if name else None
    if volume is None:
        name = class_of(claim)
        storage_class = get(StorageClass, name) if name else None
        driver = driver_of(storage_class.provisioner) if storage_class else ""
        return Attachable(driver, "", claim.metadata.key) if driver else None
    source = volume.spec.csi
    if source is not None:
        known = source.driver and source.volume_handle
        return Attachable(source.driver, source.volume_handle) if known else None
    migration = migration_of(volume.spec)
    try:
        handle = volume_handle(volume)
    except TranslationError:
        return None
    return Attachable(migration.driver, handle) if migration and handle else None


def inline_volumes(pod: PodInfo) -> set[Attachable]:
    """What a pod attaches without claims. Raises TranslationError."""
    found = set()
    for volume in pod.volumes.inline:
        migration = migration_of(volume)
        try:
            handle = inline_handle(volume)
        except TranslationError as fault:
            text = f"converting volume({volume.name}) from inline to csi: {fault}"
            raise TranslationError(text) from fault
        if migration is not None:
            found.add(Attachable(migration.driver, handle))
    return found


def attached_by(pod: PodInfo, get: Lookup) -> set[Attachable]:
    """All that a pod attaches to its node, as far as its objects are known."""
    try:
        found = inline_volumes(pod)
    except TranslationError:
        found = set()
    for use in pod.volumes.claims:
        claim = get(PersistentVolumeClaim, use.key)
        if claim is None or (use.ephemeral and not made_for(claim, pod.pod, pod.uid)):
            continue
        volume = claimed_volume(claim, get)
        if volume is not None:
            found.add(volume)
    return found


class _Row:
    """What was counted on a row, and from which objects.

    There may be thousands of pods, so one that comes or goes changes the sets in place.
    """

    __slots__ = ("attached", "drivers", "plugins", "read", "volumes")

    def __init__(self) -> None:
        self.volumes: Counter[Attachable] = Counter()
        """How many of its pods use each."""
        self.attached: set[Attachable] = set()
        """Those that are attached, perhaps after their pods have gone."""
        self.drivers: set[str] = set()
        self.plugins: set[str] = set()
        self.read: Counter[tuple[str, str]] = Counter()
        """How many of its pods, and the node itself, are why an object was read."""


class Attachments:
    """Counts, limits and migrated plugins per row, current whenever they are read."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._objects = state.objects
        self._changes = state.changes
        self._capacity = state.columns.capacity
        self._stale: set[int] = set()
        self._tried: set[int] = set()
        """Stale rows that were last counted, if at all, with pods on trial."""
        self._rows: dict[int, _Row] = {}
        self._readers: dict[tuple[str, str], set[int]] = {}
        self._counts: dict[str, Counts] = {}
        self._limits: dict[str, Counts] = {}
        self._migrated: dict[str, NDArray[np.bool_]] = {}
        self._users: dict[Attachable, set[int]] = {}
        self._attachments: dict[str, dict[str, VolumeAttachment]] = {}
        for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode):
            self._objects.subscribe(kind, partial(self._changed, kind.__name__))
        self._objects.subscribe(VolumeAttachment, self._attachment_changed)

    # Asking

    def counts(self, driver: str) -> Counts:
        """How many of a driver's volumes are attached to each row."""
        self._refresh()
        return self._array(self._counts, driver, 0)

    def limits(self, driver: str) -> Counts:
        """How many of a driver's volumes each row may have."""
        self._refresh()
        return self._array(self._limits, driver, NO_LIMIT)

    def users(self, volume: Attachable) -> Collection[int]:
        """The rows with pods that use a volume."""
        self._refresh()
        return self._users.get(volume, ())

    def migrated(self, plugin: str) -> NDArray[np.bool_]:
        """The rows on which a CSI driver has taken over for an in-tree plugin."""
        self._refresh()
        known = self._migrated.get(plugin)
        return known if known is not None else np.zeros(self._capacity, np.bool_)

    def catch_up(self) -> None:
        """Count most stale rows before they are read, and yield to the event loop in between.

        The first pod with volumes finds every row stale, and asks in the middle of an attempt.
        """
        while len(self._stale) > COUNTED_AT_ONCE:
            self._count_again(self._stale.pop())
            checkpoint()

    # Following

    def touch(self, row: int) -> None:
        """Something a row's volumes depend on has changed, or the row has another node."""
        self._spoil(row)
        self._changes.touch(row, (Aspect.ATTACHED,))

    def _spoil(self, row: int) -> None:
        """Count a row again when it is read next."""
        self._stale.add(row)
        if self._changes.on_trial:
            self._tried.add(row)

    def left(self, row: int, pod: PodInfo) -> None:
        """A pod left a row; who moves pods logs that. The others there are not looked at."""
        known = self._known(row)
        if known is None:
            return
        read: set[tuple[str, str]] = set()
        # As when it came: whatever is read now has not changed, or the row would be stale.
        for volume in attached_by(pod, self._noting(read)):
            known.volumes[volume] -= 1
            if not known.volumes[volume]:
                del known.volumes[volume]
                self._forget(self._users, volume, row)
                if volume not in known.attached:
                    counts = self._array(self._counts, volume.driver, 0)
                    counts[row] = max(counts[row] - 1, 0)  # when there were too many drivers
        for thing in read:
            known.read[thing] -= 1
            if not known.read[thing]:
                del known.read[thing]
                self._forget(self._readers, thing, row)

    def came(self, row: int, pod: PodInfo) -> None:
        """A pod came to a row; likewise."""
        known = self._known(row)
        if known is not None:
            self._add(row, known, pod)

    def _known(self, row: int) -> _Row | None:
        """What was counted on a row if that is still true; else it is counted when it is read."""
        known = self._rows.get(row)
        if known is None or row in self._stale or self._changes.on_trial:
            self._spoil(row)
            return None
        return known

    def _add(self, row: int, known: _Row, pod: PodInfo) -> None:
        """Count what a pod attaches."""
        read: set[tuple[str, str]] = set()
        for volume in attached_by(pod, self._noting(read)):
            known.volumes[volume] += 1
            if known.volumes[volume] == 1:
                self._users.setdefault(volume, set()).add(row)
                if volume not in known.attached:
                    known.drivers.add(volume.driver)
                    self._array(self._counts, volume.driver, 0)[row] += 1
        self._depend(row, known, read)

    def _depend(self, row: int, known: _Row, read: Iterable[tuple[str, str]]) -> None:
        for thing in read:
            known.read[thing] += 1
            if known.read[thing] == 1:
                self._readers.setdefault(thing, set()).add(row)

    @staticmethod
    def _forget(rows: dict[T, set[int]], key: T, row: int) -> None:
        rows[key].discard(row)
        if not rows[key]:
            del rows[key]

    def grow(self, capacity: int) -> None:
        """There are more rows now."""
        extra = (0, capacity - self._capacity)
        self._capacity = capacity
        for driver, counts in self._counts.items():
            self._counts[driver] = np.pad(counts, extra)
        for driver, limits in self._limits.items():
            self._limits[driver] = np.pad(limits, extra, constant_values=NO_LIMIT)
        for plugin, mask in self._migrated.items():
            self._migrated[plugin] = np.pad(mask, extra)

    def _changed(self, kind: str, key: str, old: object, new: object) -> None:
        # What a row reads in a trial may differ from what it reads otherwise.
        for row in {*self._readers.get((kind, key), ()), *self._tried}:
            self.touch(row)

    def _attachment_changed(
        self, key: str, old: VolumeAttachment | None, new: VolumeAttachment | None
    ) -> None:
        if old is not None:
            there = self._attachments[old.spec.node_name]
            del there[key]
            if not there:
                del self._attachments[old.spec.node_name]
        if new is not None:
            self._attachments.setdefault(new.spec.node_name, {})[key] = new
        for attachment in (old, new):
            row = self._state.row(attachment.spec.node_name) if attachment else None
            if row is not None:
                self.touch(row)

    # Counting

    def _refresh(self) -> None:
        if self._stale:
            while self._stale:
                self._count_again(self._stale.pop())
            self._stale.clear()  # to take one out of a set that was large is a search
        if not self._changes.on_trial:
            self._tried.clear()

    def _count_again(self, row: int) -> None:
        self._erase(row)
        self._count(row)

    def _erase(self, row: int) -> None:
        was = self._rows.pop(row, None)
        if was is None:
            return
        for driver in was.drivers:
            self._array(self._counts, driver, 0)[row] = 0
            self._array(self._limits, driver, NO_LIMIT)[row] = NO_LIMIT
        for plugin in was.plugins:
            if (mask := self._migrated.get(plugin)) is not None:
                mask[row] = False
                if not mask.any():
                    del self._migrated[plugin]
        for volume in was.volumes:
            self._forget(self._users, volume, row)
        for thing in was.read:
            self._forget(self._readers, thing, row)

    def _count(self, row: int) -> None:
        node = self._state.name(row)
        if not node:
            return
        known = self._rows[row] = _Row()
        read: set[tuple[str, str]] = set()
        get = self._noting(read)
        # A volume may still be attached after its pod has gone.
        known.attached = self._attached_to(node, get)
        for volume in known.attached:
            known.drivers.add(volume.driver)
            self._array(self._counts, volume.driver, 0)[row] += 1
        csi_node = get(CSINode, node)
        for driver, limit in limits_of(csi_node).items():
            self._array(self._limits, driver, NO_LIMIT)[row] = limit
            known.drivers.add(driver)
        known.plugins = migrated_on(csi_node)
        for plugin in known.plugins:
            if plugin in self._migrated or len(self._migrated) < MOST_DRIVERS:
                mask = self._migrated.setdefault(plugin, np.zeros(self._capacity, np.bool_))
                mask[row] = True
        self._depend(row, known, read)
        for pod in self._state.pods_on(node):
            self._add(row, known, pod)

    def _noting(self, read: set[tuple[str, str]]) -> Lookup:
        """Looks objects up, and notes which."""

        def get(kind: type[T], key: str, /) -> T | None:
            read.add((kind.__name__, key))
            return self._objects.get(kind, key)

        return get

    def _attached_to(self, node: str, get: Lookup) -> set[Attachable]:
        found = set()
        for attachment in self._attachments.get(node, {}).values():
            name = attachment.spec.source.persistent_volume_name
            volume = get(PersistentVolume, name) if name is not None else None
            if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
                found.add(Attachable(attachment.spec.attacher, volume.spec.csi.volume_handle))
        return found

    def _array(self, arrays: dict[str, Counts], driver: str, default: int) -> Counts:
        array = arrays.get(driver)
        if array is None:
            if len(arrays) >= MOST_DRIVERS:
                _drop_idle(arrays, default)
            array = np.full(self._capacity, default, np.int64)
            if len(arrays) < MOST_DRIVERS:
                arrays[driver] = array
        return array

    def usage(self) -> Usage:
        """How much memory the counts and limits take."""
        arrays = [*self._counts.values(), *self._limits.values(), *self._migrated.values()]
        return Usage(len(arrays), sum(array.nbytes for array in arrays))


def _drop_idle(arrays: dict[str, Counts], default: int) -> None:
    """Drop what says nothing: its driver has gone from all nodes."""
    for driver in [name for name, array in arrays.items() if (array == default).all()]:
        del arrays[driver]


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """How many volumes of each driver a node may have; a driver that sets no limit is not there."""
    drivers = (csi_node.spec.drivers or ()) if csi_node else ()
    return {
        driver.name: driver.allocatable.count
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def migrated_on(csi_node: CSINode | None) -> set[str]:
    """The in-tree plugins that a CSI driver has taken over on a node."""
    if csi_node is None:
        return set()
    return set(csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")) - {""}
