"""The cluster as the scheduler knows it: nodes, and pods on them, ahead of the API server.

A pod that holds resources is in one of two states::

                 assume                     add (the watch confirms the binding)
      (waiting) --------> Assumed -----------------------------------> Added
                             |                                          | ^
                             | forget (binding failed,            update| |
                             v         pod deleted)                     +-+
                        (waiting, gone)  <----------------------------- remove

- A pod is assumed when the cycle has chosen its node, before the API server has heard of it, so
  that the next pod sees what is left. The binding either succeeds, and the watch says so, or it
  fails, and the pod is forgotten. A pod that the watch does not confirm is read after a while
  (``pipeline/confirmation``).
- The watch is always right: a pod that turns up on another node than assumed is moved there, and
  one that is labelled or resized while it is being bound counts as it is now at once.
- Pods of nodes that are not there (yet, or any more) are kept by node name and count as soon as the
  node is.

Everything here is synchronous and belongs to one thread.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import xxhash

from scheduler.bounded import Usage
from scheduler.model.events import ADD, ASSIGNED_POD, DELETE, UPDATE, Event, pod_update
from scheduler.model.journal import Journal
from scheduler.model.nodes import Node
from scheduler.model.objects import Namespace
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import (
    CPU,
    MEMORY,
    PODS,
    AmountError,
    Amounts,
    amounts_of,
)
from scheduler.model.volumes import NO_VOLUMES
from scheduler.observe.logs import get_logger
from scheduler.state.aspects import OF_ANY_POD, Aspect, ChangeLog, node_aspects, pod_aspects
from scheduler.state.attachments import Attachments
from scheduler.state.bundle import PodBundle
from scheduler.state.columns import NodeColumns, Rows
from scheduler.state.interning import StatusTable
from scheduler.state.nominations import Nominations
from scheduler.state.objects import ObjectStore
from scheduler.state.occupancy import ImageIndex, PortIndex, VolumeUse
from scheduler.state.podindex import PodIndex

log = get_logger(__name__)

T = TypeVar("T")

MAX_RESOURCES = 1024
"""How many different resources nodes may offer; each has a column over all rows."""


class PodState(enum.Enum):
    """How a pod came to hold resources."""

    ASSUMED = "assumed"
    ADDED = "added"


_ASSUMED, _ADDED = PodState.ASSUMED, PodState.ADDED


class SharedObjects:
    """Objects that plugins keep for a whole cluster: one for each type and key.

    They live as long as the state that owns them, whatever number of profiles use them.
    """

    def __init__(self) -> None:
        self._objects: dict[tuple[type[Any], Hashable], Any] = {}

    def get(self, kind: type[T], key: Hashable = None) -> T | None:
        """The object of a type, if some plugin has made it."""
        return self._objects.get((kind, key))

    def get_or_make(self, kind: type[T], make: Callable[[], T], key: Hashable = None) -> T:
        """The object of a type, made by the first caller."""
        found = self.get(kind, key)
        if found is None:
            found = self._objects[kind, key] = make()
        return found

    def all(self, kind: type[T]) -> list[T]:
        """All objects of a type, in the order in which they were made."""
        return [each for (of, _), each in self._objects.items() if of is kind]


class ClusterState:
    """Node rows and the pods on them. Row sums always equal the sums over ``pods_on(node)``."""

    def __init__(self) -> None:
        self.journal: Journal | None = None
        """Told of each step that changes the state or decides, if the daemon records."""
        self.changes = ChangeLog()
        self._publish_to: Callable[[Event], None] = lambda event: None
        self.columns = NodeColumns()
        self.ports = PortIndex()
        self.images = ImageIndex()
        self.volumes = VolumeUse()
        self.statuses = StatusTable()
        self.shared = SharedObjects()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.index = PodIndex(self.namespaces, self.columns.capacity, self.changes)
        self._rows: dict[str, int] = {}
        self.objects = ObjectStore(self._rows, self.changes)
        self.nominations = Nominations(self._rows, self.changes)
        self._free: list[int] = list(range(self.columns.capacity - 1, -1, -1))
        self._live_rows: Rows | None = None
        self._pods: dict[str, PodInfo] = {}
        self._assumed: dict[str, PodInfo] = {}
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_versions: dict[str, int] = {}
        self._last_version = 0
        self.attachments = Attachments(self)

    # Reading

    def usage(self) -> dict[str, Usage]:
        """How much indexes and caches hold, beside the columns and the objects themselves."""
        return {
            **self.index.usage(),
            "node_label_columns": self.columns.labels.usage(),
            "node_resource_columns": self.columns.resource_usage(),
            "node_value_sets": self.columns.value_usage(),
            "attached_volumes": self.attachments.usage(),
            "change_log": self.changes.usage(),
            "verdicts": self.statuses.usage(),
        }

    def tables(self) -> tuple[dict[Any, Any], ...]:
        """The tables whose length is that of all pods on nodes, or of all nodes."""
        return (self._pods, self._assumed, self._rows, self._by_node, self._node_versions)

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self._rows)

    @property
    def pod_count(self) -> int:
        """How many pods hold resources, assumed ones included."""
        return len(self._pods)

    @property
    def assumed_count(self) -> int:
        """How many pods are assumed and not yet confirmed."""
        return len(self._assumed)

    def rows(self) -> Rows:
        """All rows that hold a node."""
        if self._live_rows is None:
            self._live_rows = np.flatnonzero(self.columns.live)
        return self._live_rows

    def row(self, name: str) -> int | None:
        """The row of a node, or None."""
        return self._rows.get(name)

    def name(self, row: int) -> str:
        """The node in a row."""
        return self.columns.names[row]

    def node_version(self, name: str) -> int:
        """A number that changes when others change a node or put a pod on it; 0: no such node.

        What is assumed there, confirmed and forgotten does not change it.
        """
        return self._node_versions.get(name, 0)

    def undisturbed(self, uid: str, node: str, version: int) -> bool:
        """Whether a pod is assumed, and its node is there and has this version still."""
        return uid in self._assumed and version == self._node_versions.get(node)

    def names(self) -> list[str]:
        """The names of all nodes."""
        return list(self._rows)

    def node(self, name: str) -> Node | None:
        """A node by name."""
        row = self._rows.get(name)
        return None if row is None else self.columns.nodes[row]

    def pods_on(self, name: str) -> list[PodInfo]:
        """The pods that hold resources of a node."""
        return list(self._by_node.get(name, {}).values())

    def nodes_with_pods(self) -> list[str]:
        """Names of all nodes that have pods, whether or not the nodes themselves are known."""
        return list(self._by_node)

    def pods(self) -> list[PodInfo]:
        """All pods that hold resources, assumed ones included."""
        return list(self._pods.values())

    def pod(self, uid: str) -> PodInfo | None:
        """A pod that holds resources, by uid."""
        return self._pods.get(uid)

    def assumed(self, uid: str) -> bool:
        """Whether a pod is assumed: chosen by us and not yet confirmed by the watch."""
        return uid in self._assumed

    def confirmed(self, uid: str) -> bool:
        """Whether a pod is on a node, and not merely assumed there."""
        return uid in self._pods and uid not in self._assumed

    def assumed_pods(self) -> list[PodInfo]:
        """All assumed pods."""
        return list(self._assumed.values())

    # Nodes

    def set_node(self, node: Node) -> None:
        """Add a node, or take over its new version."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._take_row(node.name)
            for info in self._by_node.get(node.name, {}).values():
                self._account(row, info, +1)
        known = self.columns.nodes[row]
        aspects = (Aspect.NODE,) if known is None else tuple(node_aspects(known, node))
        self._fill(row, node)
        self.changes.touch(row, aspects)
        if aspects and aspects != (Aspect.IMAGES,):  # which no filter reads
            self._new_version(node.name)

    def _new_version(self, name: str) -> None:
        self._last_version += 1
        self._node_versions[name] = self._last_version

    def node_versions(self, names: Iterable[str]) -> dict[str, int]:
        """The versions of those of the nodes that are there, for `restore_node_versions`."""
        return {name: self._node_versions[name] for name in names if name in self._node_versions}

    def restore_node_versions(self, versions: Mapping[str, int]) -> None:
        """Give nodes their versions back after a trial: nothing was placed there meanwhile."""
        self._node_versions.update(versions)

    def remove_node(self, name: str) -> None:
        """Remove a node; its row is free for another, its pods are kept by name."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        for info in self._by_node.get(name, {}).values():
            self._account(row, info, -1)
        self.images.set(row, self.columns.nodes[row], None)
        self.columns.erase(row)
        self.nominations.on_row(row, "")
        self.attachments.touch(row)
        self._free.append(row)
        self._live_rows = None
        self._node_versions.pop(name, None)
        self.changes.touch(row, (Aspect.NODE,))

    def _take_row(self, name: str) -> int:
        if not self._free:
            first = self.columns.capacity
            self.columns.grow()
            self.index.grow(self.columns.capacity)
            self.attachments.grow(self.columns.capacity)
            self._free = list(range(self.columns.capacity - 1, first - 1, -1))
        row = self._rows[name] = self._free.pop()
        self.columns.names[row] = name
        self.columns.name_hash[row] = xxhash.xxh64_intdigest(name.encode())
        self.columns.live[row] = True
        self.nominations.on_row(row, name)
        self.attachments.touch(row)
        self._live_rows = None
        return row

    def _fill(self, row: int, node: Node) -> None:
        columns = self.columns
        self.images.set(row, columns.nodes[row], node)
        columns.nodes[row] = node
        columns.labels.set(row, node)
        columns.unschedulable[row] = node.spec.unschedulable
        columns.set_values(row, node)
        allocatable = allocatable_of(node)
        columns.pod_limit[row] = allocatable.pop(PODS, 0)
        self._add_resources(row, node.name, allocatable)
        columns.set_allocatable(row, allocatable)

    def _add_resources(self, row: int, node: str, offered: Amounts) -> None:
        """Make columns for resources of which a node has some and no node had any.

        Only such resources have columns: pods may ask for any number of things that do not exist.
        What the pods on nodes request counts from the first offer on. A resource too many
        counts as not offered, so no pod that asks for it is placed. O(pods) if there is a new one.
        """
        known = self.columns.resources
        new = [name for name, amount in offered.items() if amount and known.find(name) is None]
        if not new:
            return
        if len(new) > MAX_RESOURCES - len(known):
            self.columns.set_allocatable(row, {})  # what only this node offered makes room
            new = [name for name, amount in offered.items() if amount and known.find(name) is None]
        room = MAX_RESOURCES - len(known)
        if len(new) > room:
            log.warning(
                "Too many resources: some that a node offers are left out",
                node=node,
                limit=MAX_RESOURCES,
                left_out=len(new) - room,
            )
            new = new[:room]
        if not new:
            return
        self.columns.add_resources(new)
        places = {name: known.find(name) for name in new}
        for info in self._pods.values():
            at = self._rows.get(info.node_name)
            for name in info.requests.keys() & places.keys() if at is not None else ():
                self.columns.requested[places[name], at] += info.requests[name]

    # Other objects

    def set_object(self, kind: str, key: str, new: object | None) -> None:
        """Apply a watched version of an object of another kind, or (None) its deletion."""
        self.objects.put(kind, key, new)
        if kind == "Namespace":
            self._set_namespace(key, new)

    def _set_namespace(self, name: str, new: object | None) -> None:
        labels = new.metadata.labels if isinstance(new, Namespace) else {}
        before = self.namespaces.get(name, {})
        if labels != before:
            self.namespaces[name] = labels
            self.index.namespace_changed(before, labels)
        if new is None:
            self.namespaces.pop(name, None)

    # Pods

    def assume(self, info: PodInfo, node_name: str) -> PodInfo:
        """Book a waiting pod on a node before the API server knows; returns the booked pod."""
        if info.uid in self._pods:
            raise ValueError(f"pod {info.key} already holds resources and cannot be assumed")
        bound = info.bound_to(node_name)
        self.book(bound, _ASSUMED)
        self._publish(Event(ASSIGNED_POD, ADD, None, bound, own=True, silent=True))
        return bound

    def forget(self, uid: str, *, trial: bool = False, own: bool = True) -> bool:
        """Undo ``assume``; a pod that the watch has confirmed in the meantime stays.

        A ``trial`` was not sent to the API server, and no other pod was judged by the state in
        between: it leaves no trace, and the queue moves no pods. Not ``own``: the pod was deleted.
        """
        info = self._assumed.get(uid)
        if info is None:
            return False
        self.unbook(uid)
        gone = Event(
            ASSIGNED_POD,
            DELETE,
            info,
            own=own,
            trial=trial,
            silent=trial,
            exclude=uid if own else "",
        )
        self._publish(gone)
        return True

    def set_pod(self, info: PodInfo, old: PodInfo | None = None) -> None:
        """Take over a bound pod from the watch: confirm, add, update or move it.

        ``old`` is its version before, if it was on a node: an assumed pod is no older version.
        """
        known = self._pods.get(info.uid)
        if known is not None and known.takes_like(info):
            self._renew(known, info)
            self._assumed.pop(info.uid, None)
        else:
            self.unbook(info.uid)
            if known is not None and known.node_name != info.node_name:
                self._publish(Event(ASSIGNED_POD, DELETE, known))
            self.book(info, _ADDED)
            if info.node_name in self._rows:
                self._new_version(info.node_name)
        action = ADD if old is None else pod_update(old, info)
        self._publish(Event(ASSIGNED_POD, action, old, info))

    def renew_assumed(self, info: PodInfo) -> None:
        """Take over a newer version of a pod that the watch still shows without a node.

        Its labels or its size may have changed: other pods are judged by them, and the decision
        about this one is checked again before its binding is sent. A pod that is not assumed is
        left alone.
        """
        known = self._assumed.get(info.uid)
        if known is None:
            return
        bound = info.bound_to(known.node_name)
        alike = known.takes_like(bound)
        if alike:
            self._renew(known, bound)
            self._assumed[info.uid] = bound
        else:
            self.unbook(info.uid)
            self.book(bound, _ASSUMED)
        action = pod_update(known, bound)
        plain = action is UPDATE  # if it takes more, that cures no pod
        if alike and plain:
            return  # nothing that pods are judged by
        if bound.node_name in self._rows:
            self._new_version(bound.node_name)
        event = Event(ASSIGNED_POD, action, known, bound, own=True, silent=plain, exclude=info.uid)
        self._publish(event)

    def _renew(self, known: PodInfo, info: PodInfo) -> None:
        """Replace a pod by a version that takes the same of the same node."""
        self._pods[info.uid] = self._by_node[info.node_name][info.uid] = info
        row = self._rows.get(info.node_name)
        regrouped = row is not None and self.index.regroup(row, known, info)
        if row is not None and (regrouped or _status_counts(known, info)):
            self.changes.touch(row, (Aspect.PODS,))

    def remove_pod(self, uid: str) -> bool:
        """A bound pod is gone or finished; whatever it held is free."""
        info = self._pods.get(uid)
        if info is None:
            return False
        self.unbook(uid)
        self._publish(Event(ASSIGNED_POD, DELETE, info))
        return True

    def connect(self, publish: Callable[[Event], None]) -> None:
        """Call a function with every event of pods on nodes, but for trials in ``scratch``."""
        self._publish_to = publish

    def _publish(self, event: Event) -> None:
        if not self.changes.on_trial:
            self._publish_to(event)

    def book(self, info: PodInfo, state: PodState) -> None:
        """Put a pod on its node, in a state; for ``scratch`` and the verbs above."""
        self._pods[info.uid] = info
        if state is _ASSUMED:
            self._assumed[info.uid] = info
        self._by_node.setdefault(info.node_name, {})[info.uid] = info
        row = self._rows.get(info.node_name)
        if row is not None:
            self._account(row, info, +1)

    def unbook(self, uid: str) -> PodState | None:
        """Take a pod off its node; returns the state it was in, None if it was on none."""
        info = self._pods.pop(uid, None)
        if info is None:
            return None
        assumed = self._assumed.pop(uid, None) is not None
        siblings = self._by_node[info.node_name]
        del siblings[uid]
        if not siblings:
            del self._by_node[info.node_name]
        row = self._rows.get(info.node_name)
        if row is not None:
            self._account(row, info, -1)
        return _ASSUMED if assumed else _ADDED

    def unbook_all(self, bundle: PodBundle) -> None:
        """Take the pods of a bundle off their node, for ``scratch``."""
        pods, siblings = self._pods, self._by_node[bundle.node]
        for uid in bundle.pods:
            del pods[uid], siblings[uid]
        if not siblings:
            del self._by_node[bundle.node]
        bundle.assumed = {uid: self._assumed.pop(uid) for uid in bundle.pods.keys() & self._assumed}
        self._account_all(bundle, -1)

    def book_all(self, bundle: PodBundle) -> None:
        """Put the pods of a bundle on their node again."""
        self._pods.update(bundle.pods)
        self._assumed.update(bundle.assumed)
        if bundle.pods:
            self._by_node.setdefault(bundle.node, {}).update(bundle.pods)
        self._account_all(bundle, +1)

    def _account_all(self, bundle: PodBundle, sign: int) -> None:
        row = self._rows.get(bundle.node)
        if row is None:
            return
        self.changes.touch(row, OF_ANY_POD)
        for info in bundle.apart.values():
            self.changes.touch(row, pod_aspects(info))
            self._account_extras(row, info, sign)
        columns = self.columns
        for resource, amount in bundle.requests.items():
            index = columns.resources.find(resource)
            if index is not None:
                columns.requested[index, row] += sign * amount
        cpu, memory = bundle.nonzero
        columns.nonzero[0, row] += sign * cpu
        columns.nonzero[1, row] += sign * memory
        columns.pod_count[row] += sign * len(bundle.pods)
        self.index.count_all(row, bundle.groups, bundle.terms, sign)

    def _account(self, row: int, info: PodInfo, sign: int) -> None:
        self.changes.touch(row, pod_aspects(info))
        columns = self.columns
        requests = info.requests
        # A pod may ask for more resources than there are.
        few = requests if len(requests) <= MAX_RESOURCES else columns.resources.values
        for resource in few:
            index = columns.resources.find(resource)
            if index is not None:
                columns.requested[index, row] += sign * requests.get(resource, 0)
        cpu, memory = info.nonzero
        columns.nonzero[0, row] += sign * cpu
        columns.nonzero[1, row] += sign * memory
        columns.pod_count[row] += sign
        (self.index.add if sign > 0 else self.index.remove)(row, info)
        if info.host_ports or info.volumes is not NO_VOLUMES:
            self._account_extras(row, info, sign)

    def _account_extras(self, row: int, info: PodInfo, sign: int) -> None:
        """Account what few pods have: ports and volumes."""
        if info.host_ports:
            (self.ports.add if sign > 0 else self.ports.remove)(row, info.host_ports)
        if info.volumes is not NO_VOLUMES:
            (self.volumes.add if sign > 0 else self.volumes.remove)(row, info.volumes)
            if sign > 0:
                self.attachments.came(row, info)
            else:
                self.attachments.left(row, info)

    # For people and for the checker

    def describe(self, name: str) -> dict[str, Any]:
        """A node's row in plain values, for ``equipoise nodes`` and for comparing two states."""
        row = self._rows[name]
        columns = self.columns
        return {
            "name": name,
            "unschedulable": bool(columns.unschedulable[row]),
            "taints": [
                {"key": taint.key, "value": taint.value, "effect": taint.effect}
                for taint in columns.taints.of(row)
            ],
            "allocatable": self._amounts(columns.allocatable[:, row]),
            "requested": self._amounts(columns.requested[:, row]),
            "scored": [int(amount) for amount in columns.nonzero[:, row]],
            "pods": int(columns.pod_count[row]),
            "podLimit": int(columns.pod_limit[row]),
        }

    def _amounts(self, column: Any) -> Amounts:
        named = zip(self.columns.resources.values, column, strict=True)
        return {name: int(amount) for name, amount in named if amount}


def _status_counts(known: PodInfo, info: PodInfo) -> bool:
    """Whether a pod's status changed in a way that preemption reads."""
    before, after = known.pod, info.pod
    return before.deleting != after.deleting or (
        before.status.start_time != after.status.start_time
    )


def allocatable_of(node: Node) -> Amounts:
    """What a node offers; a value that cannot be read counts as none, and is logged.

    Of very many resources only the first are looked at.
    """
    offered = node.status.allocatable
    if len(offered) > 2 * MAX_RESOURCES:
        known = {name: offered[name] for name in (CPU, MEMORY, PODS) if name in offered}
        offered = known | dict(islice(offered.items(), 2 * MAX_RESOURCES))
    try:
        return amounts_of(offered, "status.allocatable")
    except AmountError as fault:
        log.warning("Node has an amount that cannot be read", node=node.name, fault=str(fault))
    readable: Amounts = {}
    for name, text in offered.items():
        try:
            readable |= amounts_of({name: text}, "status.allocatable")
        except AmountError:
            continue
    return readable
