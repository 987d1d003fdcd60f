"""NodeConditions: rejects nodes that are not ready or under pressure.

Usually the node lifecycle controller sets taints for conditions. This plugin reads
the conditions themselves, as schedulers did before; it serves clusters without that controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.events import Action, Event, Hint
from scheduler.model.meta import ResourceList
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, MEMORY, AmountError, amounts_of
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import NODE_CONDITIONS
from scheduler.plugins.node_conditions_facts import bad_conditions, bad_in_cluster
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Rows

States = frozenset[tuple[str, str]]
"""Types of conditions and their statuses."""


class _Trouble(NamedTuple):
    condition: str
    statuses: tuple[str, ...]
    reason: str
    best_effort_only: bool = False


# An unknown pressure is no pressure; an unknown network or readiness is none. A condition that a
# node does not have is no trouble.
_TROUBLES = (
    _Trouble("Ready", ("False", "Unknown"), "node(s) were not ready"),
    _Trouble("NetworkUnavailable", ("True", "Unknown"), "node(s) had unavailable network"),
    _Trouble("MemoryPressure", ("True",), "node(s) had memory pressure", best_effort_only=True),
    _Trouble("DiskPressure", ("True",), "node(s) had disk pressure"),
    _Trouble("PIDPressure", ("True",), "node(s) had pid pressure"),
)


class NodeConditions:
    """Judged once per distinct set of conditions, however many nodes are in it."""

    name = NODE_CONDITIONS
    traits = PluginTraits(row_by_row=True)

    filter_reads = Reads(rows=frozenset({Aspect.CONDITIONS}), claims=False)

    def __init__(self, args: Any, handle: Handle) -> None:
        self._sets = handle.state.columns.conditions.interner
        self._generation = self._sets.generation
        self._statuses: dict[bool, list[Status]] = {False: [], True: []}

    def filter_key(self, pod: PodInfo) -> Key:
        """Whether it is among the first to be evicted."""
        return is_best_effort(pod)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes in trouble; all their troubles are named."""
        best_effort = is_best_effort(cycle.pod)
        if self._generation != self._sets.generation:
            self._generation = self._sets.generation
            self._statuses = {False: [], True: []}
        statuses = self._statuses[best_effort]
        statuses += [_judge(states, best_effort) for states in self._sets.values[len(statuses) :]]
        codes: Codes = np.array([cycle.state.statuses.code(s) for s in statuses], np.int32)
        return codes[cycle.state.columns.conditions.numbers[rows]]

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The conditions that keep pods away."""
        return bad_conditions(cycle, rows, self._watched(cycle.pod))

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """How many nodes are in each such condition."""
        return bad_in_cluster(cycle, rows, self._watched(cycle.pod))

    @staticmethod
    def _watched(pod: PodInfo) -> States:
        """The conditions that keep a pod away."""
        best_effort = is_best_effort(pod)
        return frozenset(
            (trouble.condition, status)
            for trouble in _TROUBLES
            if best_effort or not trouble.best_effort_only
            for status in trouble.statuses
        )

    def hints(self) -> Sequence[HintRegistration]:
        """A node that is well now and was not before."""
        seen = Action.ADD | Action.NODE_CONDITION
        column = alike(self._after_node, is_best_effort)
        return (HintRegistration("Node", seen, self._after_node, column),)

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(new, Node) or not _well(new, pod):
            return Hint.SKIP
        return Hint.SKIP if isinstance(old, Node) and _well(old, pod) else Hint.QUEUE


def is_best_effort(pod: PodInfo) -> bool:
    """Whether the pod has no requests or limits of CPU and memory: the first to be evicted."""
    spec = pod.pod.spec
    containers = (*spec.containers, *spec.init_containers)
    parts = [spec.resources] if spec.resources else [each.resources for each in containers]
    return not any(_counts(part.requests) or _counts(part.limits) for part in parts)


def _counts(listed: ResourceList) -> bool:
    try:
        amounts = amounts_of(listed, "")
    except AmountError:  # a limit, which nothing else reads: whatever it is, it is stated
        return True
    return any(amounts.get(resource, 0) > 0 for resource in (CPU, MEMORY))


def _judge(states: States, best_effort: bool) -> Status:
    reasons = tuple(
        trouble.reason
        for trouble in _TROUBLES
        if (best_effort or not trouble.best_effort_only)
        and any((trouble.condition, status) in states for status in trouble.statuses)
    )
    return Status(Code.UNRESOLVABLE, reasons, NODE_CONDITIONS) if reasons else SUCCESS


def _well(node: Node, pod: PodInfo) -> bool:
    states = frozenset((condition.type, condition.status) for condition in node.status.conditions)
    return _judge(states, is_best_effort(pod)).ok
