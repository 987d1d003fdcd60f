"""The queue as people see it."""

from __future__ import annotations

import msgspec

from scheduler.model.workloads import pod_group_of
from scheduler.queueing.cohorts import Cohort
from scheduler.queueing.places import Places
from scheduler.queueing.tiers import QueuedPod, Tier
from scheduler.slices import checkpoint


class QueueEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One waiting pod. Times are spans: the queue's clock means nothing outside."""

    pod: str
    profile: str
    tier: str
    waiting_seconds: float
    """Since it arrived or last failed."""
    retry_seconds: float | None
    """Until it is tried again by itself; None if it is active, or if that is for others to say."""
    attempts: int
    plugins: tuple[str, ...]
    """Who rejected it."""
    message: str
    group: str = ""
    """The PodGroup it names: its members are tried together."""
    behind: str = ""
    """The equal pod that is tried first; this one follows when that one has found a node."""
    node: str = ""
    """The node that it holds while it waits for permission."""
    timeout_seconds: float | None = None
    """Until the first of the plugins that hold it gives it up; None if nobody holds it."""


def entries(places: Places, now: float, max_unschedulable: float) -> list[QueueEntry]:
    """Describe all waiting pods, tier by tier, at a moment of the queue's clock; O(n log n)."""
    return [entry(queued, places, now, max_unschedulable) for queued in places]


def first_entries(
    places: Places, now: float, max_unschedulable: float, limit: int
) -> list[QueueEntry]:
    """Describe the first waiting pods likewise; looks at each pod once, and gives the loop back."""
    described = []
    for queued in places.first(limit):
        checkpoint()
        if queued.tier is not None:  # else it has left since
            described.append(entry(queued, places, now, max_unschedulable))
    return described


def entry(queued: QueuedPod, places: Places, now: float, max_unschedulable: float) -> QueueEntry:
    """Describe one waiting pod."""
    verdict: QueuedPod | Cohort = queued
    retry_at, behind = None, ""
    if queued.tier in (Tier.BACKOFF, Tier.ERROR_BACKOFF):
        retry_at = queued.backoff_until
    elif queued.tier is Tier.UNSCHEDULABLE:
        verdict = cohort = places.cohorts.of(queued)
        leader = cohort.leader()
        if leader is queued:
            retry_at = cohort.judged_at + max_unschedulable
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
