"""A pod in the queue: its tier, the history of its attempts, and its back-off."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Hashable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import msgspec

from scheduler.model.podinfo import PodInfo

SortKey = Callable[["QueuedPod"], Any]

BACKOFF_WINDOW = 1.0
"""Back-offs end at whole seconds, so that pods whose back-offs end together leave by priority."""

_MAX_DOUBLINGS = 62


class Tier(enum.Enum):
    """A place in the queue. Each waiting pod is in exactly one tier."""

    ACTIVE = "active"
    """kube-scheduler's activeQ, in the order of the QueueSort plugin."""
    BACKOFF = "backoff"
    """kube-scheduler's podBackoffQ. May be popped early while no pod is active."""
    ERROR_BACKOFF = "error-backoff"
    """kube-scheduler's podErrorBackoffQ, for pods whose attempt failed by an error, or that were
    popped early before. Never popped early."""
    UNSCHEDULABLE = "unschedulable"
    """kube-scheduler's unschedulablePods: rejected, and no event since may have cured that."""
    GATED = "gated"
    """A PreEnqueue plugin keeps the pod out of the active queue."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and hashes the name

    @property
    def pending_label(self) -> str:
        """The tier's name in ``scheduler_pending_pods``."""
        return "backoff" if self is Tier.ERROR_BACKOFF else str(self.value)

    @property
    def incoming_label(self) -> str:
        """The tier's name in ``scheduler_queue_incoming_pods_total``, which has no ``gated``."""
        return "unschedulable" if self is Tier.GATED else self.pending_label


ACTIVE, BACKOFF, ERROR_BACKOFF, UNSCHEDULABLE, GATED = Tier
"""Read for every pod: a member of an enumeration takes many times what a name does."""

NO_PLUGINS: frozenset[str] = frozenset()
"""One for all pods: Python makes another empty set each time."""


class PluginSets:
    """Sets of plugins' names, one object for equal ones: thousands of pods are rejected alike."""

    MOST = 1_024

    def __init__(self) -> None:
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def shared(self, plugins: Iterable[str]) -> frozenset[str]:
        """The one set of these names."""
        names = frozenset(plugins)
        if not names:
            return NO_PLUGINS
        known = self._sets.get(names)
        if known is None:
            if len(self._sets) >= self.MOST:
                self._sets.clear()
            known = self._sets[names] = names
        return known


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod and the history of its attempts (upstream: QueuedPodInfo); only the queue writes it."""

    info: PodInfo
    timestamp: float
    """When the pod was added or its last attempt failed; breaks ties of priority."""
    number: int = 0
    """Counts pods as they are added and as they fail; breaks ties of the QueueSort plugin."""
    rank: Any = None
    """Its place in its cohort, set when it joins."""
    initial_attempt: float | None = None
    """When it first became active: time behind gates does not count as scheduling time."""
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    unschedulable_plugins: AbstractSet[str] = NO_PLUGINS
    outdated: int = 0
    """How often a decision on it no longer held when it was to be written."""
    pending_plugins: AbstractSet[str] = NO_PLUGINS
    """Plugins that returned Pending: an event that cures them spares the pod its back-off."""
    gating_plugin: str = ""
    backoff_until: float = 0.0
    owed_until: float = 0.0
    """When the back-off would end if none had a longest: never before `backoff_until`."""
    borrowed_until: float = 0.0
    """What was owed, if the pod was tried before that: the next back-off is counted from then, so
    that an early attempt gains no time in the long run."""
    by_filters: bool = False
    """Whether filters rejected every node in the last attempt; else a chosen node was refused."""
    was_flushed: bool = False
    """Whether the timeout of unschedulable pods led to this attempt; if it succeeds, a queueing
    hint is missing."""
    woken: bool = False
    """Whether an event led to this attempt, by a hint that may be out of date."""
    cohort: Hashable | None = None
    """The key of its last cohort; None if it was on its own."""
    message: str = ""
    """Why the pod is not scheduled, for people."""
    tier: Tier | None = None
    """None while the pod is in flight, or deleted."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return self.info.key

    @property
    def profile(self) -> str:
        """The pod's ``schedulerName``."""
        return self.info.pod.spec.scheduler_name

    @property
    def rejectors(self) -> AbstractSet[str]:
        """All plugins that rejected the pod in its last attempt or in PreEnqueue."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def failures(self) -> int:
        """The number of failures that the back-off counts."""
        return self.consecutive_errors or self.unschedulable_count


class Backoff(msgspec.Struct, frozen=True):
    """An exponential back-off in seconds; a ``maximum`` of 0 switches it off."""

    initial: float = 1.0
    maximum: float = 10.0

    def duration(self, failures: int) -> float:
        """The nominal back-off after so many failures in a row: initial, doubled up to maximum."""
        if failures == 0:
            return 0.0
        return min(self.maximum, self.initial * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))

    def latest(self, failed_at: float) -> float:
        """When the longest back-off ends."""
        return self.until(failed_at, _MAX_DOUBLINGS)

    def until(self, failed_at: float, failures: int) -> float:
        """When the back-off ends: at the end of the window in which the nominal one ends."""
        if failures == 0 or self.maximum == 0:
            return failed_at
        nominal = failed_at + self.duration(failures)
        return (math.floor(nominal / BACKOFF_WINDOW) + 1) * BACKOFF_WINDOW
