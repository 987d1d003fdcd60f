"""NodeResourcesFit: is there room, and how full would the node be?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scheduler.config.plugin_args import CPU_AND_MEMORY, NodeResourcesFitArgs, ScoringStrategy
from scheduler.dra.extended_resources import extended_resources
from scheduler.dra.names import CLASS_PREFIX
from scheduler.equivalence.reads import Key, Reads
from scheduler.model.devices import DeviceClass
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import PODS, Amounts, is_extended
from scheduler.model.status import Code, Status
from scheduler.plugin_api import Handle, PluginTraits
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact
from scheduler.plugins.allocation import (
    AllocationScorer,
    ResourceScore,
    ShareScore,
    least_allocated,
    least_allocated_share,
    most_allocated,
    most_allocated_share,
    requested_to_capacity_ratio,
)
from scheduler.plugins.names import NODE_RESOURCES_FIT
from scheduler.plugins.node_resources_fit_facts import (
    Failure,
    facts_of,
    facts_of_cluster,
    shortages,
)
from scheduler.plugins.waiting_requests import WaitingRequests
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.cache import allocatable_of
from scheduler.state.columns import Codes, Mask, Rows, Scores, where

TOO_MANY_PODS = "Too many pods"


class NodeResourcesFit:
    """Compares the pod's requests with what is free, all nodes and resources at once."""

    name = NODE_RESOURCES_FIT
    traits = PluginTraits(row_by_row=True, by_sums=True, absolute=True)
    observes = ("DeviceClass",)
    score_reads = Reads(rows=frozenset({Aspect.ALLOCATABLE, Aspect.REQUESTED}), claims=False)
    filter_reads = Reads(
        rows=score_reads.rows, keys=frozenset({Aspect.DEVICE_CLASSES}), claims=False
    )

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        args = args or NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._state = handle.state
        self._extended = extended_resources(handle.state)
        strategy = args.scoring_strategy or ScoringStrategy("LeastAllocated", CPU_AND_MEMORY)
        self._scorer = AllocationScorer(strategy.resources, _STRATEGIES[strategy.type](strategy))
        self._share = _SHARES.get(strategy.type)

    def filter_key(self, pod: PodInfo) -> Key:
        """Its requests, in the order in which shortages are named, and which may be devices."""
        return tuple(self._wanted(pod.fit_requests).items()), tuple(self._extended.served(pod))

    def score_key(self, pod: PodInfo) -> Key:
        """The requests that scoring assumes."""
        return tuple(pod.score_requests.items())

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes that lack anything; all that is lacking is named.

        A request that exceeds what the node has when empty cannot be helped by evictions. A
        resource that a DeviceClass serves is left to DynamicResources where the node has none.
        """
        columns, at = cycle.state.columns, where(rows)
        wanted = self._wanted(cycle.pod.fit_requests)
        served = self._extended.served(cycle.pod)
        lacking = [columns.pod_count[at] >= columns.pod_limit[at]]
        offered: list[tuple[int, Scores]] = []
        unheard_of = False
        reasons: list[tuple[str, int | None]] = [(TOO_MANY_PODS, 0)]
        for resource, amount in wanted.items():
            index = columns.resources.find(resource)
            if index is None:  # no node ever had it
                if resource in served:
                    continue
                unheard_of = True
                reasons.append((resource, None))
                continue
            allocatable = columns.allocatable[index][at]
            short = allocatable - columns.requested[index][at] < amount
            reasons.append((resource, len(lacking)))
            if resource in served:
                short &= allocatable > 0
                allocatable = np.where(allocatable > 0, allocatable, amount)
            offered.append((amount, allocatable))
            lacking.append(short)
        if not unheard_of and not any(short.any() for short in lacking):
            return np.zeros(len(rows), np.int32)
        hopeless: Mask = np.full(len(rows), unheard_of)
        for amount, allocatable in offered:
            hopeless |= amount > allocatable
        return self._codes(cycle, reasons, np.array(lacking), hopeless, everywhere=unheard_of)

    def filter_one(self, cycle: Cycle, row: int) -> int:
        """The same for one row; only shortages take the long way."""
        columns = cycle.state.columns
        free = columns.pod_count.item(row) < columns.pod_limit.item(row)
        for resource, amount in cycle.pod.fit_requests.items():
            if not free:
                break
            index = columns.resources.find(resource)
            allocatable = 0 if index is None else columns.allocatable.item(index, row)
            left = 0 if index is None else allocatable - columns.requested.item(index, row)
            free = amount <= left or not amount
            if not free and not allocatable and "/" in resource:
                free = self._extended.server(resource) is not None
        return 0 if free else int(self.filter(cycle, np.array([row]))[0])

    @staticmethod
    def _codes(
        cycle: Cycle,
        reasons: Sequence[tuple[str, int | None]],
        lacking: np.ndarray,
        hopeless: np.ndarray,
        *,
        everywhere: bool,
    ) -> Codes:
        """A code for each row; a reason without a place in ``lacking`` holds everywhere."""
        codes: Codes = np.zeros(lacking.shape[1], np.int32)
        failed = np.ones(lacking.shape[1], np.bool_) if everywhere else lacking.any(axis=0)
        # Nodes fail in few different ways, so each way is spelt out once.
        distinct, which = _distinct(np.vstack((lacking[:, failed], hopeless[failed])))
        table = cycle.state.statuses
        spelt_out = [table.code(_status(reasons, way)) for way in distinct.T.tolist()]
        codes[failed] = np.array(spelt_out)[which.reshape(-1)]
        return codes

    def _wanted(self, requests: Amounts) -> Amounts:
        if not self._ignored and not self._ignored_groups:
            return {
                resource: amount
                for resource, amount in requests.items()
                if amount and resource != PODS
            }
        return {
            resource: amount
            for resource, amount in requests.items()
            if amount and resource != PODS and not self._ignores(resource)
        }

    def _ignores(self, resource: str) -> bool:
        return is_extended(resource) and (
            resource in self._ignored or resource.split("/", 1)[0] in self._ignored_groups
        )

    def _sure(self, pod: PodInfo) -> Amounts:
        """The requests that no DeviceClass serves: nodes must have these themselves."""
        served = self._extended.served(pod)
        wanted = self._wanted(pod.fit_requests)
        return {name: amount for name, amount in wanted.items() if name not in served}

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Failure]:
        """What is free and allocatable of what each row lacks."""
        wanted, served = self._wanted(cycle.pod.fit_requests), self._extended.served(cycle.pod)
        return shortages(cycle.state.columns, wanted, rows, served)

    def facts(self, pod: PodInfo, failure: Failure) -> Sequence[Fact]:
        """How much is asked, and how much is free."""
        return facts_of(self._wanted(pod.fit_requests), failure)

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Fact]:
        """How much is asked, and how much is free where most is."""
        wanted, served = self._wanted(cycle.pod.fit_requests), self._extended.served(cycle.pod)
        return facts_of_cluster(cycle.state, wanted, served)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """How empty (or full) the node would be, by the configured strategy."""
        return self._scorer.score(cycle, rows, cycle.pod.score_requests, nonzero=True)

    def score_one(self, cycle: Cycle, row: int) -> int:
        """The same for one row."""
        requests = cycle.pod.score_requests
        if self._share is None:
            return int(self.score(cycle, np.array([row]))[0])
        return self._scorer.score_one(cycle, row, requests, self._share, nonzero=True)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Strategies score within 0..100 already."""
        return scores

    def hints(self) -> Sequence[HintRegistration]:
        """Capacity on a node: less requested by others, or more allocatable."""
        return (
            HintRegistration(
                "Pod", Action.DELETE | Action.POD_SCALE_DOWN, self._after_pod, self._requests
            ),
            HintRegistration(
                "Node", Action.ADD | Action.NODE_ALLOCATABLE, self._after_node, self._requests
            ),
            HintRegistration(
                "DeviceClass",
                Action.ADD | Action.UPDATE,
                after_class,
                alike(after_class, lambda pod: tuple(pod.fit_requests)),
            ),
        )

    def _requests(self) -> WaitingRequests:
        return WaitingRequests(self._state, self._sure)

    def accepts(self, pod: PodInfo, rows: Rows) -> Mask:
        """Where there is room for the pod."""
        columns = self._state.columns
        free: Mask = columns.pod_count.take(rows) < columns.pod_limit.take(rows)
        for resource, amount in self._sure(pod).items():
            index = columns.resources.find(resource)
            if index is None:
                return np.zeros(len(rows), np.bool_)
            left = columns.allocatable[index].take(rows)
            left -= columns.requested[index].take(rows)
            free &= left >= amount
        return free

    def _after_pod(self, pod: PodInfo, event: Event) -> Hint:
        """Room was freed on one node; whether it is enough can be seen there."""
        old, new = event.old, event.new
        if isinstance(new, PodInfo) and new.uid == pod.uid:
            return Hint.QUEUE
        row = self._state.row(old.node_name) if isinstance(old, PodInfo) else None
        return Hint.QUEUE if row is not None and self._has_room(pod, row) else Hint.SKIP

    def _has_room(self, pod: PodInfo, row: int) -> bool:
        return self.filter_one(Cycle(pod, self._state), row) == 0

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        old, new = event.old, event.new
        if not isinstance(new, Node):
            return Hint.SKIP
        wanted = {PODS: 1, **self._sure(pod)}
        offered = allocatable_of(new)
        if any(amount > offered.get(resource, 0) for resource, amount in wanted.items()):
            return Hint.SKIP
        if not isinstance(old, Node):
            return Hint.QUEUE
        before = allocatable_of(old)
        grew = any(offered.get(resource, 0) > before.get(resource, 0) for resource in wanted)
        return Hint.QUEUE if grew else Hint.SKIP


def after_class(pod: PodInfo, event: Event) -> Hint:
    """A class serves a resource of the pod that it did not serve before."""
    old, new = event.old, event.new
    if not isinstance(new, DeviceClass):
        return Hint.SKIP
    served = new.spec.extended_resource_name
    if isinstance(old, DeviceClass) and old.spec.extended_resource_name == served:
        return Hint.SKIP
    names = (served, f"{CLASS_PREFIX}{new.metadata.name}")
    return Hint.QUEUE if any(name in pod.fit_requests for name in names) else Hint.SKIP


def _status(reasons: Sequence[tuple[str, int | None]], way: Sequence[bool]) -> Status:
    """The verdict on a node that lacks what ``way`` says; its last entry: and always will."""
    texts = [
        f"Insufficient {resource}" if place != 0 else resource
        for resource, place in reasons
        if place is None or way[place]
    ]
    code = Code.UNRESOLVABLE if way[-1] else Code.UNSCHEDULABLE
    return Status(code, tuple(texts), NODE_RESOURCES_FIT)


def _distinct(ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different columns of a table of truths, and which of them each column is.

    As bits of one number, or as strings of bytes, columns are sorted a hundred times faster than
    as columns.
    """
    if len(ways) <= _BITS:
        numbers = (np.int64(1) << np.arange(len(ways))) @ ways.astype(np.int64)
    else:
        packed = np.ascontiguousarray(np.packbits(ways, axis=0).T)
        numbers = packed.view(f"V{packed.shape[1]}").reshape(-1)
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    return ways[:, first], which


_BITS = 62

_SHARES: Mapping[str, ShareScore] = {
    "LeastAllocated": least_allocated_share,
    "MostAllocated": most_allocated_share,
}

_STRATEGIES: Mapping[str, Callable[[ScoringStrategy], ResourceScore]] = {
    "LeastAllocated": lambda strategy: least_allocated,
    "MostAllocated": lambda strategy: most_allocated,
    "RequestedToCapacityRatio": requested_to_capacity_ratio,
}
