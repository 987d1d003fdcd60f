"""PodTopologySpread: pods of one kind are kept evenly spread over zones, racks, nodes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

import msgspec
import numpy as np

from scheduler.bounded import MEBIBYTE, Usage
from scheduler.config.plugin_args import DefaultSpreadConstraint as DefaultConstraint
from scheduler.config.plugin_args import PodTopologySpreadArgs
from scheduler.equivalence.reads import Key, Reads
from scheduler.model.affinity import HOSTNAME, SpreadConstraint
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node, Taint
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Toleration
from scheduler.model.selectors import NodeMatcher, Selector
from scheduler.model.status import SKIP, SUCCESS, Code, Status
from scheduler.model.tolerations import Cover
from scheduler.plugin_api import MAX_SCORE, Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle, Slot
from scheduler.plugin_api.extension_points import CountedPods
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugins.default_selector import DefaultSelector
from scheduler.plugins.names import TOPOLOGY_SPREAD
from scheduler.plugins.topology_spread_domains import Domains, Ground, pods_of
from scheduler.plugins.topology_spread_facts import crowding, crowding_in_cluster
from scheduler.queueing.columns import Indexed, Term, alike, label_tokens, required_tokens
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Mask, Rows, Scores
from scheduler.state.interning import InternedAnswers

ZONE = "topology.kubernetes.io/zone"

_ground_versions = itemgetter(Aspect.NODE, Aspect.LABELS, Aspect.TAINTS)
"""When those aspects changed last that decide where pods may count."""
_KEPT_GROUNDS = 256
_GROUND_BYTES = 64 * MEBIBYTE
_GROUND_BYTES_PER_ROW = 20

_TO_BE_DERIVED = Selector(nothing=True)
_SYSTEM_DEFAULTS = (
    SpreadConstraint(HOSTNAME, 3, _TO_BE_DERIVED, hard=False),
    SpreadConstraint(ZONE, 5, _TO_BE_DERIVED, hard=False),
)
_Policies = tuple[bool, bool]
"""Whether a constraint honors node affinity, and whether it honors taints."""

_REASON = "node(s) didn't match pod topology spread constraints"


class _Scoring(msgspec.Struct, frozen=True):
    """What scoring the feasible rows needs: the constraints, and which rows take no part."""

    domains: tuple[Domains, ...]
    ignored: Mask


_HARD: Slot[tuple[Domains, ...]] = Slot("hard topology spread constraints")
_SOFT: Slot[_Scoring] = Slot("soft topology spread constraints")


class PodTopologySpread:
    """Sums the index's counters over domains: a few passes over rows for each constraint."""

    name = TOPOLOGY_SPREAD
    CROWDED = Status(Code.UNSCHEDULABLE, (_REASON,), TOPOLOGY_SPREAD)
    NO_DOMAIN = Status(Code.UNRESOLVABLE, (f"{_REASON} (missing required label)",), TOPOLOGY_SPREAD)

    filter_reads = score_reads = Reads(
        cluster=frozenset({Aspect.NODE, Aspect.LABELS, Aspect.TAINTS, Aspect.PODS}),
        keys=frozenset({Aspect.SERVICES, Aspect.CONTROLLERS}),
        claims=False,
        kept=False,
    )

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        args = args or PodTopologySpreadArgs()
        self._system_defaults = args.defaulting_type == "System"
        self._defaults = (
            _SYSTEM_DEFAULTS
            if self._system_defaults
            else tuple(map(_default_constraint, args.default_constraints))
        )
        self.observes = DefaultSelector.KINDS if self._defaults else ()
        self._selector = DefaultSelector(handle.state.objects)
        taint_sets = handle.state.columns.taints.interner
        self._repelled: InternedAnswers[tuple[Toleration, ...], tuple[Taint, ...]]
        self._repelled = InternedAnswers(taint_sets, np.bool_, len)
        self._state = handle.state
        self._grounds: dict[Hashable, Ground] = {}
        self._counting: dict[Hashable, Rows] = {}
        self._matching: dict[NodeMatcher, Mask] = {}
        self._known_at: tuple[int, ...] = ()
        handle.metrics.caches.follow(f"{self.name} {handle.profile}", self._usage)

    # Constraints

    def filter_key(self, pod: PodInfo) -> Key:
        """The constraints that must hold, and what decides which nodes and pods count."""
        return self._key(pod, hard=True)

    def score_key(self, pod: PodInfo) -> Key:
        """The constraints that should hold, and what decides which nodes and pods count."""
        return self._key(pod, hard=False)

    def spreads(self, pod: PodInfo) -> tuple[SpreadConstraint, ...]:
        """The constraints that must and that should hold."""
        return self._constraints(pod, hard=True) + self._constraints(pod, hard=False)

    def counted(self, pod: PodInfo) -> Iterator[CountedPods]:
        """The pods of its constraints."""
        for constraint in self.spreads(pod):
            yield CountedPods((pods_of(constraint, pod),), living_only=True)

    def _key(self, pod: PodInfo, *, hard: bool) -> Key:
        constraints = self._constraints(pod, hard=hard)
        if not constraints:
            return None
        metadata, spec = pod.pod.metadata, pod.pod.spec
        honored = any(each.honor_taints for each in constraints)
        return (
            constraints,
            metadata.namespace,
            tuple(each.selector.matches(metadata.labels) for each in constraints),
            bool(spec.topology_spread_constraints),
            pod.node_matcher if any(each.honor_affinity for each in constraints) else None,
            spec.tolerations if honored else None,
        )

    def _constraints(self, pod: PodInfo, *, hard: bool) -> tuple[SpreadConstraint, ...]:
        """The pod's own constraints, or else the defaults for pods that something selects."""
        if pod.pod.spec.topology_spread_constraints:
            return tuple(each for each in pod.spread if each.hard == hard)
        defaults = [each for each in self._defaults if each.hard == hard]
        selector = self._selector.of(pod) if defaults else Selector()
        if not selector.requirements:
            return ()
        return tuple(msgspec.structs.replace(each, selector=selector) for each in defaults)

    def _domains(
        self, cycle: Cycle, constraints: Sequence[SpreadConstraint], *, only_labelled: bool
    ) -> tuple[Domains, ...]:
        """The domains of each constraint: a few passes over rows for one, however many there are.

        Which rows count depends on the keys of *all* constraints, so that is found out once for
        all of them.
        """
        keys = (
            frozenset(each.topology_key for each in constraints) if only_labelled else frozenset()
        )
        self._forget_when_nodes_changed(cycle)
        counting = {
            _policies(each): self._counting_rows(cycle, each, keys)
            for each in {_policies(each): each for each in constraints}.values()
        }
        return tuple(
            Domains(each, cycle.pod, cycle.state, self._ground(cycle, each, counting))
            for each in constraints
        )

    def _forget_when_nodes_changed(self, cycle: Cycle) -> None:
        """Between pods: what one pod's constraints need is not dropped while they are looked at."""
        changed_at = _ground_versions(cycle.state.changes.changed_at)
        kept = min(_KEPT_GROUNDS, _GROUND_BYTES // self._ground_bytes(1))
        if changed_at != self._known_at or len(self._grounds) > kept:
            self._known_at = changed_at
            self._grounds.clear()
            self._counting.clear()
            self._matching.clear()

    def _ground_bytes(self, grounds: int) -> int:
        return grounds * _GROUND_BYTES_PER_ROW * self._state.columns.capacity

    def _usage(self) -> dict[str, Usage]:
        kept = len(self._grounds)
        return {
            "spread_grounds": Usage(kept, self._ground_bytes(kept)),
            "tolerations": self._repelled.usage(),
        }

    def _counting_rows(
        self, cycle: Cycle, constraint: SpreadConstraint, keys: frozenset[str]
    ) -> Rows:
        """The rows that count under a constraint's policies."""
        question = (
            keys,
            cycle.pod.node_matcher if constraint.honor_affinity else None,
            cycle.pod.pod.spec.tolerations if constraint.honor_taints else None,
        )
        rows = self._counting.get(question)
        if rows is None:
            rows = self._counting[question] = self._included(cycle, constraint, keys)
        return rows

    def _ground(
        self, cycle: Cycle, constraint: SpreadConstraint, counting: Mapping[_Policies, Rows]
    ) -> Ground:
        """The rows that count for a constraint, and their domains."""
        rows = counting[_policies(constraint)]
        # Rows stand for the question that they answer: both are kept for as long.
        question = (constraint.topology_key, id(rows))
        ground = self._grounds.get(question)
        if ground is None:
            column = cycle.state.columns.labels.column(constraint.topology_key)
            ground = self._grounds[question] = Ground(column, rows, cycle.state.rows())
        return ground

    def _included(self, cycle: Cycle, constraint: SpreadConstraint, keys: frozenset[str]) -> Rows:
        """The rows that have all the labels and count by the constraint's policies."""
        columns = cycle.state.columns
        rows = cycle.state.rows()
        counting = _labelled(cycle, keys, rows)
        if constraint.honor_affinity:
            counting = counting & self._matched(cycle)
        rows = rows[counting]
        if constraint.honor_taints:
            tolerations = cycle.pod.pod.spec.tolerations
            answers = self._repelled.ask(tolerations, Cover(tolerations).repelled)
            rows = rows[~answers[columns.taints.numbers[rows]]]
        return rows

    def _matched(self, cycle: Cycle) -> Mask:
        """Which rows the pod's node affinity allows: asked once for all of its constraints."""
        matcher = cycle.pod.node_matcher
        known = self._matching.get(matcher)
        if known is None:
            rows = cycle.state.rows()
            known = self._matching[matcher] = cycle.state.columns.labels.match(matcher, rows)
        return known

    # Hard constraints

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Find the domains of the constraints that must hold."""
        constraints = self._constraints(cycle.pod, hard=True)
        if not constraints:
            return PreFilterResult(SKIP)
        cycle.put(_HARD, self._domains(cycle, constraints, only_labelled=True))
        return PreFilterResult()

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes by the first constraint that the pod would break there."""
        codes: Codes = np.zeros(len(rows), np.int32)
        # The first constraint that a row breaks is the one that is named, so it is written last.
        for domains in cycle.get(_HARD)[::-1]:
            if (crowded := domains.crowded(rows)) is not None and crowded.any():
                np.putmask(codes, crowded, cycle.state.statuses.code(self.CROWDED))
            if (labelled := domains.labelled(rows)) is not None and not labelled.all():
                np.putmask(codes, ~labelled, cycle.state.statuses.code(self.NO_DOMAIN))
        return codes

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The constraints that the pod would break, and the pods of the row's domain."""
        return crowding(cycle, cycle.get(_HARD), rows)

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """The pods of each domain."""
        return crowding_in_cluster(cycle, cycle.get(_HARD), rows)

    # Soft constraints

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status:
        """Find the domains of the constraints that should hold.

        Nodes that are in no domain of some constraint take no part, except under the built-in
        defaults: nodes without a zone still are to share pods evenly.
        """
        constraints = self._constraints(cycle.pod, hard=False)
        if not constraints:
            return SKIP
        own = bool(cycle.pod.pod.spec.topology_spread_constraints)
        strict = own or not self._system_defaults
        keys = {each.topology_key for each in constraints} if strict else set()
        ignored = ~_labelled(cycle, keys, rows)
        domains = self._domains(cycle, constraints, only_labelled=strict)
        cycle.put(_SOFT, _Scoring(domains, ignored))
        return SUCCESS

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """How many pods are around already, a pod weighing more where there are more domains."""
        scoring = cycle.get(_SOFT)
        taking_part = rows[~scoring.ignored] if scoring.ignored.any() else rows
        if len(taking_part) < 2:  # nothing to compare; pods of a DaemonSet all come here
            return np.zeros(len(rows), np.int64)
        total = np.zeros(len(taking_part), np.float64)
        for domains in scoring.domains:
            size, pods = domains.surroundings(taking_part)
            part = pods * math.log(size + 2) + (domains.constraint.max_skew - 1)
            labelled = domains.labelled(taking_part)
            total += part if labelled is None else np.where(labelled, part, 0.0)
        rounded = np.rint(total).astype(np.int64)
        if taking_part is rows:
            return rounded
        scores: Scores = np.zeros(len(rows), np.int64)
        scores[~scoring.ignored] = rounded
        return scores

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Fewer is better; nodes that take no part get nothing."""
        ignored = cycle.get(_SOFT).ignored
        taking_part = scores[~ignored] if ignored.any() else scores
        most = int(taking_part.max(initial=0))
        if not most:
            return np.where(ignored, 0, MAX_SCORE)
        shares = MAX_SCORE * (most + taking_part.min() - scores) // most
        return shares if taking_part is scores else np.where(ignored, 0, shares)

    # Queueing

    def hints(self) -> Sequence[HintRegistration]:
        """A pod that counts came, went or changed; a node that has the domains did."""
        pod_actions = Action.ADD | Action.DELETE | Action.POD_LABEL | Action.POD_TOLERATION
        node_actions = Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT
        return (
            HintRegistration("Pod", pod_actions, self._after_pod, _by_selector),
            HintRegistration(
                "Node", node_actions, self._after_node, alike(self._after_node, _topology_keys)
            ),
        )

    def _after_pod(self, pod: PodInfo, event: Event) -> Hint:
        versions = [each for each in (event.old, event.new) if isinstance(each, PodInfo)]
        if not all(_concerns(each, pod) for each in versions):
            return Hint.SKIP
        constraints = self._constraints(pod, hard=True)
        if len(versions) == 2:
            old, new = versions
            cured = _retolerated(pod, old, new, constraints) or _relabelled(old, new, constraints)
        else:
            labels = versions[0].pod.metadata.labels
            cured = any(each.selector.matches(labels) for each in constraints)
        return Hint.QUEUE if cured else Hint.SKIP

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        constraints = self._constraints(pod, hard=True)
        changed = _standing(event.old, constraints) != _standing(event.new, constraints)
        return Hint.QUEUE if changed else Hint.SKIP


def _default_constraint(raw: DefaultConstraint) -> SpreadConstraint:
    return SpreadConstraint(
        raw.topology_key,
        raw.max_skew,
        _TO_BE_DERIVED,
        hard=raw.when_unsatisfiable == "DoNotSchedule",
        min_domains=1 if raw.min_domains is None else raw.min_domains,
        honor_affinity=raw.node_affinity_policy in (None, "Honor"),
        honor_taints=raw.node_taints_policy == "Honor",
    )


def _policies(constraint: SpreadConstraint) -> _Policies:
    return constraint.honor_affinity, constraint.honor_taints


def _labelled(cycle: Cycle, keys: Iterable[str], rows: Rows) -> Mask:
    """Which rows are in some domain of every key."""
    labels = cycle.state.columns.labels
    if any(key not in labels for key in keys):
        return np.zeros(len(rows), np.bool_)
    result = np.ones(len(rows), np.bool_)
    for key in keys:
        result &= labels.column(key).ids.take(rows) != 0
    return result


def _by_selector() -> Indexed:
    return Indexed(_counted, _labels_of_pods)


def _counted(pod: PodInfo) -> list[Term]:
    """What a pod must have to count for a waiting one; defaults change with their services."""
    namespace = pod.pod.metadata.namespace
    if not pod.pod.spec.topology_spread_constraints:
        return [[[namespace]]]
    hard = (each.selector for each in pod.spread if each.hard)
    terms = (required_tokens(selector.requirements, namespace) for selector in hard)
    return [term or [[namespace]] for term in terms]


def _labels_of_pods(event: Event) -> set[Hashable]:
    tokens: set[Hashable] = set()
    for pod in (event.old, event.new):
        if isinstance(pod, PodInfo):
            namespace = pod.pod.metadata.namespace
            tokens.add(namespace)
            tokens.update(label_tokens(pod.pod.metadata.labels, namespace))
    return tokens


def _topology_keys(pod: PodInfo) -> Hashable:
    """What decides for a pod whether a node matters; defaults depend on more, so each its own."""
    if not pod.pod.spec.topology_spread_constraints:
        return pod.uid
    return frozenset(each.topology_key for each in pod.spread if each.hard)


def _concerns(other: PodInfo, pod: PodInfo) -> bool:
    """Whether a pod is the given one, or one of its namespace with a (nominated) node."""
    if other.uid == pod.uid:
        return True
    placed = other.node_name or other.pod.status.nominated_node_name
    return bool(placed) and other.pod.metadata.namespace == pod.pod.metadata.namespace


def _retolerated(
    pod: PodInfo, old: PodInfo, new: PodInfo, constraints: Sequence[SpreadConstraint]
) -> bool:
    """Whether the waiting pod itself tolerates more, and some constraint honours taints."""
    return (
        new.uid == pod.uid
        and old.pod.spec.tolerations != new.pod.spec.tolerations
        and any(each.honor_taints for each in constraints)
    )


def _relabelled(old: PodInfo, new: PodInfo, constraints: Sequence[SpreadConstraint]) -> bool:
    """Whether a pod begins to count, or ceases to."""
    before, after = old.pod.metadata.labels, new.pod.metadata.labels
    return any(
        each.selector.matches(before) != each.selector.matches(after) for each in constraints
    )


def _standing(
    node: object, constraints: Sequence[SpreadConstraint]
) -> tuple[Mapping[str, str], tuple[Taint, ...]] | None:
    """A node's domains and taints; None if it is not in some domain of every constraint."""
    if not isinstance(node, Node):
        return None
    labels = node.metadata.labels
    keys = {each.topology_key for each in constraints}
    if any(key not in labels for key in keys):  # all keys of many labels would be decoded
        return None
    return {key: labels[key] for key in keys}, node.spec.taints
