"""The places of the queue, and what it knows of a pod that waits in one of them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from scheduler.model.podinfo import PodInfo

Listener = tuple[str, str]
"""A plugin within a profile: (profile, plugin)."""

SortKey = Callable[["QueuedPod"], Any]


class Tier(enum.Enum):
    """A place in the queue."""

    ACTIVE = "active"
    """Next, in the order of the sort plugin."""
    BACKOFF = "backoff"
    """Rejected, possibly cured, and waiting for its time; may go early when nobody is active."""
    ERROR_BACKOFF = "error-backoff"
    """Failed by a fault, or went early before, and waiting for its time; never goes early."""
    UNSCHEDULABLE = "unschedulable"
    """Rejected, and nothing has happened since that could cure it."""
    GATED = "gated"
    """Not to be tried yet, says a PreEnqueue plugin."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and hashes the name

    @property
    def pending_label(self) -> str:
        """The tier's name in ``scheduler_pending_pods``."""
        return "backoff" if self is Tier.ERROR_BACKOFF else str(self.value)

    @property
    def incoming_label(self) -> str:
        """The tier's name in ``scheduler_queue_incoming_pods_total``, which knows no gated."""
        return "unschedulable" if self is Tier.GATED else self.pending_label


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod and the story of its attempts; only the queue writes to it."""

    info: PodInfo
    timestamp: float
    """When it arrived or last failed; breaks ties of priority."""
    rank: Any = None
    """Its place among equal pods, from when it joined them."""
    initial_attempt: float | None = None
    """When it first could have been tried: time behind gates does not count as scheduling time."""
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    unschedulable_plugins: AbstractSet[str] = frozenset()
    outdated: int = 0
    """How often a decision on it no longer held when it was to be written."""
    pending_plugins: AbstractSet[str] = frozenset()
    """Rejectors that only wait for something: their cure spares the pod its back-off."""
    gating_plugin: str = ""
    backoff_until: float = 0.0
    borrowed_until: float = 0.0
    """The end of a back-off that the pod did not wait for; the next one begins only then."""
    by_filters: bool = False
    """Whether filters rejected every node in the last attempt; else a chosen node was refused."""
    was_flushed: bool = False
    """Whether a timeout brought it to this attempt; success then means that an event is missing."""
    woken: bool = False
    """Whether an event brought it to this attempt, by a hint that may be out of date."""
    cohort: Hashable | None = None
    """The key under which it was last parked; None if on its own."""
    message: str = ""
    """Why the pod is not scheduled, for people."""
    tier: Tier | None = None
    """Where it waits; None while it is in flight or gone."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return self.info.key

    @property
    def profile(self) -> str:
        """The scheduler name that the pod asks for."""
        return self.info.pod.spec.scheduler_name

    @property
    def rejectors(self) -> AbstractSet[str]:
        """Every plugin that said no in the last attempt or at the gate."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def failures(self) -> int:
        """The number of failures that the back-off counts."""
        return self.consecutive_errors or self.unschedulable_count
