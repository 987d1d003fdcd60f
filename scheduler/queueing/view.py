"""The queue as the serving API, the CLI and metrics show it. Nothing here changes the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from scheduler.bounded import Usage
from scheduler.model.workloads import pod_group_of
from scheduler.queueing.in_flight import InFlightPods
from scheduler.queueing.queue_tiers import QueueTiers
from scheduler.queueing.queued_pod import QueuedPod, Tier
from scheduler.queueing.unschedulable_pods import Cohort
from scheduler.slices import checkpoint


class PermitWait(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin at which a pod waits for permission."""

    plugin: str
    seconds: float
    """How long it has waited."""
    timeout_seconds: float
    """Until the plugin's time is up and the pod is rejected."""


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
    permit: tuple[PermitWait, ...] = ()
    """The plugins at which it waits on permit."""


class SharedVerdict(NamedTuple):
    """One verdict, and how many waiting pods have it."""

    plugins: tuple[str, ...]
    message: str
    pods: int


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

    def active(self) -> list[QueuedPod]:
        """The pods that are tried next, in any order; O(n)."""
        return self._pods.unsorted(Tier.ACTIVE)

    def described(self, queued: QueuedPod) -> QueueEntry:
        """One of them."""
        return self._describe(queued, self.now())

    def all(self, but: Tier | None = None) -> Iterator[tuple[QueueEntry, QueuedPod]]:
        """All waiting pods in the same order, or but those of a tier; yields to the event loop."""
        now, seen = self.now(), set[str]()
        for queued in self._pods.in_order(but):
            checkpoint()
            # It may have left since, or have moved to a tier that is read later.
            if queued.tier is not None and queued.key not in seen:
                seen.add(queued.key)
                yield self._describe(queued, now), queued

    def verdicts(self) -> Iterator[SharedVerdict]:
        """Why pods wait: one verdict for equal unschedulable pods, and for gated ones alike.

        O(pods that wait); yields to the event loop.
        """
        for cohort in self._pods.unschedulable.cohorts():
            checkpoint()
            if waiting := len(cohort.parked):
                yield SharedVerdict(tuple(sorted(cohort.rejectors)), cohort.message, waiting)
        alike: Counter[tuple[tuple[str, ...], str]] = Counter()
        for tier in (Tier.BACKOFF, Tier.GATED):
            for queued in self._pods.unsorted(tier):
                checkpoint()
                alike[tuple(sorted(queued.rejectors)), queued.message] += 1
        for (plugins, message), waiting in alike.items():
            yield SharedVerdict(plugins, message, waiting)

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
