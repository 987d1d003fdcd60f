"""The scheduling queue for pods that are tried together, and wait together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from scheduler.model.events import Event
from scheduler.queueing.once_more import OnceMoreQueue
from scheduler.queueing.tiers import QueuedPod, Tier
from scheduler.slices import checkpoint


class GroupQueue(OnceMoreQueue):
    """A scheduling queue that can give out and take back several pods as one."""

    _deferred: list[tuple[Event, str, int | None]] | None = None
    """Events that wake nobody yet."""

    @contextmanager
    def events_deferred(self) -> Iterator[None]:
        """Have events that come within the block wake pods at its end.

        Pods that are tried together hold nodes that they may have to give back: whoever is asked
        meanwhile whether an event is of use would count these as taken.
        """
        deferred: list[tuple[Event, str, int | None]] = []
        self._deferred = deferred
        try:
            yield
        finally:
            self._deferred = None
            for event, exclude, up_to in deferred:
                checkpoint()
                self.on_event(event, exclude, up_to)

    def on_event(self, event: Event, exclude: str = "", up_to: int | None = None) -> None:
        """Wake the pods that an event may have cured; see `SchedulingQueue.on_event`."""
        if self._deferred is not None:
            self._deferred.append((event, exclude, up_to))
        else:
            super().on_event(event, exclude, up_to)

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
        taken = []
        for queued in found:
            checkpoint()
            if self._places.get(queued.key) is queued:  # else it has left since
                self._take_off(queued)
                taken.append(queued)
        return taken

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
            checkpoint()
            self.requeue_rejected(queued, unschedulable, pending, message, cohort)
        until = max([self._clock() + pause, *(queued.backoff_until for queued in members)])
        for queued in members:
            queued.backoff_until = until
            if queued.tier is Tier.BACKOFF:
                self._places.reorder(queued)
