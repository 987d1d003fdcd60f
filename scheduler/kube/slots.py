"""Whose turn it is to write, when more is to be written than may be in flight at once."""

import asyncio
from collections import deque


class Slots:
    """At most `total` urgent writes at once, first come first served; patient ones get the rest.

    `patient` writes take what urgent ones leave free, up to `most` of them, but `least` are always
    let through: so nobody starves, and whoever waits for a pod to be bound waits for little else.
    """

    def __init__(self, total: int, *, least: int, most: int) -> None:
        self._total = total
        self._least = least
        self._most = most
        self._urgent = 0
        self._patient = 0
        self._urgent_waiting: deque[asyncio.Future[None]] = deque()
        self._patient_waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, *, patient: bool = False) -> None:
        """Return when it is our turn; `release` must follow. Cancelled, nothing is held."""
        waiting = self._patient_waiting if patient else self._urgent_waiting
        if not waiting and self._free(patient):
            self._count(patient, 1)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had just become our turn
                self.release(patient=patient)
            elif turn in waiting:
                waiting.remove(turn)
            raise

    def release(self, *, patient: bool = False) -> None:
        """Let the next one go."""
        self._count(patient, -1)
        while self._urgent_waiting and self._free(patient=False):
            self._grant(self._urgent_waiting.popleft(), patient=False)
        while self._patient_waiting and self._free(patient=True):
            self._grant(self._patient_waiting.popleft(), patient=True)

    def _grant(self, turn: "asyncio.Future[None]", *, patient: bool) -> None:
        if not turn.done():
            turn.set_result(None)
            self._count(patient, 1)

    def _free(self, patient: bool) -> bool:
        if not patient:
            return self._urgent < self._total
        left_over = self._urgent + self._patient < self._total and self._patient < self._most
        return left_over or self._patient < self._least

    def _count(self, patient: bool, change: int) -> None:
        if patient:
            self._patient += change
        else:
            self._urgent += change
