"""NodeDeclaredFeatures: features that a pod needs and not every kubelet has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import PodSpec
from scheduler.model.status import SKIP, Code, Status
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import NODE_DECLARED_FEATURES
from scheduler.plugins.node_declared_features_facts import missing_features, missing_in_cluster
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration, by_uid
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Rows
from scheduler.state.interning import InternedAnswers

Features = frozenset[str]


class NodeDeclaredFeatures:
    """Judged once per distinct list of features that nodes declare."""

    name = NODE_DECLARED_FEATURES
    traits = PluginTraits(row_by_row=True)
    MISSING = Status(
        Code.UNRESOLVABLE, ("node(s) didn't match Pod's required features",), NODE_DECLARED_FEATURES
    )

    filter_reads = Reads(rows=frozenset({Aspect.FEATURES}), claims=False)

    def __init__(self, args: Any, handle: Handle) -> None:
        sets = handle.state.columns.features.interner
        self._missing: InternedAnswers[Features, tuple[str, ...]] = InternedAnswers(
            sets, np.bool_, len
        )
        handle.metrics.caches.follow(
            f"{self.name} {handle.profile}", lambda: {"required_features": self._missing.usage()}
        )

    def filter_key(self, pod: PodInfo) -> Key:
        """The features it requires."""
        return required_features(pod) or None

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Nothing to check for a pod that every node can run."""
        return PreFilterResult() if required_features(cycle.pod) else PreFilterResult(SKIP)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes that do not declare all that the pod requires."""
        required = required_features(cycle.pod)
        missing = self._missing.ask(required, lambda declared: not required.issubset(declared))
        return cycle.reject(missing[cycle.state.columns.features.numbers[rows]], self.MISSING)

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The features that the node does not declare."""
        return missing_features(cycle, rows, required_features(cycle.pod))

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """How many nodes declare each feature."""
        return missing_in_cluster(cycle, required_features(cycle.pod))

    def hints(self) -> Sequence[HintRegistration]:
        """A node that declares what was missing, or a pod that requires something else."""
        seen = Action.ADD | Action.NODE_DECLARED_FEATURE
        return (
            HintRegistration(
                "Node", seen, self._after_node, alike(self._after_node, required_features)
            ),
            HintRegistration("Pod", Action.UPDATE, self._after_pod, by_uid),
        )

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        required = required_features(pod)
        if not isinstance(new, Node) or not required.issubset(new.status.declared_features):
            return Hint.SKIP
        sufficed = isinstance(old, Node) and required.issubset(old.status.declared_features)
        return Hint.SKIP if sufficed else Hint.QUEUE

    def _after_pod(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(old, PodInfo) or not isinstance(new, PodInfo) or new.uid != pod.uid:
            return Hint.SKIP
        changed = required_features(old) != required_features(new)
        return Hint.QUEUE if changed else Hint.SKIP


def required_features(pod: PodInfo) -> Features:
    """The features without which a node cannot run the pod."""
    spec = pod.pod.spec
    return frozenset(name for name, needed in _REQUIREMENTS.items() if needed(spec))


def _restarts_all_containers(spec: PodSpec) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    )


def _own_users_on_host_network(spec: PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


# The other features that nodes declare matter for changes of running pods, not for where they run.
_REQUIREMENTS = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _own_users_on_host_network,
}
