"""Bindings that were answered and that the watch has not confirmed; see ``confirmation``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from scheduler.framework.cycle import Bookings
from scheduler.framework.runtime import Framework
from scheduler.pipeline.attempt import Attempt


class Expected(msgspec.Struct, gc=False):
    """A binding that was answered: no more than it takes to undo it, as there may be many."""

    uid: str
    namespace: str
    framework: Framework
    bookings: Bookings | None
    since: float
    due: float
    """When to read the pod (again)."""
    reading: bool = False


class Unconfirmed:
    """All of them, the oldest first. Every step is O(1), but for looking at those that are due."""

    def __init__(self, within: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._within = within
        self._clock = clock
        self._expected: dict[str, Expected] = {}

    def __len__(self) -> int:
        return len(self._expected)

    def __contains__(self, uid: str) -> bool:
        return uid in self._expected

    def expect(self, attempt: Attempt) -> None:
        """A binding was answered, and the watch has not shown it yet."""
        now, pod = self._clock(), attempt.cycle.pod
        self._expected[pod.uid] = Expected(
            pod.uid,
            pod.pod.metadata.namespace,
            attempt.framework,
            attempt.cycle.bookings(),
            now,
            now + self._within,
        )

    def settled(self, uid: str) -> None:
        """It is known what became of a pod; fine if it was before."""
        self._expected.pop(uid, None)

    def get(self, uid: str) -> Expected | None:
        """What is expected of a pod."""
        return self._expected.get(uid)

    def due(self) -> Iterator[Expected]:
        """Those that are to be read now."""
        now = self._clock()
        for each in self._expected.values():
            if each.since + self._within > now:
                return
            if each.due <= now and not each.reading:
                yield each

    def postpone(self, each: Expected) -> None:
        """It could not be read: again after a while."""
        each.due = self._clock() + self._within

    def oldest(self) -> float:
        """For how long the oldest has waited, in seconds."""
        first = next(iter(self._expected.values()), None)
        return 0.0 if first is None else self._clock() - first.since
