"""Bindings under way, by namespace, and which namespaces are slow.

A namespace is slow while a request for one of its bindings is older than `SLOW_SECONDS`. Its
bindings do not count towards the limit, so that others continue; in return it may have no
more than `SLOW_LIMIT` before its pods wait in the queue. Waiting for a turn to write is not slow.

All of this is O(1) for each binding.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler import machine
from scheduler.fairness import Shares

SLOW_SECONDS = 1.0
SLOW_LIMIT = 128


class _NamespaceBindings(msgspec.Struct):
    """The bindings of one namespace."""

    binding: int = 0
    """Those of them that wait neither for permission nor for volumes."""
    late: int = 0


class OpenBindings:
    """Counts of bindings. One namespace alone may have ``total``, whatever they wait for."""

    def __init__(self, total: int, clock: Callable[[], float] = machine.monotonic) -> None:
        self.shares = Shares(total)
        """What each namespace has."""
        self._clock = clock
        self.binding = 0
        """Those that wait neither for permission nor for volumes."""
        self._excused = 0
        """How many of `binding` are in slow namespaces."""
        self._by_namespace: dict[str, _NamespaceBindings] = {}
        self._sent: dict[str, tuple[float, str]] = {}
        """Since when a request is under way, and the namespace: by uid, the oldest first."""
        self._late: dict[str, tuple[float, str]] = {}
        """The same of those that are late."""

    def begin(self, namespace: str) -> None:
        """A pod of a namespace has a node reserved, and its binding begins."""
        bindings = self._by_namespace.get(namespace)
        if bindings is None:
            bindings = self._by_namespace[namespace] = _NamespaceBindings()
        self.shares.take(namespace)
        bindings.binding += 1
        self.binding += 1
        if bindings.late:
            self._excused += 1

    def prepare(self, namespace: str) -> None:
        """One of them waits for permission, or for volumes."""
        bindings = self._by_namespace[namespace]
        bindings.binding -= 1
        self.binding -= 1
        if bindings.late:
            self._excused -= 1

    def prepared(self, namespace: str) -> None:
        """One of them waits no longer."""
        bindings = self._by_namespace[namespace]
        bindings.binding += 1
        self.binding += 1
        if bindings.late:
            self._excused += 1

    def sent(self, uid: str, namespace: str) -> None:
        """A request goes out; the first of each pod counts."""
        if uid not in self._sent and uid not in self._late:
            self._sent[uid] = (self._clock(), namespace)

    def end(self, uid: str, namespace: str) -> None:
        """One has ended."""
        bindings = self._by_namespace[namespace]
        if self._sent.pop(uid, None) is None and self._late.pop(uid, None) is not None:
            bindings.late -= 1
            if not bindings.late:
                self._excused -= bindings.binding
        bindings.binding -= 1
        self.binding -= 1
        if bindings.late:
            self._excused -= 1
        if not self.shares.give_back(namespace):
            del self._by_namespace[namespace]

    def counted(self) -> int:
        """How many count towards what may be under way."""
        self._find_late()
        return self.binding - self._excused

    def is_full(self, namespace: str) -> bool:
        """Whether a namespace has as many bindings as it may have now."""
        bindings = self._by_namespace.get(namespace)
        if bindings is None:
            return False
        if bindings.binding < SLOW_LIMIT and 4 * self.shares.held < self.shares.size:
            return False  # the ordinary case: there is plenty
        self._find_late()
        if bindings.late and bindings.binding >= SLOW_LIMIT:
            return True
        return not self.shares.may_take(namespace)

    def oldest(self) -> float:
        """For how long the oldest request has been under way, in seconds."""
        first = next(iter(self._late.values()), None) or next(iter(self._sent.values()), None)
        return 0.0 if first is None else self._clock() - first[0]

    def _find_late(self) -> None:
        """Move requests that have become late; each is moved once."""
        before = self._clock() - SLOW_SECONDS
        while self._sent:
            uid = next(iter(self._sent))
            if self._sent[uid][0] > before:
                return
            self._late[uid] = self._sent.pop(uid)
            namespace = self._late[uid][1]
            bindings = self._by_namespace[namespace]
            bindings.late += 1
            if bindings.late == 1:
                self._excused += bindings.binding
