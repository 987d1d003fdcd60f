"""Which pods are where, by label: the counters behind inter-pod affinity and topology spread.

Asking "how many pods of this kind are on each node" by looking at all pods costs too much for each
attempt. So a question, once asked, becomes a *counter*: an array over rows that every pod that
comes or goes keeps true. Likewise each distinct affinity term of pods that are on nodes has a
counter of where they are. There may be as many such terms as workloads, each of them on few nodes,
so that counter is sparse. Sums over topology domains, of which there are few, are kept as well.

Pods with the same namespace and labels form a *group*. Which counters a pod counts in, and which
terms of others speak of it, is decided once per group. All directions (from a group to counters and
terms, from a new counter to groups) use an index by one required ``key=value`` of the selectors,
since most have one. Groups are indexed by those keys only that selectors name: a label that
no selector names costs nothing here, however many of them a pod has.

A pod that comes or goes costs one pass over its labels, done in C, and one lookup for each key that
selectors name, or for each label if these are fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from scheduler.bounded import ENTRY_BYTES, MEBIBYTE, Memo, Usage
from scheduler.model.affinity import NO_TERMS, AffinityTerm, PodSet
from scheduler.model.packed import PackedLabels, digest, encode_labels
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Selector
from scheduler.slices import checkpoint
from scheduler.state.aspects import Aspect, ChangeLog
from scheduler.state.columns import Mask, Rows
from scheduler.state.partition import Counts, KeptSums, Partition

_KEPT_COUNTERS = 1024
_COUNTER_BYTES = 64 * MEBIBYTE
_MEMO_BYTES = 16 * MEBIBYTE
_KEPT_KEYS = 64
_KEY_INDEX_BYTES = 32 * MEBIBYTE
_GROUP_BYTES = 1024
_TERM_BYTES = 2048
"""What a group, and an affinity term of pods on nodes, take in memory, measured."""
_LONG_LABELS = 256
"""Labels that take more bytes than that are known by their digest."""
_KEPT_SUMS = 2
_FIRST_PLACES = 4
_FEW_NAMESPACES = 4
"""A term about more namespaces is not filed under each of them."""
_FEW_ROWS = 16
"""So many rows are counted faster one by one."""
_FEW_PARTS = 1024
"""Sums over more parts than that take too much memory to be kept for every counter."""

T = TypeVar("T")

GroupKey = tuple[str, bytes, bool]
"""Namespace, labels as bytes, and whether the pods are not being deleted."""


class LabelGroup:
    """Pods on rows that are equal to every selector."""

    __slots__ = ("key", "labels", "rows")

    def __init__(self, key: GroupKey, labels: Mapping[str, str]) -> None:
        self.key = key
        self.labels = labels
        """Those of the first pod, not a copy."""
        self.rows: dict[int, int] = {}
        """How many there are on each row."""


def group_key(pod: PodInfo) -> GroupKey:
    """The group of a pod. O(labels)."""
    metadata, labels = pod.pod.metadata, pod.pod.metadata.labels
    if type(labels) is not dict and isinstance(labels, PackedLabels):  # of an ABC: slow
        text = b"#" + labels.digest
    else:
        text = encode_labels(labels)
        if len(text) > _LONG_LABELS:
            text = b"#" + digest(text)
    return metadata.namespace, text, not pod.pod.deleting


class PodCounter:
    """How many pods that belong to all of some sets are on each row."""

    __slots__ = ("_sums", "counts", "living_only", "sets", "sets_bytes", "total", "uncounted")

    def __init__(self, sets: tuple[PodSet, ...], living_only: bool, capacity: int) -> None:
        self.sets = sets
        self.sets_bytes = sum(map(_set_bytes, sets))
        self.living_only = living_only
        """Leaves out pods that are being deleted."""
        self.counts: Counts = np.zeros(capacity, np.int64)
        self.total = 0
        self.uncounted: dict[GroupKey, None] = {}
        """The groups that are not counted yet, while it is made."""
        self._sums = KeptSums()

    @property
    def nbytes(self) -> int:
        """The memory it occupies at most, with the sums that it may come to keep."""
        return ENTRY_BYTES + self.sets_bytes + self.counts.nbytes + _KEPT_SUMS * 8 * _FEW_PARTS

    @property
    def rows(self) -> Rows:
        """The rows that have any such pod."""
        return np.flatnonzero(self.counts != 0)  # asking bytes is several times as fast

    def at(self, row: int) -> int:
        """How many such pods a row has."""
        return int(self.counts[row])

    def mark(self, rows: Mask) -> None:
        """Mark the rows that have any such pod."""
        rows |= self.counts != 0

    def add_to(self, numbers: Counts, weight: int) -> None:
        """Add the weight of each such pod to the number of its row."""
        numbers += weight * self.counts

    def add_group(self, group: LabelGroup) -> None:
        """Count all pods of a group, before any sums are asked for."""
        number = len(group.rows)
        if number < _FEW_ROWS:
            for row, pods in group.rows.items():
                self.counts[row] += pods
                self.total += pods
            return
        rows = np.fromiter(group.rows.keys(), np.intp, number)
        pods_there = np.fromiter(group.rows.values(), np.int64, number)
        self.counts[rows] += pods_there
        self.total += int(pods_there.sum())

    def add(self, row: int, number: int) -> None:
        """Count pods that came to a row (or went, with a negative number)."""
        self.counts[row] += number
        self.total += number
        self._sums.add(row, number)

    def sums(self, partition: Partition) -> Counts:
        """How many such pods each part has; a live array that must not be changed."""
        if partition.number > _FEW_PARTS:
            return partition.sums(self.counts)
        return self._sums.over(partition, self._count)

    def _count(self, partition: Partition) -> Counts:
        return partition.sums(self.counts)


class TermCounter:
    """How many pods that state an affinity term are on each row that has any.

    Its memory grows with these rows, not with the cluster. ``rows`` and ``counts`` are parallel
    arrays in no particular order: views that are true until the next ``add``, not to be changed.
    """

    __slots__ = ("_counts", "_places", "_rows", "_sums", "role", "term", "total")

    def __init__(self, role: str, term: AffinityTerm) -> None:
        self.role = role
        """The field of ``AffinityTerms`` it comes from."""
        self.term = term
        self.total = 0
        self._places: dict[int, int] = {}
        """Where in the arrays each row is."""
        self._rows: Rows = np.zeros(_FIRST_PLACES, np.intp)
        self._counts: Counts = np.zeros(_FIRST_PLACES, np.int64)
        self._sums = KeptSums()

    @property
    def rows(self) -> Rows:
        """The rows that have such pods."""
        return self._rows[: len(self._places)]

    @property
    def counts(self) -> Counts:
        """How many each of these rows has."""
        return self._counts[: len(self._places)]

    def at(self, row: int) -> int:
        """How many such pods a row has."""
        place = self._places.get(row)
        return 0 if place is None else int(self._counts[place])

    def mark(self, rows: Mask) -> None:
        """Mark the rows that have any such pod."""
        rows[self.rows] = True

    def add_to(self, numbers: Counts, weight: int) -> None:
        """Add the weight of each such pod to the number of its row."""
        numbers[self.rows] += weight * self.counts

    def add(self, row: int, number: int) -> None:
        """Count pods that came to a row (or went, with a negative number)."""
        place = self._places.get(row)
        if place is None:
            place = self._new_place(row)
        self._counts[place] += number
        self.total += number
        if not self._counts[place]:
            self._close(row, place)
        self._sums.add(row, number)

    def sums(self, partition: Partition) -> Counts:
        """How many such pods each of few parts has; a live array that must not be changed."""
        return self._sums.over(partition, self._count)

    def _count(self, partition: Partition) -> Counts:
        return partition.sums_of(self.rows, self.counts)

    def _new_place(self, row: int) -> int:
        place = self._places[row] = len(self._places)
        if place == len(self._rows):
            self._rows = np.pad(self._rows, (0, place))
            self._counts = np.pad(self._counts, (0, place))
        self._rows[place] = row
        return place

    def _close(self, row: int, place: int) -> None:
        """Give up a row's place: the last one moves there."""
        del self._places[row]
        last = len(self._places)
        if place != last:
            moved = int(self._rows[last])
            self._places[moved] = place
            self._rows[place] = moved
            self._counts[place] = self._counts[last]
            self._counts[last] = 0


ROLES = ("required", "preferred", "anti_required", "anti_preferred")


class _ByLabel(Generic[T]):
    """Things with a selector, found by the labels of a pod that might match."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[str, dict[int, T]]] = {}
        self._others: dict[int, T] = {}

    def add(self, selector: Selector, thing: T) -> None:
        label = _required_label(selector)
        if label is None:
            bucket = self._others
        else:
            bucket = self._by_key.setdefault(label[0], {}).setdefault(label[1], {})
        bucket[id(thing)] = thing

    def remove(self, selector: Selector, thing: T) -> None:
        label = _required_label(selector)
        if label is None:
            del self._others[id(thing)]
            return
        key, value = label
        by_value = self._by_key[key]
        bucket = by_value[value]
        del bucket[id(thing)]
        if not bucket:
            del by_value[value]
        if not by_value:
            del self._by_key[key]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        for key in _common(self._by_key, labels):
            bucket = self._by_key[key].get(labels[key])
            if bucket is not None:
                yield from bucket.values()
        yield from self._others.values()

    def __bool__(self) -> bool:
        return bool(self._by_key or self._others)


class _TermsByPods:
    """Affinity terms of pods on nodes, found by namespace and labels of the pods they may select.

    Terms about one namespace cost pods of others nothing: anybody may run pods with thousands of
    different ones. Those about more than `_FEW_NAMESPACES`, or that select namespaces by labels,
    are found from everywhere.
    """

    def __init__(self) -> None:
        self._by_namespace: dict[str, _ByLabel[TermCounter]] = {}
        self._everywhere: _ByLabel[TermCounter] = _ByLabel()

    def add(self, counter: TermCounter) -> None:
        pods = counter.term.pods
        if _about_few(pods):
            for namespace in pods.namespaces:
                index = self._by_namespace.setdefault(namespace, _ByLabel())
                index.add(pods.selector, counter)
        else:
            self._everywhere.add(pods.selector, counter)

    def remove(self, counter: TermCounter) -> None:
        pods = counter.term.pods
        if not _about_few(pods):
            self._everywhere.remove(pods.selector, counter)
            return
        for namespace in pods.namespaces:
            index = self._by_namespace[namespace]
            index.remove(pods.selector, counter)
            if not index:
                del self._by_namespace[namespace]

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[TermCounter]:
        index = self._by_namespace.get(namespace)
        if index is not None:
            yield from index.candidates(labels)
        yield from self._everywhere.candidates(labels)


def _about_few(pods: PodSet) -> bool:
    return pods.namespace_selector.nothing and len(pods.namespaces) <= _FEW_NAMESPACES


class _GroupsByKey:
    """Groups by the value of a label, for the keys that new counters use.

    A key is indexed when first asked about, O(groups); those not asked about for longest are given
    up when there are too many keys or bytes.
    """

    def __init__(self, groups: Mapping[GroupKey, LabelGroup]) -> None:
        self._groups = groups
        self._by_key: dict[str, dict[str, dict[GroupKey, LabelGroup]]] = {}
        self._sizes: dict[str, int] = {}
        """How many groups are indexed under each key."""
        self._entries = 0
        self._evictions = 0

    def find(self, key: str, value: str) -> Iterable[LabelGroup]:
        """All groups with this label."""
        by_value = self._by_key.pop(key, None)
        if by_value is None:
            by_value = self._build(key)
        self._by_key[key] = by_value  # last in the dict: most recently used
        found = by_value.get(value, {}).values()
        self._trim()
        return found

    def values(self, key: str) -> list[str]:
        """The values of a label."""
        self.find(key, "")
        return list(self._by_key.get(key, ()))

    def add(self, group: LabelGroup) -> None:
        """There is a new group."""
        for key in _common(self._by_key, group.labels):
            self._by_key[key].setdefault(group.labels[key], {})[group.key] = group
            self._count(key, +1)
        self._trim()

    def remove(self, group: LabelGroup) -> None:
        """A group has no pods any more."""
        for key in _common(self._by_key, group.labels):
            by_value = self._by_key[key]
            same = by_value[group.labels[key]]
            del same[group.key]
            if not same:
                del by_value[group.labels[key]]
            self._count(key, -1)

    def usage(self) -> Usage:
        """How much is indexed."""
        return Usage(self._entries, self._bytes(), self._evictions)

    def _build(self, key: str) -> dict[str, dict[GroupKey, LabelGroup]]:
        by_value: dict[str, dict[GroupKey, LabelGroup]] = {}
        self._sizes[key] = 0
        for group in self._groups.values():
            value = group.labels.get(key)
            if value is not None:
                by_value.setdefault(value, {})[group.key] = group
                self._count(key, +1)
        return by_value

    def _count(self, key: str, number: int) -> None:
        self._sizes[key] += number
        self._entries += number

    def _bytes(self) -> int:
        # Each value of a label may have a dictionary of its own.
        return 2 * ENTRY_BYTES * self._entries + ENTRY_BYTES * len(self._by_key)

    def _trim(self) -> None:
        while self._by_key and (len(self._by_key) > _KEPT_KEYS or self._bytes() > _KEY_INDEX_BYTES):
            oldest = next(iter(self._by_key))
            del self._by_key[oldest]
            size = self._sizes.pop(oldest)
            self._entries -= size
            self._evictions += size


def _common(index: Mapping[str, object], labels: Mapping[str, str]) -> list[str]:
    """The keys that both have. O(the fewer)."""
    if len(index) < len(labels):
        return [key for key in index if key in labels]
    return [key for key in labels if key in index]


def _required_label(selector: Selector) -> tuple[str, str] | None:
    for requirement in selector.requirements:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, next(iter(requirement.values))
    return None


def _set_bytes(pods: PodSet) -> int:
    """What a set of pods takes in memory, about."""
    requirements = (*pods.selector.requirements, *pods.namespace_selector.requirements)
    values = len(pods.namespaces) + sum(1 + len(r.values) for r in requirements)
    return 2 * ENTRY_BYTES * (1 + values)


def _answer_bytes(key: GroupKey, found: tuple[Any, ...]) -> int:
    return len(key[0]) + len(key[1]) + 8 * len(found)


class PodIndex:
    """All pods on rows, by label. O(labels + counters that match) for a pod that comes or goes."""

    def __init__(
        self, namespaces: Mapping[str, Mapping[str, str]], capacity: int, changes: ChangeLog
    ) -> None:
        self._changes = changes
        self._namespaces = namespaces
        self._capacity = capacity
        self._groups: dict[GroupKey, LabelGroup] = {}
        self._by_key = _GroupsByKey(self._groups)
        self._counters: dict[tuple[tuple[PodSet, ...], bool], PodCounter] = {}
        self._counter_bytes = 0
        self._counter_evictions = 0
        self.drops = 0
        """How many counters were dropped: as long as none is, all that were made are there."""
        self._counters_by_label: _ByLabel[PodCounter] = _ByLabel()
        self._counters_of: Memo[GroupKey, tuple[PodCounter, ...]]
        self._counters_of = Memo(_MEMO_BYTES, _answer_bytes)
        self._terms: dict[tuple[str, AffinityTerm], TermCounter] = {}
        self._terms_by_pods = _TermsByPods()
        self._terms_about: Memo[GroupKey, tuple[TermCounter, ...]]
        self._terms_about = Memo(_MEMO_BYTES, _answer_bytes)
        self._emptied: dict[GroupKey, LabelGroup] = {}
        self._unstated: dict[tuple[str, AffinityTerm], TermCounter] = {}
        """Groups and terms without pods on trial, most of which will have them again."""

    def usage(self) -> dict[str, Usage]:
        """How much is kept, by what it is."""
        counters = Usage(len(self._counters), self._counter_bytes, self._counter_evictions)
        return {
            "pod_groups": Usage(len(self._groups), len(self._groups) * _GROUP_BYTES),
            "pod_groups_by_label": self._by_key.usage(),
            "pod_counters": counters,
            "pod_counters_of_groups": self._counters_of.usage(),
            "affinity_terms": Usage(len(self._terms), len(self._terms) * _TERM_BYTES),
            "affinity_terms_about_groups": self._terms_about.usage(),
        }

    # Asking

    def counter(self, *sets: PodSet, living_only: bool = False) -> PodCounter:
        """The pods that belong to all the sets, per row; a live array that must not be changed."""
        key = (sets, living_only)
        counter = self._counters.pop(key, None)
        if counter is None:
            counter = self._new_counter(sets, living_only)
        self._keep(key, counter)
        while counter.uncounted:
            self._count_next_group(counter)
        return counter

    def count_ahead(self, *sets: PodSet, living_only: bool = False) -> None:
        """Make a counter before it is asked for, and let the event loop run in between.

        Counting ends when the counter is dropped meanwhile: nothing keeps it true any more.
        """
        key = (sets, living_only)
        if key in self._counters:
            return
        counter = self._new_counter(sets, living_only)
        self._keep(key, counter)
        while counter.uncounted and self._counters.get(key) is counter:
            self._count_next_group(counter)
            checkpoint()

    def expect(self, pod: PodInfo) -> None:
        """Find the counters of a pod before it comes to a row, so that this takes less time."""
        self._matching(LabelGroup(group_key(pod), pod.pod.metadata.labels))

    def terms_about(self, pod: PodInfo) -> tuple[TermCounter, ...]:
        """Affinity terms of pods on nodes that select this pod."""
        key = group_key(pod)
        known = self._terms_about.get(key)
        if known is None:
            metadata = pod.pod.metadata
            known = tuple(
                term
                for term in self._terms_by_pods.candidates(metadata.namespace, metadata.labels)
                if self._includes(term.term.pods, metadata.namespace, metadata.labels)
            )
            self._terms_about.put(key, known)
        return known

    def label_values(self, key: str) -> list[str]:
        """The values that pods on nodes have of a label. O(groups) the first time."""
        return self._by_key.values(key)

    def repelling_keys(self) -> set[str]:
        """The topology keys of all required anti-affinity of pods on nodes; O(distinct terms)."""
        return {term.topology_key for role, term in self._terms if role == "anti_required"}

    def belongs(self, pod: PodInfo, sets: Iterable[PodSet]) -> bool:
        """Whether a pod, wherever it is, belongs to all the sets."""
        metadata = pod.pod.metadata
        return self._belongs(metadata.namespace, metadata.labels, sets)

    # Following

    def add(self, row: int, pod: PodInfo) -> None:
        """A pod came to a row."""
        self._count(row, pod, +1)

    def remove(self, row: int, pod: PodInfo) -> None:
        """A pod left a row."""
        self._count(row, pod, -1)

    def count_all(
        self,
        row: int,
        groups: Mapping[GroupKey, tuple[PodInfo, int]],
        terms: Mapping[tuple[str, AffinityTerm], int],
        sign: int,
    ) -> None:
        """Pods came to a row or left it together: so many of each group, so many of each term."""
        for key, (pod, number) in groups.items():
            for counter in self._count_group(key, pod, row, sign * number):
                counter.add(row, sign * number)
        for (role, term), number in terms.items():
            self._count_term(role, term, row, sign * number)

    def end_trial(self) -> None:
        """A trial is over: forget the groups and terms that have no pods now."""
        while self._emptied:
            _, group = self._emptied.popitem()
            if not group.rows:
                self._forget_group(group)
        while self._unstated:
            _, counter = self._unstated.popitem()
            if not counter.total:
                self._forget_term(counter)

    def regroup(self, row: int, old: PodInfo, new: PodInfo) -> bool:
        """A pod on a row has other labels, or is being deleted; returns if any counter changed.

        Once counters have been dropped, one of those may have: then it is always so.
        """
        one, other = old.pod.metadata.labels, new.pod.metadata.labels
        if (one is other or one == other) and old.pod.deleting == new.pod.deleting:
            return False
        lost = set(self._count_group(group_key(old), old, row, -1))
        won = set(self._count_group(group_key(new), new, row, +1))
        for counter in lost - won:
            counter.add(row, -1)
        for counter in won - lost:
            counter.add(row, +1)
        return lost != won or self._counter_evictions > 0

    def grow(self, capacity: int) -> None:
        """There are more rows now."""
        extra = capacity - self._capacity
        self._capacity = capacity
        for counter in self._counters.values():
            counter.counts = np.pad(counter.counts, (0, extra))
        self._counter_bytes = sum(counter.nbytes for counter in self._counters.values())

    def namespace_changed(self, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """The labels of a namespace changed: forget what was decided by them.

        Namespaces come and go all the time, and most of them are in no set either way.
        """
        for key, counter in list(self._counters.items()):
            selectors = [pods.namespace_selector for pods in counter.sets]
            if any(each.matches(old) != each.matches(new) for each in selectors):
                self._drop(key)
        self._terms_about.clear()

    def _count(self, row: int, pod: PodInfo, number: int) -> None:
        for counter in self._count_group(group_key(pod), pod, row, number):
            counter.add(row, number)
        terms = pod.affinity
        for role in ROLES if terms is not NO_TERMS else ():
            for term in getattr(terms, role):
                self._count_term(role, term, row, number)

    def _count_group(
        self, key: GroupKey, pod: PodInfo, row: int, number: int
    ) -> tuple[PodCounter, ...]:
        """Count pods of a group on a row; returns the counters that count such pods."""
        metadata = pod.pod.metadata
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = LabelGroup(key, metadata.labels)
            self._by_key.add(group)
        elif metadata.labels is not group.labels:
            # Equal labels are kept once for all pods that have them.
            msgspec.structs.force_setattr(metadata, "labels", group.labels)
        rows = group.rows
        rows[row] = rows.get(row, 0) + number
        if not rows[row]:
            del rows[row]
        counters = self._matching(group)
        if not rows:
            if self._changes.on_trial:
                self._emptied[key] = group
            else:
                self._forget_group(group)
        return counters

    def _forget_group(self, group: LabelGroup) -> None:
        del self._groups[group.key]
        self._by_key.remove(group)
        self._counters_of.discard(group.key)

    def _count_term(self, role: str, term: AffinityTerm, row: int, number: int) -> None:
        counter = self._terms.get((role, term))
        if counter is None:
            counter = self._terms[role, term] = TermCounter(role, term)
            self._terms_by_pods.add(counter)
            self._terms_changed()
        counter.add(row, number)
        if not counter.total:
            if self._changes.on_trial:
                self._unstated[role, term] = counter
            else:
                self._forget_term(counter)

    def _forget_term(self, counter: TermCounter) -> None:
        del self._terms[counter.role, counter.term]
        self._terms_by_pods.remove(counter)
        self._terms_changed()

    def _terms_changed(self) -> None:
        self._terms_about.clear()
        self._changes.touch_all((Aspect.TERMS,))

    # Counters

    def _new_counter(self, sets: tuple[PodSet, ...], living_only: bool) -> PodCounter:
        """A counter of all groups that come from now on; those there are have to be counted."""
        counter = PodCounter(sets, living_only, self._capacity)
        counter.uncounted = {group.key: None for group in self._groups_for(sets[0].selector)}
        self._counters_by_label.add(sets[0].selector, counter)
        self._counter_bytes += counter.nbytes
        self._counters_of.clear()
        return counter

    def _keep(self, key: tuple[tuple[PodSet, ...], bool], counter: PodCounter) -> None:
        self._counters[key] = counter  # last in the dict: most recently used
        while len(self._counters) > 1 and (
            len(self._counters) > _KEPT_COUNTERS or self._counter_bytes > _COUNTER_BYTES
        ):
            self._drop(next(iter(self._counters)))
            self._counter_evictions += 1

    def _count_next_group(self, counter: PodCounter) -> None:
        """Count one of the groups that were there before a counter; it follows them from now on."""
        key, _ = counter.uncounted.popitem()
        self._counters_of.discard(key)  # a pod may be expected whose group has no pods now
        group = self._groups.get(key)
        if group is not None and self._counts(counter, group):
            counter.add_group(group)

    def _groups_for(self, selector: Selector) -> Iterable[LabelGroup]:
        """All groups on rows that a selector might match."""
        if selector.nothing:
            return ()
        label = _required_label(selector)
        return self._groups.values() if label is None else self._by_key.find(*label)

    def _drop(self, key: tuple[tuple[PodSet, ...], bool]) -> None:
        counter = self._counters.pop(key)
        self.drops += 1
        self._counters_by_label.remove(counter.sets[0].selector, counter)
        self._counter_bytes -= counter.nbytes
        self._counters_of.clear()

    def _matching(self, group: LabelGroup) -> tuple[PodCounter, ...]:
        known = self._counters_of.get(group.key)
        if known is None:
            candidates = self._counters_by_label.candidates(group.labels)
            known = tuple(
                counter
                for counter in candidates
                if group.key not in counter.uncounted and self._counts(counter, group)
            )
            self._counters_of.put(group.key, known)
        return known

    def _counts(self, counter: PodCounter, group: LabelGroup) -> bool:
        namespace, _, living = group.key
        return (living or not counter.living_only) and self._belongs(
            namespace, group.labels, counter.sets
        )

    def _belongs(self, namespace: str, labels: Mapping[str, str], sets: Iterable[PodSet]) -> bool:
        """Whether such pods are what a waiting pod means by all the sets.

        kube-scheduler asks a waiting pod's namespace selector about the labels of the namespace and
        about no labels at all, so that one that only excludes (``NotIn``, ``DoesNotExist``) selects
        every namespace. Verdicts must be the same, so it is the same here.
        """
        return all(
            self._includes(pods, namespace, labels) or pods.includes(namespace, labels, {})
            for pods in sets
        )

    def _includes(self, pods: PodSet, namespace: str, labels: Mapping[str, str]) -> bool:
        return pods.includes(namespace, labels, self._namespaces.get(namespace, {}))
