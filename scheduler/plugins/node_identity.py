"""NodeName and NodeUnschedulable: the node that a pod names, and cordoned nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node, Taint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code, Status
from scheduler.model.tolerations import tolerates_any
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import NODE_NAME, NODE_UNSCHEDULABLE
from scheduler.plugins.node_identity_facts import (
    cordoned,
    cordoned_in_cluster,
    named,
    named_in_cluster,
)
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration, by_uid
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Mask, Rows


class NodeName:
    """Only the node in ``spec.nodeName``, if a pod that waits names one."""

    name = NODE_NAME
    traits = PluginTraits(row_by_row=True)
    MISMATCH = Status(
        Code.UNRESOLVABLE, ("node(s) didn't match the requested node name",), NODE_NAME
    )

    filter_reads = Reads(claims=False)

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter_key(self, pod: PodInfo) -> Key:
        """The name, if there is one."""
        return pod.pod.spec.node_name or None

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject every node but the named one."""
        wanted = cycle.pod.pod.spec.node_name
        if not wanted:
            return np.zeros(len(rows), np.int32)
        return cycle.reject(rows != cycle.state.row(wanted), self.MISMATCH)

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The node that the pod names."""
        return named(cycle, rows)

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """Whether there is such a node."""
        return named_in_cluster(cycle, rows)

    def hints(self) -> Sequence[HintRegistration]:
        """The named node may turn up."""
        return (HintRegistration("Node", Action.ADD),)


class NodeUnschedulable:
    """Cordoned nodes take only pods that tolerate it."""

    name = NODE_UNSCHEDULABLE
    traits = PluginTraits(row_by_row=True)
    CORDONED = Status(Code.UNRESOLVABLE, ("node(s) were unschedulable",), NODE_UNSCHEDULABLE)
    TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    filter_reads = Reads(rows=frozenset({Aspect.UNSCHEDULABLE}), claims=False)

    def __init__(self, args: Any, handle: Handle) -> None:
        self._state = handle.state

    def filter_key(self, pod: PodInfo) -> Key:
        """The same for all pods, except those that go anywhere."""
        return None if self._tolerated(pod) else ()

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject cordoned nodes."""
        cordoned = cycle.state.columns.unschedulable[rows]
        if not cordoned.any() or self._tolerated(cycle.pod):
            return np.zeros(len(rows), np.int32)
        return cycle.reject(cordoned, self.CORDONED)

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """That the node is cordoned."""
        return cordoned(rows)

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """How many nodes are cordoned."""
        return cordoned_in_cluster(cycle, rows)

    def hints(self) -> Sequence[HintRegistration]:
        """A node that takes pods, or the pod's own new toleration."""
        return (
            HintRegistration(
                "Node",
                Action.ADD | Action.NODE_TAINT,
                self._after_node,
                alike(self._after_node),
            ),
            HintRegistration("Pod", Action.POD_TOLERATION, self._after_toleration, by_uid),
        )

    def accepts(self, pod: PodInfo, rows: Rows) -> Mask:
        """The nodes that are not cordoned, or all."""
        if self._tolerated(pod):
            return np.ones(len(rows), np.bool_)
        return ~self._state.columns.unschedulable[rows]

    def _tolerated(self, pod: PodInfo) -> bool:
        return tolerates_any(pod.pod.spec.tolerations, self.TAINT)

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(new, Node):
            return Hint.SKIP
        was_closed = not isinstance(old, Node) or old.spec.unschedulable
        return Hint.QUEUE if was_closed and not new.spec.unschedulable else Hint.SKIP

    def _after_toleration(self, pod: PodInfo, event: Event) -> Hint:
        new = event.new
        own = isinstance(new, PodInfo) and new.uid == pod.uid
        return (
            Hint.QUEUE if own and isinstance(new, PodInfo) and self._tolerated(new) else Hint.SKIP
        )
