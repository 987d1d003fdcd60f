"""The aspects that a change touches, and the log of the rows in which it touched them.

A verdict depends on some *aspects* of the cluster: what is requested on a row, its taints, the
services there are. A holder of verdicts remembers up to which version it has read the logs of the
aspects it depends on, and has just those rows judged again that were logged since. So an event
costs two appends, however many verdicts are kept, and a verdict that is not read again is never
judged again.

The functions below map a change to its aspects, for caches. ``model/events`` maps the same changes
to the actions of events, for queueing hints: with kube-scheduler's rules, which are coarser in some
places and finer in others. ``shipping/docs/invalidation`` joins aspects with what plugins read.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping

from scheduler.bounded import Usage
from scheduler.model.nodes import Node
from scheduler.model.objects import Service
from scheduler.model.podinfo import PodInfo
from scheduler.model.volumes import NO_VOLUMES


class Aspect(enum.IntEnum):
    """A part of the cluster's state whose changes are logged apart from others."""

    __hash__ = int.__hash__  # that of other enumerations is written in Python

    NODE = 0
    """Which node, if any, is in a row."""
    ALLOCATABLE = 1
    LABELS = 2
    ZONE_LABELS = 3
    """Those labels of a node by which volumes are bound to zones and regions."""
    TAINTS = 4
    UNSCHEDULABLE = 5
    CONDITIONS = 6
    FEATURES = 7
    """Features that a node declares."""
    IMAGES = 8
    REQUESTED = 9
    """What the pods of a row take of its resources, and how many they are."""
    PODS = 10
    """Which pods are on a row: their labels, and what counters say of them."""
    PORTS = 11
    DISKS = 12
    """Disks that pods of a row name themselves."""
    CLAIM_USE = 13
    """Claims that pods of a row use."""
    ATTACHED = 14
    """Volumes that are attached to a row, and how many may be."""
    TERMS = 15
    """Which affinity terms pods on nodes have, wherever they are."""
    NOMINATED_PODS = 16
    """Waiting pods that are nominated to a row."""
    TOPOLOGY = 17
    """What is known of a row's NUMA cells."""
    NAMESPACES = 18
    """Labels of namespaces."""
    SERVICES = 19
    CONTROLLERS = 20
    """Selectors of replication controllers, replica sets and stateful sets."""
    VOLUMES = 21
    CLAIMS = 22
    STORAGE_CLASSES = 23
    DRIVERS = 24
    """What CSI drivers say of themselves."""
    NODE_DRIVERS = 25
    """What a row's node says of its CSI drivers."""
    STORAGE_CAPACITIES = 26
    GROUPS = 27
    """Pod groups."""
    BUDGETS = 28
    """Pod disruption budgets."""
    DEVICES = 29
    """Which devices a row's node can use, and what is left of them."""
    RESOURCE_CLAIMS = 30
    DEVICE_CLASSES = 31


Aspects = frozenset[Aspect]

_NO_ASPECTS: Aspects = frozenset()

OF_ROWS: Aspects = frozenset(
    {
        Aspect.NODE,
        Aspect.ALLOCATABLE,
        Aspect.LABELS,
        Aspect.ZONE_LABELS,
        Aspect.TAINTS,
        Aspect.UNSCHEDULABLE,
        Aspect.CONDITIONS,
        Aspect.FEATURES,
        Aspect.IMAGES,
        Aspect.REQUESTED,
        Aspect.PODS,
        Aspect.PORTS,
        Aspect.DISKS,
        Aspect.CLAIM_USE,
        Aspect.ATTACHED,
        Aspect.NOMINATED_PODS,
        Aspect.TOPOLOGY,
        Aspect.NODE_DRIVERS,
        Aspect.DEVICES,
    }
)
"""The aspects of which each row has its own."""

OF_PODS: Aspects = frozenset(
    {
        Aspect.REQUESTED,
        Aspect.PODS,
        Aspect.PORTS,
        Aspect.DISKS,
        Aspect.CLAIM_USE,
        Aspect.ATTACHED,
        Aspect.TERMS,
        Aspect.NOMINATED_PODS,
        Aspect.TOPOLOGY,
    }
)
"""The aspects that pods may change when they come or go."""

ZONE_LABELS = frozenset(
    (
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    )
)

_OF_KIND: Mapping[str, Aspects] = {
    "Namespace": frozenset({Aspect.NAMESPACES}),
    "Service": frozenset({Aspect.SERVICES}),
    "ReplicationController": frozenset({Aspect.CONTROLLERS}),
    "ReplicaSet": frozenset({Aspect.CONTROLLERS}),
    "StatefulSet": frozenset({Aspect.CONTROLLERS}),
    "PersistentVolume": frozenset({Aspect.VOLUMES}),
    "PersistentVolumeClaim": frozenset({Aspect.CLAIMS}),
    "StorageClass": frozenset({Aspect.STORAGE_CLASSES}),
    "CSINode": frozenset({Aspect.NODE_DRIVERS}),
    "CSIDriver": frozenset({Aspect.DRIVERS}),
    "CSIStorageCapacity": frozenset({Aspect.STORAGE_CAPACITIES}),
    "PodGroup": frozenset({Aspect.GROUPS}),
    "PodDisruptionBudget": frozenset({Aspect.BUDGETS}),
    "ResourceClaim": frozenset({Aspect.RESOURCE_CLAIMS}),
    "DeviceClass": frozenset({Aspect.DEVICE_CLASSES}),
}


def node_aspects(old: Node, new: Node) -> Iterable[Aspect]:
    """What is different about a node; one that came or went is another ``NODE``."""
    before, after = old.metadata.labels, new.metadata.labels
    if before != after:
        yield Aspect.LABELS
        if any(before.get(key) != after.get(key) for key in ZONE_LABELS):
            yield Aspect.ZONE_LABELS
    if old.spec.taints != new.spec.taints:
        yield Aspect.TAINTS
    if old.spec.unschedulable != new.spec.unschedulable:
        yield Aspect.UNSCHEDULABLE
    if old.status.allocatable != new.status.allocatable:
        yield Aspect.ALLOCATABLE
    if old.status.conditions != new.status.conditions:
        yield Aspect.CONDITIONS
    if old.status.declared_features != new.status.declared_features:
        yield Aspect.FEATURES
    if old.status.images != new.status.images:
        yield Aspect.IMAGES


OF_ANY_POD: tuple[Aspect, ...] = (Aspect.REQUESTED, Aspect.PODS)
"""What every pod changes about its row."""


def pod_aspects(pod: PodInfo) -> tuple[Aspect, ...]:
    """What a pod changes about its row when it comes (is assumed) or goes."""
    if not pod.host_ports and pod.volumes is NO_VOLUMES:
        return OF_ANY_POD
    aspects = OF_ANY_POD
    if pod.host_ports:
        aspects += (Aspect.PORTS,)
    if pod.volumes.disks:
        aspects += (Aspect.DISKS,)
    if pod.volumes.claims:
        aspects += (Aspect.CLAIM_USE,)
    if pod.volumes is not NO_VOLUMES:
        aspects += (Aspect.ATTACHED,)
    return aspects


def object_aspects(kind: str, old: object | None, new: object | None) -> Aspects:
    """What a change of an object of another kind means.

    Attached volumes are not here: `Attachments` finds the rows that an object affects. Nor are
    devices, of which `dra.ledger` knows the rows, nor NUMA cells, whose objects are not believed
    until they are proven.
    """
    if isinstance(old, Service) and isinstance(new, Service):
        same = old.spec.selector == new.spec.selector
        return _NO_ASPECTS if same else _OF_KIND[kind]
    return _OF_KIND.get(kind, _NO_ASPECTS)


_ENTRY_BYTES = 88
"""A row and a version, and their places in lists."""


EVERYWHERE = -1
"""Stands for all rows."""


class ChangeLog:
    """A log per aspect: the rows that changed, in order, the oldest forgotten.

    ``version`` grows with every change of whatever aspect. It is all that a reader remembers: the
    log of an aspect knows at which version each row was appended.
    """

    KEPT = 16_384

    def __init__(self) -> None:
        self._rows: list[list[int]] = [[] for _ in Aspect]
        self._versions: list[list[int]] = [[] for _ in Aspect]
        self._forgotten = [0 for _ in Aspect]
        self._unknown = [0 for _ in Aspect]
        """The version up to which changes of each aspect are forgotten."""
        self.version = 0
        self.last: tuple[int, Collection[Aspect]] = (EVERYWHERE, ())
        """The row and the aspects of the last change: all that there is to read in most cases."""
        self.changed_at = [0 for _ in Aspect]
        """The version at which each aspect changed last."""
        self._trials = 0

    @property
    def on_trial(self) -> bool:
        """Whether the state is being changed just to see what would be."""
        return self._trials > 0

    def begin_trial(self) -> None:
        """Log nothing from now on: all changes will be reverted."""
        self._trials += 1

    def end_trial(self) -> None:
        """Everything is again as it was."""
        self._trials -= 1

    def touch(self, row: int, aspects: Collection[Aspect]) -> None:
        """Aspects of one row changed."""
        if self._trials:
            return
        self.version = version = self.version + 1
        self.last = row, aspects
        for aspect in aspects:
            self.changed_at[aspect] = version
            self._versions[aspect].append(version)
            rows = self._rows[aspect]
            rows.append(row)
            if len(rows) > self.KEPT:
                self._forget(aspect, self.KEPT // 2)

    def touch_all(self, aspects: Collection[Aspect]) -> None:
        """Aspects changed that belong to no single row: what is logged says too little."""
        if self._trials:
            return
        self.version = version = self.version + 1
        self.last = EVERYWHERE, aspects
        for aspect in aspects:
            self._forget(aspect, len(self._rows[aspect]))
            self._forgotten[aspect] += 1
            self._unknown[aspect] = self.changed_at[aspect] = version

    def _forget(self, aspect: Aspect, number: int) -> None:
        """Forget so many of the oldest entries of a log."""
        if not number:
            return
        rows, versions = self._rows[aspect], self._versions[aspect]
        self._unknown[aspect] = versions[number - 1]
        del rows[:number], versions[:number]
        self._forgotten[aspect] += number

    def usage(self) -> Usage:
        """How much the logs take."""
        rows = sum(map(len, self._rows))
        return Usage(rows, _ENTRY_BYTES * rows)

    def appends(self, aspect: Aspect) -> int:
        """How often an aspect has changed."""
        return self._forgotten[aspect] + len(self._rows[aspect])

    def since(self, aspect: Aspect, version: int) -> list[int] | None:
        """The rows logged after a version; None if that is too long ago: any may have changed."""
        if version < self._unknown[aspect]:
            return None
        return self._rows[aspect][bisect_right(self._versions[aspect], version) :]
