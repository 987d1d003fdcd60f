"""The queue as the serving API, the CLI and metrics show it. Nothing here changes the queue."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler.bounded import Usage
from scheduler.model.workloads import pod_group_of
from scheduler.queueing.in_flight import InFlightPods
from scheduler.queueing.queue_tiers import QueueTiers
from scheduler.queueing.queued_pod import QueuedPod, Tier
from scheduler.queueing.unschedulable_pods import Cohort
from scheduler.slices import checkpoint


class QueueEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One waiting pod. Times are spans: the queue's clock means nothing outside."""

    pod: str
    profile: str
    tier: str
    waiting_seconds: float
    """Since the pod was added or its last attempt failed."""
    retry_seconds: float | None
    """Until the queue tries the pod without an event; None if it is active, gated, or behind
    another pod."""
    attempts: int
    plugins: tuple[str, ...]
    """The plugins that rejected the pod."""
    message: str
    group: str = ""
    """The PodGroup it names: its members are tried together."""
    behind: str = ""
    """The equal pod that is tried first; this one follows when that one has found a node."""
    node: str = ""
    """The node that it holds while it waits on permit."""
    timeout_seconds: float | None = None
    """Until the first plugin at which it waits on permit rejects it; None if it waits at none."""


class QueueView:
    """Counts and lists of the pods in a queue. O(1) unless said otherwise."""

    def __init__(
        self,
        pods: QueueTiers,
        in_flight: InFlightPods,
        clock: Callable[[], float],
        max_unschedulable: float,
    ) -> None:
        self._pods = pods
        self._in_flight = in_flight
        self.now = clock
        """The time by the queue's clock."""
        self._max_unschedulable = max_unschedulable

    def counts(self) -> dict[str, int]:
        """The number of pods in each tier, and of those ``in-flight``."""
        counts = {tier.value: self._pods.count(tier) for tier in Tier}
        return counts | {"in-flight": len(self._in_flight)}

    def entry(self, key: str, uid: str) -> QueueEntry | None:
        """One waiting pod; None if it does not wait, or is in flight."""
        queued = self._pods.get(key)
        if queued is None or queued.info.uid != uid:
            return None
        return self._describe(queued, self.now())

    def first(self, limit: int) -> list[QueueEntry]:
        """The first waiting pods, tier by tier; O(n), and yields to the event loop."""
        now, entries = self.now(), []
        for queued in self._pods.first(limit):
            checkpoint()
            if queued.tier is not None:  # else it has left since
                entries.append(self._describe(queued, now))
        return entries

    def snapshot(self) -> list[QueueEntry]:
        """All waiting pods, tier by tier; O(n log n)."""
        now = self.now()
        return [self._describe(queued, now) for queued in self._pods]

    def usage(self) -> dict[str, Usage]:
        """The memory used by events that are kept for pods in flight."""
        return {"inflight_events": self._in_flight.usage()}

    def _describe(self, queued: QueuedPod, now: float) -> QueueEntry:
        verdict: QueuedPod | Cohort = queued
        retry_at, behind = None, ""
        if queued.tier in (Tier.BACKOFF, Tier.ERROR_BACKOFF):
            retry_at = queued.backoff_until
        elif queued.tier is Tier.UNSCHEDULABLE:
            verdict = cohort = self._pods.unschedulable.cohort_of(queued)
            leader = cohort.leader()
            if leader is queued:
                retry_at = cohort.judged_at + self._max_unschedulable
            else:
                behind = leader.key
        return QueueEntry(
            pod=queued.key,
            profile=queued.profile,
            tier=queued.tier.value if queued.tier else "in-flight",
            waiting_seconds=now - queued.timestamp,
            retry_seconds=None if retry_at is None else max(0.0, retry_at - now),
            attempts=queued.attempts,
            plugins=tuple(sorted(verdict.rejectors)),
            message=verdict.message,
            group=pod_group_of(queued.info.pod.metadata) or "",
            behind=behind,
        )
