"""Which events may cure a pod that inter-pod affinity keeps waiting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.model.affinity import AffinityTerm
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node
from scheduler.model.objects import Namespace
from scheduler.model.podinfo import PodInfo
from scheduler.queueing.hints import HintRegistration
from scheduler.state.cache import ClusterState


class AffinityHints:
    """Judges events by the terms of the waiting pod and of the pods that speak of it."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._belongs = state.index.belongs

    def registrations(self) -> Sequence[HintRegistration]:
        """What to listen to."""
        return (
            HintRegistration("Pod", Action.ADD | Action.POD_LABEL | Action.DELETE, self._after_pod),
            HintRegistration("Node", Action.ADD | Action.NODE_LABEL, self._after_node),
            HintRegistration("Namespace", Action.ADD | Action.UPDATE, self._after_namespace),
        )

    def _after_pod(self, pod: PodInfo, event: Event) -> Hint:
        old, new = _placed(event.old), _placed(event.new)
        own = isinstance(event.new, PodInfo) and event.new.uid == pod.uid
        cured = own or self._came(pod, old, new) or self._went(pod, old, new)
        return Hint.QUEUE if cured else Hint.SKIP

    def _came(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
        """Whether there is company now that was not there before."""
        terms = pod.affinity.required
        return new is not None and self._in_all(new, terms) and not self._in_all(old, terms)

    def _went(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
        """Whether something that was in the way is gone."""
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
        # With the last of the others gone, a pod that is company to itself may go anywhere.
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


def _placed(pod: object) -> PodInfo | None:
    """A pod that has a node, or was promised one; others are in nobody's way."""
    if isinstance(pod, PodInfo) and (pod.node_name or pod.pod.status.nominated_node_name):
        return pod
    return None


def _labels(namespace: object) -> dict[str, str]:
    return dict(namespace.metadata.labels) if isinstance(namespace, Namespace) else {}
