"""Which pods are where, by label: the counters behind inter-pod affinity and topology spread.

Asking "how many pods of this kind are on each node" by looking at all pods costs too much for each
attempt. So a question, once asked, becomes a *counter*: an array over rows that every pod that
comes or goes keeps true. Likewise each distinct affinity term of pods that are on nodes has a tally
of where they are. There may be as many such terms as workloads, each of them on few nodes, so a
tally is sparse. Sums over topology domains, of which there are few, are kept true as well.

Pods with the same namespace and labels form a *group*. Which counters a pod counts in, and which
terms of others speak of it, is decided once per group. All directions (from a group to counters and
terms, from a new counter to groups) use an index by one required ``key=value`` of the selectors,
since most have one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar
from weakref import ref

import msgspec
import numpy as np

from scheduler.model.affinity import AffinityTerm, PodSet
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Selector
from scheduler.state.aspects import Aspect, ChangeLog
from scheduler.state.columns import Rows
from scheduler.state.partition import Counts, Partition
from scheduler.state.tally import Tally

_KEPT_COUNTERS = 1024
_KEPT_GROUPS = 65_536
_KEPT_SUMS = 2
_FEW_PARTS = 1024
"""Sums over more parts than that take too much memory to be kept for every counter."""

T = TypeVar("T")


class Group(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods that no question can tell apart."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    living: bool
    """Not being deleted."""

    @staticmethod
    def of(pod: PodInfo) -> Group:
        """The group of a pod."""
        metadata = pod.pod.metadata
        return Group(metadata.namespace, frozenset(metadata.labels.items()), not pod.pod.deleting)


class PodCounter:
    """How many pods that belong to all of some sets are on each row."""

    __slots__ = ("_sums", "counts", "living_only", "sets", "total")

    def __init__(self, sets: tuple[PodSet, ...], living_only: bool, capacity: int) -> None:
        self.sets = sets
        self.living_only = living_only
        """Leaves out pods that are being deleted."""
        self.counts: Counts = np.zeros(capacity, np.int64)
        self.total = 0
        self._sums: tuple[tuple[ref[Partition], Counts], ...] = ()
        """Sums that are kept true while somebody has the partition, those asked for last first."""

    @property
    def rows(self) -> Rows:
        """The rows that have any such pod."""
        return np.flatnonzero(self.counts != 0)  # asking bytes is several times as fast

    def add(self, row: int, number: int) -> None:
        """Count pods that came to a row (or went, with a negative number)."""
        self.counts[row] += number
        self.total += number
        for known, sums in self._sums:
            partition = known()
            if partition is not None and (part := partition.part_of(row)) >= 0:
                sums[part] += number

    def sums(self, partition: Partition) -> Counts:
        """How many such pods each part has; a live array that must not be changed."""
        for known, sums in self._sums:
            if known() is partition:
                return sums
        sums = partition.sums(self.counts)
        if partition.number <= _FEW_PARTS:
            self._sums = ((ref(partition), sums), *self._sums[: _KEPT_SUMS - 1])
        return sums


class TermCounter(Tally):
    """How many pods that state an affinity term are on each row."""

    __slots__ = ("role", "term")

    def __init__(self, role: str, term: AffinityTerm) -> None:
        super().__init__()
        self.role = role
        """The field of ``AffinityTerms`` it comes from."""
        self.term = term


ROLES = ("required", "preferred", "anti_required", "anti_preferred")


class _ByLabel(Generic[T]):
    """Things with a selector, found by the labels of a pod that might match."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[int, T]] = {}
        self._others: dict[int, T] = {}

    def add(self, selector: Selector, thing: T) -> None:
        self._bucket(selector)[id(thing)] = thing

    def remove(self, selector: Selector, thing: T) -> None:
        label = _required_label(selector)
        bucket = self._bucket(selector)
        del bucket[id(thing)]
        if label is not None and not bucket:
            del self._by_label[label]

    def candidates(self, labels: Iterable[tuple[str, str]]) -> Iterator[T]:
        for label in labels:
            yield from self._by_label.get(label, {}).values()
        yield from self._others.values()

    def _bucket(self, selector: Selector) -> dict[int, T]:
        label = _required_label(selector)
        return self._others if label is None else self._by_label.setdefault(label, {})


def _required_label(selector: Selector) -> tuple[str, str] | None:
    for requirement in selector.requirements:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, next(iter(requirement.values))
    return None


class PodIndex:
    """All pods on rows, by label. O(counters that match) for each pod that comes or goes."""

    def __init__(
        self, namespaces: Mapping[str, Mapping[str, str]], capacity: int, changes: ChangeLog
    ) -> None:
        self._changes = changes
        self._namespaces = namespaces
        self._capacity = capacity
        self._rows: dict[Group, Counter[int]] = {}
        self._groups_by_label: dict[tuple[str, str], dict[Group, None]] = {}
        self._counters: dict[tuple[tuple[PodSet, ...], bool], PodCounter] = {}
        self._counters_by_label: _ByLabel[PodCounter] = _ByLabel()
        self._all_kept = True
        """Whether every question that was ever asked still has its counter."""
        self._counters_of: dict[Group, tuple[PodCounter, ...]] = {}
        self._terms: dict[tuple[str, AffinityTerm], TermCounter] = {}
        self._terms_by_label: _ByLabel[TermCounter] = _ByLabel()
        self._terms_about: dict[Group, tuple[TermCounter, ...]] = {}

    # Asking

    def counter(self, *sets: PodSet, living_only: bool = False) -> PodCounter:
        """The pods that belong to all the sets, per row; a live array that must not be changed."""
        key = (sets, living_only)
        counter = self._counters.pop(key, None) or self._new_counter(sets, living_only)
        self._counters[key] = counter  # last in the dict: most recently used
        if len(self._counters) > _KEPT_COUNTERS:
            self._drop(next(iter(self._counters)))
            self._all_kept = False
        return counter

    def terms_about(self, pod: PodInfo) -> tuple[TermCounter, ...]:
        """Affinity terms of pods on nodes that speak of this pod."""
        group = Group.of(pod)
        known = self._terms_about.get(group)
        if known is None:
            known = tuple(
                term
                for term in self._terms_by_label.candidates(group.labels)
                if self._includes(term.term.pods, group)
            )
            _remember(self._terms_about, group, known)
        return known

    def belongs(self, pod: PodInfo, sets: Iterable[PodSet]) -> bool:
        """Whether a pod, wherever it is, belongs to all the sets."""
        return self._belongs(Group.of(pod), sets)

    # Following

    def add(self, row: int, pod: PodInfo) -> None:
        """A pod came to a row."""
        self._count(row, pod, +1)

    def remove(self, row: int, pod: PodInfo) -> None:
        """A pod left a row."""
        self._count(row, pod, -1)

    def regroup(self, row: int, old: PodInfo, new: PodInfo) -> bool:
        """A pod on a row has other labels, or is being deleted; tells if any counter changed.

        Once counters have been dropped, one of those may have: then it is always so.
        """
        one, other = old.pod, new.pod
        if one.metadata.labels == other.metadata.labels and one.deleting == other.deleting:
            return False
        before, after = Group.of(old), Group.of(new)
        self._count_group(before, row, -1)
        self._count_group(after, row, +1)
        lost, won = set(self._matching(before)), set(self._matching(after))
        for counter in lost - won:
            counter.add(row, -1)
        for counter in won - lost:
            counter.add(row, +1)
        return lost != won or not self._all_kept

    def grow(self, capacity: int) -> None:
        """There are more rows now."""
        extra = capacity - self._capacity
        self._capacity = capacity
        for counter in self._counters.values():
            counter.counts = np.pad(counter.counts, (0, extra))

    def namespace_changed(self) -> None:
        """Labels of a namespace changed: forget what was decided by them."""
        for key, counter in list(self._counters.items()):
            if any(not pods.namespace_selector.nothing for pods in counter.sets):
                self._drop(key)
        self._counters_of.clear()
        self._terms_about.clear()

    def _count(self, row: int, pod: PodInfo, number: int) -> None:
        group = Group.of(pod)
        self._count_group(group, row, number)
        for counter in self._matching(group):
            counter.add(row, number)
        terms = pod.affinity
        for role in ROLES:
            for term in getattr(terms, role):
                self._count_term(role, term, row, number)

    def _count_group(self, group: Group, row: int, number: int) -> None:
        rows = self._rows.get(group)
        if rows is None:
            rows = self._rows[group] = Counter()
            for label in group.labels:
                self._groups_by_label.setdefault(label, {})[group] = None
        rows[row] += number
        if not rows[row]:
            del rows[row]
        if not rows:
            self._forget_group(group)

    def _forget_group(self, group: Group) -> None:
        del self._rows[group]
        for label in group.labels:
            groups = self._groups_by_label[label]
            del groups[group]
            if not groups:
                del self._groups_by_label[label]

    def _count_term(self, role: str, term: AffinityTerm, row: int, number: int) -> None:
        counter = self._terms.get((role, term))
        if counter is None:
            counter = self._terms[role, term] = TermCounter(role, term)
            self._terms_by_label.add(term.pods.selector, counter)
            self._terms_changed()
        counter.add(row, number)
        if not counter.total:
            del self._terms[role, term]
            self._terms_by_label.remove(term.pods.selector, counter)
            self._terms_changed()

    def _terms_changed(self) -> None:
        self._terms_about.clear()
        self._changes.touch_all((Aspect.TERMS,))

    # Counters

    def _new_counter(self, sets: tuple[PodSet, ...], living_only: bool) -> PodCounter:
        counter = PodCounter(sets, living_only, self._capacity)
        for group in self._groups_for(sets[0].selector):
            if self._counts(counter, group):
                for row, number in self._rows[group].items():
                    counter.add(row, number)
        self._counters_by_label.add(sets[0].selector, counter)
        self._counters_of.clear()
        return counter

    def _groups_for(self, selector: Selector) -> Iterable[Group]:
        """All groups on rows that a selector might match."""
        label = _required_label(selector)
        return self._rows if label is None else self._groups_by_label.get(label, {})

    def _drop(self, key: tuple[tuple[PodSet, ...], bool]) -> None:
        counter = self._counters.pop(key)
        self._counters_by_label.remove(counter.sets[0].selector, counter)
        self._counters_of.clear()

    def _matching(self, group: Group) -> tuple[PodCounter, ...]:
        known = self._counters_of.get(group)
        if known is None:
            candidates = self._counters_by_label.candidates(group.labels)
            known = tuple(counter for counter in candidates if self._counts(counter, group))
            _remember(self._counters_of, group, known)
        return known

    def _counts(self, counter: PodCounter, group: Group) -> bool:
        return (group.living or not counter.living_only) and self._belongs(group, counter.sets)

    def _belongs(self, group: Group, sets: Iterable[PodSet]) -> bool:
        """Whether a group is what a waiting pod means by all the sets.

        kube-scheduler asks a waiting pod's namespace selector about the labels of the namespace and
        about no labels at all, so that one that only excludes (``NotIn``, ``DoesNotExist``) selects
        every namespace. Verdicts must be the same, so it is the same here.
        """
        return all(
            self._includes(pods, group) or pods.includes(group.namespace, dict(group.labels), {})
            for pods in sets
        )

    def _includes(self, pods: PodSet, group: Group) -> bool:
        namespace_labels = self._namespaces.get(group.namespace, {})
        return pods.includes(group.namespace, dict(group.labels), namespace_labels)


def _remember(memory: dict[Group, T], group: Group, value: T) -> None:
    if len(memory) >= _KEPT_GROUPS:
        memory.clear()
    memory[group] = value
