"""The scheduling queue for pods that are looked at once more though nothing has cured them."""

from __future__ import annotations

from scheduler.queueing.own_changes import own_change
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.queueing.tiers import QueuedPod, Tier
from scheduler.slices import checkpoint


class OnceMoreQueue(SchedulingQueue):
    """A scheduling queue whose gates can be asked again, and whose attempts can be renewed."""

    def retry_gated(self) -> None:
        """Ask once more whether pods may enter that were kept out; O(n log n) in their number."""
        for key in self._places.gated():
            queued = self._places.get(key)
            if queued is not None and queued.tier is Tier.GATED:
                self._force(queued)
            checkpoint()

    def renew_in_flight(self, queued: QueuedPod) -> bool:
        """Have an attempt that is made again judge the newest version of its pod.

        Returns whether that differs from the one before in more than its conditions.
        """
        flight = self._in_flight.get(queued.info.uid)
        if flight is None or flight.newest is queued.info:
            return False
        change = own_change(flight.seen, flight.newest)
        queued.info = flight.seen = flight.newest
        return change is not None
