"""Bindings that were answered and not yet confirmed: each is read back after a while.

::

    bound, says the API server ──► Unconfirmed ──► the watch shows the pod on a node: confirmed
                                       │
                                       └─ not within `confirmSeconds`: read the pod
                                            on a node ─► as if the watch had shown it
                                            no node ───► unreserve and forget, requeue the pod
                                            gone ──────► as if the watch had shown that: forget
                                            no answer ─► read it again after `confirmSeconds`

Unreserve is not run for a pod that is gone: its binding was answered, and PostBind was its end for
plugins, as with pods that are deleted later.

So no pod is assumed for longer than that without being read, whatever events a watch loses. Pods
whose binding has an unknown outcome are read by their own tasks (`Outlet.bind`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Never, Protocol

import msgspec

from scheduler import machine
from scheduler.fairness import Shares
from scheduler.framework.runtime import Framework
from scheduler.model.objects import Change
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import error
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.observe.repeats import Repeats
from scheduler.pipeline.attempt import Attempt, unreserve
from scheduler.pipeline.open_bindings import OpenBindings
from scheduler.plugin_api.cycle import Bookings, Cycle
from scheduler.plugin_api.outlet import Outlet, WriteError
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.state.cache import ClusterState

if TYPE_CHECKING:
    from scheduler.pipeline.event_handlers import EventHandlers

log = get_logger(__name__)

LOOK_SECONDS = 0.25
"""The interval at which bindings that are due are looked for."""
IDLE_SECONDS = 1.0
"""The same while no binding is under way or unconfirmed."""
READS_AT_ONCE = 8
"""Of one namespace; a third more with others."""
OVERDUE = 4
"""How many times `confirmSeconds` a pod may wait before the replica is not ready."""


class Expected(msgspec.Struct):
    """A binding that was answered: only what is needed to revert it, as there may be many."""

    uid: str
    namespace: str
    framework: Framework
    bookings: Bookings | None
    since: float
    due: float
    """When to read the pod (again)."""
    reading: bool = False


class Unconfirmed:
    """Bindings that were answered and not confirmed, the oldest first. All but `due` is O(1)."""

    def __init__(self, within: float, clock: Callable[[], float] = machine.monotonic) -> None:
        self._within = within
        self._clock = clock
        self._expected: dict[str, Expected] = {}

    def __len__(self) -> int:
        return len(self._expected)

    def __contains__(self, uid: str) -> bool:
        return uid in self._expected

    def expect(self, attempt: Attempt) -> None:
        """A binding was answered, and the watch has not shown it yet."""
        now, pod = self._clock(), attempt.cycle.pod
        self._expected[pod.uid] = Expected(
            pod.uid,
            pod.pod.metadata.namespace,
            attempt.framework,
            attempt.cycle.bookings(),
            now,
            now + self._within,
        )

    def settled(self, uid: str) -> None:
        """Drop a pod whose outcome is known; fine if it is not here."""
        self._expected.pop(uid, None)

    def get(self, uid: str) -> Expected | None:
        """What is expected of a pod."""
        return self._expected.get(uid)

    def due(self) -> Iterator[Expected]:
        """Those that are to be read now."""
        now = self._clock()
        for each in self._expected.values():
            if each.since + self._within > now:
                return
            if each.due <= now and not each.reading:
                yield each

    def postpone(self, each: Expected) -> None:
        """Read a pod again after `confirmSeconds`: it could not be read."""
        each.due = self._clock() + self._within

    def oldest(self) -> float:
        """For how long the oldest has waited, in seconds."""
        first = next(iter(self._expected.values()), None)
        return 0.0 if first is None else self._clock() - first.since


class PodReader(Protocol):
    """Reads one pod from the API server."""

    async def read_pod(self, pod: PodInfo) -> Pod | None:
        """The pod as it is now; None if it is gone, or another has its name. Raises WriteError."""
        ...


class BindingConfirmer:
    """Reads pods whose binding the watch has not confirmed in time, and applies the result."""

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        event_handlers: EventHandlers,
        unconfirmed: Unconfirmed,
        open_bindings: OpenBindings,
        outlet: Outlet,
        reader: PodReader,
        metrics: Metrics,
    ) -> None:
        self._state = state
        self._queue = queue
        self._event_handlers = event_handlers
        self._unconfirmed = unconfirmed
        self._open = open_bindings
        self._outlet = outlet
        self._reader = reader
        self._settled = {
            outcome: metrics.assumed_pods_settled.labels(outcome)
            for outcome in ("bound", "unbound", "gone")
        }
        self._oldest_answered = metrics.assumed_pod_oldest.labels("answered")
        self._oldest_sent = metrics.assumed_pod_oldest.labels("sent")
        self._shares = Shares(READS_AT_ONCE)
        self._logged = Repeats(machine.monotonic)
        self.oldest = 0.0
        """For how long the oldest binding that was answered has not been confirmed, in seconds."""

    async def run(self) -> Never:
        """Read them when they are due, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for each in self.take_due():
                    tasks.create_task(self.read(each), name="read an assumed pod")
                self._show()
                await asyncio.sleep(self.pause())

    def pause(self) -> float:
        """In how many seconds to look again."""
        return LOOK_SECONDS if self._unconfirmed or self._open.binding else IDLE_SECONDS

    def take_due(self) -> list[Expected]:
        """The bindings to read now; `read` must follow."""
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
        """Read one pod and apply the result; a pod that cannot be read is read again later."""
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
        """Make the state of an assumed pod that is not being bound what the API server says."""
        node = assumed.node_name
        if found is None:
            self._count(assumed, node, "gone")
            if self._state.journal is not None:
                self._state.journal.forgotten(assumed.uid)
            self._state.forget(assumed.uid, own=False)
        elif found.spec.node_name:
            self._count(assumed, node, "bound")
            self._event_handlers.handler("Pod")([Change(assumed.pod, found)])
        else:
            self._count(assumed, node, "unbound")
            self._unreserve(each, assumed, "its binding had no effect")
            note = f"Binding to {node} was accepted, but the pod has no node: scheduling it again"
            self._outlet.record_event(assumed, "Warning", "FailedScheduling", "Binding", note)
            self._queue.add(assumed.renewed(found))

    def _unreserve(self, each: Expected, assumed: PodInfo, why: str) -> None:
        node = assumed.node_name
        cycle = Cycle(assumed.bound_to(""), self._state)
        cycle.restore(each.bookings)
        if self._state.journal is not None:
            self._state.journal.reverted(assumed.uid, False)
        unreserve(each.framework, cycle, node, error(why))

    def _count(self, pod: PodInfo, node: str, outcome: str) -> None:
        self._settled[outcome].inc()
        tell = log.warning if self._logged.news(outcome) else log.debug
        tell(
            "Watch did not confirm a binding, pod was read", pod=pod.key, node=node, outcome=outcome
        )

    def _show(self) -> None:
        self.oldest = self._unconfirmed.oldest()
        self._oldest_answered.set(self.oldest)
        self._oldest_sent.set(self._open.oldest())
