"""The order of writes when more wait than may be in flight at once."""

import asyncio

from scheduler.fairness import Shares, Turns

Turn = asyncio.Future[None]


class Slots:
    """Slots for writes, shared by owner (a namespace): owners take turns, and none holds all.

    One owner alone has up to `each` urgent writes at once; a third more is reserved for others, so
    that requests of one namespace that hang do not block others. `patient` writes take
    what urgent ones leave free, up to `most` of one owner, but `least` are always let through, and
    one of each owner. So no owner starves, and bindings wait for little besides other bindings.
    """

    def __init__(self, each: int, *, least: int, most: int) -> None:
        self._least = least
        self._urgent = Shares(each)
        self._patient = Shares(most)
        self._urgent_waiting: Turns[Turn] = Turns()
        self._patient_waiting: Turns[Turn] = Turns()

    async def take(self, owner: str, *, patient: bool = False) -> None:
        """Return when it is our turn; `release` must follow. Cancelled, nothing is held."""
        waiting = self._patient_waiting if patient else self._urgent_waiting
        may = self._may_be_patient if patient else self._urgent.may_take
        if not waiting.waits(owner) and may(owner):
            (self._patient if patient else self._urgent).take(owner)
            return
        turn: Turn = asyncio.get_running_loop().create_future()
        waiting.add(owner, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had just become our turn
                self.release(owner, patient=patient)
            else:
                waiting.remove(owner, turn)
            raise

    def release(self, owner: str, *, patient: bool = False) -> None:
        """Let the next one go."""
        (self._patient if patient else self._urgent).give_back(owner)
        while found := self._urgent_waiting.next(self._urgent.may_take):
            self._grant(found, self._urgent)
        while found := self._patient_waiting.next(self._may_be_patient):
            self._grant(found, self._patient)

    @staticmethod
    def _grant(found: tuple[str, Turn], shares: Shares) -> None:
        owner, turn = found
        if not turn.done():
            turn.set_result(None)
            shares.take(owner)

    def _may_be_patient(self, owner: str) -> bool:
        left_over = self._urgent.held + self._patient.held < self._urgent.each
        if not left_over and self._patient.held >= self._least and self._patient.of(owner):
            return False
        return self._patient.may_take(owner)
