"""Limits on the lists of one pod.

The API server accepts pods of 1.5 MB. What a pod requests is checked for every node, and what a
running pod forbids for every other pod; so there is a bound to each list that a pod's author may
lengthen. The bounds are far above what workloads have, and low enough that an attempt for a pod at
the bounds takes some milliseconds at 5,000 nodes.

A waiting pod beyond a bound is not placed; its condition names the field (`excess`). A pod
that is on a node already counts, as far as the bounds go: see `PodInfo`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter

import msgspec

from scheduler.model.meta import LabelSelector, LabelSelectorRequirement
from scheduler.model.nodes import NodeSelectorRequirement, NodeSelectorTerm
from scheduler.model.packed import as_text
from scheduler.model.pods import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Volume,
)

_FEW = 256
"""So many entries take few bytes, whatever is in them."""
_LONG = 65_536
MOST_SELECTOR_ENTRIES = 1024
"""Labels, expressions and values of a selector that is not the pod's: of the controller that owns
it, or of all its claims together. The API server accepts 15,000 and more of each object."""


class PodLimits(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The bounds of one pod. Those of selectors hold for all selectors of the pod together."""

    labels: int = 1024
    """Labels of one pod."""
    node_requirements: int = 256
    """Expressions in `nodeSelector`, in required and in preferred node affinity, each."""
    pod_affinity_terms: int = 64
    """Terms of pod affinity and anti-affinity, required and preferred."""
    topology_spread_constraints: int = 32
    """Spread constraints."""
    selector_entries: int = 8192
    """Labels, expressions, values, keys and namespaces of all selectors together."""
    tolerations: int = 1024
    """Tolerations."""
    containers: int = 512
    """Containers and init containers."""
    resource_entries: int = 2048
    """Requests and limits of all containers together."""
    ports: int = 2048
    """Ports of all containers together."""
    volumes: int = 512
    """Volumes."""
    volume_claims: int = 128
    """Volumes with a claim, ephemeral volumes included. Nodes attach fewer."""
    resource_claims: int = 256
    """Resource claims."""
    scheduling_gates: int = 256
    """Scheduling gates."""
    encoded_bytes: int = 512 * 1024
    """Bytes of the labels, the owner references, and the fields of the spec that are read."""

    @property
    def smallest(self) -> int:
        """No list can be too long if all together have no more entries than that."""
        return _smallest(self)


@lru_cache(maxsize=8)
def _smallest(limits: PodLimits) -> int:
    numbers: tuple[int, ...] = msgspec.structs.astuple(limits)
    return min(numbers)


DEFAULT_LIMITS = PodLimits()


def excess(pod: Pod, limits: PodLimits) -> tuple[str, ...]:
    """The fields that are too long, each with its number of entries and the bound.

    Nothing is compiled or hashed, and the entries of a list that is too long are not looked at: so
    the cost is O(limits), and for the values of selectors a pass in C.
    """
    spec, labels, owners = pod.spec, pod.metadata.labels, pod.metadata.owner_references
    containers = len(spec.containers) + len(spec.init_containers)
    few = containers <= limits.containers
    requests, ports, rules, images = _of_containers(spec) if few else (0, 0, 0, 0)
    requests += len(spec.overhead)
    if spec.resources:
        requests += len(spec.resources.requests) + len(spec.resources.limits)
    total = requests + ports + rules + containers + len(labels) + len(owners) + len(spec.volumes)
    total += len(spec.tolerations) + len(spec.node_selector)
    claims, gates = len(spec.resource_claims), len(spec.scheduling_gates)
    total += claims + gates
    nested = bool(spec.volumes) and len(spec.volumes) <= limits.volumes and _nested(spec.volumes)
    constraints = len(spec.topology_spread_constraints)
    selecting = constraints or spec.affinity is not None
    size = total + _selecting(spec, limits.smallest) if selecting else total
    if size <= limits.smallest and images <= _LONG and not nested:
        return ()  # as most pods are
    found = [
        _over("metadata.labels", len(labels), "labels", limits.labels),
        _over("spec.containers", containers, "containers", limits.containers),
        _over("spec.containers[*].resources", requests, "resourceEntries", limits.resource_entries),
        _over("spec.containers[*].ports", ports, "ports", limits.ports),
        _over("spec.volumes", len(spec.volumes), "volumes", limits.volumes),
        _over(
            "spec.volumes[*].persistentVolumeClaim",
            _claiming(spec.volumes) if len(spec.volumes) <= limits.volumes else 0,
            "volumeClaims",
            limits.volume_claims,
        ),
        _over("spec.tolerations", len(spec.tolerations), "tolerations", limits.tolerations),
        _over("spec.resourceClaims", claims, "resourceClaims", limits.resource_claims),
        _over("spec.schedulingGates", gates, "schedulingGates", limits.scheduling_gates),
        _over(
            "spec.topologySpreadConstraints",
            constraints,
            "topologySpreadConstraints",
            limits.topology_spread_constraints,
        ),
        *_of_nodes(spec, limits),
        _of_terms(spec.affinity, limits) if spec.affinity else None,
    ]
    if not any(found):
        entries = _selector_entries(spec) if selecting else 0
        found.append(_over("spec", entries, "selectorEntries", limits.selector_entries))
        if entries + total > _FEW or images > _LONG or nested:
            size = _encoded_bytes((labels, owners, spec))
            found.append(_over("spec", size, "encodedBytes", limits.encoded_bytes, "bytes "))
    return tuple(text for text in found if text is not None)


def _encoded_bytes(parts: tuple[object, ...]) -> int:
    try:
        return len(_ENCODER.encode(parts))
    except OverflowError:  # a number beyond 64 bits, as manifests may have
        return len(msgspec.json.encode(parts, enc_hook=as_text))


def _over(field: str, number: int, setting: str, limit: int, unit: str = "") -> str | None:
    if number <= limit:
        return None
    return f"{field}: {number} {unit}exceed the limit of {limit} (limits.{setting})"


def _of_containers(spec: PodSpec) -> tuple[int, int, int, int]:
    """How many requests, ports and rules there are, and how long the images' names are."""
    requests = ports = rules = images = 0
    containers: Iterable[Container] = spec.containers
    if spec.init_containers:
        containers = (*spec.containers, *spec.init_containers)
    for container in containers:
        requests += len(container.resources.requests) + len(container.resources.limits)
        ports += len(container.ports)
        rules += len(container.restart_policy_rules)
        images += len(container.image)
    return requests, ports, rules, images


def _nested(volumes: Sequence[Volume]) -> bool:
    """Whether some volume has a list or map of its own."""
    return any(each.ephemeral is not None or each.rbd is not None for each in volumes)


def _claiming(volumes: Sequence[Volume]) -> int:
    return sum(
        each.persistent_volume_claim is not None or each.ephemeral is not None for each in volumes
    )


def _of_nodes(spec: PodSpec, limits: PodLimits) -> Iterator[str | None]:
    selector, limit = len(spec.node_selector), limits.node_requirements
    yield _over("spec.nodeSelector", selector, "nodeRequirements", limit)
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return
    required, preferred = _node_terms(spec.affinity)
    for strength, terms in (("required", required), ("preferred", preferred)):
        number = len(terms)
        if number <= limit:
            number = _requirements(terms)
        path = f"spec.affinity.nodeAffinity.{strength}DuringSchedulingIgnoredDuringExecution"
        yield _over(path, number, "nodeRequirements", limit)


def _node_terms(affinity: Affinity) -> tuple[list[NodeSelectorTerm], list[NodeSelectorTerm]]:
    rules = affinity.node_affinity
    if rules is None:
        return [], []
    required = (rules.required and rules.required.node_selector_terms) or ()
    return list(required), [each.preference for each in rules.preferred]


def rules_of(affinity: Affinity) -> int:
    """The terms of affinity to pods, and the alternatives of that to nodes."""
    number = 0
    if affinity.node_affinity is not None:
        required = affinity.node_affinity.required
        if required is not None and required.node_selector_terms:
            terms = required.node_selector_terms
            number += max(len(terms), len(terms[0].match_expressions))
        number += len(affinity.node_affinity.preferred)
    for rules in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if rules is not None:
            number += len(rules.required) + len(rules.preferred)
    return number


def _selecting(spec: PodSpec, few: int) -> int:
    """The terms and constraints of a pod, and all their entries as long as there are but few."""
    number = len(spec.topology_spread_constraints)
    if spec.affinity is not None:
        number += rules_of(spec.affinity)
        if number <= few and spec.affinity.node_affinity is not None:
            number += sum(map(_requirements, _node_terms(spec.affinity)))
    return number + _selector_entries(spec) if number <= few else number


def _requirements(terms: Sequence[NodeSelectorTerm]) -> int:
    """A term without requirements matches nothing and costs as much as one with one."""
    return sum([max(1, len(t.match_expressions) + len(t.match_fields)) for t in terms])


def _of_terms(affinity: Affinity, limits: PodLimits) -> str | None:
    longest, total = "", 0
    for path, rules in (
        ("spec.affinity.podAffinity", affinity.pod_affinity),
        ("spec.affinity.podAntiAffinity", affinity.pod_anti_affinity),
    ):
        number = len(rules.required) + len(rules.preferred) if rules else 0
        longest = path if not longest or number > total else longest
        total += number
    return _over(longest, total, "podAffinityTerms", limits.pod_affinity_terms)


def _selector_entries(spec: PodSpec) -> int:
    """All entries of all selectors of a pod, apart from its `nodeSelector`."""
    number = 0
    if spec.affinity is not None:
        for term in (each for terms in _node_terms(spec.affinity) for each in terms):
            number += _with_values(term.match_expressions) + _with_values(term.match_fields)
        for rules in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
            number += sum(map(term_entries, _terms(rules))) if rules else 0
    for constraint in spec.topology_spread_constraints:
        number += len(constraint.match_label_keys) + selector_entries(constraint.label_selector)
    return number


def _terms(rules: PodAffinity) -> Iterator[PodAffinityTerm]:
    yield from rules.required
    for weighted in rules.preferred:
        yield weighted.pod_affinity_term


def term_entries(term: PodAffinityTerm) -> int:
    """The entries of a term's selectors."""
    return (
        len(term.namespaces)
        + len(term.match_label_keys)
        + len(term.mismatch_label_keys)
        + selector_entries(term.label_selector)
        + selector_entries(term.namespace_selector)
    )


def selector_entries(selector: LabelSelector | None) -> int:
    """The labels, expressions and values of a selector."""
    if selector is None:
        return 0
    return len(selector.match_labels) + _with_values(selector.match_expressions)


def more_entries_than(number: int, *selectors: LabelSelector | None) -> bool:
    """Whether selectors have more entries together. O(number), however many values they have."""
    for selector in selectors:
        if selector is not None and number >= 0:
            number -= len(selector.match_labels) + len(selector.match_expressions)
            if number >= 0:
                number -= _values_of(selector.match_expressions)
    return number < 0


def _with_values(
    requirements: Sequence[NodeSelectorRequirement] | Sequence[LabelSelectorRequirement],
) -> int:
    """How many requirements there are, and values in them; counted in C, as there may be many."""
    if not requirements:
        return 0
    return len(requirements) + _values_of(requirements)


def _values_of(
    requirements: Sequence[NodeSelectorRequirement] | Sequence[LabelSelectorRequirement],
) -> int:
    return sum(map(len, map(_VALUES, requirements)))


_VALUES = attrgetter("values")
_ENCODER = msgspec.msgpack.Encoder(enc_hook=as_text)
