"""How the verdict on each pod changed over its attempts, for ``/api/v1/explain``.

Only attempts that fail are recorded, and the one that succeeds after them: a pod that is bound at
its first attempt costs nothing here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec

from scheduler import machine
from scheduler.bounded import ENTRY_BYTES, MEBIBYTE, Recent, Usage

MOST_VERDICTS = 16
"""Of one pod; the oldest go first."""
MAX_BYTES = 8 * MEBIBYTE
"""Of all pods; those go first whose last attempt is longest ago."""


class Verdict(msgspec.Struct, gc=False):
    """What came of attempts at one pod that ended alike, one after the other."""

    time: float
    """When the first of them ended, in seconds since the epoch."""
    until: float
    """When the last of them ended."""
    message: str
    """Why there is no node, in the words of the pod's condition; empty if there is one."""
    node: str = ""
    """The node it was bound to; empty if there is none."""
    count: int = 1
    """How many attempts ended so."""


Verdicts = tuple[Verdict, ...]


def _size(uid: str, kept: Verdict | Verdicts) -> int:
    size = len(uid)
    for each in (kept,) if isinstance(kept, Verdict) else kept:
        size += ENTRY_BYTES + sys.getsizeof(each.message)
    return size


class VerdictHistory:
    """The last verdicts on each pod, by uid. All operations are O(`MOST_VERDICTS`).

    Belongs to the event loop's thread. What is kept of a pod goes with the pod (`Memories`).
    """

    def __init__(self, limit: int = MAX_BYTES, clock: Callable[[], float] = machine.wall) -> None:
        self.kept: Recent[str, Verdict | Verdicts] = Recent(limit, _size)
        """A single verdict, as most pods have, is not in a tuple: there are thousands."""
        self._clock = clock

    def record(self, uid: str, message: str, node: str = "") -> None:
        """Keep what came of an attempt; one that ended like the one before is only counted."""
        kept = self.kept.find(uid)
        now = self._clock()
        if kept is None:
            self.kept.put(uid, Verdict(now, now, message, node))
            return
        known = (kept,) if isinstance(kept, Verdict) else kept
        if known[-1].message == message and known[-1].node == node:
            known[-1].until = now
            known[-1].count += 1
        else:
            verdict = Verdict(now, now, message, node)
            self.kept.put(uid, (*known[1 - MOST_VERDICTS :], verdict))

    def of(self, uid: str) -> Verdicts:
        """The verdicts on a pod, the oldest first."""
        kept = self.kept.peek(uid) or ()
        return (kept,) if isinstance(kept, Verdict) else kept

    def usage(self) -> Usage:
        """How much is kept."""
        return self.kept.usage()
