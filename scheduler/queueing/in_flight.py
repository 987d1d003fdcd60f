"""Pods in flight, and the events that happen while they are being scheduled.

A pod that is rejected was judged by a state that may be older than the last events. So the queue
keeps events while any pod is in flight, and a pod that is requeued replays those that came after it
was popped::

      pop(a)  e1   pop(b)  e2   e3   done(a)
    ────●─────┼──────●─────┼────┼──────●──────►
        a replays e1 e2 e3
                     b replays e2 e3   (e1 is dropped as soon as a is done)
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice

from scheduler.bounded import MEBIBYTE, Usage
from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Children, Metrics

MAX_EVENTS = 512
"""How many events a pod may replay: each costs the call of a hint when the pod is requeued."""

MAX_BYTES = 64 * MEBIBYTE
"""Of old versions of objects that only events keep, in JSON."""

_POD_POPPED = "PodPopped"


@dataclass(slots=True, eq=False)
class Flight:
    """One pod that was popped and is neither requeued nor done."""

    seen: PodInfo
    """The version that the attempt works with."""
    newest: PodInfo
    start: int
    """The number of the first event after the pop."""
    deleted: bool = False
    activated: bool = False
    """Whether `SchedulingQueue.activate` was called with the pod."""


class InFlightPods:
    """The pods in flight and the events since the oldest of them was popped.

    Recording is O(1). Memory is bounded: of more than ``limit`` events, or ``max_bytes`` of old
    versions of objects, the oldest are dropped, and `missed` returns None for the pods that would
    have needed them.
    """

    def __init__(
        self, metrics: Metrics, limit: int = MAX_EVENTS, max_bytes: int = MAX_BYTES
    ) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._evictions = 0
        # Ordered by pop, hence by start; unlike a dict it finds its first entry in O(1) always.
        self._flights: OrderedDict[str, Flight] = OrderedDict()
        self._by_key: dict[str, Flight] = {}
        """The last one that began, of each name."""
        self.get: Callable[[str], Flight | None] = self._flights.get
        """The flight of the pod with a uid."""
        self._events: deque[Event] = deque()
        self._first = 0
        self._gauges = Children(metrics.inflight_events)

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def begin(self, info: PodInfo) -> None:
        """A pod was popped: keep events from now on."""
        flight = Flight(info, info, self.position)
        self._flights[info.uid] = self._by_key[info.key] = flight
        self._gauges[_POD_POPPED,].inc()

    def end(self, uid: str) -> None:
        """A pod is requeued or done; idempotent. Drops the events that no other pod needs."""
        flight = self._flights.pop(uid, None)
        if flight is None:
            return
        key = flight.seen.key
        if self._by_key.get(key) is flight:
            del self._by_key[key]
        self._gauges[_POD_POPPED,].dec()
        if not self._events:
            return
        oldest = next(iter(self._flights.values()), None)
        while self._events and (oldest is None or self._first < oldest.start):
            self._drop_first()

    def record(self, event: Event) -> None:
        """Keep an event for the pods in flight."""
        if not self._flights:
            return
        self._events.append(event)
        self._bytes += event.old_bytes
        self._gauges[event.label,].inc()
        while len(self._events) > self._limit or self._bytes > self._max_bytes:
            self._drop_first()
            self._evictions += 1

    @property
    def position(self) -> int:
        """The number of the next event."""
        return self._first + len(self._events)

    def usage(self) -> Usage:
        """The memory that the events use."""
        return Usage(len(self._events), self._bytes, self._evictions)

    def activate(self, keys: Collection[str]) -> None:
        """Have these pods back off, and not wait for an event, if their attempt is rejected."""
        for key in keys:
            flight = self._by_key.get(key)
            if flight is not None:
                flight.activated = True

    def missed(self, flight: Flight) -> list[Event] | None:
        """The events since the pod was popped, oldest first; None if some were dropped."""
        if flight.start < self._first:
            return None
        recorded = islice(self._events, flight.start - self._first, None)
        return [event for event in recorded if event.exclude != flight.seen.uid]

    def _drop_first(self) -> None:
        event = self._events.popleft()
        self._bytes -= event.old_bytes
        self._first += 1
        self._gauges[event.label,].dec()
