"""Where each waiting pod stands: exactly one tier per pod, and an index of who keeps it there."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from scheduler.observe.metrics import Children, Metrics
from scheduler.queueing.cohorts import Cohort, Cohorts
from scheduler.queueing.heap import KeyedHeap
from scheduler.queueing.tiers import QueuedPod, SortKey, Tier
from scheduler.queueing.waiting import Waiter, Waiters


class Places:
    """All waiting pods. Moves are O(log n).

    Keeps ``scheduler_pending_pods`` true, and ``scheduler_unschedulable_pods`` as it is told.
    """

    def __init__(self, sort_key: SortKey, metrics: Metrics, waiters: Waiters) -> None:
        self._heaps: dict[Tier, KeyedHeap[QueuedPod]] = {
            Tier.ACTIVE: KeyedHeap(sort_key),
            Tier.BACKOFF: KeyedHeap(lambda queued: (queued.backoff_until, sort_key(queued))),
            Tier.ERROR_BACKOFF: KeyedHeap(lambda queued: queued.backoff_until),
            Tier.GATED: KeyedHeap(lambda queued: queued.timestamp),
        }
        self.sort_key = sort_key
        self.cohorts = Cohorts(sort_key, self.count_rejections, waiters)
        """The tier of the unschedulable."""
        self._pending = {tier: metrics.pending_pods.labels(tier.pending_label) for tier in Tier}
        self._rejections = Children(metrics.unschedulable_pods)
        self._pods: dict[str, QueuedPod] = {}
        self._waiters = waiters
        self.woken: set[str] = set()
        """The names of active pods that were woken by an event."""
        self._gated: dict[str, Waiter] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        """All pods, tier by tier, each tier best first."""
        for tier in Tier:
            yield from self.cohorts if tier is Tier.UNSCHEDULABLE else self._heaps[tier]

    def first(self, count: int) -> list[QueuedPod]:
        """The first pods, tier by tier, each tier best first; gives the loop back."""
        found: list[QueuedPod] = []
        for tier in Tier:
            heap = self.cohorts if tier is Tier.UNSCHEDULABLE else self._heaps[tier]
            if len(found) < count:
                found += heap.first(count - len(found))
        return found

    def get(self, key: str) -> QueuedPod | None:
        """The waiting pod of this name."""
        return self._pods.get(key)

    def count(self, tier: Tier) -> int:
        """How many pods wait in a tier."""
        return len(self.cohorts if tier is Tier.UNSCHEDULABLE else self._heaps[tier])

    def head(self, tier: Tier) -> QueuedPod | None:
        """The pod that leaves a tier next; the unschedulable leave by cohort."""
        return self._heaps[tier].peek()

    def put(self, queued: QueuedPod, tier: Tier) -> None:
        """Move a pod from wherever it is to a tier other than that of the unschedulable."""
        self.remove(queued)
        self._arrive(queued, tier)
        self._heaps[tier].put(queued.key, queued)
        if tier is Tier.ACTIVE and queued.woken:
            self.woken.add(queued.key)
        if tier is Tier.GATED:
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
        """Move a pod from wherever it is to the unschedulable of this key, or (None) on its own."""
        self.remove(queued)
        self._arrive(queued, Tier.UNSCHEDULABLE)
        return self.cohorts.park(queued, key, judged_from, keep_rank=keep_rank)

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod out of the queue; nothing happens if it is not there."""
        tier = queued.tier
        if tier is None:
            return
        if tier is Tier.UNSCHEDULABLE:
            self.cohorts.remove(queued)
        else:
            self._heaps[tier].remove(queued.key)
        if tier is Tier.ACTIVE:
            self.woken.discard(queued.key)
        if tier is Tier.GATED:
            self._waiters.leave(self._gated.pop(queued.key))
        self._pending[tier].dec()
        del self._pods[queued.key]
        queued.tier = None

    def calm(self, queued: QueuedPod) -> None:
        """A pod is to be tried for another reason than the event that woke it."""
        queued.woken = False
        self.woken.discard(queued.key)

    def reorder(self, queued: QueuedPod) -> None:
        """Put a waiting pod to its right turn after its priority may have changed."""
        if queued.tier is not None:
            self._heaps[queued.tier].put(queued.key, queued)

    def gate(self, queued: QueuedPod) -> Waiter:
        """How a pod waits behind its gate."""
        return self._gated[queued.key]

    def gated(self) -> list[str]:
        """The names of all pods that are kept behind some gate, in the order they came there."""
        return list(self._gated)

    def count_rejections(self, profile: str, plugins: Iterable[str], change: int) -> None:
        """These plugins now reject so many pods more, or fewer."""
        for plugin in plugins:
            self._rejections[plugin, profile].inc(change)

    def _arrive(self, queued: QueuedPod, tier: Tier) -> None:
        queued.tier = tier
        self._pods[queued.key] = queued
        self._pending[tier].inc()
