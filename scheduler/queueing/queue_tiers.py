"""All waiting pods by tier: active queue, back-off queues, unschedulable pods, gated pods."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from scheduler.observe.metrics import Children, Metrics
from scheduler.queueing.heap import KeyedHeap
from scheduler.queueing.queued_pod import (
    ACTIVE,
    BACKOFF,
    ERROR_BACKOFF,
    GATED,
    UNSCHEDULABLE,
    QueuedPod,
    SortKey,
    Tier,
)
from scheduler.queueing.unschedulable_pods import Cohort, UnschedulablePods
from scheduler.queueing.waiters import Waiter, Waiters


class QueueTiers:
    """Each waiting pod in exactly one tier. Moves are O(log n).

    Sets ``scheduler_pending_pods``, and ``scheduler_unschedulable_pods`` by `count_rejections`.
    """

    def __init__(self, sort_key: SortKey, metrics: Metrics, waiters: Waiters) -> None:
        self.sort_key = sort_key
        self._heaps: dict[Tier, KeyedHeap[QueuedPod]] = {
            ACTIVE: KeyedHeap(self.order),
            BACKOFF: KeyedHeap(lambda queued: (queued.backoff_until, sort_key(queued))),
            ERROR_BACKOFF: KeyedHeap(lambda queued: queued.backoff_until),
            GATED: KeyedHeap(lambda queued: queued.timestamp),
        }
        self.unschedulable = UnschedulablePods(sort_key, self.count_rejections, waiters)
        self._pending = {tier: metrics.pending_pods.labels(tier.pending_label) for tier in Tier}
        self._rejections = Children(metrics.unschedulable_pods)
        self._pods: dict[str, QueuedPod] = {}
        self._waiters = waiters
        self._gated: dict[str, Waiter] = {}
        metrics.tables.follow(self._pods, self._gated, *self.unschedulable.tables())
        for heap in self._heaps.values():
            metrics.tables.follow(*heap.tables())

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        """All pods, tier by tier, each tier in its order."""
        for tier in Tier:
            yield from self.unschedulable if tier is UNSCHEDULABLE else self._heaps[tier]

    def first(self, count: int) -> list[QueuedPod]:
        """The first pods in the same order; yields to the event loop."""
        found: list[QueuedPod] = []
        for tier in Tier:
            heap = self.unschedulable if tier is UNSCHEDULABLE else self._heaps[tier]
            if len(found) < count:
                found += heap.first(count - len(found))
        return found

    def in_order(self, but: Tier | None = None) -> Iterator[QueuedPod]:
        """All pods in the same order, or all but those of one tier.

        Yields to the event loop, tiers are read one by one.
        """
        for tier in Tier:
            if tier is but:
                continue
            heap = self.unschedulable if tier is UNSCHEDULABLE else self._heaps[tier]
            yield from heap.in_order()

    def unsorted(self, tier: Tier) -> list[QueuedPod]:
        """All pods of a tier other than unschedulable, as they are now, in any order; O(n)."""
        return self._heaps[tier].unsorted()

    def get(self, key: str) -> QueuedPod | None:
        """The waiting pod of this name."""
        return self._pods.get(key)

    def count(self, tier: Tier) -> int:
        """The number of pods in a tier."""
        return len(self.unschedulable if tier is UNSCHEDULABLE else self._heaps[tier])

    def order(self, queued: QueuedPod) -> tuple[Any, int]:
        """What sorts active pods, the next one first."""
        return self.sort_key(queued), queued.number

    def head(self, tier: Tier) -> QueuedPod | None:
        """The pod that leaves a tier next; unschedulable pods leave by cohort."""
        return self._heaps[tier].peek()

    def put(self, queued: QueuedPod, tier: Tier) -> None:
        """Move a pod from any tier, or none, to a tier other than unschedulable."""
        self.remove(queued)
        self._arrive(queued, tier)
        self._heaps[tier].put(queued.key, queued)
        if tier is GATED:
            self._gated[queued.key] = self._waiters.join(
                queued,
                queued.info,
                (self.sort_key(queued), 0),
                queued.profile,
                queued.rejectors,
                queued.pending_plugins,
                queued.gating_plugin,
            )

    def park(
        self,
        queued: QueuedPod,
        key: Hashable | None,
        judged_from: int = 0,
        *,
        keep_rank: bool = False,
    ) -> Cohort:
        """Move a pod to the unschedulable pods, into the cohort of this key, or (None) its own."""
        self.remove(queued)
        self._arrive(queued, UNSCHEDULABLE)
        return self.unschedulable.park(queued, key, judged_from, keep_rank=keep_rank)

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod out of its tier; idempotent."""
        tier = queued.tier
        if tier is None:
            return
        if tier is UNSCHEDULABLE:
            self.unschedulable.remove(queued)
        else:
            self._heaps[tier].remove(queued.key)
        if tier is GATED:
            self._waiters.leave(self._gated.pop(queued.key))
        self._pending[tier].dec()
        del self._pods[queued.key]
        queued.tier = None

    def reorder(self, queued: QueuedPod) -> None:
        """Restore the order of a pod's tier after its priority or back-off may have changed."""
        if queued.tier is not None:
            self._heaps[queued.tier].put(queued.key, queued)

    def gate(self, queued: QueuedPod) -> Waiter:
        """The waiter of a gated pod."""
        return self._gated[queued.key]

    def gated(self) -> list[str]:
        """The names of all gated pods, in the order in which they were gated."""
        return list(self._gated)

    def count_rejections(self, profile: str, plugins: Iterable[str], change: int) -> None:
        """Add to the number of pods that each of these plugins rejects."""
        for plugin in plugins:
            self._rejections[plugin, profile].inc(change)

    def _arrive(self, queued: QueuedPod, tier: Tier) -> None:
        queued.tier = tier
        self._pods[queued.key] = queued
        self._pending[tier].inc()
