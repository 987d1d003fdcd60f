"""The latest scheduling decisions, kept in memory for ``/api/v1/decisions``."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Literal

import msgspec

from scheduler import machine
from scheduler.bounded import ENTRY_BYTES, Usage
from scheduler.observe.verdict_history import VerdictHistory

Result = Literal["scheduled", "unschedulable", "error", "refused"]
"""`refused`: by the kubelet, after the pod was bound."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one attempt to schedule one pod."""

    seq: int
    """Counts decisions of this process from 1; never reused."""
    time: float
    """When it was made, in seconds since the epoch."""
    pod: str
    """``namespace/name``."""
    result: Result
    node: str = ""
    """The chosen node; empty when there is none."""
    message: str = ""
    """Why not, as in the pod's condition; empty if scheduled."""
    score: int | None = None
    """The chosen node's total; None when no node was scored."""
    feasible: int = 0
    """Nodes that passed all filters."""
    evaluated: int = 0
    """Nodes that were evaluated."""
    duration: float = 0.0
    """Seconds from pop to the result."""
    plugins: tuple[str, ...] = ()
    """Plugins that rejected at least one node, or the pod itself."""
    model: str = ""
    """The cost model that chose the node for a whole backlog; empty: the pod was placed alone."""


class Decisions:
    """A ring of the last `capacity` decisions; the oldest goes first.

    `record` is O(1). Messages are as long as their writers allow (`FailureHandler`: 4 KiB).
    Belongs to the event loop's thread.
    """

    def __init__(self, capacity: int = 1024, clock: Callable[[], float] = machine.wall) -> None:
        self._ring: deque[Decision] = deque()
        self._capacity = capacity
        self._text = 0
        self._clock = clock
        self._seq = 0
        self.scheduled = 0
        """How many of all decisions gave a pod a node."""
        self.history = VerdictHistory(clock=clock)
        """How the verdict on each pod changed; added to where a failure is recorded."""

    def record(
        self,
        pod: str,
        result: Result,
        *,
        node: str = "",
        message: str = "",
        score: int | None = None,
        feasible: int = 0,
        evaluated: int = 0,
        duration: float = 0.0,
        plugins: tuple[str, ...] = (),
        model: str = "",
    ) -> Decision:
        """Number, date and keep a decision, and return it."""
        self._seq += 1
        self.scheduled += result == "scheduled"
        decision = Decision(
            seq=self._seq,
            time=self._clock(),
            pod=pod,
            result=result,
            node=node,
            message=message,
            score=score,
            feasible=feasible,
            evaluated=evaluated,
            duration=duration,
            plugins=plugins,
            model=model,
        )
        self._ring.append(decision)
        self._text += len(message)
        if len(self._ring) > self._capacity:
            self._text -= len(self._ring.popleft().message)
        return decision

    def usage(self) -> Usage:
        """How much is kept."""
        return Usage(len(self._ring), 2 * ENTRY_BYTES * len(self._ring) + self._text)

    def latest(self, count: int, pod: str = "") -> list[Decision]:
        """Return the last `count` decisions, newest first; all, or those about one pod."""
        about = (each for each in reversed(self._ring) if pod in ("", each.pod))
        return list(islice(about, max(count, 0)))

    def since(self, seq: int, most: int) -> list[Decision]:
        """Return the decisions after number `seq`, oldest first; the last `most` of them."""
        count = min(most, self._seq - seq)
        return list(islice(reversed(self._ring), max(count, 0)))[::-1]

    @property
    def made(self) -> int:
        """How many decisions there were: the number of the last."""
        return self._seq

    def __len__(self) -> int:
        return len(self._ring)
