"""Unschedulable pods, in cohorts of equal pods, each with a scout that is tried first.

Equal pods get equal verdicts. So unschedulable pods with equal keys form a *cohort* with one
verdict: that of its last attempt. The queue compares an event with a cohort once. When the event
may have cured the cohort, only its first pod leaves, as its *scout*::

    parked ◄── rejected: it joins the cohort again ────────────┐
      │                                                        │
      └── an event, the timeout ──► the first pod leaves, as scout ◄── the next pod leaves ─┐
                                                               │                            │
                                         placed, deleted, gated, failed or changed ─────────┘

No pod is forgotten: while a cohort has no scout, no event since its verdict may have cured it. A
pod without a key is a cohort of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from scheduler.queueing.heap import KeyedHeap, in_order, smallest
from scheduler.queueing.hints import Requeue
from scheduler.queueing.queued_pod import QueuedPod, SortKey
from scheduler.queueing.waiters import Waiter, Waiters

Recount = Callable[[str, Iterable[str], int], None]
"""Called with a profile, plugins, and the change in the number of pods that each rejects."""


class Cohort:
    """Unschedulable pods with one key, and the verdict that counts for all of them."""

    __slots__ = (
        "failed_at",
        "judged_at",
        "judged_from",
        "key",
        "message",
        "parked",
        "pending_plugins",
        "profile",
        "scout",
        "shared",
        "unschedulable_plugins",
        "urgency",
        "waiter",
    )

    def __init__(self, key: Hashable, profile: str, shared: Hashable | None) -> None:
        self.key = key
        self.profile = profile
        self.shared = shared
        """What its pods have in common; None for a pod of its own."""
        self.parked: KeyedHeap[QueuedPod] = KeyedHeap(_rank)
        self.unschedulable_plugins: AbstractSet[str] = frozenset()
        self.pending_plugins: AbstractSet[str] = frozenset()
        self.message = ""
        self.judged_at = 0.0
        """When a pod of the cohort was last rejected; the timeout of all begins then."""
        self.judged_from = 0
        """The number of the first event that the verdict does not take into account."""
        self.failed_at = 0.0
        """When a scout was last rejected."""
        self.scout: QueuedPod | None = None
        self.urgency = Requeue.AFTER_BACKOFF
        """How the last scout left; the next leaves likewise."""
        self.waiter: Waiter | None = None
        """Its registration for events; None while it has a scout."""

    @property
    def rejectors(self) -> AbstractSet[str]:
        """The plugins of the verdict."""
        return self.unschedulable_plugins | self.pending_plugins

    def first(self, exclude: str = "") -> QueuedPod | None:
        """The pod that leaves next, with the verdict of the cohort; never the one with this uid."""
        queued = self.parked.peek()
        if queued is not None and queued.info.uid == exclude:
            queued = self.parked.peek(without=queued.key)
        if queued is not None:
            self.copy_verdict_to(queued)
        return queued

    def copy_verdict_to(self, queued: QueuedPod) -> None:
        """Set a pod's verdict as if it had been tried itself."""
        queued.timestamp = max(queued.timestamp, self.failed_at)
        queued.unschedulable_plugins = self.unschedulable_plugins
        queued.pending_plugins = self.pending_plugins
        queued.message = self.message

    def leader(self) -> QueuedPod:
        """The scout, or else the pod that would become it."""
        leader = self.scout or self.parked.peek()
        assert leader is not None, "a cohort without pods is gone"
        return leader


class UnschedulablePods:
    """All unschedulable pods, by cohort. Operations are O(log n) in pods."""

    def __init__(self, sort_key: SortKey, recount: Recount, waiters: Waiters) -> None:
        self._sort_key = sort_key
        self._waiters = waiters
        self._recount = recount
        self._cohorts: dict[Hashable, Cohort] = {}
        self._of: dict[str, Cohort] = {}
        self.scouting: dict[str, Cohort] = {}
        """The cohorts that have a scout, by its uid."""
        self._by_age: KeyedHeap[Cohort] = KeyedHeap(lambda cohort: cohort.judged_at)

    def __len__(self) -> int:
        """The number of pods, without scouts."""
        return len(self._of)

    def tables(self) -> tuple[dict[Any, Any], ...]:
        """The tables whose length is that of all unschedulable pods."""
        return (self._cohorts, self._of, self.scouting, *self._by_age.tables())

    def __iter__(self) -> Iterator[QueuedPod]:
        """All pods in the order of the queue; O(n log n)."""
        parked = [queued for cohort in self._cohorts.values() for queued in cohort.parked]
        return iter(sorted(parked, key=_rank))

    def first(self, count: int) -> list[QueuedPod]:
        """The first pods in the order of the queue; yields to the event loop."""
        return smallest(self._parked(), count, _rank)

    def in_order(self) -> Iterator[QueuedPod]:
        """All pods as they are now, in the order of the queue; yields to the event loop."""
        return in_order(self._parked(), _rank)

    def _parked(self) -> list[QueuedPod]:
        return [queued for cohort in self._cohorts.values() for queued in cohort.parked.unsorted()]

    def cohort_of(self, queued: QueuedPod) -> Cohort:
        """The cohort of an unschedulable pod."""
        return self._of[queued.key]

    def cohorts(self) -> list[Cohort]:
        """All cohorts as they are now; O(cohorts)."""
        return list(self._cohorts.values())

    def oldest(self) -> Cohort | None:
        """The cohort with the oldest verdict, of those without a scout."""
        return self._by_age.peek()

    def park(
        self,
        queued: QueuedPod,
        key: Hashable | None,
        judged_from: int = 0,
        *,
        keep_rank: bool = False,
    ) -> Cohort:
        """Add a rejected pod to the cohort of this key; None stands for one of its own.

        Its verdict, which considers the events before ``judged_from``, becomes that of the cohort,
        unless the cohort has the verdict of an attempt that began later. A scout keeps its rank:
        if all pods had been tried, their order would be the same. So does a pod that was not tried
        (``keep_rank``), unless it was never here: its last rejection may have made it back off.
        """
        name = queued.info.uid if key is None else (queued.profile, queued.info.priority, key)
        cohort = self._cohorts.get(name)
        if cohort is None:
            cohort = self._cohorts[name] = Cohort(name, queued.profile, key)
        queued.cohort = cohort.shared  # equal to the key: one object for thousands of pods
        if cohort.scout is queued:
            cohort.scout = None
            del self.scouting[queued.info.uid]
            cohort.failed_at = queued.timestamp
        elif not keep_rank or queued.rank is None:
            queued.rank = (self._sort_key(queued), queued.number)
        self._judge(cohort, queued, judged_from)
        cohort.parked.put(queued.key, queued)
        self._of[queued.key] = cohort
        self._update_registration(cohort)
        return cohort

    def remove(self, queued: QueuedPod) -> None:
        """Remove a pod from its cohort, with the verdict of the cohort."""
        cohort = self._of.pop(queued.key)
        cohort.copy_verdict_to(queued)
        cohort.parked.remove(queued.key)
        self._update_registration(cohort)

    def set_scout(self, cohort: Cohort, queued: QueuedPod) -> None:
        """Make a pod that has just left the scout of its cohort, if other pods are left."""
        if cohort.parked:
            cohort.scout = queued
            self.scouting[queued.info.uid] = cohort
            self._update_registration(cohort)

    def end_scout(self, uid: str) -> Cohort | None:
        """A pod is no scout any more; returns the cohort whose scout it was."""
        cohort = self.scouting.pop(uid, None)
        if cohort is not None:
            cohort.scout = None
            self._update_registration(cohort)
        return cohort

    def _judge(self, cohort: Cohort, queued: QueuedPod, judged_from: int) -> None:
        """Take over the newest verdict, and correct the counts of rejections by plugin."""
        cohort.judged_at = queued.timestamp
        before, after = cohort.rejectors, queued.rejectors
        if cohort.parked and judged_from < cohort.judged_from:
            changed, before, after = 1, after, before
            cohort.copy_verdict_to(queued)
        else:
            changed = len(cohort.parked)
            cohort.judged_from = judged_from
            cohort.unschedulable_plugins = queued.unschedulable_plugins
            cohort.pending_plugins = queued.pending_plugins
            cohort.message = queued.message
            if after != before:
                self._unregister(cohort)
        if after != before:
            self._recount(cohort.profile, after - before, changed)
            self._recount(cohort.profile, before - after, -changed)

    def _update_registration(self, cohort: Cohort) -> None:
        """Register a cohort for events and the timeout while it has pods and no scout."""
        if cohort.parked and cohort.scout is None:
            self._by_age.put(cohort.key, cohort)
            if cohort.waiter is None:
                self._register(cohort)
            return
        self._by_age.remove(cohort.key)
        self._unregister(cohort)
        if not cohort.parked and cohort.scout is None:
            self._cohorts.pop(cohort.key, None)

    def _register(self, cohort: Cohort) -> None:
        equal = cohort.parked.peek()
        assert equal is not None, "a cohort without pods is not registered"
        cohort.waiter = self._waiters.join(
            cohort,
            equal.info,
            equal.rank,
            cohort.profile,
            cohort.rejectors,
            cohort.pending_plugins,
        )

    def _unregister(self, cohort: Cohort) -> None:
        if cohort.waiter is not None:
            self._waiters.leave(cohort.waiter)
            cohort.waiter = None


def _rank(queued: QueuedPod) -> Any:
    return queued.rank
