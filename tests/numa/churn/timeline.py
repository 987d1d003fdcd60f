"""Virtual time: what happens when, and streams that deliver late but in order."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable


class Clock:
    """Virtual time, and what is to happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], object]]] = []

    def __call__(self) -> float:
        return self.now

    def at(self, when: float, act: Callable[[], object]) -> None:
        """Do something at a time, or now if that has passed."""
        heapq.heappush(self._due, (max(when, self.now), next(self._order), act))

    def step(self, end: float) -> bool:
        """Go on to the next time at which something happens, and let it; False after the end."""
        if not self._due or self._due[0][0] > end:
            return False
        self.now = self._due[0][0]
        while self._due and self._due[0][0] <= self.now:
            heapq.heappop(self._due)[2]()
        return True


class Stream:
    """Delivers in order, each thing a little later than it happened."""

    def __init__(self, clock: Clock, rng: random.Random, lag: tuple[float, float]) -> None:
        self._clock = clock
        self._rng = rng
        self._lag = lag
        self._last = 0.0

    def send(self, deliver: Callable[[], None]) -> float:
        """Deliver something; answers when."""
        due = max(self._last, self._clock.now + self._rng.uniform(*self._lag))
        self._last = due
        self._clock.at(due, deliver)
        return due

    def stall(self, seconds: float) -> None:
        """Deliver nothing for a while, as after a broken connection."""
        self._last = max(self._last, self._clock.now + seconds)
