"""The scheduling queue: which pod is next, and what moves a rejected pod back.

::

      add          an event, a timeout, activate
       │          ┌──────────────────┬────────────────────┐
       ▼          ▼                  │                    │
      PreEnqueue ─┴──── no ──────► GATED           UNSCHEDULABLE
       │      └─ yes, backs off ─► BACKOFF                ▲
       │ yes                       │     │                │ rejected, and no event
       ▼         back-off ends     │     │                │ since the pop may cure it
      ACTIVE ◄─────────────────────┘     │ pop, if no     │
       │                                 │ pod is         │
       │ pop                             ▼ active         │
       └───────────────────────────► in flight ───────────┘
                                     │   │
                     gone ◄── done ──┘   └── error, or rejected and perhaps cured: PreEnqueue

BACKOFF stands for two tiers: pods whose attempt failed by an error have one of their own and are
never popped early. A pod that was added and not deleted is in exactly one tier or in flight, until
`done`. The parts:

- `QueueTiers`: the tiers. The active queue is ordered by the QueueSort plugin.
- `UnschedulablePods`: cohorts of equal pods; one of them, the scout, is tried before the others.
- `InFlightPods`: the pods in flight, with the events that happened since each was popped.
- `HintTable` and `Waiters`: an event concerns only pods whose rejecting plugins registered for it,
  and finds them in columns where plugins have these.
- `QueueView`: counts and lists for people.

A pod that an event made active is checked again when it is popped: if other pods have taken the
room meanwhile it becomes unschedulable again without an attempt.

All methods are synchronous, for one thread, without locks; none may be called from a hint or a
PreEnqueue plugin. `pop`, `flush` and `retry_gated` may take long and yield to the event loop
meanwhile (`slices`), so they are called only where the state is consistent. The clock counts
monotonic seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from scheduler import machine
from scheduler.model.events import UNSCHEDULABLE_POD, Action, Event, pod_update
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import PodStatus
from scheduler.model.status import Status
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.queueing.hints import HintRegistration, Hints, HintTable, Requeue
from scheduler.queueing.in_flight import InFlightPods
from scheduler.queueing.queue_tiers import QueueTiers
from scheduler.queueing.queued_pod import (
    ACTIVE,
    BACKOFF,
    ERROR_BACKOFF,
    GATED,
    NO_PLUGINS,
    UNSCHEDULABLE,
    Backoff,
    PluginSets,
    QueuedPod,
    Tier,
)
from scheduler.queueing.unschedulable_pods import Cohort
from scheduler.queueing.view import QueueView
from scheduler.queueing.waiters import Waiters, Woken
from scheduler.slices import checkpoint

log = get_logger(__name__)

WOKEN_AT_ONCE = 64
"""If an event may have cured more cohorts, they are woken some at a time, the first ones first."""
MOST_WOKEN = 64
"""How many that is at most. The first woken one often takes the room that the event made, so it is
one to begin with, and twice as many as before while each of them finds room."""
ASKED_IN_PASSING = 64
"""How many deferred hints are called before each attempt."""
EXPIRED_PER_SECOND = 64
"""How many cohorts are tried in a second because of the timeout of unschedulable pods."""
OUTDATED_WITHOUT_BACKOFF = 3
"""How often a pod is tried again at once because a decision on it no longer held."""

# Why a pod moved, besides events: labels of ``scheduler_queue_incoming_pods_total``.
_POD_ADD = Event(UNSCHEDULABLE_POD, Action.ADD).label
_POD_UPDATE = Event(UNSCHEDULABLE_POD, Action.UPDATE).label
_SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
_BACKOFF_COMPLETE = "BackoffComplete"
_POP_FROM_BACKOFF = "PopFromBackoffQ"
_FORCE_ACTIVATE = "ForceActivate"
_UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"
_STILL_REJECTED = "StillRejected"
"""An event may have cured the pod, and no longer so when it was popped."""
_SCOUT_SETTLED = "ScoutSettled"
"""The scout of the pod's cohort has found a node, or its verdict counts for it alone."""
_DECISION_OUTDATED = "DecisionOutdated"


class QueuePlugins(Protocol):
    """The plugins of all profiles, as the queue calls them. No method raises."""

    def sort_key(self, queued: QueuedPod) -> Any:
        """The order of the active queue (QueueSort), smallest first."""
        ...

    def pre_enqueue(self, info: PodInfo) -> Status:
        """Whether a pod may become active (PreEnqueue); a rejection names its plugin."""
        ...

    def still_rejected(self, queued: QueuedPod) -> bool:
        """Whether the filters that rejected a pod reject every node now.

        Far cheaper than an attempt, which is in vain if this is true.
        """
        ...


class SchedulingQueue:
    """All pods that wait for a node, and those that are being scheduled.

    `add`, `update`, `delete`, `pop` and the requeues are O(log n); `on_event` is O(cohorts that the
    event may cure), where plugins have columns.
    """

    def __init__(
        self,
        plugins: QueuePlugins,
        *,
        hints: Hints,
        metrics: Metrics,
        clock: Callable[[], float] = machine.monotonic,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_unschedulable: float = 300.0,
    ) -> None:
        self._plugins = plugins
        self._clock = clock
        self._hints = HintTable(hints, metrics, clock)
        self._waiters = Waiters(self._hints, metrics)
        self._pods = QueueTiers(plugins.sort_key, metrics, self._waiters)
        self._scouting = self._pods.unschedulable.scouting
        self._in_flight = InFlightPods(metrics)
        self._plugin_sets = PluginSets()
        self._backoff = Backoff(initial_backoff, max_backoff)
        self._max_unschedulable = max_unschedulable
        self.view = QueueView(self._pods, self._in_flight, clock, max_unschedulable)
        self._numbers = itertools.count()
        self._portion = 1
        """How many cohorts are woken next."""
        self._expired_until = -math.inf
        self._expired = 0
        self._deferred: list[Event] | None = None
        """Events within `events_deferred`."""
        self._incoming = Children(metrics.queue_incoming_pods)
        self._spared = metrics.attempts_spared
        self._changed = asyncio.Event()

    # Questions

    def __len__(self) -> int:
        """The number of waiting pods, without those in flight."""
        return len(self._pods)

    @property
    def active(self) -> int:
        """The number of active pods and of cohorts that events may have cured."""
        return self._pods.count(ACTIVE) + self._waiters.marked

    def peek(self) -> QueuedPod | None:
        """The first active pod, without popping it."""
        return self._pods.head(ACTIVE)

    def is_in_flight(self, uid: str) -> bool:
        """Whether a pod is in flight and not deleted."""
        flight = self._in_flight.get(uid)
        return flight is not None and not flight.deleted

    def is_in_flight_and_live(self, uid: str) -> bool:
        """Whether a pod is in flight and neither deleted nor being deleted."""
        flight = self._in_flight.get(uid)
        return flight is not None and not flight.deleted and not flight.newest.pod.deleting

    def contains(self, key: str, uid: str) -> bool:
        """Whether a pod waits or is in flight."""
        queued = self._pods.get(key)
        return uid in self._in_flight or (queued is not None and queued.info.uid == uid)

    def backoff_left(self, keys: Iterable[str]) -> float:
        """For how many seconds the last of these pods backs off; 0 if none of them does. O(n)."""
        waiting = (queued for key in keys if (queued := self._pods.get(key)) is not None)
        return max((queued.backoff_until - self._clock() for queued in waiting), default=0.0)

    def registrations(self, profile: str, plugin: str) -> Sequence[HintRegistration]:
        """The events that may cure rejections of a plugin."""
        return self._hints.registrations((profile, plugin))

    # Pods are added, updated and deleted

    def add(self, info: PodInfo) -> None:
        """Add a pod without a node; one that is already known is updated."""
        self._upsert(info, _POD_ADD)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take over a new version of a pod, which may cure its own rejection.

        A pod that the queue does not know is added.
        """
        if old.uid != new.uid:
            self.delete(old)
        self._upsert(new, _POD_UPDATE)

    def update_in_flight(self, new: PodInfo) -> None:
        """Take over a new version of a pod that is being scheduled, for when it is requeued."""
        if flight := self._in_flight.get(new.uid):
            flight.newest = new

    def delete(self, info: PodInfo) -> None:
        """Remove a pod that was deleted or got a node; in flight, it will not be requeued."""
        if flight := self._in_flight.get(info.uid):
            flight.deleted = True
        elif (queued := self._pods.get(info.key)) and queued.info.uid == info.uid:
            self._remove(queued)
        self._end_scout(info.uid)

    # One attempt: pop, then done or a requeue

    def pop(self) -> QueuedPod | None:
        """The next pod, now in flight; None if there is none to try.

        While no pod is active the first pod of the back-off queue is popped early, if its filters
        may accept a node now. Its next back-off begins when the one cut short would have ended.
        Every pod popped must be given back by `done`, `requeue_rejected` or `requeue_error`.
        """
        if self._waiters.busy:
            self._waiters.ask(ASKED_IN_PASSING)
        while (queued := self._next()) is not None:
            if not queued.woken and queued.tier is not BACKOFF:
                break
            if not self._plugins.still_rejected(queued):
                self._portion = min(2 * self._portion, MOST_WOKEN)
                break
            self._portion = 1
            self._park_again(queued)
            checkpoint()
        else:
            return None
        if queued.tier is BACKOFF:
            queued.borrowed_until = queued.owed_until
            self._incoming["active", _POP_FROM_BACKOFF].inc()
        elif queued.backoff_until <= self._clock() < queued.owed_until:
            queued.borrowed_until = queued.owed_until  # it has waited for as long as any may
        self._begin_flight(queued)
        return queued

    def pop_together(self, keys: Iterable[str], profile: str) -> list[QueuedPod]:
        """Those of these pods that wait in a profile, in the order of the queue, now in flight.

        Of all tiers but gated. Each must be given back, like every pod that was popped. O(n log n)
        in the number of pods popped.
        """
        found = [
            queued
            for key in keys
            if (queued := self._pods.get(key)) is not None
            and queued.tier is not GATED
            and queued.profile == profile
        ]
        found.sort(key=self._pods.sort_key)
        popped = []
        for queued in found:
            checkpoint()
            if self._pods.get(queued.key) is queued:  # else it has left since
                self._begin_flight(queued)
                popped.append(queued)
        return popped

    def renew_in_flight(self, queued: QueuedPod) -> bool:
        """Have an attempt that is made again use the newest version of its pod.

        Returns whether that differs from the one before in more than its conditions.
        """
        flight = self._in_flight.get(queued.info.uid)
        if flight is None or flight.newest is queued.info:
            return False
        change = _own_update(flight.seen, flight.newest)
        queued.info = flight.seen = flight.newest
        return change is not None

    def placed(self, uid: str) -> None:
        """A pod in flight has found a node, though it may be requeued: the next scout may go."""
        self._end_scout(uid)

    def done(self, uid: str) -> None:
        """A pod in flight will not be requeued; idempotent."""
        self._in_flight.end(uid)
        self._end_scout(uid)

    def requeue_rejected(
        self,
        queued: QueuedPod,
        unschedulable_plugins: Iterable[str],
        pending_plugins: Iterable[str],
        message: str,
        cohort: Hashable | None = None,
        *,
        by_filters: bool = False,
    ) -> None:
        """Plugins rejected the pod: it is unschedulable, unless an event since the pop may cure it.

        ``cohort`` is a key of all of the pod that the verdict depends on: the verdict then counts
        for all unschedulable pods with an equal key. None, if the verdict is on this pod alone.
        ``by_filters``: filters rejected every node, so `QueuePlugins.still_rejected` can tell.
        Without any rejecting plugin no event could ever move the pod, so that counts as an error.
        """
        queued.unschedulable_plugins = self._plugin_sets.shared(unschedulable_plugins)
        queued.pending_plugins = self._plugin_sets.shared(pending_plugins)
        if not queued.rejectors:
            self.requeue_error(queued, message)
            return
        queued.unschedulable_count += 1
        queued.by_filters = by_filters
        queued.consecutive_errors = 0
        self._requeue(queued, message, cohort)

    def requeue_together(
        self,
        members: Sequence[QueuedPod],
        unschedulable_plugins: Iterable[str],
        pending_plugins: Iterable[str],
        message: str,
        cohort: Hashable,
        pause: float = 0.0,
        *,
        tried: bool = True,
    ) -> None:
        """Plugins rejected the members of a gang as one: they form a cohort with one back-off.

        An event that may cure them moves one of them, whose attempt pops the others. ``pause`` is
        the least number of seconds that they then back off. If they were not ``tried`` to the end,
        this counts as no attempt, and their back-offs end when they would have ended.
        """
        unschedulable, pending = frozenset(unschedulable_plugins), frozenset(pending_plugins)
        ends = [(queued.backoff_until, queued.owed_until) for queued in members]
        for queued in members:
            checkpoint()
            if not tried:  # the pop has counted the one, and what follows counts the other
                queued.attempts -= 1
                queued.unschedulable_count -= 1
            self.requeue_rejected(queued, unschedulable, pending, message, cohort)
        if tried:
            ends = [(queued.backoff_until, queued.owed_until) for queued in members]
        until = max([self._clock() + pause, *(end for end, _ in ends)])
        owed = max([until, *(owed for _, owed in ends)])
        for queued in members:
            queued.backoff_until, queued.owed_until = until, owed
            if queued.tier in (BACKOFF, ERROR_BACKOFF):
                self._pods.reorder(queued)

    def requeue_error(self, queued: QueuedPod, message: str) -> None:
        """The attempt failed by an error: try the pod again after a back-off, without an event."""
        queued.unschedulable_plugins = queued.pending_plugins = NO_PLUGINS
        queued.consecutive_errors += 1
        self._requeue(queued, message)

    def requeue_outdated(self, queued: QueuedPod, message: str) -> None:
        """The decision no longer held when it was to be written: try the pod again at once.

        That is no error, so there is no back-off; but a pod to which it happens again and again
        backs off as after an error.
        """
        queued.unschedulable_plugins = queued.pending_plugins = NO_PLUGINS
        queued.outdated += 1
        if queued.outdated > OUTDATED_WITHOUT_BACKOFF:
            queued.consecutive_errors += 1
        self._requeue(queued, message)
        if queued.tier is ERROR_BACKOFF and queued.outdated <= OUTDATED_WITHOUT_BACKOFF:
            self._enter(queued, ACTIVE, _DECISION_OUTDATED)

    # What moves waiting pods

    def on_event(self, event: Event) -> None:
        """Move the pods that an event may have cured (upstream: MoveAllToActiveOrBackoffQueue)."""
        if self._deferred is not None:
            self._deferred.append(event)
            return
        if not self._hints.matching(event):
            return
        self._in_flight.record(event)
        self._waiters.mark(event)
        if 0 < self._waiters.marked <= WOKEN_AT_ONCE:
            for woken in self._waiters.take(WOKEN_AT_ONCE):
                self._wake(woken)
        if self._waiters.busy:
            self._changed.set()

    @contextmanager
    def events_deferred(self) -> Iterator[None]:
        """Apply events that come within the block at its end.

        Members of a gang that are tried together hold nodes that they may have to give back: a hint
        that is called meanwhile would count these nodes as taken.
        """
        deferred: list[Event] = []
        self._deferred = deferred
        try:
            yield
        finally:
            self._deferred = None
            for event in deferred:
                checkpoint()
                self.on_event(event)

    def activate(self, keys: Collection[str]) -> int:
        """Move waiting pods to the active queue without back-off; returns how many there are.

        A pod in flight that is rejected then backs off instead of becoming unschedulable.
        """
        waiting = [queued for key in keys if (queued := self._pods.get(key)) is not None]
        for queued in waiting:
            queued.woken = False  # it is tried for another reason
            if queued.tier is not ACTIVE:
                self._force(queued)
        self._in_flight.activate(keys)
        return len(waiting)

    def retry(self, keys: Collection[str]) -> None:
        """Have waiting pods tried again once their back-off has ended.

        Sooner if no other pod is active. A pod in flight that is rejected then backs off, too.
        """
        for key in keys:
            queued = self._pods.get(key)
            if queued is not None and queued.tier in (UNSCHEDULABLE, GATED):
                queued.woken = False  # it is tried for another reason
                self._place(queued, Requeue.AFTER_BACKOFF, _FORCE_ACTIVATE)
        self._in_flight.activate(keys)

    def retry_gated(self) -> None:
        """Run PreEnqueue again for all gated pods; O(n log n) in their number."""
        for key in self._pods.gated():
            queued = self._pods.get(key)
            if queued is not None and queued.tier is GATED:
                self._force(queued)
            checkpoint()

    def flush(self) -> None:
        """Move the pods whose back-off has ended, and those unschedulable for too long."""
        now = self._clock()
        for tier in (BACKOFF, ERROR_BACKOFF):
            while (queued := self._pods.head(tier)) and queued.backoff_until <= now:
                self._enter(queued, ACTIVE, _BACKOFF_COMPLETE)
                checkpoint()
        while self._expires_at() <= now:
            self._expire()
            checkpoint()

    def next_deadline(self) -> float | None:
        """When `flush` next has something to do; None if only an event or a new pod can help."""
        heads = [self._pods.head(tier) for tier in (BACKOFF, ERROR_BACKOFF)]
        deadlines = [queued.backoff_until for queued in heads if queued]
        deadlines.append(self._expires_at())
        deadline = min(deadlines)
        return None if deadline == math.inf else deadline

    async def wait(self) -> None:
        """Return as soon as `pop` gives a pod or `flush` has something to do. For one task."""
        while not (self._pods.count(ACTIVE) or self._pods.count(BACKOFF) or self._waiters.busy):
            deadline, now = self.next_deadline(), self._clock()
            if deadline is not None and deadline <= now:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(None if deadline is None else deadline - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    # The next pod

    def _next(self) -> QueuedPod | None:
        """The first pod; deferred hints are called first if no pod is active."""
        if self._waiters.busy:
            self._wake_some()
        queued = self._pods.head(ACTIVE)
        while queued is None and self._waiters.busy:
            self._waiters.ask(ASKED_IN_PASSING)
            self._wake_some()
            checkpoint()
            queued = self._pods.head(ACTIVE)
        return self._pods.head(BACKOFF) if queued is None else queued

    def _wake_some(self) -> None:
        """Wake the first of the marked cohorts, if they come before all active pods."""
        if not self._marked_come_first():
            return
        portion = self._portion
        self._waiters.drop_hopeless()
        while self._marked_come_first():
            for woken in self._waiters.take(portion):
                if self._waiters.waits(woken.waiter) and self._worth_waking(woken):
                    self._wake(woken)
                checkpoint()
            portion = min(2 * portion, MOST_WOKEN)  # these may all back off

    def _marked_come_first(self) -> bool:
        """Whether a cohort is marked that comes before all active pods.

        Others can wait until it is their turn: the pods before them may take the room, and events
        come faster than pods are tried when there is much to do.
        """
        woken, head = self._waiters.first(), self._pods.head(ACTIVE)
        if woken is None or head is None:
            return woken is not None
        queued = _next_of(woken)
        return queued is None or self._pods.order(queued) < self._pods.order(head)

    def _worth_waking(self, woken: Woken) -> bool:
        queued = _next_of(woken)
        if queued is None:
            return False
        spared = queued.tier is UNSCHEDULABLE and self._plugins.still_rejected(queued)
        self._spared.inc(spared)
        return not spared

    def _park_again(self, queued: QueuedPod) -> None:
        """A woken pod would be rejected again: its verdict still holds, as of now."""
        queued.woken = False
        self._spared.inc()
        self._note_move(queued, UNSCHEDULABLE, _STILL_REJECTED)
        self._pods.park(queued, queued.cohort, self._in_flight.position, keep_rank=True)

    # Timeouts

    def _expires_at(self) -> float:
        """When the timeout of the next cohort ends, at most `EXPIRED_PER_SECOND` in a second."""
        cohort = self._pods.unschedulable.oldest()
        if cohort is None:
            return math.inf
        due = cohort.judged_at + self._max_unschedulable
        return max(due, self._expired_until) if self._expired >= EXPIRED_PER_SECOND else due

    def _expire(self) -> None:
        cohort, now = self._pods.unschedulable.oldest(), self._clock()
        assert cohort is not None, "a cohort is due"
        if self._expired_until <= now:
            self._expired_until, self._expired = now + 1.0, 0
        self._expired += 1
        scout = self._send_scout(cohort, Requeue.AFTER_BACKOFF, _UNSCHEDULABLE_TIMEOUT)
        if scout is not None:
            scout.was_flushed = True

    # New versions of waiting pods

    def _upsert(self, info: PodInfo, label: str) -> None:
        if flight := self._in_flight.get(info.uid):
            flight.newest = info
            return
        queued = self._pods.get(info.key)
        if queued is not None and queued.info.uid != info.uid:
            self._remove(queued)
            self._end_scout(queued.info.uid)
            queued = None
        if queued is None:
            added = QueuedPod(info, self._clock(), next(self._numbers))
            self._place(added, Requeue.AT_ONCE, label)
        else:
            self._renew(queued, info)

    def _renew(self, queued: QueuedPod, info: PodInfo) -> None:
        """Take over a new version of a waiting pod: it may be cured, and leaves its cohort."""
        change = _own_update(queued.info, info)
        queued.info = info
        if change is None:
            return
        self._end_scout(info.uid)
        queued.cohort = None  # what it was equal to, and waited for, was its last version
        queued.woken = False  # it is tried for another reason
        if queued.tier is UNSCHEDULABLE:
            self._leave_cohort(queued, change)
        elif queued.tier is not GATED:
            self._pods.reorder(queued)
        elif verdict := max(
            self._hints.verdict(queued, change), self._waiters.perhaps(self._pods.gate(queued))
        ):
            self._place(queued, verdict, change.label)
        else:
            self._pods.put(queued, GATED)  # registered for events with its new spec

    def _leave_cohort(self, queued: QueuedPod, change: Event) -> None:
        """Have an unschedulable pod wait on its own from now on.

        The scout of its cohort, and events that may have cured the cohort, count for it too.
        """
        cohort = self._pods.unschedulable.cohort_of(queued)
        cohort.copy_verdict_to(queued)
        verdict = self._hints.verdict(queued, change)
        if cohort.scout is not None:
            verdict = max(verdict, cohort.urgency)
        else:
            verdict = max(verdict, self._waiters.perhaps(cohort.waiter))
        self._place(queued, verdict, change.label)

    # Requeues and scouts

    def _requeue(self, queued: QueuedPod, message: str, cohort: Hashable | None = None) -> None:
        flight = self._in_flight.get(queued.info.uid)
        if flight is None:
            log.error("Pod came back that was not in flight", pod=queued.key)
            return
        missed = self._in_flight.missed(flight)
        self._in_flight.end(queued.info.uid)
        replaced = self._pods.get(queued.key) is not None
        if flight.deleted or replaced:
            self._end_scout(queued.info.uid)
            return
        queued.info = flight.newest
        queued.cohort = None
        queued.timestamp = self._clock()
        queued.number = next(self._numbers)  # behind its equals
        since = max(queued.timestamp, queued.borrowed_until)
        queued.owed_until = self._backoff.until(since, queued.failures)
        longest = self._backoff.latest(queued.timestamp)
        queued.backoff_until = min(queued.owed_until, longest)
        queued.was_flushed = False
        queued.message = message
        self._pods.count_rejections(queued.profile, queued.rejectors, 1)
        change = _own_update(flight.seen, flight.newest)
        if cohort is not None and change is None and not flight.activated:
            self._requeue_in_cohort(queued, cohort, flight.start, missed)
            return
        if missed is not None and change is not None:
            missed.append(change)
        verdict = self._hints.replay(queued, missed)
        if flight.activated:
            verdict = max(verdict, Requeue.AFTER_BACKOFF)
        self._place(queued, verdict, _SCHEDULE_ATTEMPT_FAILURE)
        self._end_scout(queued.info.uid)

    def _requeue_in_cohort(
        self, queued: QueuedPod, key: Hashable, start: int, missed: list[Event] | None
    ) -> None:
        """Add a pod to its cohort; the events since it was popped may have cured all of it."""
        self._note_move(queued, UNSCHEDULABLE, _SCHEDULE_ATTEMPT_FAILURE)
        cohort = self._pods.park(queued, key, start)
        self._end_scout(queued.info.uid)  # of another cohort, whose verdict this is not
        verdict = self._hints.replay(queued, missed)
        self._send_scout(cohort, verdict, _SCHEDULE_ATTEMPT_FAILURE)

    def _send_scout(
        self,
        cohort: Cohort,
        verdict: Requeue,
        label: str,
        exclude: str = "",
        *,
        woken: bool = False,
    ) -> QueuedPod | None:
        """Make the first pod of a cohort its scout, if that may help; not one that is gated."""
        if verdict is Requeue.SKIP or cohort.scout is not None:
            return None
        cohort.urgency = verdict
        while (queued := cohort.first(exclude)) is not None:
            queued.woken = woken
            self._place(queued, verdict, label)
            if queued.tier is not GATED:
                self._pods.unschedulable.set_scout(cohort, queued)
                return queued
        return None

    def _end_scout(self, uid: str) -> None:
        """If the pod was a scout, make the next pod of its cohort the scout."""
        if uid not in self._scouting:
            return
        cohort = self._pods.unschedulable.end_scout(uid)
        if cohort is not None:
            self._send_scout(cohort, cohort.urgency, _SCOUT_SETTLED)

    def _wake(self, woken: Woken) -> None:
        target, (verdict, label, exclude) = woken.waiter.target, woken.mark
        if isinstance(target, QueuedPod):
            if target.info.uid != exclude:
                self._place(target, verdict, label)
        else:
            self._send_scout(target, verdict, label, exclude, woken=True)

    # Moves between tiers

    def _place(self, queued: QueuedPod, verdict: Requeue, label: str) -> None:
        if verdict is Requeue.SKIP:
            self._note_move(queued, UNSCHEDULABLE, label)
            self._pods.park(queued, None)
        elif not self._admits(queued):
            self._enter(queued, GATED, label)
        elif queued.backoff_until <= (now := self._clock()):
            self._enter(queued, ACTIVE, label)
        elif not self._may_go_early(queued, now):
            self._enter(queued, ERROR_BACKOFF, label)
        elif verdict is Requeue.AT_ONCE:
            queued.borrowed_until = queued.owed_until
            self._enter(queued, ACTIVE, label)
        else:
            self._enter(queued, BACKOFF, label)

    def _may_go_early(self, queued: QueuedPod, now: float) -> bool:
        """Whether a pod may be tried before its back-off ends; that bounds how often it is tried.

        A pod that was refused although it had a node may do so once. A pod that filters rejected is
        checked before (`still_rejected`), and may be ahead of its back-offs by the longest one.
        """
        ahead = self._backoff.maximum if queued.by_filters else 0.0
        return bool(queued.rejectors) and queued.borrowed_until <= now + ahead

    def _force(self, queued: QueuedPod) -> None:
        passed = queued.tier in (BACKOFF, ERROR_BACKOFF) or self._admits(queued)
        self._enter(queued, ACTIVE if passed else GATED, _FORCE_ACTIVATE)

    def _admits(self, queued: QueuedPod) -> bool:
        if queued.tier is UNSCHEDULABLE:
            self._pods.remove(queued)  # PreEnqueue does not count for its cohort
        status = self._plugins.pre_enqueue(queued.info)
        if status.ok:
            if queued.gating_plugin:
                queued.gating_plugin = queued.message = ""
            return True
        gate = frozenset({status.plugin})
        self._pods.count_rejections(queued.profile, gate - queued.rejectors, 1)
        queued.unschedulable_plugins = self._plugin_sets.shared(queued.unschedulable_plugins | gate)
        queued.gating_plugin = status.plugin
        queued.message = status.message
        return False

    def _enter(self, queued: QueuedPod, tier: Tier, label: str) -> None:
        self._note_move(queued, tier, label)
        if tier is ACTIVE and queued.initial_attempt is None:
            queued.initial_attempt = self._clock()
        self._pods.put(queued, tier)

    def _note_move(self, queued: QueuedPod, tier: Tier, label: str) -> None:
        if queued.tier is not tier:
            self._incoming[tier.incoming_label, label].inc()
            log.debug("Pod moved in the queue", pod=queued.key, tier=tier.value, event=label)
        self._changed.set()

    def _begin_flight(self, queued: QueuedPod) -> None:
        self._remove(queued)
        queued.woken = False
        queued.attempts += 1
        self._in_flight.begin(queued.info)

    def _remove(self, queued: QueuedPod) -> None:
        self._pods.remove(queued)
        self._pods.count_rejections(queued.profile, queued.rejectors, -1)


def _next_of(woken: Woken) -> QueuedPod | None:
    """The pod that leaves if a cohort or a gated pod is woken."""
    target = woken.waiter.target
    return target if isinstance(target, QueuedPod) else target.first(woken.mark.exclude)


def _own_update(old: PodInfo, new: PodInfo) -> Event | None:
    """The event of a pod's own update; None if only its conditions or nominated node changed.

    The scheduler writes those itself when a pod waits or is rejected, so they must not move it.
    """
    if new is old:
        return None
    was, now = old.pod, new.pod
    meta = now.metadata
    # A condition also makes the object longer.
    before = msgspec.structs.replace(
        was.metadata, resource_version=meta.resource_version, json_bytes=meta.json_bytes
    )
    same = (
        before == meta
        and _with_own_fields(was.status, now.status) == now.status
        and was.spec == now.spec
    )
    return None if same else Event(UNSCHEDULABLE_POD, pod_update(old, new), old, new)


def _with_own_fields(was: PodStatus, now: PodStatus) -> PodStatus:
    """The old status with the new values of the fields that the scheduler writes."""
    return msgspec.structs.replace(
        was, conditions=now.conditions, nominated_node_name=now.nominated_node_name
    )
