"""Where each waiting pod stands: exactly one tier per pod, and an index of who rejected it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Metrics
from scheduler.queueing.heap import KeyedHeap

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
    """Failed by a fault and waiting for its time; never goes early, to spare what is broken."""
    UNSCHEDULABLE = "unschedulable"
    """Rejected, and nothing has happened since that could cure it."""
    GATED = "gated"
    """Not to be tried yet, says a PreEnqueue plugin."""

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
    initial_attempt: float | None = None
    """When it first could have been tried: time behind gates does not count as scheduling time."""
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    """Rejectors that only wait for something: their cure spares the pod its back-off."""
    gating_plugin: str = ""
    backoff_until: float = 0.0
    was_flushed: bool = False
    """Whether a timeout brought it to this attempt; success then means that an event is missing."""
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
    def rejectors(self) -> set[str]:
        """Every plugin that said no in the last attempt or at the gate."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def failures(self) -> int:
        """The number of failures that the back-off counts."""
        return self.consecutive_errors or self.unschedulable_count


class Tiers:
    """All waiting pods. Moves are O(log n); keeps ``scheduler_pending_pods`` true."""

    def __init__(self, sort_key: SortKey, metrics: Metrics) -> None:
        self._heaps: dict[Tier, KeyedHeap[QueuedPod]] = {
            Tier.ACTIVE: KeyedHeap(sort_key),
            Tier.BACKOFF: KeyedHeap(lambda queued: (queued.backoff_until, sort_key(queued))),
            Tier.ERROR_BACKOFF: KeyedHeap(lambda queued: queued.backoff_until),
            Tier.UNSCHEDULABLE: KeyedHeap(lambda queued: queued.timestamp),
            Tier.GATED: KeyedHeap(lambda queued: queued.timestamp),
        }
        self._pending = {tier: metrics.pending_pods.labels(tier.pending_label) for tier in Tier}
        self._pods: dict[str, QueuedPod] = {}
        self._rejected: dict[Listener, dict[str, QueuedPod]] = {}
        self._listeners: dict[str, tuple[Listener, ...]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        """All pods, tier by tier, each tier best first."""
        for heap in self._heaps.values():
            yield from heap

    def get(self, key: str) -> QueuedPod | None:
        """The waiting pod of this name."""
        return self._pods.get(key)

    def count(self, tier: Tier) -> int:
        """How many pods wait in a tier."""
        return len(self._heaps[tier])

    def head(self, tier: Tier) -> QueuedPod | None:
        """The pod that leaves a tier next."""
        return self._heaps[tier].peek()

    def put(self, queued: QueuedPod, tier: Tier) -> None:
        """Move a pod to a tier from wherever it is."""
        self.remove(queued)
        queued.tier = tier
        self._pods[queued.key] = queued
        self._heaps[tier].put(queued.key, queued)
        self._pending[tier].inc()
        self._listen(queued)

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod out of the queue; nothing happens if it is not there."""
        if queued.tier is None:
            return
        self._heaps[queued.tier].remove(queued.key)
        self._pending[queued.tier].dec()
        del self._pods[queued.key]
        for listener in self._listeners.pop(queued.key, ()):
            pods = self._rejected[listener]
            del pods[queued.key]
            if not pods:
                del self._rejected[listener]
        queued.tier = None

    def reorder(self, queued: QueuedPod) -> None:
        """Put a waiting pod to its right turn after its priority may have changed."""
        if queued.tier is not None:
            self._heaps[queued.tier].put(queued.key, queued)

    def rejected_by(self, listener: Listener) -> Mapping[str, QueuedPod]:
        """Pods that this plugin might let go: the gated by their gate, others by any rejector."""
        return self._rejected.get(listener, {})

    def _listen(self, queued: QueuedPod) -> None:
        if queued.tier is Tier.UNSCHEDULABLE:
            plugins = queued.rejectors
        elif queued.tier is Tier.GATED:
            plugins = {queued.gating_plugin}
        else:
            return
        listeners = tuple((queued.profile, plugin) for plugin in plugins)
        self._listeners[queued.key] = listeners
        for listener in listeners:
            self._rejected.setdefault(listener, {})[queued.key] = queued
