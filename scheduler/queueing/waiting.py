"""Who waits for which plugin's events, and whom an event may have cured.

A waiter is a cohort, or a pod behind a gate. Waiters are rows of the columns of the plugins that
rejected them (`columns`), so a usual event costs a few calls, however many wait. What a column
cannot say, and the hints of plugins that have none, cost a Python call for each waiter. A few such
calls are made at once; more are put off and worked off in small portions (`ask`). When too many
have been put off, the waiters in question count as cured without being asked: a pod tried in vain
costs less than a pod forgotten.

Whom an event may have cured is *marked*, and stays so until the queue wakes it (`take`): all at
once if they are few, else the first ones first, because those may take the room from the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Metrics
from scheduler.queueing.columns import ColumnFactory, HintFunction, Numbers, WaitingColumn, members
from scheduler.queueing.hints import HintRegistration, HintTable, Requeue
from scheduler.queueing.marks import Mark, Marks
from scheduler.queueing.tiers import Listener, QueuedPod

if TYPE_CHECKING:
    from scheduler.queueing.cohorts import Cohort

ASKED_AT_ONCE = 64
"""How many hints an event may call before the rest is put off."""
MOST_PUT_OFF = 50_000
"""How many calls of hints may be put off; at a few microseconds each, some tenths of a second."""


class Waiter:
    """One who waits: a cohort, or a pod behind a gate."""

    __slots__ = ("gate", "listeners", "number", "pending", "pod", "who")

    def __init__(self, number: int, who: Cohort | QueuedPod, pod: PodInfo, gate: str) -> None:
        self.number = number
        self.who = who
        self.pod = pod
        """The pod, or one of those that are equal."""
        self.gate = gate
        """The plugin at whose gate the pod waits; only its events count."""
        self.listeners: tuple[Listener, ...] = ()
        self.pending: AbstractSet[str] = frozenset()

    @property
    def special(self) -> bool:
        """Whether it does not only depend on the event what that means."""
        return bool(self.gate or self.pending)


class Woken(NamedTuple):
    """Somebody whom an event may have cured."""

    waiter: Waiter
    mark: Mark


class _PutOff(NamedTuple):
    """Calls of one hint about one event."""

    plugin: str
    hint: HintFunction
    event: Event
    exclude: str
    waiters: Iterator[Waiter]


class _Group:
    """All who wait because of one plugin, and its columns."""

    def __init__(self, plugin: str, registrations: Iterable[HintRegistration]) -> None:
        self.plugin = plugin
        self.waiters: dict[int, Waiter] = {}
        factories = dict.fromkeys(each.column for each in registrations if each.column is not None)
        self.columns: dict[ColumnFactory, WaitingColumn] = {each: each() for each in factories}
        self.left_out: set[int] = set()
        """Whom a column could not take."""
        self.special = 0
        """How many are behind a gate, or pending."""

    def chosen(
        self,
        numbers: Numbers,
        profile: str,
        listeners: Collection[Listener],
        up_to: int | None,
    ) -> list[Waiter]:
        """Those of them whom an event concerns."""
        waiters = [self.waiters[number] for number in members(numbers) if number in self.waiters]
        if up_to is None and not self.special:
            return waiters
        return [
            waiter
            for waiter in waiters
            if (up_to is None or waiter.pod.priority <= up_to)
            and (not waiter.gate or (profile, waiter.gate) in listeners)
        ]


class Waiters:
    """Everybody who waits for an event. Joining and leaving is O(rejecting plugins)."""

    def __init__(self, hints: HintTable, metrics: Metrics) -> None:
        self._hints = hints
        self._overflows = metrics.queueing_hints_skipped
        self._waiters: dict[int, Waiter] = {}
        self._free: list[int] = []
        self._groups: dict[Listener, _Group] = {}
        self._marks = Marks()
        self.fresh = False
        """Whether anybody was marked since some were taken."""
        self._put_off: deque[_PutOff] = deque()
        self._calls_put_off = 0

    @property
    def busy(self) -> bool:
        """Whether somebody is marked, or has to be asked."""
        return bool(self._marks or self._put_off)

    @property
    def marked(self) -> int:
        """How many are marked."""
        return len(self._marks)

    def join(
        self,
        who: Cohort | QueuedPod,
        pod: PodInfo,
        rank: Any,
        profile: str,
        rejectors: Collection[str],
        pending: AbstractSet[str],
        gate: str = "",
    ) -> Waiter:
        """Somebody waits for events of the plugins that rejected it."""
        number = self._free.pop() if self._free else len(self._waiters)
        waiter = self._waiters[number] = Waiter(number, who, pod, gate)
        self._marks.join(number, rank)
        waiter.pending = pending
        waiter.listeners = tuple((profile, plugin) for plugin in rejectors)
        for listener in waiter.listeners:
            self._enter(self._group(listener), waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Somebody waits no longer."""
        number = waiter.number
        for listener in waiter.listeners:
            group = self._groups[listener]
            del group.waiters[number]
            group.special -= waiter.special
            if number in group.left_out:
                group.left_out.remove(number)
                continue
            for column in group.columns.values():
                self._forget(group, column, number)
        del self._waiters[number]
        self._marks.leave(number)
        self._free.append(number)

    def perhaps(self, waiter: Waiter | None) -> Requeue:
        """What events mean to somebody who has been marked and not woken, or not yet asked."""
        mark = self._marks.get(waiter.number) if waiter is not None else None
        if mark is not None:
            return mark.verdict
        return Requeue.AFTER_BACKOFF if self._put_off else Requeue.SKIP

    def waits(self, waiter: Waiter) -> bool:
        """Whether somebody still waits."""
        return self._waiters.get(waiter.number) is waiter

    def hear(self, event: Event, exclude: str = "", up_to: int | None = None) -> None:
        """Mark whom an event may have cured, but for pods of a priority above ``up_to``."""
        listeners = self._hints.listeners(event)
        for listener, registrations in listeners.items():
            group = self._groups.get(listener)
            if group is None or not group.waiters:
                continue
            everybody = up_to is None and not group.special
            for registration in registrations:
                cured, unsure = self._answer(group, registration, event)
                if everybody and not exclude:
                    self._mark_all(cured, event.label)
                else:
                    for waiter in group.chosen(cured, listener[0], listeners, up_to):
                        self._mark(waiter, group.plugin, event.label, exclude)
                if registration.hint is not None and unsure:
                    asked = group.chosen(unsure, listener[0], listeners, up_to)
                    self._question(group.plugin, registration.hint, event, exclude, asked)

    def ask(self, limit: int) -> None:
        """Call at most so many hints that were put off, oldest first."""
        while self._put_off and limit > 0:
            asked = self._put_off[0]
            for waiter in asked.waiters:
                self._calls_put_off -= 1
                limit -= self._call(asked.plugin, asked.hint, asked.event, asked.exclude, waiter)
                if limit <= 0:
                    return
            self._put_off.popleft()

    def take(self, most: int) -> list[Woken]:
        """Those marked who come first in the order of the queue; they are marked no longer."""
        self.fresh = False
        return [
            Woken(self._waiters[number], mark)
            for number in self._marks.first(most)
            if (mark := self._marks.pop(number)) is not None
        ]

    def drop_hopeless(self) -> None:
        """Mark no longer whom some plugin that rejected it would reject on every node now."""
        for group in self._groups.values():
            for column in group.columns.values() if group.waiters else ():
                try:
                    hopeless = column.hopeless()
                except Exception as fault:
                    self._hints.report(group.plugin, "", fault)
                    continue
                if hopeless:
                    self._marks.drop(hopeless)

    def _group(self, listener: Listener) -> _Group:
        group = self._groups.get(listener)
        if group is None:
            registrations = self._hints.registrations(listener)
            group = self._groups[listener] = _Group(listener[1], registrations)
        return group

    def _enter(self, group: _Group, waiter: Waiter) -> None:
        group.waiters[waiter.number] = waiter
        group.special += waiter.special
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

    def _forget(self, group: _Group, column: WaitingColumn, number: int) -> None:
        try:
            column.remove(number)
        except Exception as fault:
            self._hints.report(group.plugin, "", fault)

    def _answer(
        self, group: _Group, registration: HintRegistration, event: Event
    ) -> tuple[Numbers, Collection[int]]:
        """Who is cured, and who has to be asked."""
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

    def _question(
        self,
        plugin: str,
        hint: HintFunction,
        event: Event,
        exclude: str,
        asked: Collection[Waiter],
    ) -> None:
        waiters = iter(asked)
        left, budget = len(asked), 0 if self._put_off else ASKED_AT_ONCE
        while left and budget > 0:
            left -= 1
            budget -= self._call(plugin, hint, event, exclude, next(waiters))
        if not left:
            return
        if self._calls_put_off + left <= MOST_PUT_OFF:
            self._put_off.append(_PutOff(plugin, hint, event, exclude, waiters))
            self._calls_put_off += left
            return
        self._overflows.labels(plugin).inc(left)
        for waiter in waiters:
            self._mark(waiter, plugin, event.label, exclude)

    def _call(
        self, plugin: str, hint: HintFunction, event: Event, exclude: str, waiter: Waiter
    ) -> int:
        """Ask about one who still waits, if the answer can change anything; returns the calls."""
        if not self.waits(waiter):
            return 0
        mark = self._marks.get(waiter.number)
        if mark is not None and (mark.verdict is Requeue.AT_ONCE or plugin not in waiter.pending):
            return 0
        if self._hints.cures(plugin, hint, waiter.pod, event):
            self._mark(waiter, plugin, event.label, exclude)
        return 1

    def _mark(self, waiter: Waiter, plugin: str, label: str, exclude: str) -> None:
        verdict = Requeue.AT_ONCE if plugin in waiter.pending else Requeue.AFTER_BACKOFF
        mark = self._marks.get(waiter.number)
        if mark is not None:
            verdict = max(verdict, mark.verdict)
            exclude = exclude if exclude == mark.exclude else ""
        self._marks.put(waiter.number, Mark(verdict, label, exclude))
        self.fresh = True

    def _mark_all(self, numbers: Numbers, label: str) -> None:
        """The same for many, none of whom is pending or gated."""
        if numbers:
            before = len(self._marks)
            self._marks.put_all(numbers, label)
            self.fresh = self.fresh or len(self._marks) > before
