"""InterPodAffinity: places pods near others, or away from them.

A topology key divides nodes into *domains*, one per value of that label; nodes without the label
are in none. The index of pods has the rows of the pods of each term, so a verdict is: mark
their domains, then look up the domain of each row. Everything is read from the live index, so that
what-if bookings count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.bounded import MEBIBYTE, Memo
from scheduler.config.plugin_args import InterPodAffinityArgs
from scheduler.equivalence.reads import Key, Reads
from scheduler.model.affinity import AffinityTerm
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, SUCCESS, Code, Status
from scheduler.plugin_api import MAX_SCORE, Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle, Slot
from scheduler.plugin_api.extension_points import CountedPods
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugins.inter_pod_affinity_facts import PodRelations
from scheduler.plugins.inter_pod_affinity_hints import AffinityHints
from scheduler.plugins.inter_pod_affinity_worth import Counter, WorthByRow
from scheduler.plugins.names import INTER_POD_AFFINITY
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Mask, Rows, Scores
from scheduler.state.labels import LabelColumn
from scheduler.state.podindex import TermCounter


class _Worth(NamedTuple):
    """What being in the domains of one topology key is worth."""

    numbers: Scores
    """By the id of the domain, or by row."""
    ids: NDArray[np.int32] | None
    """The domain of each row; None if the numbers are by row."""


_DomainSums = dict[str, _Worth]
"""By topology key."""

_SAYINGS_BYTES = 16 * MEBIBYTE

_SUMS: Slot[_DomainSums] = Slot("InterPodAffinity.sums")


class _Sayings(msgspec.Struct, frozen=True):
    """The terms of pods on nodes that select a pod, by topology keys that some node has.

    A term by another key puts no node into any domain: it has no effect.
    """

    terms: tuple[TermCounter, ...]
    """All terms, whatever the keys."""
    keys_version: int
    repelling: tuple[TermCounter, ...] = ()
    """Required anti-affinity."""
    weighed: tuple[tuple[TermCounter, int], ...] = ()
    """What counts towards scores, and how much each such pod counts."""


def _sayings_bytes(_: int, said: _Sayings) -> int:
    return 8 * (len(said.terms) + len(said.repelling)) + 80 * len(said.weighed)


class InterPodAffinity:
    """Required and preferred affinity, of the pod itself and of pods whose terms select it."""

    name = INTER_POD_AFFINITY
    observes = ("Namespace",)
    AFFINITY = Status(
        Code.UNRESOLVABLE, ("node(s) didn't match pod affinity rules",), INTER_POD_AFFINITY
    )
    ANTI_AFFINITY = Status(
        Code.UNSCHEDULABLE, ("node(s) didn't match pod anti-affinity rules",), INTER_POD_AFFINITY
    )
    EXISTING_ANTI_AFFINITY = Status(
        Code.UNSCHEDULABLE,
        ("node(s) didn't satisfy existing pods anti-affinity rules",),
        INTER_POD_AFFINITY,
    )

    filter_reads = score_reads = Reads(
        cluster=frozenset({Aspect.NODE, Aspect.LABELS, Aspect.PODS, Aspect.NAMESPACES}),
        keys=frozenset({Aspect.TERMS, Aspect.NAMESPACES}),
        claims=False,
        kept=False,
    )

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        args = args or InterPodAffinityArgs()
        self._hard_weight = args.hard_pod_affinity_weight
        self._own_preferences_only = args.ignore_preferred_terms_of_existing_pods
        self._index = handle.state.index
        self._labels = handle.state.columns.labels
        self._sayings: Memo[int, _Sayings] = Memo(_SAYINGS_BYTES, _sayings_bytes)
        self._worth_by_row = WorthByRow(handle.state)
        handle.metrics.caches.follow(
            f"{self.name} {handle.profile}",
            lambda: {
                "affinity_sayings": self._sayings.usage(),
                "affinity_worth": self._worth_by_row.usage(),
            },
        )
        self._hints = AffinityHints(handle.state)

    # Equivalence

    def filter_key(self, pod: PodInfo) -> Key:
        """What it requires, and what others require of it; its labels are in the latter."""
        own = pod.affinity
        hostile = frozenset(
            each.term for each in self._index.terms_about(pod) if each.role == "anti_required"
        )
        if not (own.required or own.anti_required or hostile):
            return None
        namespace = pod.pod.metadata.namespace
        first = bool(own.required) and self._index.belongs(pod, [t.pods for t in own.required])
        return own.required, own.anti_required, namespace, hostile, first

    def score_key(self, pod: PodInfo) -> Key:
        """What it prefers, and what others do about it."""
        own = pod.affinity
        if self._own_preferences_only and not (own.preferred or own.anti_preferred):
            return None
        others = frozenset(
            (each.role, each.term)
            for each in self._index.terms_about(pod)
            if self._weight(each.role, each.term)
        )
        if not (own.preferred or own.anti_preferred or others):
            return None
        return own.preferred, own.anti_preferred, pod.pod.metadata.namespace, others

    def counted(self, pod: PodInfo) -> Iterator[CountedPods]:
        """The pods of its own terms."""
        own = pod.affinity
        if own.required:
            yield CountedPods(tuple(term.pods for term in own.required))
        for term in (*own.anti_required, *own.preferred, *own.anti_preferred):
            yield CountedPods((term.pods,))

    # Filter

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Skip if neither the pod nor any pod on a node that is in a domain requires anything."""
        terms = cycle.pod.affinity
        if terms.required or terms.anti_required or self._repelling(cycle):
            return PreFilterResult()
        return PreFilterResult(SKIP)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """The pod's affinity, then its anti-affinity, then the anti-affinity of others."""
        codes: Codes = np.zeros(len(rows), np.int32)
        # The first rule that a row breaks is the one that is named, so it is written last.
        if repelling := self._repelling(cycle):
            code = cycle.state.statuses.code(self.EXISTING_ANTI_AFFINITY)
            codes[_within(cycle.state, repelling, rows)] = code
        if cycle.pod.affinity.anti_required and (avoided := _avoided(cycle)):
            code = cycle.state.statuses.code(self.ANTI_AFFINITY)
            codes[_within(cycle.state, avoided, rows)] = code
        if cycle.pod.affinity.required and (lonely := _lonely(cycle, rows)) is not None:
            codes[lonely] = cycle.state.statuses.code(self.AFFINITY)
        return codes

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The terms that the row breaks: the pod's own, and those of pods there."""
        return self._relations(cycle).failures(rows)

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """How many pods match each term, and how many nodes it rules out."""
        return self._relations(cycle).cluster_facts(rows)

    def _relations(self, cycle: Cycle) -> PodRelations:
        return PodRelations(cycle, self._said_about(cycle.pod).repelling)

    # Score

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status:
        """Sum up what each domain is worth; skip if no pod has a say in any."""
        terms = cycle.pod.affinity
        if self._own_preferences_only and not (terms.preferred or terms.anti_preferred):
            return SKIP
        sums = self._domain_sums(cycle.state, self._contributions(cycle))
        cycle.put(_SUMS, sums)
        return SUCCESS if sums else SKIP

    def is_level(self, cycle: Cycle) -> bool:
        """Whether every node is in domains of the same worth, as when all are in one zone."""
        state = cycle.state
        for key, (sums, ids) in cycle.get(_SUMS).items():
            if ids is None or not _everywhere(state, key):
                return False
            if np.count_nonzero(sums[1:] != sums[1]):
                return False
        return True

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The worth of all domains that a node is in."""
        total: Scores | None = None
        for numbers, ids in cycle.get(_SUMS).values():
            worth = numbers.take(rows if ids is None else ids.take(rows))
            total = worth if total is None else total + worth
        assert total is not None, "without sums the score is skipped"
        return total

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """The distance from the worst node as a share of the whole range; no range, no score."""
        # Less than half of what `min` and `max` take.
        lowest, highest = scores[scores.argmin()], scores[scores.argmax()]
        if highest == lowest:
            return np.zeros_like(scores)
        size = highest - lowest
        if 0 < size < _FEW_SCORES:
            shares: Scores = _shares_up_to(int(size)).take(scores - lowest)
            return shares
        return _shares(scores - lowest, size)

    def hints(self) -> Sequence[HintRegistration]:
        """Pods that come, go or change labels, nodes that change domains, labels of namespaces."""
        return self._hints.registrations()

    def _contributions(self, cycle: Cycle) -> Iterator[tuple[str, int, Counter]]:
        """Topology key, weight, and the pods that count, for every preference in play."""
        index, terms = cycle.state.index, cycle.pod.affinity
        own = [(term, +term.weight) for term in terms.preferred]
        own += [(term, -term.weight) for term in terms.anti_preferred]
        for term, weight in own:
            yield term.topology_key, weight, index.counter(term.pods)
        for others, weight in self._said_about(cycle.pod).weighed:
            yield others.term.topology_key, weight, others

    def _domain_sums(
        self, state: ClusterState, contributions: Iterable[tuple[str, int, Counter]]
    ) -> _DomainSums:
        """What each domain is worth, by topology key; rows without the label are in none."""
        weighed: dict[str, list[tuple[int, Counter]]] = {}
        for key, weight, counter in contributions:
            weighed.setdefault(key, []).append((weight, counter))
        found = {}
        for key, counted in weighed.items():
            column = state.columns.labels.column(key)
            if _everywhere(state, key) and column.distinct:
                if any(counter.total for _, counter in counted):
                    found[key] = _Worth(self._worth_by_row.of(tuple(counted)), None)
                continue
            numbers = _worth(column, counted)
            if numbers is not None:
                numbers[0] = 0
                found[key] = _Worth(numbers, column.ids)
        return found

    def _said_about(self, pod: PodInfo) -> _Sayings:
        """The terms of pods on nodes that select a pod; found once for pods with equal labels."""
        terms = self._index.terms_about(pod)
        version = self._labels.keys_version
        known = self._sayings.get(id(terms))
        if known is not None and known.terms is terms and known.keys_version == version:
            return known
        placed = [each for each in terms if each.term.topology_key in self._labels]
        weighed = ((each, self._weight(each.role, each.term)) for each in placed)
        said = _Sayings(
            terms,
            version,
            tuple(each for each in placed if each.role == "anti_required"),
            tuple((each, weight) for each, weight in weighed if weight),
        )
        self._sayings.put(id(terms), said)
        return said

    def _repelling(self, cycle: Cycle) -> _Domains:
        """Domains of pods whose required anti-affinity selects this pod."""
        hostile = self._said_about(cycle.pod).repelling
        if not hostile:
            return _NOWHERE
        return _mark(cycle.state, ((each.term.topology_key, each) for each in hostile))

    def _weight(self, role: str, term: AffinityTerm) -> int:
        """What another pod's term says about this pod's nearness."""
        weights = {
            "required": self._hard_weight,
            "preferred": term.weight,
            "anti_preferred": -term.weight,
        }
        return weights.get(role, 0)


_FEW_SCORES = 1024
"""Scores that lie within so few numbers have their shares looked up: a quarter of dividing each."""


@lru_cache(maxsize=64)
def _shares_up_to(highest: int) -> Scores:
    """The shares of all numbers from zero to the highest; not to be changed."""
    return _shares(np.arange(highest + 1), np.int64(highest))


def _shares(scores: Scores, highest: np.int64) -> Scores:
    """Numbers from zero to the highest as shares of it, in kube-scheduler's arithmetic."""
    shares: Scores = (MAX_SCORE * (scores / highest)).astype(np.int64)
    return shares


_FEW_TERMS = 4
"""Up to so many terms of one topology key are read one by one: cheaper than a pass over rows."""

_Domains = dict[str, Mask]
"""By topology key, which of its domains are marked."""
_NOWHERE: _Domains = {}


def _mark(state: ClusterState, terms: Iterable[tuple[str, Counter]]) -> _Domains:
    """The domains of the pods counted, for each key; keys without any such domain are left out.

    Where there are many domains and many terms, the rows of all terms are marked first: a term then
    costs a pass over rows, and only the key a look at their domains.
    """
    labels = state.columns.labels
    counters: dict[str, list[Counter]] = {}
    for key, counter in terms:
        if key in labels:
            counters.setdefault(key, []).append(counter)
    domains: _Domains = {}
    for key, counted in counters.items():
        column = labels.column(key)
        marks = np.zeros(len(column.values), np.bool_)
        if (partition := column.partition) is not None:
            for counter in counted:
                marks |= counter.sums(partition) > 0
        elif len(counted) <= _FEW_TERMS:
            for counter in counted:
                marks[column.ids[counter.rows]] = True
        else:
            rows = np.zeros(len(column.ids), np.bool_)
            for counter in counted:
                counter.mark(rows)
            marks[column.ids[rows]] = True
        marks[0] = False  # the rows without the label
        if np.count_nonzero(marks):  # of few domains `any` takes longer than all the rest
            domains[key] = marks
    return domains


def _mark_one(state: ClusterState, key: str, counter: Counter) -> Mask | None:
    """The domains of one key with pods of one counter; None if there is none."""
    labels = state.columns.labels
    if key not in labels:
        return None
    column = labels.column(key)
    marks: Mask
    if (partition := column.partition) is not None:
        marks = counter.sums(partition) > 0
    else:
        marks = np.zeros(len(column.values), np.bool_)
        marks[column.ids[counter.rows]] = True
    marks[0] = False  # the rows without the label
    return marks if np.count_nonzero(marks) else None


def _within(state: ClusterState, domains: _Domains, rows: Rows) -> Mask:
    """Which rows are in a marked domain of any key."""
    result: Mask = np.zeros(len(rows), np.bool_)
    for key, marks in domains.items():
        result |= marks.take(state.columns.labels.column(key).ids.take(rows))
    return result


def _avoided(cycle: Cycle) -> _Domains:
    """Domains of pods that this pod must not be near."""
    index = cycle.state.index
    return _mark(
        cycle.state,
        (
            (term.topology_key, index.counter(term.pods))
            for term in cycle.pod.affinity.anti_required
        ),
    )


def _everywhere(state: ClusterState, key: str) -> bool:
    """Whether every node is in a domain of a key."""
    return state.columns.labels.holders(key) == state.node_count


def _all_marked(marks: Mask | None) -> bool:
    return marks is not None and np.count_nonzero(marks) == len(marks) - 1


def _lonely(cycle: Cycle, rows: Rows) -> Mask | None:
    """Which rows are not, for each required term, in a domain of pods that match all of them.

    None if every node is in such a domain of each key: rows need not be looked at.

    A pod that matches its own terms may be the first of its kind: if there is no such pod in any
    domain, every row that has all the labels passes.
    """
    terms, state = cycle.pod.affinity.required, cycle.state
    lonely: Mask | None = None
    sets = tuple(term.pods for term in terms)
    counter = state.index.counter(*sets)
    domains: dict[str, Mask | None] = {}
    nowhere = True
    for term in terms:
        if term.topology_key not in domains:
            marks = domains[term.topology_key] = _mark_one(state, term.topology_key, counter)
            nowhere = nowhere and marks is None
    first = nowhere and state.index.belongs(cycle.pod, sets)
    for key, marks in domains.items():
        if _everywhere(state, key) and (first or _all_marked(marks)):
            continue
        ids = state.columns.labels.column(key).ids.take(rows)
        if first:
            alone = ids == 0
        elif marks is None:
            alone = np.ones(len(rows), np.bool_)
        else:
            alone = ~marks.take(ids)
        lonely = alone if lonely is None else lonely | alone
    return lonely


def _worth(column: LabelColumn, counted: Sequence[tuple[int, Counter]]) -> Scores | None:
    """What each domain of one key is worth; None if no pod that counts is in any domain.

    Where there are many domains and many terms, the rows are added up first, as in `_mark`.
    """
    if (partition := column.partition) is not None and len(counted) == 1:
        ((weight, counter),) = counted
        pods = counter.sums(partition)
        return weight * pods if np.count_nonzero(pods[1:]) else None
    total: Scores = np.zeros(len(column.values), np.int64)
    if partition is not None:
        sums = [(weight, counter.sums(partition)) for weight, counter in counted]
        sums = [(weight, numbers) for weight, numbers in sums if np.count_nonzero(numbers[1:])]
        for weight, numbers in sums:
            total += weight * numbers
        return total if sums else None
    if len(counted) > _FEW_TERMS:
        worth: Scores = np.zeros(len(column.ids), np.int64)
        rows = np.zeros(len(column.ids), np.bool_)
        for weight, counter in counted:
            counter.add_to(worth, weight)
            counter.mark(rows)
        ids = column.ids[rows]
        np.add.at(total, ids, worth[rows])
        return total if ids.any() else None
    found = False
    for weight, counter in counted:
        where = counter.rows
        ids = column.ids[where]
        found = found or bool(ids.any())
        counts = counter.counts if isinstance(counter, TermCounter) else counter.counts[where]
        np.add.at(total, ids, weight * counts)
    return total if found else None
