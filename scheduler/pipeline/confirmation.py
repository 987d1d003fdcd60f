"""Bindings that were answered and not yet confirmed: each is read back after a while.

::

    bound, says the API server ──► Unconfirmed ──► the watch shows the pod on a node: confirmed
                                       │
                                       └─ not within `confirmSeconds`: read the pod
                                            on a node ─► as if the watch had shown it
                                            no node ───► give the node back, queue the pod again
                                            gone ──────► give the node back
                                            no answer ─► read it again after `confirmSeconds`

So no pod is assumed for longer than that without being looked at, whatever a watch loses and an API
server says. Bindings whose outcome is not known at all are read by their own tasks (`Outlet.bind`).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Never, Protocol

import msgspec

from scheduler.fairness import Shares
from scheduler.framework.cycle import Cycle
from scheduler.framework.outlet import Outlet, WriteError
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import error
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.observe.repeats import Repeats
from scheduler.pipeline.expectations import Expected, Unconfirmed
from scheduler.pipeline.ingest import Ingest
from scheduler.pipeline.open_bindings import OpenBindings
from scheduler.pipeline.reserve import release, tell_gone
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.state.cache import ClusterState

log = get_logger(__name__)

LOOK_SECONDS = 0.25
"""How often somebody looks for bindings that are due."""
READS_AT_ONCE = 8
"""Of one namespace; a third more with others."""
OVERDUE = 4
"""How many times `confirmSeconds` a pod may wait before the replica is not ready."""


class PodReader(Protocol):
    """Who can read one pod from the API server."""

    async def read_pod(self, pod: PodInfo) -> Pod | None:
        """The pod as it is now; None if it is gone, or another has its name. Raises WriteError."""
        ...


class Rereading:
    """Reads pods whose binding the watch has not confirmed in time, and settles them."""

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        ingest: Ingest,
        unconfirmed: Unconfirmed,
        open_bindings: OpenBindings,
        outlet: Outlet,
        reader: PodReader,
        metrics: Metrics,
    ) -> None:
        self._state = state
        self._queue = queue
        self._ingest = ingest
        self._unconfirmed = unconfirmed
        self._open = open_bindings
        self._outlet = outlet
        self._reader = reader
        self._metrics = metrics
        self._shares = Shares(READS_AT_ONCE)
        self._logged = Repeats(time.monotonic)
        self.oldest = 0.0
        """For how long the oldest binding that was answered has not been confirmed, in seconds."""

    async def run(self) -> Never:
        """Look after them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for each in self.take_due():
                    tasks.create_task(self.read(each), name="read an assumed pod")
                self._show()
                await asyncio.sleep(LOOK_SECONDS)

    def take_due(self) -> list[Expected]:
        """Those whose turn it is to be read; `read` must follow."""
        taken = []
        for each in self._unconfirmed.due():
            if self._shares.full:
                break
            if self._shares.may_take(each.namespace):
                self._shares.take(each.namespace)
                each.reading = True
                taken.append(each)
        return taken

    async def read(self, each: Expected) -> None:
        """Read one pod and settle it; a pod that cannot be read is read again later."""
        try:
            assumed = self._state.pod(each.uid)
            found = None if assumed is None else await self._reader.read_pod(assumed)
        except WriteError as fault:
            tell = log.warning if self._logged.news(str(fault)) else log.debug
            tell("Assumed pod could not be read", uid=each.uid, error=str(fault))
            self._unconfirmed.postpone(each)
            return
        finally:
            each.reading = False
            self._shares.give_back(each.namespace)
        if self._unconfirmed.get(each.uid) is not each:
            return  # the watch was faster
        self._unconfirmed.settled(each.uid)
        assumed = self._state.pod(each.uid)
        if assumed is not None and self._state.assumed(each.uid):
            self._settle(each, assumed, found)

    def _settle(self, each: Expected, assumed: PodInfo, found: Pod | None) -> None:
        """An assumed pod that nobody binds any more is what the API server says it is."""
        node = assumed.node_name
        if found is None:
            self._count(assumed, node, "gone")
            self._give_back(each, assumed, "the pod is gone")
        elif found.spec.node_name:
            self._count(assumed, node, "bound")
            self._ingest.handler("Pod")([_Change(assumed.pod, found)])
        else:
            self._count(assumed, node, "unbound")
            self._give_back(each, assumed, "its binding had no effect")
            note = f"Binding to {node} was accepted, but the pod has no node: scheduling it again"
            self._outlet.record_event(assumed, "Warning", "FailedScheduling", "Binding", note)
            self._queue.add(PodInfo(found))

    def _give_back(self, each: Expected, assumed: PodInfo, why: str) -> None:
        pod, node = PodInfo(assumed.pod), assumed.node_name
        cycle = Cycle(pod, self._state)
        cycle.restore(each.bookings)
        if release(each.framework, cycle, node, error(why)):
            tell_gone(pod, node, self._queue)

    def _count(self, pod: PodInfo, node: str, outcome: str) -> None:
        self._metrics.assumed_pods_settled.labels(outcome).inc()
        tell = log.warning if self._logged.news(outcome) else log.debug
        tell(
            "Watch did not confirm a binding, pod was read", pod=pod.key, node=node, outcome=outcome
        )

    def _show(self) -> None:
        self.oldest = self._unconfirmed.oldest()
        gauge = self._metrics.assumed_pod_oldest
        gauge.labels("answered").set(self.oldest)
        gauge.labels("sent").set(self._open.oldest())


class _Change(msgspec.Struct, frozen=True):
    """As the watch would tell it."""

    old: Any
    new: Any
