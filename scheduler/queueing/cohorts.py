"""Parked pods that stand or fall together, and the one that goes ahead of them.

Equal pods get equal verdicts. So pods that are parked under one key form a *cohort*, with one
verdict for all: that of the last of them that was tried. An event is held against it once, and when
it may have cured them only the first goes out, as their *scout*::

    parked ◄── rejected: it joins, the rest stays ─────────────┐
      │                                                        │
      └── an event, the timeout ──► the first goes out, as the scout ◄── the next goes out ─┐
                                                               │                            │
                                              placed, gone, gated, failed or changed ───────┘

So nobody is forgotten: while a cohort has no scout, nothing has happened since its verdict that
could cure it. A pod without a key is a cohort of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet

from scheduler.queueing.heap import KeyedHeap, smallest
from scheduler.queueing.hints import Requeue
from scheduler.queueing.tiers import QueuedPod, SortKey
from scheduler.queueing.waiting import Waiter, Waiters

Recount = Callable[[str, Iterable[str], int], None]
"""Told the profile, the plugins, and how many more (or fewer) pods they now reject."""


class Cohort:
    """Pods that are parked under one key, and what all of them were told last."""

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
        "unschedulable_plugins",
        "urgency",
        "waiter",
    )

    def __init__(self, key: Hashable, profile: str) -> None:
        self.key = key
        self.profile = profile
        self.parked: KeyedHeap[QueuedPod] = KeyedHeap(lambda queued: queued.rank)
        self.unschedulable_plugins: AbstractSet[str] = frozenset()
        self.pending_plugins: AbstractSet[str] = frozenset()
        self.message = ""
        self.judged_at = 0.0
        """When one of them was last rejected; counts for the timeout of all."""
        self.judged_from = 0
        """The number of the first event that the verdict does not take into account."""
        self.failed_at = 0.0
        """When a scout was last rejected, and all others would have been."""
        self.scout: QueuedPod | None = None
        self.urgency = Requeue.AFTER_BACKOFF
        """How the last scout went out; the next goes likewise."""
        self.waiter: Waiter | None = None
        """How it waits for events; not at all while a scout is out."""

    @property
    def rejectors(self) -> AbstractSet[str]:
        """The plugins of the verdict."""
        return self.unschedulable_plugins | self.pending_plugins

    def first(self, exclude: str = "") -> QueuedPod | None:
        """The parked pod that goes out next, told the verdict; never the one with this uid."""
        queued = self.parked.peek()
        if queued is not None and queued.info.uid == exclude:
            queued = self.parked.peek(without=queued.key)
        if queued is not None:
            self.tell(queued)
        return queued

    def tell(self, queued: QueuedPod) -> None:
        """Have a pod know the verdict that counts for all, as if it had been tried itself."""
        queued.timestamp = max(queued.timestamp, self.failed_at)
        queued.unschedulable_plugins = self.unschedulable_plugins
        queued.pending_plugins = self.pending_plugins
        queued.message = self.message

    def leader(self) -> QueuedPod:
        """The scout, or else the parked pod that would become it."""
        leader = self.scout or self.parked.peek()
        assert leader is not None, "a cohort without pods is gone"
        return leader


class Cohorts:
    """All parked pods, by cohort. Every operation is O(log n) in pods, and O(1) in their equals."""

    def __init__(self, sort_key: SortKey, recount: Recount, waiters: Waiters) -> None:
        self._sort_key = sort_key
        self._waiters = waiters
        self._recount = recount
        self._turns = itertools.count()
        self._cohorts: dict[Hashable, Cohort] = {}
        self._of: dict[str, Cohort] = {}
        self._scouting: dict[str, Cohort] = {}
        self._by_age: KeyedHeap[Cohort] = KeyedHeap(lambda cohort: cohort.judged_at)

    def __len__(self) -> int:
        """How many pods are parked; scouts are not."""
        return len(self._of)

    def __iter__(self) -> Iterator[QueuedPod]:
        """All parked pods, best first; O(n log n)."""
        parked = [queued for cohort in self._cohorts.values() for queued in cohort.parked]
        return iter(sorted(parked, key=lambda queued: queued.rank))

    def first(self, count: int) -> list[QueuedPod]:
        """The best parked pods, best first, as they were when asked; gives the loop back."""
        parked = [queued for cohort in self._cohorts.values() for queued in cohort.parked]
        return smallest(parked, count, lambda queued: queued.rank)

    def of(self, queued: QueuedPod) -> Cohort:
        """The cohort of a parked pod."""
        return self._of[queued.key]

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
        """Let a rejected pod join the cohort of this key; None stands for one of its own.

        Its verdict, which knows of events before ``judged_from``, becomes everybody's, unless an
        attempt that began later has been heard of already. A scout that comes back keeps its rank
        among them: if all had been tried, they would stand as they stood before. So does a pod that
        was not tried at all (``keep_rank``).
        """
        queued.cohort = key
        name = queued.info.uid if key is None else (queued.profile, queued.info.priority, key)
        cohort = self._cohorts.get(name)
        if cohort is None:
            cohort = self._cohorts[name] = Cohort(name, queued.profile)
        if cohort.scout is queued:
            cohort.scout = None
            del self._scouting[queued.info.uid]
            cohort.failed_at = queued.timestamp
        elif not keep_rank:
            queued.rank = (self._sort_key(queued), next(self._turns))
        self._judge(cohort, queued, judged_from)
        cohort.parked.put(queued.key, queued)
        self._of[queued.key] = cohort
        self._attend(cohort)
        return cohort

    def remove(self, queued: QueuedPod) -> None:
        """A parked pod leaves, and takes the verdict along."""
        cohort = self._of.pop(queued.key)
        cohort.tell(queued)
        cohort.parked.remove(queued.key)
        self._attend(cohort)

    def send(self, cohort: Cohort, queued: QueuedPod) -> None:
        """A pod that has just left goes ahead of those that are still parked, if there are any."""
        if cohort.parked:
            cohort.scout = queued
            self._scouting[queued.info.uid] = cohort
            self._attend(cohort)

    def settle(self, uid: str) -> Cohort | None:
        """A pod is nobody's scout any more; returns the cohort that it left waiting."""
        cohort = self._scouting.pop(uid, None)
        if cohort is not None:
            cohort.scout = None
            self._attend(cohort)
        return cohort

    def _judge(self, cohort: Cohort, queued: QueuedPod, judged_from: int) -> None:
        """Settle on the newest verdict; whoever was told another now counts with this one."""
        cohort.judged_at = queued.timestamp
        before, after = cohort.rejectors, queued.rejectors
        if cohort.parked and judged_from < cohort.judged_from:
            changed, before, after = 1, after, before
            cohort.tell(queued)
        else:
            changed = len(cohort.parked)
            cohort.judged_from = judged_from
            cohort.unschedulable_plugins = queued.unschedulable_plugins
            cohort.pending_plugins = queued.pending_plugins
            cohort.message = queued.message
            if after != before:
                self._be_deaf(cohort)
        if after != before:
            self._recount(cohort.profile, after - before, changed)
            self._recount(cohort.profile, before - after, -changed)

    def _attend(self, cohort: Cohort) -> None:
        """Listen to events and mind the time, or stop it, or be gone, as the cohort now is."""
        if cohort.parked and cohort.scout is None:
            self._by_age.put(cohort.key, cohort)
            if cohort.waiter is None:
                self._listen(cohort)
            return
        self._by_age.remove(cohort.key)
        self._be_deaf(cohort)
        if not cohort.parked and cohort.scout is None:
            self._cohorts.pop(cohort.key, None)

    def _listen(self, cohort: Cohort) -> None:
        equal = cohort.parked.peek()
        assert equal is not None, "a cohort without pods does not wait"
        cohort.waiter = self._waiters.join(
            cohort,
            equal.info,
            equal.rank,
            cohort.profile,
            cohort.rejectors,
            cohort.pending_plugins,
        )

    def _be_deaf(self, cohort: Cohort) -> None:
        if cohort.waiter is not None:
            self._waiters.leave(cohort.waiter)
            cohort.waiter = None
