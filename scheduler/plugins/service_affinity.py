"""ServiceAffinity: pods of a service stay together, on nodes with the same values of some labels.

The first pod of a service goes anywhere; those like it follow to nodes that have the same values of
the configured labels as its node, say the same zone. A pod's own nodeSelector has precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.config.plugin_args import ServiceAffinityArgs
from scheduler.equivalence.reads import Key, Reads
from scheduler.model.affinity import PodSet
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node
from scheduler.model.objects import Service
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Selector, compile_set
from scheduler.model.status import SKIP, Code, Status
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugins.default_selector import DefaultSelector
from scheduler.plugins.names import SERVICE_AFFINITY
from scheduler.plugins.service_affinity_facts import apart, apart_in_cluster
from scheduler.queueing.columns import Indexed, alike
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Rows


class ServiceAffinity:
    """Does nothing unless labels are configured."""

    name = SERVICE_AFFINITY
    observes = ("Service",)
    APART = Status(Code.UNSCHEDULABLE, ("node(s) didn't match service affinity",), SERVICE_AFFINITY)

    filter_reads = Reads(
        cluster=frozenset({Aspect.NODE, Aspect.LABELS, Aspect.PODS, Aspect.SERVICES}), kept=False
    )

    def __init__(self, args: ServiceAffinityArgs | None, handle: Handle) -> None:
        self._labels = args.labels if args else ()
        self._state = handle.state
        self._services = DefaultSelector(handle.state.objects)

    def filter_key(self, pod: PodInfo) -> Key:
        """What it selects, and the labels by which its kin are found."""
        if not self._labels:
            return None
        own = self._values(pod.pod.spec.node_selector)
        return (tuple(own.items()), _kin(pod))

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Nothing to check without labels."""
        return PreFilterResult() if self._labels else PreFilterResult(SKIP)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes with other label values than the pod selects or pods of its service have."""
        wanted = compile_set(self._wanted(cycle.pod))
        labels = cycle.state.columns.labels
        return cycle.reject(~labels.satisfy(wanted, rows), self.APART)

    def _wanted(self, pod: PodInfo) -> Mapping[str, str]:
        """What the pod's own selector says, and where it is silent, the node of its first kin."""
        own = self._values(pod.pod.spec.node_selector)
        if len(own) == len(self._labels) or not self._services.service_labels(pod.pod.metadata):
            return own
        first = self._first_node(pod)
        return own if first is None else self._values(first.metadata.labels) | own

    def _values(self, labels: Mapping[str, str]) -> dict[str, str]:
        return {key: labels[key] for key in self._labels if key in labels}

    def _first_node(self, pod: PodInfo) -> Node | None:
        """The node of the oldest of the pods that have all the labels of this one."""
        kin = _kin(pod)
        columns = self._state.columns
        rows = np.flatnonzero(self._state.index.counter(kin).counts)
        if not len(rows):
            return None
        values = np.array([columns.labels.column(key).ids[rows] for key in self._labels])
        if (values == values[:, :1]).all():  # all have the same values: any pod suffices
            return columns.nodes[int(rows[0])]
        oldest = min(
            (
                other
                for row in rows
                for other in self._state.pods_on(columns.names[row])
                if self._state.index.belongs(other, (kin,))
            ),
            key=lambda other: (other.pod.metadata.creation_timestamp or "", other.key),
        )
        return self._state.node(oldest.node_name)

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The labels in which the node differs from those of the service's pods."""
        return apart(cycle, rows, compile_set(self._wanted(cycle.pod)))

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """How many nodes have each label."""
        return apart_in_cluster(cycle, compile_set(self._wanted(cycle.pod)))

    def hints(self) -> Sequence[HintRegistration]:
        """Kin that come, change or go, services that do, and nodes whose labels count."""
        changed = Action.ADD | Action.UPDATE | Action.DELETE
        return (
            HintRegistration("Pod", changed, self._after_pod, _by_namespace),
            HintRegistration("Service", changed, self._after_service, _by_namespace),
            HintRegistration(
                "Node",
                Action.ADD | Action.DELETE | Action.NODE_LABEL,
                self._after_node,
                alike(self._after_node),
            ),
        )

    def _after_pod(self, pod: PodInfo, event: Event) -> Hint:
        kin = _kin(pod)
        related = any(
            isinstance(version, PodInfo) and self._state.index.belongs(version, (kin,))
            for version in (event.old, event.new)
        )
        return Hint.QUEUE if related else Hint.SKIP

    def _after_service(self, pod: PodInfo, event: Event) -> Hint:
        namespace = pod.pod.metadata.namespace
        near = any(
            isinstance(version, Service) and version.metadata.namespace == namespace
            for version in (event.old, event.new)
        )
        return Hint.QUEUE if near else Hint.SKIP

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(old, Node) or not isinstance(new, Node):
            return Hint.QUEUE
        before, after = self._values(old.metadata.labels), self._values(new.metadata.labels)
        return Hint.QUEUE if before != after else Hint.SKIP


def _kin(pod: PodInfo) -> PodSet:
    """The pods of the namespace that have all the labels of a pod."""
    metadata = pod.pod.metadata
    return PodSet(frozenset((metadata.namespace,)), Selector(compile_set(metadata.labels)))


def _by_namespace() -> Indexed:
    return Indexed(lambda pod: [[[pod.pod.metadata.namespace]]], _namespaces)


def _namespaces(event: Event) -> set[str]:
    found = set()
    for version in (event.old, event.new):
        if isinstance(version, PodInfo):
            found.add(version.pod.metadata.namespace)
        elif isinstance(version, Service):
            found.add(version.metadata.namespace)
    return found
