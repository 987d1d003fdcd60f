"""The scheduling queue for pods that are tried together, and wait together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from scheduler.queueing.once_more import OnceMoreQueue
from scheduler.queueing.tiers import QueuedPod, Tier


class GroupQueue(OnceMoreQueue):
    """A scheduling queue that can give out and take back several pods as one."""

    def pop_together(self, keys: Iterable[str], profile: str) -> list[QueuedPod]:
        """Those of these pods that wait in a profile, in the order of the queue, now in flight.

        Parked ones and those that back off are among them, gated ones are not. Like every pod that
        was popped, each must be given back. O(n log n) in the number of pods popped.
        """
        found = [
            queued
            for key in keys
            if (queued := self._places.get(key)) is not None
            and queued.tier is not Tier.GATED
            and queued.profile == profile
        ]
        found.sort(key=self._places.sort_key)
        for queued in found:
            self._take_off(queued)
        return found

    def requeue_together(
        self,
        members: Sequence[QueuedPod],
        unschedulable_plugins: Iterable[str],
        pending_plugins: Iterable[str],
        message: str,
        cohort: Hashable,
        pause: float = 0.0,
    ) -> None:
        """Plugins rejected pods as one: they are parked as a cohort and back off alike.

        An event that may cure them sends one of them, who is to take the others along. ``pause`` is
        the least number of seconds that they then back off.
        """
        unschedulable, pending = frozenset(unschedulable_plugins), frozenset(pending_plugins)
        for queued in members:
            self.requeue_rejected(queued, unschedulable, pending, message, cohort)
        until = max(self._clock() + pause, *(queued.backoff_until for queued in members))
        for queued in members:
            queued.backoff_until = until
            if queued.tier is Tier.BACKOFF:
                self._places.reorder(queued)
