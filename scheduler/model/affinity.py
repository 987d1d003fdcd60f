"""Pod affinity and topology spread as a pod states them, compiled once.

Terms and constraints are hashable values: pods of one template share them, and what is known about
a term (who matches it, where) is kept once for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

import msgspec

from scheduler.model.limits import term_entries
from scheduler.model.pods import (
    Pod,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from scheduler.model.selectors import Requirement, Selector, compile_label_selector

HOSTNAME = "kubernetes.io/hostname"

_MANY_NAMESPACES = 1024
_AFFINITY = "spec.affinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PodSet(msgspec.Struct, frozen=True, cache_hash=True):
    """Which pods a term selects: those in some namespaces whose labels match."""

    namespaces: frozenset[str]
    selector: Selector
    namespace_selector: Selector = Selector(nothing=True)
    """Namespaces whose labels match count as well."""

    def includes(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Whether a pod with these labels in this namespace belongs to the set."""
        here = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return here and self.selector.matches(labels)


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """One term of pod (anti-)affinity; ``weight`` is 0 for required terms."""

    pods: PodSet
    topology_key: str
    weight: int = 0


class AffinityTerms(msgspec.Struct, frozen=True):
    """All terms of one pod."""

    required: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    anti_required: tuple[AffinityTerm, ...] = ()
    anti_preferred: tuple[AffinityTerm, ...] = ()


NO_TERMS = AffinityTerms()


class SpreadConstraint(msgspec.Struct, frozen=True):
    """One topology spread constraint."""

    topology_key: str
    max_skew: int
    selector: Selector
    hard: bool
    min_domains: int = 1
    honor_affinity: bool = True
    """Nodes that the pod's node affinity excludes do not count."""
    honor_taints: bool = False
    """Nodes whose taints the pod does not tolerate do not count."""


def affinity_terms(pod: Pod) -> AffinityTerms:
    """The pod's affinity terms; raises SelectorError that names the field."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    towards = affinity.pod_affinity or PodAffinity()
    away = affinity.pod_anti_affinity or PodAffinity()
    for_, anti = f"{_AFFINITY}.podAffinity", f"{_AFFINITY}.podAntiAffinity"
    return AffinityTerms(
        required=_required(pod, towards.required, f"{for_}.{_REQUIRED}"),
        preferred=_preferred(pod, towards.preferred, f"{for_}.{_PREFERRED}"),
        anti_required=_required(pod, away.required, f"{anti}.{_REQUIRED}"),
        anti_preferred=_preferred(pod, away.preferred, f"{anti}.{_PREFERRED}"),
    )


def _required(pod: Pod, terms: Sequence[PodAffinityTerm], path: str) -> tuple[AffinityTerm, ...]:
    return tuple(_term(pod, term, f"{path}[{i}]") for i, term in enumerate(terms))


def _preferred(
    pod: Pod, terms: Sequence[WeightedPodAffinityTerm], path: str
) -> tuple[AffinityTerm, ...]:
    return tuple(
        _term(pod, term.pod_affinity_term, f"{path}[{i}].podAffinityTerm", term.weight)
        for i, term in enumerate(terms)
    )


def _term(pod: Pod, term: PodAffinityTerm, path: str, weight: int = 0) -> AffinityTerm:
    selector = compile_label_selector(term.label_selector, f"{path}.labelSelector")
    # The API server merges these keys into the selector, with the labels that the pod had then.
    # What is left over is a manifest that never met an API server.
    merged = {requirement.key for requirement in selector.requirements}
    like = [key for key in term.match_label_keys if key not in merged]
    unlike = [key for key in term.mismatch_label_keys if key not in merged]
    selector = _with_keys(_with_keys(selector, pod, like, "In"), pod, unlike, "NotIn")
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((pod.metadata.namespace,))
    by_labels = compile_label_selector(term.namespace_selector, f"{path}.namespaceSelector")
    return AffinityTerm(PodSet(namespaces, selector, by_labels), term.topology_key, weight)


def bounded_terms(pod: Pod, terms: int, entries: int) -> AffinityTerms:
    """The first of a pod's terms, as many as the limits allow; anti-affinity goes first.

    Required anti-affinity that is left out is replaced by one term that keeps all pods it may speak
    of off the node itself. Other terms that are left out only say what the pod prefers, or what it
    required when it was placed: they are lost.
    """
    affinity = pod.spec.affinity
    if affinity is None:
        return NO_TERMS
    room = _TermBudget(terms, entries)
    away = affinity.pod_anti_affinity or PodAffinity()
    towards = affinity.pod_affinity or PodAffinity()
    required = room.take(away.required)
    bounded = msgspec.structs.replace(
        affinity,
        pod_anti_affinity=PodAffinity(required, room.take_weighted(away.preferred)),
        pod_affinity=PodAffinity(
            room.take(towards.required), room.take_weighted(towards.preferred)
        ),
    )
    spec = msgspec.structs.replace(pod.spec, affinity=bounded)
    result = affinity_terms(msgspec.structs.replace(pod, spec=spec))
    left_out = away.required[len(required) :]
    if not left_out:
        return result
    collective = _collective(pod, left_out)
    return msgspec.structs.replace(result, anti_required=(*result.anti_required, collective))


class _TermBudget:
    """How many terms, and entries of their selectors, still fit."""

    def __init__(self, terms: int, entries: int) -> None:
        self._terms = terms
        self._entries = entries

    def take(self, terms: Sequence[PodAffinityTerm]) -> tuple[PodAffinityTerm, ...]:
        """The first of the terms, up to one that does not fit."""
        return tuple(takewhile(self._fits, terms))

    def take_weighted(
        self, terms: Sequence[WeightedPodAffinityTerm]
    ) -> tuple[WeightedPodAffinityTerm, ...]:
        return tuple(takewhile(lambda each: self._fits(each.pod_affinity_term), terms))

    def _fits(self, term: PodAffinityTerm) -> bool:
        self._terms -= 1
        self._entries -= term_entries(term)
        return self._terms >= 0 and self._entries >= 0


def _collective(pod: Pod, terms: Sequence[PodAffinityTerm]) -> AffinityTerm:
    """One term that selects every pod that any of the terms may select, on the same node."""
    named = {name for term in terms for name in term.namespaces}
    if len(named) > _MANY_NAMESPACES or any(term.namespace_selector for term in terms):
        return AffinityTerm(PodSet(frozenset(), Selector(), Selector()), HOSTNAME)
    if any(not term.namespaces for term in terms):
        named.add(pod.metadata.namespace)
    return AffinityTerm(PodSet(frozenset(named), Selector()), HOSTNAME)


def spread_constraints(pod: Pod) -> tuple[SpreadConstraint, ...]:
    """The pod's own spread constraints; raises SelectorError that names the field."""
    return tuple(
        _constraint(pod, constraint, f"spec.topologySpreadConstraints[{i}]")
        for i, constraint in enumerate(pod.spec.topology_spread_constraints)
    )


def _constraint(pod: Pod, raw: TopologySpreadConstraint, path: str) -> SpreadConstraint:
    selector = compile_label_selector(raw.label_selector, f"{path}.labelSelector")
    return SpreadConstraint(
        topology_key=raw.topology_key,
        max_skew=raw.max_skew,
        selector=_with_keys(selector, pod, raw.match_label_keys, "In"),
        hard=raw.when_unsatisfiable == "DoNotSchedule",
        min_domains=1 if raw.min_domains is None else raw.min_domains,
        honor_affinity=raw.node_affinity_policy in (None, "Honor"),
        honor_taints=raw.node_taints_policy == "Honor",
    )


def _with_keys(selector: Selector, pod: Pod, keys: Sequence[str], operator: str) -> Selector:
    if selector.nothing:
        return selector
    labels = pod.metadata.labels
    added = tuple(
        Requirement(key, operator, frozenset((labels[key],))) for key in keys if key in labels
    )
    present = frozenset(selector.requirements) if added else frozenset()
    missing = tuple(requirement for requirement in added if requirement not in present)
    return Selector((*selector.requirements, *missing)) if missing else selector
