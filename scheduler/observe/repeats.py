"""Suppresses messages that repeat, so that logs and events show what is new."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice, takewhile
from typing import Any

from scheduler.bounded import ENTRY_BYTES, Usage

SECONDS = 60.0
CAPACITY = 65_536
MAX_FAULTS = 1024
_TOGETHER = 1.0
"""So many seconds apart, messages count as told at the same time."""
_MOST_SHARED = 256
_FORGOTTEN_AT_ONCE = 2048


class Repeats:
    """The last message about each subject, remembered for a minute.

    O(1) in the mean, and bounded: beyond ``capacity`` subjects a minute the first are forgotten,
    and their messages may then be repeated.
    """

    def __init__(
        self, clock: Callable[[], float], seconds: float = SECONDS, capacity: int = CAPACITY
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._capacity = capacity
        self._said: dict[str, tuple[float, int]] = {}
        """When a subject had its last message, and the hash of that, which may be long.

        The oldest come first, since clocks do not go back. An ordered dictionary would find the
        first one at once, and take a hundred bytes more for each; so many are forgotten together.
        """
        self._forget_at = 0.0
        self._latest: dict[int, tuple[float, int]] = {}
        """What subjects share that had the same message within a second: in floods, nearly all."""

    def __len__(self) -> int:
        return len(self._said)

    def tables(self) -> tuple[dict[Any, Any], ...]:
        """The table of all subjects."""
        return (self._said,)

    def usage(self) -> Usage:
        """How much is remembered."""
        return Usage(len(self._said), 2 * ENTRY_BYTES * len(self._said))

    def news(self, subject: str, *words: str) -> bool:
        """Whether to report this: the last message was another one, or is a minute old."""
        now = self._clock()
        if now >= self._forget_at:
            self._forget(now)
        last, said = self._said.get(subject), hash(words)
        if last is not None and last[1] == said and now - last[0] < self._seconds:
            return False
        self._said.pop(subject, None)
        self._said[subject] = self._shared(now, said)
        if len(self._said) > self._capacity:
            for first in list(islice(self._said, max(1, self._capacity // 64))):
                del self._said[first]
        return True

    def _shared(self, now: float, said: int) -> tuple[float, int]:
        known = self._latest.get(said)
        if known is None or now - known[0] >= _TOGETHER:
            if len(self._latest) >= _MOST_SHARED:
                self._latest.clear()
            known = self._latest[said] = (now, said)
        return known

    def drop(self, subject: str, /) -> None:
        """The subject is gone: nothing is said about it any more."""
        self._said.pop(subject, None)

    def _forget(self, now: float) -> None:
        """Drop what is old, some thousands at most."""
        some = islice(self._said.items(), _FORGOTTEN_AT_ONCE)
        old = list(takewhile(lambda each: now - each[1][0] >= self._seconds, some))
        for subject, _ in old:
            del self._said[subject]
        self._forget_at = now if len(old) == _FORGOTTEN_AT_ONCE else now + _TOGETHER


class SharedFaults:
    """Logs a fault that many pods run into once a minute, and counts them meanwhile.

    Faults are the same if their words are, apart from the names of the pod: an API server that
    refuses everything names in each refusal what it refuses.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._repeats = Repeats(clock, capacity=MAX_FAULTS)
        self._held_back: OrderedDict[str, int] = OrderedDict()

    def news(self, words: str, key: str, uid: str) -> int | None:
        """How many others had the fault since it was last told; None if it is not to be told now.

        ``key`` is the pod's ``namespace/name``. Costs a few passes over the words.
        """
        fault = _anonymous(words, key, uid)
        if self._repeats.news(fault):
            return self._held_back.pop(fault, 0)
        self._held_back[fault] = self._held_back.get(fault, 0) + 1
        if len(self._held_back) > MAX_FAULTS:
            self._held_back.popitem(last=False)
        return None


def _anonymous(words: str, key: str, uid: str) -> str:
    namespace, _, name = key.partition("/")
    for called in (key, uid, name, namespace):
        if called:
            words = words.replace(called, "*")
    return words
