"""What can be seen of the queue without touching it."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.bounded import Usage
from scheduler.queueing.inflight import InFlight
from scheduler.queueing.listing import QueueEntry, entries, entry, first_entries
from scheduler.queueing.places import Places
from scheduler.queueing.tiers import QueuedPod, Tier
from scheduler.queueing.waiting import Waiters


class Glances:
    """The looks at a queue; nothing here changes it. O(1) unless said otherwise."""

    def __init__(
        self,
        places: Places,
        waiters: Waiters,
        in_flight: InFlight,
        clock: Callable[[], float],
        max_unschedulable: float,
    ) -> None:
        self._places = places
        self._waiters = waiters
        self._in_flight = in_flight
        self._clock = clock
        self._max_unschedulable = max_unschedulable

    def __len__(self) -> int:
        """How many pods wait; those in flight do not."""
        return len(self._places)

    @property
    def active(self) -> int:
        """How many pods are ready or may be, without those that back off."""
        return self._places.count(Tier.ACTIVE) + self._waiters.marked

    def peek(self) -> QueuedPod | None:
        """The next pod that is ready, which stays where it is."""
        return self._places.head(Tier.ACTIVE)

    def expects(self, uid: str) -> bool:
        """Whether a pod is in flight, and not deleted as far as is known."""
        flight = self._in_flight.get(uid)
        return flight is not None and not flight.deleted

    def knows(self, key: str, uid: str) -> bool:
        """Whether a pod waits, or is in flight."""
        queued = self._places.get(key)
        return uid in self._in_flight or (queued is not None and queued.info.uid == uid)

    def wants(self, uid: str) -> bool:
        """Whether a pod is in flight, and neither deleted nor being deleted."""
        flight = self._in_flight.get(uid)
        return flight is not None and not flight.deleted and not flight.newest.pod.deleting

    def counts(self) -> dict[str, int]:
        """The number of pods in each tier, and of those ``in-flight``."""
        counts = {tier.value: self._places.count(tier) for tier in Tier}
        return counts | {"in-flight": len(self._in_flight)}

    def entry(self, key: str, uid: str) -> QueueEntry | None:
        """A pod that waits; None if it does not, or is in flight."""
        queued = self._places.get(key)
        if queued is None or queued.info.uid != uid:
            return None
        return entry(queued, self._places, self._clock(), self._max_unschedulable)

    def now(self) -> float:
        """The moment, by the queue's clock."""
        return self._clock()

    def first(self, limit: int) -> list[QueueEntry]:
        """The first waiting pods, tier by tier, best first; O(n), and gives the loop back."""
        return first_entries(self._places, self._clock(), self._max_unschedulable, limit)

    def usage(self) -> dict[str, Usage]:
        """How much is kept for pods in flight."""
        return {"inflight_events": self._in_flight.usage()}

    def snapshot(self) -> list[QueueEntry]:
        """All waiting pods, tier by tier, best first; O(n log n)."""
        return entries(self._places, self._clock(), self._max_unschedulable)
