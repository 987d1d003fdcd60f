"""Which events may cure a pod that inter-pod affinity keeps waiting."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from scheduler.model.affinity import AffinityTerm
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node
from scheduler.model.objects import Namespace
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Selector
from scheduler.queueing.columns import Indexed, Term, label_tokens, required_tokens
from scheduler.queueing.hints import HintRegistration
from scheduler.state.cache import ClusterState


class AffinityHints:
    """Judges events by the terms of the waiting pod and of pods whose terms select it."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._belongs = state.index.belongs

    def registrations(self) -> Sequence[HintRegistration]:
        """What to listen to."""
        return (
            HintRegistration(
                "Pod", Action.ADD | Action.POD_LABEL | Action.DELETE, self._after_pod, _by_labels
            ),
            HintRegistration(
                "Node", Action.ADD | Action.NODE_LABEL, self._after_node, self._by_key
            ),
            HintRegistration("Namespace", Action.ADD | Action.UPDATE, self._after_namespace),
        )

    def _after_pod(self, pod: PodInfo, event: Event) -> Hint:
        old, new = _placed(event.old), _placed(event.new)
        own = isinstance(event.new, PodInfo) and event.new.uid == pod.uid
        cured = own or self._came(pod, old, new) or self._went(pod, old, new)
        return Hint.QUEUE if cured else Hint.SKIP

    def _came(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
        """Whether a pod that the affinity terms select is there now and was not before."""
        terms = pod.affinity.required
        return new is not None and self._in_all(new, terms) and not self._in_all(old, terms)

    def _went(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
        """Whether a pod that anti-affinity excluded is gone."""
        if old is None:
            return False
        terms = pod.affinity
        avoided = any(
            self._in_all(old, (term,)) and not self._in_all(new, (term,))
            for term in terms.anti_required
        )
        repelling = new is None and any(
            self._in_all(pod, (term,)) for term in old.affinity.anti_required
        )
        # With the last of the others gone, a pod that matches its own terms may go anywhere.
        last = (
            self._in_all(pod, terms.required)
            and self._in_all(old, terms.required)
            and not self._in_all(new, terms.required)
        )
        return avoided or repelling or last

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(new, Node):
            return Hint.SKIP
        labels = new.metadata.labels
        wanted = {term.topology_key for term in pod.affinity.required}
        if not isinstance(old, Node):
            reachable = not wanted or any(key in labels for key in wanted)
            return Hint.QUEUE if reachable else Hint.SKIP
        hostile = self._state.index.terms_about(pod)
        keys = wanted | {term.topology_key for term in pod.affinity.anti_required}
        keys |= {each.term.topology_key for each in hostile if each.role == "anti_required"}
        moved = any(labels.get(key) != old.metadata.labels.get(key) for key in keys)
        return Hint.QUEUE if moved else Hint.SKIP

    def _by_key(self) -> Indexed:
        return Indexed(_keys_of_terms, self._keys_of_node)

    def _keys_of_node(self, event: Event) -> Iterable[Hashable] | None:
        """The keys of a new node's labels, or those that changed."""
        old, new = event.old, event.new
        if not isinstance(new, Node):
            return ()
        labels = new.metadata.labels
        if not isinstance(old, Node):
            return [_NEW, *((_NEW, key) for key in labels)]
        before = old.metadata.labels
        moved = {key for key in {*before, *labels} if labels.get(key) != before.get(key)}
        if moved & self._state.index.repelling_keys():
            return None
        return [(_MOVED, key) for key in moved]

    def _after_namespace(self, pod: PodInfo, event: Event) -> Hint:
        """Labels of namespaces decide only where a term selects by them."""
        before, after = _labels(event.old), _labels(event.new)
        if before == after:
            return Hint.SKIP
        terms = (*pod.affinity.required, *pod.affinity.anti_required)
        selects = any(not term.pods.namespace_selector.nothing for term in terms)
        own = isinstance(event.new, Namespace) and (
            event.new.metadata.name == pod.pod.metadata.namespace
        )
        return Hint.QUEUE if selects or own else Hint.SKIP

    def _in_all(self, pod: PodInfo | None, terms: Iterable[AffinityTerm]) -> bool:
        """Whether a pod is there and matches all of one or more terms."""
        sets = [term.pods for term in terms]
        return pod is not None and bool(sets) and self._belongs(pod, sets)


_SELECTED, _LABELLED = "selected", "labelled"
_NEW, _MOVED = "new", "moved"
_MOST_LABELS = 16


def _by_labels() -> Indexed:
    """Waiting pods by the labels that their terms select, and by their own."""
    return Indexed(_terms_of_pod, _tokens_of_pods)


def _terms_of_pod(pod: PodInfo) -> Iterator[Term]:
    own = pod.affinity
    if own.required:
        selectors = [term.pods.selector for term in own.required]
        yield _all_selected(selectors)
    for term in own.anti_required:
        yield _all_selected([term.pods.selector])
    labels = pod.pod.metadata.labels
    if len(labels) > _MOST_LABELS:
        yield [[_LABELLED]]
        return
    for token in label_tokens(labels, _LABELLED):
        yield [[token]]


def _all_selected(selectors: Sequence[Selector]) -> Term:
    requirements = [each for selector in selectors for each in selector.requirements]
    return required_tokens(requirements, _SELECTED)


def _tokens_of_pods(event: Event) -> Iterable[Hashable] | None:
    """The labels of pods that came or went, and those that the terms of the latter select."""
    old, new = _placed(event.old), _placed(event.new)
    tokens: set[Hashable] = set()
    for pod in (old, new):
        if pod is not None:
            tokens.update(label_tokens(pod.pod.metadata.labels, _SELECTED))
    if old is not None and new is None:
        for term in old.affinity.anti_required:
            required = required_tokens(term.pods.selector.requirements, _LABELLED)
            if not required:
                return None
            fewest: Sequence[Hashable] = min(required, key=len)
            tokens.update(fewest)
            tokens.add(_LABELLED)
    return tokens


def _keys_of_terms(pod: PodInfo) -> list[Term]:
    """The topology keys that matter to a pod on a new node, and on one whose labels change."""
    required = {term.topology_key for term in pod.affinity.required}
    avoided = {term.topology_key for term in pod.affinity.anti_required}
    new: list[Term] = [[[(_NEW, key)]] for key in required] or [[[_NEW]]]
    return [*new, *([[(_MOVED, key)]] for key in required | avoided)]


def _placed(pod: object) -> PodInfo | None:
    """A pod that has a node or is nominated to one; other pods have no effect."""
    if isinstance(pod, PodInfo) and (pod.node_name or pod.pod.status.nominated_node_name):
        return pod
    return None


def _labels(namespace: object) -> dict[str, str]:
    return dict(namespace.metadata.labels) if isinstance(namespace, Namespace) else {}
