"""NodeResourcesFit: is there room, and how full would the node be?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scheduler.config.plugin_args import CPU_AND_MEMORY, NodeResourcesFitArgs, ScoringStrategy
from scheduler.framework.cycle import Cycle
from scheduler.framework.interface import Handle
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import PODS, Amounts, is_extended
from scheduler.model.status import Code, Status
from scheduler.plugins.allocation import (
    AllocationScorer,
    ResourceScore,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from scheduler.plugins.names import NODE_RESOURCES_FIT
from scheduler.queueing.hints import HintRegistration
from scheduler.state.cache import allocatable_of
from scheduler.state.columns import Codes, Rows, Scores

TOO_MANY_PODS = "Too many pods"


class NodeResourcesFit:
    """Compares the pod's requests with what is free, all nodes and resources at once."""

    name = NODE_RESOURCES_FIT
    row_by_row = True

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        args = args or NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._state = handle.state
        strategy = args.scoring_strategy or ScoringStrategy("LeastAllocated", CPU_AND_MEMORY)
        self._scorer = AllocationScorer(strategy.resources, _STRATEGIES[strategy.type](strategy))

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes that lack anything; all that is lacking is named.

        A request that exceeds what the node has when empty cannot be helped by evictions.
        """
        columns = cycle.state.columns
        wanted = self._wanted(cycle.pod.fit_requests)
        lacking = [columns.pod_count[rows] + 1 > columns.pod_limit[rows]]
        hopeless = np.zeros(len(rows), np.bool_)
        for resource, amount in wanted.items():
            index = columns.resources.find(resource)
            if index is None:  # no node ever had it
                lacking.append(np.ones(len(rows), np.bool_))
                hopeless[:] = True
                continue
            allocatable = columns.allocatable[index, rows]
            lacking.append(amount > allocatable - columns.requested[index, rows])
            hopeless |= amount > allocatable
        return self._codes(
            cycle,
            [TOO_MANY_PODS, *map("Insufficient {}".format, wanted)],
            np.array(lacking),
            hopeless,
        )

    @staticmethod
    def _codes(
        cycle: Cycle, reasons: Sequence[str], lacking: np.ndarray, hopeless: np.ndarray
    ) -> Codes:
        codes: Codes = np.zeros(lacking.shape[1], np.int32)
        failed = lacking.any(axis=0)
        if not failed.any():
            return codes
        # Nodes fail in few different ways, so each way is spelt out once.
        ways = np.vstack((lacking[:, failed], hopeless[failed]))
        distinct, which = np.unique(ways, axis=1, return_inverse=True)
        statuses = [
            Status(
                Code.UNRESOLVABLE if way[-1] else Code.UNSCHEDULABLE,
                tuple(reason for reason, short in zip(reasons, way[:-1], strict=True) if short),
                NODE_RESOURCES_FIT,
            )
            for way in distinct.T
        ]
        table = cycle.state.statuses
        codes[failed] = np.array([table.code(status) for status in statuses])[which.reshape(-1)]
        return codes

    def _wanted(self, requests: Amounts) -> Amounts:
        return {
            resource: amount
            for resource, amount in requests.items()
            if amount and resource != PODS and not self._ignores(resource)
        }

    def _ignores(self, resource: str) -> bool:
        return is_extended(resource) and (
            resource in self._ignored or resource.split("/", 1)[0] in self._ignored_groups
        )

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """How empty (or full) the node would be, by the configured strategy."""
        return self._scorer.score(cycle, rows, cycle.pod.score_requests, nonzero=True)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Strategies score within 0..100 already."""
        return scores

    def hints(self) -> Sequence[HintRegistration]:
        """Room on a node: less asked for by others, or more offered."""
        return (
            HintRegistration("Pod", Action.DELETE | Action.POD_SCALE_DOWN, self._after_pod),
            HintRegistration("Node", Action.ADD | Action.NODE_ALLOCATABLE, self._after_node),
        )

    def _after_pod(self, pod: PodInfo, event: Event) -> Hint:
        """Room was freed on one node; whether it is enough can be seen there."""
        old, new = event.old, event.new
        if isinstance(new, PodInfo) and new.uid == pod.uid:
            return Hint.QUEUE
        row = self._state.row(old.node_name) if isinstance(old, PodInfo) else None
        return Hint.QUEUE if row is not None and self._has_room(pod, row) else Hint.SKIP

    def _has_room(self, pod: PodInfo, row: int) -> bool:
        rows = np.array([row], np.intp)
        return not self.filter(Cycle(pod, self._state), rows).any()

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(new, Node):
            return Hint.SKIP
        wanted = {PODS: 1, **self._wanted(pod.fit_requests)}
        offered = allocatable_of(new)
        if any(amount > offered.get(resource, 0) for resource, amount in wanted.items()):
            return Hint.SKIP
        if not isinstance(old, Node):
            return Hint.QUEUE
        before = allocatable_of(old)
        grew = any(offered.get(resource, 0) > before.get(resource, 0) for resource in wanted)
        return Hint.QUEUE if grew else Hint.SKIP


_STRATEGIES: Mapping[str, Callable[[ScoringStrategy], ResourceScore]] = {
    "LeastAllocated": lambda strategy: least_allocated,
    "MostAllocated": lambda strategy: most_allocated,
    "RequestedToCapacityRatio": requested_to_capacity_ratio,
}
