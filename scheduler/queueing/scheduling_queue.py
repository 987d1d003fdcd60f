"""The scheduling queue: which pod is next, and what brings a rejected pod back.

::

      add          wake: an event, a timeout, activate
       │          ┌──────────────────┬────────────────────┐
       ▼          ▼                  │                    │
      PreEnqueue ─┴──── no ──────► GATED           UNSCHEDULABLE
       │      └─ yes, must wait ─► BACKOFF                ▲
       │ yes                       │     │                │ rejected, and no event
       ▼         time is up        │     │                │ since the pop may cure it
      ACTIVE ◄─────────────────────┘     │ pop, if        │
       │                                 │ nobody is      │
       │ pop                             ▼ active         │
       └───────────────────────────► in flight ───────────┘
                                     │   │
                     gone ◄── done ──┘   └── failed, or rejected and perhaps cured: wake

BACKOFF stands for two tiers: pods that failed by a fault have one of their own and never go early.
A pod that was added and not deleted is in exactly one tier or in flight, until `done`. Pods are
ranked by the sort plugin, in flight they carry the events they did not see (`inflight`), and an
event looks only at pods whose rejecting plugins registered for it (`hints`).

All methods are synchronous, for one thread, without locks; none may be called from a hint or a
PreEnqueue plugin. The clock counts monotonic seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable

from scheduler.model.events import UNSCHEDULED_POD, Action, Event, pod_update
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.queueing.backoff import Backoff
from scheduler.queueing.hints import Hints, HintTable, Requeue
from scheduler.queueing.inflight import Flight, InFlight
from scheduler.queueing.listing import QueueEntry, entry_of
from scheduler.queueing.tiers import QueuedPod, SortKey, Tier, Tiers

log = get_logger(__name__)

POD_ADD = Event(UNSCHEDULED_POD, Action.ADD).label
POD_UPDATE = Event(UNSCHEDULED_POD, Action.UPDATE).label
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
FORCE_ACTIVATE = "ForceActivate"
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"


class SchedulingQueue:
    """All pods that wait for a node, and the memory of those that are being scheduled.

    ``sort_key`` ranks pods, smallest first; ``pre_enqueue`` is asked before a pod becomes
    eligible, returns a verdict signed by its plugin and never raises. `add`, `update`, `delete`,
    `pop` and the requeues are O(log n); `on_event` is O(pods rejected by plugins that listen).
    """

    def __init__(
        self,
        *,
        sort_key: SortKey,
        pre_enqueue: Callable[[PodInfo], Status],
        hints: Hints,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_unschedulable: float = 300.0,
    ) -> None:
        self._pre_enqueue = pre_enqueue
        self._clock = clock
        self._backoff = Backoff(initial_backoff, max_backoff)
        self._max_unschedulable = max_unschedulable
        self._tiers = Tiers(sort_key, metrics)
        self._hints = HintTable(hints, metrics, clock)
        self._in_flight = InFlight(metrics)
        self._incoming = Children(metrics.queue_incoming_pods)
        self._unschedulable_pods = Children(metrics.unschedulable_pods)
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """How many pods wait; those in flight do not."""
        return len(self._tiers)

    # Pods come, change and go.

    def add(self, info: PodInfo) -> None:
        """Take in a pod without a node; one that is already known is updated."""
        self._upsert(info, POD_ADD)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take in a new version of a pod, which may cure its own rejection.

        Assumed pods are not the queue's concern: an unknown pod is added.
        """
        if old.uid != new.uid:
            self.delete(old)
        self._upsert(new, POD_UPDATE)

    def update_in_flight(self, new: PodInfo) -> None:
        """Take in a new version of a pod that is being scheduled; it counts if it comes back."""
        if flight := self._in_flight.get(new.uid):
            flight.newest = new

    def delete(self, info: PodInfo) -> None:
        """Forget a pod that was deleted or has got a node; in flight, it will not come back."""
        if flight := self._in_flight.get(info.uid):
            flight.deleted = True
            return
        queued = self._tiers.get(info.key)
        if queued is not None and queued.info.uid == info.uid:
            self._leave(queued)

    # One attempt: pop, then done or a requeue.

    def pop(self) -> QueuedPod | None:
        """The next pod, now in flight; None if nobody can be tried.

        When nobody is active the next of those that back off goes early: the time is free.
        Every pod popped must be given back by `done`, `requeue_rejected` or `requeue_error`.
        """
        queued = self._tiers.head(Tier.ACTIVE)
        if queued is None:
            queued = self._tiers.head(Tier.BACKOFF)
            if queued is None:
                return None
            self._incoming["active", POP_FROM_BACKOFF].inc()
        self._leave(queued)
        queued.attempts += 1
        self._in_flight.begin(queued.info)
        return queued

    def done(self, uid: str) -> None:
        """A pod in flight is settled and will not come back; idempotent."""
        self._in_flight.end(uid)

    def requeue_rejected(
        self,
        queued: QueuedPod,
        unschedulable_plugins: Iterable[str],
        pending_plugins: Iterable[str],
        message: str,
    ) -> None:
        """Plugins rejected the pod: park it, unless an event since the pop may have cured that.

        Without any rejecting plugin no event could ever wake it, so that counts as an error.
        """
        queued.unschedulable_plugins = set(unschedulable_plugins)
        queued.pending_plugins = set(pending_plugins)
        if not queued.rejectors:
            self.requeue_error(queued, message)
            return
        queued.unschedulable_count += 1
        queued.consecutive_errors = 0
        self._requeue(queued, message)

    def requeue_error(self, queued: QueuedPod, message: str) -> None:
        """The attempt failed by a fault: try the pod again after a back-off, whatever happens."""
        queued.unschedulable_plugins = set()
        queued.pending_plugins = set()
        queued.consecutive_errors += 1
        self._requeue(queued, message)

    # What wakes pods.

    def on_event(self, event: Event, exclude: str = "", up_to: int | None = None) -> None:
        """Wake the pods that an event may have cured, except the pod with the uid ``exclude``.

        ``up_to`` leaves out pods of higher priority, to whom the event means nothing.
        """
        listeners = self._hints.listeners(event)
        if not listeners:
            return
        self._in_flight.record(event, exclude)
        candidates: dict[str, QueuedPod] = {}
        for listener in listeners:
            candidates.update(self._tiers.rejected_by(listener))
        for queued in candidates.values():
            concerned = up_to is None or queued.info.priority <= up_to
            if concerned and queued.info.uid != exclude:
                self._wake(queued, event)

    def activate(self, keys: Collection[str]) -> None:
        """Have pods tried again without back-off.

        A pod in flight that is rejected then backs off instead of being parked.
        """
        for key in keys:
            queued = self._tiers.get(key)
            if queued is None or queued.tier is Tier.ACTIVE:
                continue
            passed = queued.tier in (Tier.BACKOFF, Tier.ERROR_BACKOFF) or self._admits(queued)
            self._enter(queued, Tier.ACTIVE if passed else Tier.GATED, FORCE_ACTIVATE)
        self._in_flight.activate(keys)

    def flush(self) -> None:
        """Move on the pods whose time is up: back-offs that end, and pods parked for too long."""
        now = self._clock()
        for tier in (Tier.BACKOFF, Tier.ERROR_BACKOFF):
            while (queued := self._tiers.head(tier)) and queued.backoff_until <= now:
                self._enter(queued, Tier.ACTIVE, BACKOFF_COMPLETE)
        while (
            queued := self._tiers.head(Tier.UNSCHEDULABLE)
        ) and queued.timestamp + self._max_unschedulable <= now:
            queued.was_flushed = True
            self._place(queued, Requeue.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT)

    def next_deadline(self) -> float | None:
        """When `flush` next has something to do; None if only an event or a new pod can help."""
        deadlines = [
            queued.backoff_until
            for tier in (Tier.BACKOFF, Tier.ERROR_BACKOFF)
            if (queued := self._tiers.head(tier))
        ]
        if queued := self._tiers.head(Tier.UNSCHEDULABLE):
            deadlines.append(queued.timestamp + self._max_unschedulable)
        return min(deadlines, default=None)

    async def wait(self) -> None:
        """Return as soon as `pop` gives a pod or `flush` has something to do. For one waiter."""
        while not (self._tiers.count(Tier.ACTIVE) or self._tiers.count(Tier.BACKOFF)):
            deadline, now = self.next_deadline(), self._clock()
            if deadline is not None and deadline <= now:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(None if deadline is None else deadline - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    # What people see.

    def counts(self) -> dict[str, int]:
        """The number of pods in each tier, and of those ``in-flight``."""
        counts = {tier.value: self._tiers.count(tier) for tier in Tier}
        return counts | {"in-flight": len(self._in_flight)}

    def snapshot(self) -> list[QueueEntry]:
        """All waiting pods, tier by tier, best first; O(n log n)."""
        now = self._clock()
        return [entry_of(queued, now, self._max_unschedulable) for queued in self._tiers]

    # How pods move.

    def _upsert(self, info: PodInfo, label: str) -> None:
        if flight := self._in_flight.get(info.uid):
            flight.newest = info
            return
        queued = self._tiers.get(info.key)
        if queued is not None and queued.info.uid != info.uid:
            self._leave(queued)
            queued = None
        if queued is None:
            self._place(QueuedPod(info, self._clock()), Requeue.AT_ONCE, label)
            return
        before, queued.info = queued.info, info
        if queued.tier in (Tier.UNSCHEDULABLE, Tier.GATED):
            self._wake(queued, _own_change(before, info))
        else:
            self._tiers.reorder(queued)

    def _requeue(self, queued: QueuedPod, message: str) -> None:
        flight = self._in_flight.get(queued.info.uid)
        if flight is None:
            log.error("Pod came back that was not in flight", pod=queued.key)
            return
        missed = self._in_flight.missed(flight)
        self._in_flight.end(queued.info.uid)
        replaced = self._tiers.get(queued.key) is not None
        if flight.deleted or replaced:
            return
        queued.info = flight.newest
        queued.timestamp = self._clock()
        queued.backoff_until = self._backoff.until(queued.timestamp, queued.failures)
        queued.was_flushed = False
        queued.message = message
        self._count_rejections(queued, queued.rejectors, 1)
        self._place(queued, self._replay(queued, flight, missed), SCHEDULE_ATTEMPT_FAILURE)

    def _replay(self, queued: QueuedPod, flight: Flight, missed: list[Event] | None) -> Requeue:
        if not queued.rejectors or missed is None:
            return Requeue.AFTER_BACKOFF
        if flight.newest is not flight.seen:
            missed.append(_own_change(flight.seen, flight.newest))
        best = Requeue.AT_ONCE if queued.pending_plugins else Requeue.AFTER_BACKOFF
        verdict = Requeue.AFTER_BACKOFF if flight.activated else Requeue.SKIP
        for event in missed:
            if verdict is best:
                break
            verdict = max(verdict, self._hints.verdict(queued, event))
        return verdict

    def _wake(self, queued: QueuedPod, event: Event) -> None:
        verdict = self._hints.verdict(queued, event)
        if verdict is not Requeue.SKIP:
            self._place(queued, verdict, event.label)

    def _place(self, queued: QueuedPod, verdict: Requeue, label: str) -> None:
        if verdict is Requeue.SKIP:
            tier = Tier.UNSCHEDULABLE
        elif not self._admits(queued):
            tier = Tier.GATED
        elif verdict is Requeue.AT_ONCE or queued.backoff_until <= self._clock():
            tier = Tier.ACTIVE
        else:
            tier = Tier.BACKOFF if queued.rejectors else Tier.ERROR_BACKOFF
        self._enter(queued, tier, label)

    def _admits(self, queued: QueuedPod) -> bool:
        status = self._pre_enqueue(queued.info)
        if status.ok:
            if queued.gating_plugin:
                queued.gating_plugin = queued.message = ""
            return True
        self._count_rejections(queued, {status.plugin} - queued.rejectors, 1)
        queued.unschedulable_plugins.add(status.plugin)
        queued.gating_plugin = status.plugin
        queued.message = status.message
        return False

    def _enter(self, queued: QueuedPod, tier: Tier, label: str) -> None:
        if queued.tier is not tier:
            self._incoming[tier.incoming_label, label].inc()
            log.debug("Pod moved in the queue", pod=queued.key, tier=tier.value, event=label)
        if tier is Tier.ACTIVE and queued.initial_attempt is None:
            queued.initial_attempt = self._clock()
        self._tiers.put(queued, tier)
        self._changed.set()

    def _leave(self, queued: QueuedPod) -> None:
        self._tiers.remove(queued)
        self._count_rejections(queued, queued.rejectors, -1)

    def _count_rejections(self, queued: QueuedPod, plugins: Iterable[str], change: int) -> None:
        for plugin in plugins:
            self._unschedulable_pods[plugin, queued.profile].inc(change)


def _own_change(old: PodInfo, new: PodInfo) -> Event:
    return Event(UNSCHEDULED_POD, pod_update(old, new), old, new)
