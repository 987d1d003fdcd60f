"""Room that nodes keep for a while for pods of other schedulers.

Another scheduler decides without knowing of our assumed pods, and its pods are seen only when they
are bound. Where both take the last room of a node at the same time, the kubelet refuses the later
pod. So a node to which another scheduler has bound a pod keeps room for two more of that size, for
``seconds``: one that it is binding now, and one because it may not have seen our last pod. A pod of
ours that would take this room is assumed, so that our others go elsewhere, and its binding waits::

    permitted ──► leaves room, or no other scheduler was seen there lately ──► PreBind, Bind
        │
        └─ wait ──► the time is over, counted from the last pod of others ───► PreBind, Bind
             ├────► so is our own: no wait is longer than ``seconds`` ───────► PreBind, Bind
             └────► others have taken the room ──► unreserve, forget, try again at once

The decision itself stays as it is: which node, which score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container

import msgspec

from scheduler import machine
from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.outlet import StaleReason
from scheduler.state.cache import MAX_RESOURCES, ClusterState

KEPT_PODS = 2
"""For so many more pods of others a node keeps room."""


class _OthersUse(msgspec.Struct):
    """What other schedulers have lately bound to a node."""

    until: float = 0.0
    """When the node keeps room no longer."""
    largest: dict[str, int] = {}
    """The most that one of the pods requests, by resource."""


class _Wait(msgspec.Struct):
    """A binding that waits."""

    node: str
    until: float
    woken: asyncio.Future[None]


class Headroom:
    """Which nodes keep room, and the bindings that wait for that. All but `wait` is O(requests)."""

    def __init__(
        self,
        state: ClusterState,
        profiles: Container[str],
        metrics: Metrics,
        seconds: float = 0.0,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._state = state
        self._profiles = profiles
        self._bound_by_others = metrics.pods_bound_by_others
        self._waits = metrics.headroom_waits
        self._seconds = seconds
        self._clock = clock
        self._uses: dict[str, _OthersUse] = {}
        """By node, the one that keeps room for longest last."""
        self._waiting: dict[str, _Wait] = {}
        """By the uid of the pod."""
        self._waiting_on: dict[str, set[str]] = {}
        """Their uids by node."""

    def __len__(self) -> int:
        """How many bindings wait."""
        return len(self._waiting)

    @property
    def nodes(self) -> int:
        """How many nodes keep room now."""
        self._drop_old(self._clock())
        return len(self._uses)

    def on_event(self, event: Event) -> None:
        """Note a pod that another scheduler has bound.

        One that had a node when it was first seen may have it for long, or is the kubelet's own.
        """
        old, new = event.old, event.new
        if not isinstance(old, Pod) or not isinstance(new, Pod):
            return
        if old.spec.node_name or not new.spec.node_name:
            return
        if new.spec.scheduler_name in self._profiles:
            return
        self._bound_by_others.inc()
        pod = self._state.pod(new.metadata.uid)
        if self._seconds and pod is not None:
            self._note(pod)

    def _note(self, pod: PodInfo) -> None:
        now = self._clock()
        self._drop_old(now)
        use = self._uses.pop(pod.node_name, None) or _OthersUse()
        use.until = now + self._seconds
        requests, known = pod.requests, self._state.columns.resources
        # A pod may ask for more resources than there are.
        for resource in requests if len(requests) <= MAX_RESOURCES else known.values:
            amount = requests.get(resource, 0)
            if amount > use.largest.get(resource, 0) and known.find(resource) is not None:
                use.largest[resource] = amount
        self._uses[pod.node_name] = use
        for uid in self._waiting_on.get(pod.node_name, ()):
            if not (woken := self._waiting[uid].woken).done():
                woken.set_result(None)

    def _drop_old(self, now: float) -> None:
        while self._uses:
            node = next(iter(self._uses))
            if self._uses[node].until > now:
                return
            del self._uses[node]

    def keeps_from(self, pod: PodInfo, node: str) -> bool:
        """Whether the binding of a pod that is assumed on a node has to wait."""
        return bool(self._uses) and self._until(pod, node) > self._clock()

    async def wait(self, pod: PodInfo, node: str, stale: StaleReason) -> str:
        """Wait until the pod may be bound; why it may not be any more, if others were faster."""
        end = self._clock() + self._seconds
        outcome = "cancelled"
        try:
            while (until := min(end, self._until(pod, node))) > (now := self._clock()):
                await self._pause(pod.uid, node, until, until - now)
                if reason := stale():
                    outcome = "withdrawn"
                    return reason
            outcome = "bound"
            return ""
        finally:
            self._waits.labels(outcome).inc()

    async def _pause(self, uid: str, node: str, until: float, seconds: float) -> None:
        """Return when the time is over, or another scheduler has bound a pod to the node."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[uid] = _Wait(node, until, woken)
        self._waiting_on.setdefault(node, set()).add(uid)
        try:
            await asyncio.wait((woken,), timeout=seconds)
        finally:
            del self._waiting[uid]
            waiting = self._waiting_on[node]
            waiting.discard(uid)
            if not waiting:
                del self._waiting_on[node]

    def explain(self, uid: str) -> str:
        """Why the binding of a pod waits, for people; empty if it does not."""
        wait = self._waiting.get(uid)
        if wait is None:
            return ""
        left = max(0.0, wait.until - self._clock())
        return (
            f"node {wait.node} keeps room for pods of another scheduler, which has just bound one "
            f"there; the pod is bound in {left:.1f} s if that room is still free"
        )

    def _until(self, pod: PodInfo, node: str) -> float:
        """Until when the node keeps the room that the pod would take; 0 if it keeps none."""
        use, row = self._uses.get(node), self._state.row(node)
        if use is None or row is None:
            return 0.0
        columns = self._state.columns
        if columns.pod_limit[row] - columns.pod_count[row] < KEPT_PODS:
            return use.until
        for resource, kept in use.largest.items():
            index = columns.resources.find(resource)
            if index is None or not pod.requests.get(resource):
                continue
            if columns.allocatable[index, row] - columns.requested[index, row] < KEPT_PODS * kept:
                return use.until
        return 0.0
