"""When to stop calling somebody who does not answer, and when to try again.

::

                failures in a row
     ┌────────┐ ────────────────► ┌──────┐   time is up    ┌───────────┐
     │ closed │                   │ open │ ──────────────► │ half-open │ one call tries
     └────────┘ ◄──┐              └──────┘ ◄────────────── └─────┬─────┘
                   └────────────────── it answers ───────────────┘ it fails: open again
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable


class State(enum.IntEnum):
    """Numbers as ``equipoise_webhook_breaker_state`` shows them."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """One webhook's circuit breaker. ``admit`` before a call, then ``succeeded`` or ``failed``.

    A call that is given up without an outcome must say so by ``abandoned``: it may have been the
    one that tries.
    """

    def __init__(
        self,
        failures: int,
        open_for: float,
        *,
        show: Callable[[float], None] = lambda state: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = failures
        self._open_for = open_for
        self._show = show
        self._clock = clock
        self._failed = 0
        self._open_until = 0.0
        self._probing = False
        self._state = State.CLOSED
        show(State.CLOSED)

    @property
    def state(self) -> State:
        """What it is now; an open one may be due to be tried."""
        return self._state

    def admit(self) -> bool:
        """Whether a call may be made now."""
        if self._state is State.CLOSED:
            return True
        if self._probing or self._clock() < self._open_until:
            return False
        self._probing = True
        self._become(State.HALF_OPEN)
        return True

    def succeeded(self) -> None:
        """A call was answered."""
        self._failed = 0
        self._probing = False
        self._become(State.CLOSED)

    def failed(self) -> None:
        """A call was not answered, or not with sense."""
        self._failed += 1
        if self._probing or self._failed >= self._limit:
            self._probing = False
            self._open_until = self._clock() + self._open_for
            self._become(State.OPEN)

    def abandoned(self) -> None:
        """A call ended without telling anything about the other side."""
        if self._probing:
            self._probing = False
            self._become(State.OPEN)

    def _become(self, state: State) -> None:
        if state is not self._state:
            self._state = state
            self._show(state)
