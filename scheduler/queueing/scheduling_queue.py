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
event looks only at pods whose rejecting plugins registered for it (`hints`), all of them at once
where plugins can (`waiting`). Equal pods that are unschedulable are looked at as one, and one of
them is tried before the others (`cohorts`). A pod that an event woke is looked at again when its
turn comes: if others have taken the room meanwhile it goes back without an attempt.

All methods are synchronous, for one thread, without locks; none may be called from a hint or a
PreEnqueue plugin. `pop`, `flush` and `retry_gated` may have much to do and give the
event loop back meanwhile (`slices`), so they are called only where the state is consistent. The
clock counts monotonic seconds.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable

from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.queueing import causes
from scheduler.queueing.backoff import Backoff
from scheduler.queueing.cohorts import Cohort
from scheduler.queueing.glances import Glances
from scheduler.queueing.hints import Hints, HintTable, Requeue
from scheduler.queueing.inflight import InFlight
from scheduler.queueing.own_changes import own_change
from scheduler.queueing.places import Places
from scheduler.queueing.tiers import QueuedPod, SortKey, Tier
from scheduler.queueing.waiting import Waiters, Woken
from scheduler.slices import checkpoint

log = get_logger(__name__)

WOKEN_AT_ONCE = 64
"""If an event may have cured more cohorts, they are woken some at a time, the first ones first."""
MOST_WOKEN = 64
"""How many that is at most. The first woken one often takes the room that the event made, so it is
one to begin with, and twice as many as before while each of them finds room."""
ASKED_IN_PASSING = 64
"""How many hints that were put off are called before each attempt."""
EXPIRED_PER_SECOND = 64
"""How many cohorts are tried in a second because they have been parked for too long."""
OUTDATED_WITHOUT_BACKOFF = 3
"""How often a pod is tried again at once because a decision on it no longer held."""


class SchedulingQueue(Glances):
    """All pods that wait for a node, and the memory of those that are being scheduled.

    ``sort_key`` ranks pods, smallest first; ``pre_enqueue`` is asked before a pod becomes
    eligible, returns a verdict signed by its plugin and never raises. ``still_rejected`` looks at a
    pod that an event woke: whether the plugins that rejected it still reject every node, so that an
    attempt is of no use; far cheaper than an attempt, and it never raises. `add`, `update`,
    `delete`, `pop` and the requeues are O(log n); `on_event` is O(cohorts that it may cure), where
    plugins have columns.
    """

    def __init__(
        self,
        *,
        sort_key: SortKey,
        pre_enqueue: Callable[[PodInfo], Status],
        still_rejected: Callable[[QueuedPod], bool] = lambda queued: False,
        hints: Hints,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_unschedulable: float = 300.0,
    ) -> None:
        self._hints = HintTable(hints, metrics, clock)
        waiters = Waiters(self._hints, metrics)
        places = Places(sort_key, metrics, waiters)
        super().__init__(places, waiters, InFlight(metrics), clock, max_unschedulable)
        self._pre_enqueue = pre_enqueue
        self._still_rejected = still_rejected
        self._spared = metrics.attempts_spared
        self._backoff = Backoff(initial_backoff, max_backoff)
        self._portion = 1
        """How many cohorts are woken next."""
        self._expired_until = -math.inf
        self._expired = 0
        self._incoming = Children(metrics.queue_incoming_pods)
        self._changed = asyncio.Event()

    # Pods come, change and go.

    def add(self, info: PodInfo) -> None:
        """Take in a pod without a node; one that is already known is updated."""
        self._upsert(info, causes.POD_ADD)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take in a new version of a pod, which may cure its own rejection.

        Assumed pods are not the queue's concern: an unknown pod is added.
        """
        if old.uid != new.uid:
            self.delete(old)
        self._upsert(new, causes.POD_UPDATE)

    def update_in_flight(self, new: PodInfo) -> None:
        """Take in a new version of a pod that is being scheduled; it counts if it comes back."""
        if flight := self._in_flight.get(new.uid):
            flight.newest = new

    def delete(self, info: PodInfo) -> None:
        """Forget a pod that was deleted or has got a node; in flight, it will not come back."""
        if flight := self._in_flight.get(info.uid):
            flight.deleted = True
        elif (queued := self._places.get(info.key)) and queued.info.uid == info.uid:
            self._leave(queued)
        self._pass_on(info.uid)

    # One attempt: pop, then done or a requeue.

    def pop(self) -> QueuedPod | None:
        """The next pod, now in flight; None if nobody can be tried.

        When nobody is active the next of those that back off goes early, if it may have a node
        now: the time is free. Its next back-off begins when that one would have ended.
        Every pod popped must be given back by `done`, `requeue_rejected` or `requeue_error`.
        """
        if self._waiters.busy:
            self._waiters.ask(ASKED_IN_PASSING)
        while (queued := self._next()) is not None:
            if not queued.woken and queued.tier is not Tier.BACKOFF:
                break
            if not self._still_rejected(queued):
                self._portion = min(2 * self._portion, MOST_WOKEN)
                break
            self._portion = 1
            self._park_again(queued)
            checkpoint()
        else:
            return None
        if queued.tier is Tier.BACKOFF:
            queued.borrowed_until = queued.backoff_until
            self._incoming["active", causes.POP_FROM_BACKOFF].inc()
        self._take_off(queued)
        return queued

    def placed(self, uid: str) -> None:
        """A pod in flight has found a node, though it may yet come back: its equals may go on."""
        self._pass_on(uid)

    def done(self, uid: str) -> None:
        """A pod in flight is settled and will not come back; idempotent."""
        self._in_flight.end(uid)
        self._pass_on(uid)

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
        """Plugins rejected the pod: park it, unless an event since the pop may have cured that.

        ``cohort`` stands for all of the pod that the verdict depends on: it then counts for all
        pods that are parked under an equal one. None, if the verdict is on this pod alone.
        ``by_filters``: they rejected every node, so what cures them can be seen beforehand.
        Without any rejecting plugin no event could ever wake it, so that counts as an error.
        """
        queued.unschedulable_plugins = frozenset(unschedulable_plugins)
        queued.pending_plugins = frozenset(pending_plugins)
        if not queued.rejectors:
            self.requeue_error(queued, message)
            return
        queued.unschedulable_count += 1
        queued.by_filters = by_filters
        queued.consecutive_errors = 0
        self._requeue(queued, message, cohort)

    def requeue_error(self, queued: QueuedPod, message: str) -> None:
        """The attempt failed by a fault: try the pod again after a back-off, whatever happens."""
        queued.unschedulable_plugins = frozenset()
        queued.pending_plugins = frozenset()
        queued.consecutive_errors += 1
        self._requeue(queued, message)

    def requeue_outdated(self, queued: QueuedPod, message: str) -> None:
        """The decision no longer held when it was to be written: try the pod again at once.

        That is nobody's fault, so there is no back-off; but a pod to which it happens again and
        again backs off as after a fault.
        """
        queued.unschedulable_plugins = frozenset()
        queued.pending_plugins = frozenset()
        queued.outdated += 1
        if queued.outdated > OUTDATED_WITHOUT_BACKOFF:
            queued.consecutive_errors += 1
        self._requeue(queued, message)
        if queued.tier is Tier.ERROR_BACKOFF and queued.outdated <= OUTDATED_WITHOUT_BACKOFF:
            self._enter(queued, Tier.ACTIVE, causes.DECISION_OUTDATED)

    # What wakes pods.

    def on_event(self, event: Event, exclude: str = "", up_to: int | None = None) -> None:
        """Wake the pods that an event may have cured, except the pod with the uid ``exclude``.

        ``up_to`` leaves out pods of higher priority, to whom the event means nothing.
        """
        if not self._hints.listeners(event):
            return
        self._in_flight.record(event, exclude)
        self._waiters.hear(event, exclude, up_to)
        if 0 < self._waiters.marked <= WOKEN_AT_ONCE:
            for woken in self._waiters.take(WOKEN_AT_ONCE):
                self._wake(woken)
        if self._waiters.busy:
            self._changed.set()

    def activate(self, keys: Collection[str]) -> int:
        """Have pods tried again without back-off; returns how many of them wait.

        A pod in flight that is rejected then backs off instead of being parked.
        """
        waiting = [queued for key in keys if (queued := self._places.get(key)) is not None]
        for queued in waiting:
            self._places.calm(queued)
            if queued.tier is not Tier.ACTIVE:
                self._force(queued)
        self._in_flight.activate(keys)
        return len(waiting)

    def flush(self) -> None:
        """Move on the pods whose time is up: back-offs that end, and pods parked for too long."""
        now = self._clock()
        for tier in (Tier.BACKOFF, Tier.ERROR_BACKOFF):
            while (queued := self._places.head(tier)) and queued.backoff_until <= now:
                self._enter(queued, Tier.ACTIVE, causes.BACKOFF_COMPLETE)
                checkpoint()
        while self._expires_at() <= now:
            self._expire()
            checkpoint()

    def next_deadline(self) -> float | None:
        """When `flush` next has something to do; None if only an event or a new pod can help."""
        heads = [self._places.head(tier) for tier in (Tier.BACKOFF, Tier.ERROR_BACKOFF)]
        deadlines = [queued.backoff_until for queued in heads if queued]
        deadlines.append(self._expires_at())
        deadline = min(deadlines)
        return None if deadline == math.inf else deadline

    async def wait(self) -> None:
        """Return as soon as `pop` gives a pod or `flush` has something to do. For one waiter."""
        while not (
            self._places.count(Tier.ACTIVE)
            or self._places.count(Tier.BACKOFF)
            or self._waiters.busy
        ):
            deadline, now = self.next_deadline(), self._clock()
            if deadline is not None and deadline <= now:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(None if deadline is None else deadline - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    # How pods move.

    def _next(self) -> QueuedPod | None:
        """The pod whose turn it is, after all hints have been asked if nobody is active."""
        if self._waiters.busy:
            self._wake_some()
        queued = self._places.head(Tier.ACTIVE)
        while queued is None and self._waiters.busy:
            self._waiters.ask(ASKED_IN_PASSING)
            self._wake_some()
            checkpoint()
            queued = self._places.head(Tier.ACTIVE)
        return self._places.head(Tier.BACKOFF) if queued is None else queued

    def _wake_some(self) -> None:
        """Wake more of those whom events may have cured, unless some are active that come first."""
        portion = self._portion
        if self._waiters.marked and (self._waiters.fresh or not self._places.woken):
            self._waiters.drop_hopeless()
        while self._waiters.marked and (self._waiters.fresh or not self._places.woken):
            for woken in self._waiters.take(portion):
                if self._waiters.waits(woken.waiter) and self._worth_waking(woken):
                    self._wake(woken)
                checkpoint()
            portion *= 2  # most of them back off: finding the first of many is not for nothing

    def _worth_waking(self, woken: Woken) -> bool:
        who = woken.waiter.who
        queued = who if isinstance(who, QueuedPod) else who.first(woken.mark.exclude)
        if queued is None:
            return False
        spared = queued.tier is Tier.UNSCHEDULABLE and self._still_rejected(queued)
        self._spared.inc(spared)
        return not spared

    def _park_again(self, queued: QueuedPod) -> None:
        """A pod was woken and would be rejected again: its verdict still holds, as of now."""
        queued.woken = False
        self._spared.inc()
        self._note_move(queued, Tier.UNSCHEDULABLE, causes.STILL_REJECTED)
        self._places.park(queued, queued.cohort, self._in_flight.position, keep_rank=True)

    def _expires_at(self) -> float:
        """When the next cohort has been parked for too long; a second has room for some only."""
        cohort = self._places.cohorts.oldest()
        if cohort is None:
            return math.inf
        due = cohort.judged_at + self._max_unschedulable
        return max(due, self._expired_until) if self._expired >= EXPIRED_PER_SECOND else due

    def _expire(self) -> None:
        cohort, now = self._places.cohorts.oldest(), self._clock()
        assert cohort is not None, "somebody is due"
        if self._expired_until <= now:
            self._expired_until, self._expired = now + 1.0, 0
        self._expired += 1
        scout = self._send_scout(cohort, Requeue.AFTER_BACKOFF, causes.UNSCHEDULABLE_TIMEOUT)
        if scout is not None:
            scout.was_flushed = True

    def _upsert(self, info: PodInfo, label: str) -> None:
        if flight := self._in_flight.get(info.uid):
            flight.newest = info
            return
        queued = self._places.get(info.key)
        if queued is not None and queued.info.uid != info.uid:
            self._leave(queued)
            self._pass_on(queued.info.uid)
            queued = None
        if queued is None:
            self._place(QueuedPod(info, self._clock()), Requeue.AT_ONCE, label)
        else:
            self._renew(queued, info)

    def _renew(self, queued: QueuedPod, info: PodInfo) -> None:
        """Take in a new version of a waiting pod: it may be cured, and is no longer like others."""
        change = own_change(queued.info, info)
        queued.info = info
        if change is None:
            return
        self._pass_on(info.uid)
        self._places.calm(queued)
        if queued.tier is Tier.UNSCHEDULABLE:
            self._part(queued, change)
        elif queued.tier is not Tier.GATED:
            self._places.reorder(queued)
        elif verdict := max(
            self._hints.verdict(queued, change), self._waiters.perhaps(self._places.gate(queued))
        ):
            self._place(queued, verdict, change.label)
        else:
            self._places.put(queued, Tier.GATED)  # it waits for events with its new spec

    def _part(self, queued: QueuedPod, change: Event) -> None:
        """Judge a parked pod on its own from now on; a scout that is out is out for it too.

        So are events that may have cured the cohort, which has not been woken yet.
        """
        cohort = self._places.cohorts.of(queued)
        cohort.tell(queued)
        verdict = self._hints.verdict(queued, change)
        if cohort.scout is not None:
            verdict = max(verdict, cohort.urgency)
        else:
            verdict = max(verdict, self._waiters.perhaps(cohort.waiter))
        self._place(queued, verdict, change.label)

    def _requeue(self, queued: QueuedPod, message: str, cohort: Hashable | None = None) -> None:
        flight = self._in_flight.get(queued.info.uid)
        if flight is None:
            log.error("Pod came back that was not in flight", pod=queued.key)
            return
        missed = self._in_flight.missed(flight)
        self._in_flight.end(queued.info.uid)
        replaced = self._places.get(queued.key) is not None
        if flight.deleted or replaced:
            self._pass_on(queued.info.uid)
            return
        queued.info = flight.newest
        queued.timestamp = self._clock()
        since = max(queued.timestamp, queued.borrowed_until)
        queued.backoff_until = self._backoff.until(since, queued.failures)
        queued.was_flushed = False
        queued.message = message
        self._places.count_rejections(queued.profile, queued.rejectors, 1)
        change = own_change(flight.seen, flight.newest)
        if cohort is not None and change is None and not flight.activated:
            self._return_to_equals(queued, cohort, flight.start, missed)
            return
        if missed is not None and change is not None:
            missed.append(change)
        verdict = self._hints.replay(queued, missed)
        if flight.activated:
            verdict = max(verdict, Requeue.AFTER_BACKOFF)
        self._place(queued, verdict, causes.SCHEDULE_ATTEMPT_FAILURE)
        self._pass_on(queued.info.uid)

    def _return_to_equals(
        self, queued: QueuedPod, key: Hashable, start: int, missed: list[Event] | None
    ) -> None:
        """Park a pod among its equals; what it missed in flight may have cured all of them."""
        self._note_move(queued, Tier.UNSCHEDULABLE, causes.SCHEDULE_ATTEMPT_FAILURE)
        cohort = self._places.park(queued, key, start)
        self._pass_on(queued.info.uid)  # if others had sent it: they have learnt nothing
        verdict = self._hints.replay(queued, missed)
        self._send_scout(cohort, verdict, causes.SCHEDULE_ATTEMPT_FAILURE)

    def _send_scout(
        self,
        cohort: Cohort,
        verdict: Requeue,
        label: str,
        exclude: str = "",
        *,
        woken: bool = False,
    ) -> QueuedPod | None:
        """Have the first of a cohort tried, if that may help; one stopped at a gate is no use."""
        if verdict is Requeue.SKIP or cohort.scout is not None:
            return None
        cohort.urgency = verdict
        while (queued := cohort.first(exclude)) is not None:
            queued.woken = woken
            self._place(queued, verdict, label)
            if queued.tier is not Tier.GATED:
                self._places.cohorts.send(cohort, queued)
                return queued
        return None

    def _pass_on(self, uid: str) -> None:
        """If the pod was a scout, have the next of its cohort go instead."""
        cohort = self._places.cohorts.settle(uid)
        if cohort is not None:
            self._send_scout(cohort, cohort.urgency, causes.SCOUT_SETTLED)

    def _wake(self, woken: Woken) -> None:
        who, (verdict, label, exclude) = woken.waiter.who, woken.mark
        if isinstance(who, QueuedPod):
            if who.info.uid != exclude:
                self._place(who, verdict, label)
        else:
            self._send_scout(who, verdict, label, exclude, woken=True)

    def _place(self, queued: QueuedPod, verdict: Requeue, label: str) -> None:
        if verdict is Requeue.SKIP:
            self._note_move(queued, Tier.UNSCHEDULABLE, label)
            self._places.park(queued, None)
        elif not self._admits(queued):
            self._enter(queued, Tier.GATED, label)
        elif queued.backoff_until <= (now := self._clock()):
            self._enter(queued, Tier.ACTIVE, label)
        elif not self._may_go_early(queued, now):
            self._enter(queued, Tier.ERROR_BACKOFF, label)
        elif verdict is Requeue.AT_ONCE:
            queued.borrowed_until = queued.backoff_until
            self._enter(queued, Tier.ACTIVE, label)
        else:
            self._enter(queued, Tier.BACKOFF, label)

    def _may_go_early(self, queued: QueuedPod, now: float) -> bool:
        """Whether a pod may be tried before its back-off ends; that bounds how often it is tried.

        One that was refused although it had a node may do so once: nobody can see what cures it.
        One that filters rejected is looked at first, and may be a longest back-off ahead of time.
        """
        ahead = self._backoff.maximum if queued.by_filters else 0.0
        return bool(queued.rejectors) and queued.borrowed_until <= now + ahead

    def _force(self, queued: QueuedPod) -> None:
        passed = queued.tier in (Tier.BACKOFF, Tier.ERROR_BACKOFF) or self._admits(queued)
        self._enter(queued, Tier.ACTIVE if passed else Tier.GATED, causes.FORCE_ACTIVATE)

    def _admits(self, queued: QueuedPod) -> bool:
        if queued.tier is Tier.UNSCHEDULABLE:
            self._places.remove(queued)  # what the gate says is not for its equals
        status = self._pre_enqueue(queued.info)
        if status.ok:
            if queued.gating_plugin:
                queued.gating_plugin = queued.message = ""
            return True
        gate = frozenset({status.plugin})
        self._places.count_rejections(queued.profile, gate - queued.rejectors, 1)
        queued.unschedulable_plugins |= gate
        queued.gating_plugin = status.plugin
        queued.message = status.message
        return False

    def _enter(self, queued: QueuedPod, tier: Tier, label: str) -> None:
        self._note_move(queued, tier, label)
        if tier is Tier.ACTIVE and queued.initial_attempt is None:
            queued.initial_attempt = self._clock()
        self._places.put(queued, tier)

    def _note_move(self, queued: QueuedPod, tier: Tier, label: str) -> None:
        if queued.tier is not tier:
            self._incoming[tier.incoming_label, label].inc()
            log.debug("Pod moved in the queue", pod=queued.key, tier=tier.value, event=label)
        self._changed.set()

    def _take_off(self, queued: QueuedPod) -> None:
        self._leave(queued)
        queued.woken = False
        queued.attempts += 1
        self._in_flight.begin(queued.info)

    def _leave(self, queued: QueuedPod) -> None:
        self._places.remove(queued)
        self._places.count_rejections(queued.profile, queued.rejectors, -1)
