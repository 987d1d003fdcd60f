"""Waiters for events: cohorts and gated pods, and which of them an event may have cured.

Waiters are rows of the columns of the plugins that rejected them (`columns`), so a usual event
costs a few calls, however many pods wait. A Python call for each waiter is needed where a column
cannot decide, and for the hints of plugins without a column. The first `ASKED_AT_ONCE` such calls
are made at once; the rest is deferred and done in small portions (`Waiters.ask`). When more than
`MOST_PUT_OFF` are deferred, the waiters in question count as cured: an attempt in vain costs less
than a forgotten pod.

A waiter that an event may have cured is *marked* until the queue takes it (`Waiters.take`), in the
order of the queue. One event may concern thousands of waiters, and the next event the same
thousands. So equal marks are the bits of one integer, set and cleared by a few operations whatever
their number; only marks with a detail of their own are objects.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Metrics
from scheduler.queueing.columns import (
    ColumnFactory,
    HintFunction,
    Numbers,
    WaitingColumn,
    bits_of,
    members,
)
from scheduler.queueing.hints import HintRegistration, HintTable, PluginOfProfile, Requeue
from scheduler.queueing.queued_pod import QueuedPod

if TYPE_CHECKING:
    from scheduler.queueing.unschedulable_pods import Cohort

ASKED_AT_ONCE = 64
"""How many hints an event may call before the rest is deferred; fewer for pods with long lists."""
MOST_PUT_OFF = 50_000
"""How many calls of hints may be deferred; at a few microseconds each, some tenths of a second."""


class Waiter:
    """A cohort, or a gated pod."""

    __slots__ = ("gate", "number", "pending", "pod", "rejectors", "target")

    def __init__(self, number: int, target: Cohort | QueuedPod, pod: PodInfo, gate: str) -> None:
        self.number = number
        self.target = target
        self.pod = pod
        """The pod, or one pod of the cohort."""
        self.gate = gate
        """The PreEnqueue plugin that gates the pod; only its events count."""
        self.rejectors: tuple[PluginOfProfile, ...] = ()
        self.pending: AbstractSet[str] = frozenset()

    @property
    def special(self) -> bool:
        """Whether the effect of an event depends on more than the event."""
        return bool(self.gate or self.pending)


_MANY_KINDS = 64
"""Beyond so many kinds of marks, further ones exclude no pod: that pod may be tried in vain."""


class Mark(NamedTuple):
    """The effect of an event on a waiter."""

    verdict: Requeue
    label: str
    exclude: str = ""
    """The uid of a pod that the event does not concern."""


class Marks:
    """Waiters by number, in the order of the queue; and the marks of some of them.

    Joining and leaving is O(log n), and moves some memory.
    """

    def __init__(self) -> None:
        self._order: list[tuple[Any, int]] = []
        """All waiters, by rank."""
        self._ranks: dict[int, Any] = {}
        self._waits = 0
        self._singles: dict[int, Mark] = {}
        self._alike: dict[tuple[str, str], int] = {}
        """Waiters to try after their back-off, as bits by the event's label and the uid that it
        excludes; disjoint, and none is empty."""
        self._count = 0
        self._leading: int | None = None
        """The first marked waiter, if it is known."""

    def __len__(self) -> int:
        """The number of marks."""
        return self._count + len(self._singles)

    def join(self, number: int, rank: Any) -> None:
        """Add a waiter with its rank in the queue; numbers are small and reused."""
        self._waits |= 1 << number
        self._ranks[number] = rank
        insort(self._order, (rank, number))

    def leave(self, number: int) -> None:
        """Remove a waiter and its mark."""
        self.pop(number)
        self._waits &= ~(1 << number)
        entry = (self._ranks.pop(number), number)
        place = bisect_left(self._order, entry)
        if place == len(self._order) or self._order[place][1] != number:
            place = self._order.index(entry)  # the sort plugin's keys have no order
        del self._order[place]

    def known(self, numbers: Numbers) -> int:
        """The waiters of these numbers as bits; whatever else a plugin may return is left out."""
        return bits_of(numbers, self._waits.bit_length()) & self._waits

    def get(self, number: int) -> Mark | None:
        """The mark of a waiter."""
        for (label, exclude), bits in self._alike.items():
            if bits >> number & 1:
                return Mark(Requeue.AFTER_BACKOFF, label, exclude)
        return self._singles.get(number)

    def pop(self, number: int) -> Mark | None:
        """Remove and return the mark of a waiter."""
        mark = self.get(number)
        if number == self._leading:
            self._leading = None
        if self._singles.pop(number, None) is None and mark is not None:
            self._set((mark.label, mark.exclude), ~(1 << number), 0)
            self._count -= 1
        return mark

    def put(self, number: int, mark: Mark) -> None:
        """Set the mark of a waiter."""
        self.pop(number)
        self._leading = None
        self._singles[number] = mark

    def put_all(self, numbers: Numbers, label: str, exclude: str = "") -> None:
        """Set the marks of many, to be tried after their back-off; ignores numbers of no waiter.

        A waiter that is marked by an event which excludes another pod, or none, excludes none.
        """
        self._leading = None
        chosen = self.known(numbers)
        if exclude and len(self._alike) >= _MANY_KINDS and (label, exclude) not in self._alike:
            exclude = ""
        other = chosen & self._marked_otherwise(exclude) if exclude else 0
        self._wipe(chosen)
        self._set((label, ""), ~0, other)
        self._set((label, exclude), ~0, chosen & ~other)
        self._count += chosen.bit_count()

    def _marked_otherwise(self, exclude: str) -> int:
        """The waiters with a mark that does not exclude this pod."""
        bits = 0
        for (_, excluded), alike in self._alike.items():
            if excluded != exclude:
                bits |= alike
        for number, mark in self._singles.items():
            if mark.exclude != exclude:
                bits |= 1 << number
        return bits

    def _set(self, key: tuple[str, str], kept: int, added: int) -> None:
        """Keep some bits of the waiters that are marked alike, and add others."""
        bits = self._alike.get(key, 0) & kept | added
        if bits:
            self._alike[key] = bits
        else:
            self._alike.pop(key, None)

    def drop(self, numbers: Numbers) -> None:
        """Remove the marks of many."""
        self._leading = None
        self._wipe(bits_of(numbers, self._waits.bit_length()))

    def leading(self) -> int | None:
        """The number of the first marked waiter, in the order of the queue."""
        if self._leading is None and len(self):
            (self._leading,) = self.first(1)
        return self._leading

    def first(self, most: int) -> list[int]:
        """The numbers of the first marked waiters, in the order of the queue."""
        bits = 0
        for alike in self._alike.values():
            bits |= alike
        for number in self._singles:
            bits |= 1 << number
        if bits.bit_count() <= most:
            return sorted(members(bits), key=lambda number: (self._ranks[number], number))
        digits = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
        size = 8 * len(digits)
        marked = (n for _, n in self._order if n < size and digits[n >> 3] >> (n & 7) & 1)
        return list(islice(marked, most))

    def _wipe(self, chosen: int) -> None:
        for key, bits in list(self._alike.items()):
            self._count -= (bits & chosen).bit_count()
            self._set(key, ~chosen, 0)
        for number in [each for each in self._singles if chosen >> each & 1]:
            del self._singles[number]


class Woken(NamedTuple):
    """A waiter that an event may have cured."""

    waiter: Waiter
    mark: Mark


class _Deferred(NamedTuple):
    """Calls of one hint with one event."""

    plugin: str
    hint: HintFunction
    event: Event
    waiters: Iterator[Waiter]


class _PluginWaiters:
    """All waiters that one plugin rejected, and its columns."""

    def __init__(self, plugin: str, registrations: Iterable[HintRegistration]) -> None:
        self.plugin = plugin
        self.waiters: dict[int, Waiter] = {}
        factories = dict.fromkeys(each.column for each in registrations if each.column is not None)
        self.columns: dict[ColumnFactory, WaitingColumn] = {each: each() for each in factories}
        self.left_out: set[int] = set()
        """Waiters for which a column failed; their hints are called."""
        self.special = 0
        """Those of them that are gated, or pending, as bits."""

    def chosen(
        self,
        numbers: Numbers,
        profile: str,
        plugins: Collection[PluginOfProfile],
        up_to: int | None,
    ) -> list[Waiter]:
        """Those of them that an event to these plugins concerns."""
        waiters = [self.waiters[number] for number in members(numbers) if number in self.waiters]
        if up_to is None and not self.special:
            return waiters
        return [
            waiter
            for waiter in waiters
            if (up_to is None or waiter.pod.priority <= up_to)
            and (not waiter.gate or (profile, waiter.gate) in plugins)
        ]


class Waiters:
    """All waiters for events. Joining and leaving is O(rejecting plugins)."""

    def __init__(self, hints: HintTable, metrics: Metrics) -> None:
        self._hints = hints
        self._overflows = metrics.queueing_hints_skipped
        self._waiters: dict[int, Waiter] = {}
        self._free: list[int] = []
        self._groups: dict[PluginOfProfile, _PluginWaiters] = {}
        self._marks = Marks()
        self._deferred: deque[_Deferred] = deque()
        self._calls_deferred = 0

    @property
    def busy(self) -> bool:
        """Whether waiters are marked, or calls of hints are deferred."""
        return bool(self._marks or self._deferred)

    @property
    def marked(self) -> int:
        """The number of marked waiters."""
        return len(self._marks)

    def join(
        self,
        target: Cohort | QueuedPod,
        pod: PodInfo,
        rank: Any,
        profile: str,
        rejectors: Collection[str],
        pending: AbstractSet[str],
        gate: str = "",
    ) -> Waiter:
        """Register a cohort or a gated pod for events of the plugins that rejected it."""
        number = self._free.pop() if self._free else len(self._waiters)
        waiter = self._waiters[number] = Waiter(number, target, pod, gate)
        self._marks.join(number, rank)
        waiter.pending = pending
        waiter.rejectors = tuple((profile, plugin) for plugin in rejectors)
        for rejector in waiter.rejectors:
            self._enter(self._group(rejector), waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Undo `join`."""
        number = waiter.number
        for rejector in waiter.rejectors:
            group = self._groups[rejector]
            del group.waiters[number]
            group.special &= ~(1 << number)
            if number in group.left_out:
                group.left_out.remove(number)
                continue
            for column in group.columns.values():
                self._forget(group, column, number)
        del self._waiters[number]
        self._marks.leave(number)
        self._free.append(number)

    def perhaps(self, waiter: Waiter | None) -> Requeue:
        """The effect of events that are marked, or whose hints are deferred, on a waiter."""
        mark = self._marks.get(waiter.number) if waiter is not None else None
        if mark is not None:
            return mark.verdict
        return Requeue.AFTER_BACKOFF if self._deferred else Requeue.SKIP

    def waits(self, waiter: Waiter) -> bool:
        """Whether a waiter has not left."""
        return self._waiters.get(waiter.number) is waiter

    def mark(self, event: Event) -> None:
        """Mark the waiters that an event may have cured."""
        if not self._waiters:
            return
        plugins = self._hints.matching(event)
        for plugin, registrations in plugins.items():
            group = self._groups.get(plugin)
            if group is None or not group.waiters:
                continue
            for registration in registrations:
                cured, unsure = self._answer(group, registration, event)
                self._mark_cured(group, cured, plugin[0], plugins, event)
                if registration.hint is not None and unsure:
                    asked = group.chosen(unsure, plugin[0], plugins, event.max_priority)
                    self._call_hints(group.plugin, registration.hint, event, asked)

    def ask(self, limit: int) -> None:
        """Call about ``limit`` deferred hints, oldest first; fewer for pods with long lists."""
        while self._deferred and limit > 0:
            asked = self._deferred[0]
            for waiter in asked.waiters:
                self._calls_deferred -= 1
                limit -= self._call(asked.plugin, asked.hint, asked.event, waiter)
                if limit <= 0:
                    return
            self._deferred.popleft()

    def first(self) -> Woken | None:
        """The first marked waiter, in the order of the queue."""
        number = self._marks.leading()
        if number is None:
            return None
        mark = self._marks.get(number)
        assert mark is not None, "it is marked"
        return Woken(self._waiters[number], mark)

    def take(self, most: int) -> list[Woken]:
        """Remove and return the first marks, in the order of the queue."""
        return [
            Woken(self._waiters[number], mark)
            for number in self._marks.first(most)
            if (mark := self._marks.pop(number)) is not None
        ]

    def drop_hopeless(self) -> None:
        """Remove the marks of waiters that a plugin rejects on every node now."""
        for group in self._groups.values():
            for column in group.columns.values() if group.waiters else ():
                try:
                    if hopeless := column.hopeless():
                        self._marks.drop(hopeless)
                except Exception as fault:
                    self._hints.report(group.plugin, "", fault)

    def _group(self, plugin: PluginOfProfile) -> _PluginWaiters:
        group = self._groups.get(plugin)
        if group is None:
            registrations = self._hints.registrations(plugin)
            group = self._groups[plugin] = _PluginWaiters(plugin[1], registrations)
        return group

    def _enter(self, group: _PluginWaiters, waiter: Waiter) -> None:
        group.waiters[waiter.number] = waiter
        if waiter.special:
            group.special |= 1 << waiter.number
        entered: list[WaitingColumn] = []
        try:
            for column in group.columns.values():
                column.add(waiter.number, waiter.pod)
                entered.append(column)
        except Exception as fault:
            self._hints.report(group.plugin, "", fault, waiter.pod.key)
            group.left_out.add(waiter.number)
            for column in entered:
                self._forget(group, column, waiter.number)

    def _forget(self, group: _PluginWaiters, column: WaitingColumn, number: int) -> None:
        try:
            column.remove(number)
        except Exception as fault:
            self._hints.report(group.plugin, "", fault)

    def _answer(
        self, group: _PluginWaiters, registration: HintRegistration, event: Event
    ) -> tuple[Numbers, Collection[int]]:
        """The cured waiters, and those whose hint has to be called."""
        if registration.hint is None:
            return group.waiters, ()
        if registration.column is None:
            return (), group.waiters
        column = group.columns[registration.column]
        answer = self._hints.answer(group.plugin, column, event)
        if answer is None:
            return group.waiters, ()
        if group.left_out:
            return answer.cured, [*answer.unsure, *group.left_out]
        return answer

    def _call_hints(
        self,
        plugin: str,
        hint: HintFunction,
        event: Event,
        asked: Collection[Waiter],
    ) -> None:
        waiters = iter(asked)
        left, budget = len(asked), 0 if self._deferred else ASKED_AT_ONCE
        while left and budget > 0:
            left -= 1
            budget -= self._call(plugin, hint, event, next(waiters))
        if not left:
            return
        if self._calls_deferred + left <= MOST_PUT_OFF:
            self._deferred.append(_Deferred(plugin, hint, event, waiters))
            self._calls_deferred += left
            return
        self._overflows.labels(plugin).inc(left)
        for waiter in waiters:
            self._mark(waiter, plugin, event)

    def _call(self, plugin: str, hint: HintFunction, event: Event, waiter: Waiter) -> int:
        """Call a hint if its answer can change a mark; returns for how many calls that counts."""
        if not self.waits(waiter):
            return 0
        mark = self._marks.get(waiter.number)
        if mark is not None and (mark.verdict is Requeue.AT_ONCE or plugin not in waiter.pending):
            return 0
        if self._hints.cures(plugin, hint, waiter.pod, event):
            self._mark(waiter, plugin, event)
        return waiter.pod.weight

    def _mark_cured(
        self,
        group: _PluginWaiters,
        cured: Numbers,
        profile: str,
        plugins: Collection[PluginOfProfile],
        event: Event,
    ) -> None:
        """Mark those of the cured that an event to these plugins concerns, most of them at once."""
        if event.max_priority is not None:
            chosen = group.chosen(cured, profile, plugins, event.max_priority)
            self._mark_all([each.number for each in chosen if not each.special], event)
        elif group.special:
            bits = self._marks.known(cured)
            self._mark_all(bits & ~group.special, event)
            chosen = group.chosen(bits & group.special, profile, plugins, None)
        else:
            self._mark_all(cured, event)
            return
        for waiter in chosen:
            if waiter.special:
                self._mark(waiter, group.plugin, event)

    def _mark(self, waiter: Waiter, plugin: str, event: Event) -> None:
        exclude = event.exclude
        verdict = Requeue.AT_ONCE if plugin in waiter.pending else Requeue.AFTER_BACKOFF
        mark = self._marks.get(waiter.number)
        if mark is not None:
            verdict = max(verdict, mark.verdict)
            exclude = exclude if exclude == mark.exclude else ""
        self._marks.put(waiter.number, Mark(verdict, event.label, exclude))

    def _mark_all(self, numbers: Numbers, event: Event) -> None:
        """The same for many waiters, none of which is pending or gated."""
        if numbers:
            self._marks.put_all(numbers, event.label, event.exclude)
