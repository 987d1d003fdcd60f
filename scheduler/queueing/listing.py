"""The queue as people see it."""

from __future__ import annotations

import msgspec

from scheduler.queueing.tiers import QueuedPod, Tier


class QueueEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One waiting pod. Times are spans: the queue's clock means nothing outside."""

    pod: str
    profile: str
    tier: str
    waiting_seconds: float
    """Since it arrived or last failed."""
    retry_seconds: float | None
    """Until it is tried again by itself; None if it is active, or if only an event can help."""
    attempts: int
    plugins: tuple[str, ...]
    """Who rejected it."""
    message: str


def entry_of(queued: QueuedPod, now: float, max_unschedulable: float) -> QueueEntry:
    """Describe a waiting pod at a moment of the queue's clock."""
    retry_at = None
    if queued.tier in (Tier.BACKOFF, Tier.ERROR_BACKOFF):
        retry_at = queued.backoff_until
    elif queued.tier is Tier.UNSCHEDULABLE:
        retry_at = queued.timestamp + max_unschedulable
    return QueueEntry(
        pod=queued.key,
        profile=queued.profile,
        tier=queued.tier.value if queued.tier else "in-flight",
        waiting_seconds=now - queued.timestamp,
        retry_seconds=None if retry_at is None else max(0.0, retry_at - now),
        attempts=queued.attempts,
        plugins=tuple(sorted(queued.rejectors)),
        message=queued.message,
    )
