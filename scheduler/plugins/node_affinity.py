"""NodeAffinity: nodeSelector, required and preferred node affinity."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from scheduler.config.plugin_args import NodeAffinityArgs
from scheduler.equivalence.reads import Key, Reads
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import NodeAffinitySpec as NodeAffinityRules
from scheduler.model.selectors import (
    NODE_NAME_FIELD,
    NodeMatcher,
    NodeTerm,
    compile_node_selector,
    compile_preferences,
)
from scheduler.model.status import SKIP, SUCCESS, Code, Status
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact
from scheduler.plugin_api.scoring import normalize_by_max
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import NODE_AFFINITY
from scheduler.plugins.node_affinity_facts import Expressions, Failure
from scheduler.queueing.columns import Indexed, Term, label_tokens, required_tokens
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Mask, Rows, Scores

_NOTHING = NodeMatcher()


class NodeAffinity:
    """Asks each requirement once per distinct label value; a verdict is then a gather over rows."""

    name = NODE_AFFINITY
    traits = PluginTraits(row_by_row=True)
    MISMATCH = Status(
        Code.UNRESOLVABLE, ("node(s) didn't match Pod's node affinity/selector",), NODE_AFFINITY
    )
    NOT_ENFORCED = Status(
        Code.UNRESOLVABLE,
        ("node(s) didn't match scheduler-enforced node affinity",),
        NODE_AFFINITY,
    )
    CONFLICT = Status(Code.UNRESOLVABLE, ("pod affinity terms conflict",), NODE_AFFINITY)

    filter_reads = score_reads = Reads(rows=frozenset({Aspect.LABELS}), claims=False)

    def __init__(self, args: NodeAffinityArgs | None, handle: Handle) -> None:
        added = (args and args.added_affinity) or NodeAffinityRules()
        path = "addedAffinity"
        self._enforced = NodeMatcher(terms=compile_node_selector(added.required, path))
        self._preferred = compile_preferences(added.preferred, path)
        self._always_scores = bool(added.preferred)
        self._state = handle.state

    def filter_key(self, pod: PodInfo) -> Key:
        """What the pod requires of nodes; nothing to check if neither it nor the profile does."""
        matcher = pod.node_matcher
        return None if matcher == _NOTHING and self._enforced == _NOTHING else matcher

    def score_key(self, pod: PodInfo) -> Key:
        """What the pod prefers."""
        return pod.node_preferences if self._scores(pod) else None

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Narrow the nodes to those that every required term names, if every term names some."""
        matcher = cycle.pod.node_matcher
        if self.filter_key(cycle.pod) is None:
            return PreFilterResult(SKIP)
        named = _named_nodes(matcher.terms)
        if named is not None and not named:
            return PreFilterResult(self.CONFLICT)
        return PreFilterResult(SUCCESS, named)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes by the profile's own affinity first, then by the pod's."""
        labels = cycle.state.columns.labels
        codes = cycle.reject(~labels.match(cycle.pod.node_matcher, rows), self.MISMATCH)
        if self._enforced != _NOTHING:
            enforced = cycle.reject(~labels.match(self._enforced, rows), self.NOT_ENFORCED)
            codes = np.where(enforced, enforced, codes)
        return codes

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Failure]:
        """The requirements that each row does not meet, and what it has instead."""
        return self._expressions(cycle.pod).failures(cycle.state.columns.labels, rows)

    def facts(self, pod: PodInfo, failure: Failure) -> Iterator[Fact]:
        """Each requirement that is not met, and what the node has."""
        return self._expressions(pod).facts(failure)

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterator[Fact]:
        """How many nodes meet each requirement."""
        return self._expressions(cycle.pod).facts_of_cluster(cycle.state, len(rows))

    def _expressions(self, pod: PodInfo) -> Expressions:
        return Expressions(pod.node_matcher, self._enforced)

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status:
        """Nothing to score for a pod that prefers nothing; an empty term is a score of 0."""
        return SUCCESS if self._scores(cycle.pod) else SKIP

    def _scores(self, pod: PodInfo) -> bool:
        affinity = pod.pod.spec.affinity
        rules = affinity.node_affinity if affinity else None
        return bool(rules and rules.preferred) or self._always_scores

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The sum of the weights of all preferred terms that the node matches."""
        preferences = (*self._preferred, *cycle.pod.node_preferences)
        terms = ((preference.term, preference.weight) for preference in preferences)
        return cycle.state.columns.labels.weigh(terms, rows)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """More is better."""
        return normalize_by_max(scores)

    def hints(self) -> Sequence[HintRegistration]:
        """A node that matches now and did not before."""
        seen = Action.ADD | Action.NODE_LABEL
        return (HintRegistration("Node", seen, self._after_node, _by_required_labels),)

    def accepts(self, pod: PodInfo, rows: Rows) -> Mask:
        """The nodes that the profile and the pod select."""
        labels = self._state.columns.labels
        matching = labels.match(pod.node_matcher, rows)
        if self._enforced != _NOTHING:
            matching &= labels.match(self._enforced, rows)
        return matching

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(new, Node) or not self._suits(pod, new):
            return Hint.SKIP
        return Hint.SKIP if isinstance(old, Node) and self._suits(pod, old) else Hint.QUEUE

    def _suits(self, pod: PodInfo, node: Node) -> bool:
        return self._enforced.matches(node) and pod.node_matcher.matches(node)


def _by_required_labels() -> Indexed:
    return Indexed(_required_labels, _node_tokens)


def _required_labels(pod: PodInfo) -> Iterator[Term]:
    """What a node must have to match: the selector, and what some term requires."""
    selector = required_tokens(pod.node_matcher.selector)
    terms = pod.node_matcher.terms
    if terms is None:
        yield selector
        return
    for term in terms:
        names = required_tokens(term.fields, NODE_NAME_FIELD)
        yield [*selector, *required_tokens(term.labels), *names]


def _node_tokens(event: Event) -> Iterable[Hashable]:
    node = event.new
    if not isinstance(node, Node):
        return ()
    name = label_tokens({NODE_NAME_FIELD: node.name}, NODE_NAME_FIELD)
    return (*label_tokens(node.metadata.labels), *name)


def _named_nodes(terms: tuple[NodeTerm, ...] | None) -> frozenset[str] | None:
    """The nodes that terms name by ``metadata.name``; None unless every term names some."""
    if not terms:
        return None
    named: set[str] = set()
    for term in terms:
        sets = [field.values for field in term.fields if field.operator == "In"]
        if not sets:
            return None
        named |= frozenset.intersection(*sets)
    return frozenset(named)
