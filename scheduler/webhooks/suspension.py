"""Pods whose attempt waits for an answer from out of process. Other pods are scheduled meanwhile.

::

    attempt ─► AnswerNeeded ─► suspend ─► the question, asked in a task (equal ones are joined)
       ▲                                     │
       └── resume_suspended ◄── ready ◄──────┘ answered

A suspended pod is in flight, like one that is being bound: events since its pop are replayed if it
is rejected in the end. The number of suspended pods is bounded, and so are the bytes of their
answers; when a bound is reached, a further pod is requeued and tried again when another is done. A
suspended pod keeps its place, and all answers about it and its gang, until its attempt ends or it
is gone. So attempts that have begun end, however many others need answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from scheduler.bounded import MEBIBYTE, Usage
from scheduler.model.journal import Journal
from scheduler.model.podinfo import PodInfo
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.slices import in_slices
from scheduler.webhooks.answers import EXPLAINING, AnswerNeeded, Failed, Question, RemoteAnswers

log = get_logger(__name__)

DEFAULT_LIMIT = 1024
ANSWER_BYTES = 256 * MEBIBYTE
"""The bound on answers about suspended pods and their gangs, by an estimate of their size."""
CROWDED = "waiting for its turn to ask {}: too many pods are waiting for answers"

SUSPENSION = "Suspension"
"""The rejector of pods that wait for their turn to ask: no event cures them, only that turn."""
HINTS: Mapping[str, Sequence[HintRegistration]] = {SUSPENSION: ()}

T = TypeVar("T")


class Suspendable(Protocol):
    """What suspension needs of an attempt."""

    @property
    def queued(self) -> QueuedPod:
        """The pod, as it was popped."""

    @property
    def answers(self) -> RemoteAnswers:
        """The answers about it so far."""

    @property
    def companions(self) -> dict[str, None]:
        """Pods (``namespace/name``) that wait in the queue for the answer that it waits for."""

    @property
    def group(self) -> Hashable | None:
        """The pod group for which it waits; None if it is alone."""

    @property
    def companion_answers(self) -> Mapping[str, RemoteAnswers]:
        """By uid, the answers about them so far."""

    def restart(self) -> None:
        """Begin anew with the pod as it is now, and keep the answers."""


A = TypeVar("A", bound=Suspendable)


class Suspension(Generic[A]):
    """All suspended attempts of a scheduler.

    `Scheduler.resume_suspended` waits for those that are ready and attempts them again.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        metrics: Metrics,
        limit: int = DEFAULT_LIMIT,
        journal: Journal | None = None,
    ) -> None:
        self._queue = queue
        self._journal = journal
        self._metrics = metrics
        self._limit = limit
        self._suspended: dict[str, A] = {}
        """By uid: those that wait, and those that are ready."""
        self._by_group: dict[Hashable, A] = {}
        """Those of them that wait for a pod group: one for each."""
        self._group_of: dict[str, Hashable] = {}
        """By uid, for the same ones."""
        self._ready: deque[A] = deque()
        self._resumed: set[str] = set()
        """By uid: those whose gangs are being tried again; each keeps its place meanwhile."""
        self._sizes: dict[str, int] = {}
        """By uid, for all of them: the bytes that their answers take."""
        self._held = 0
        self._listeners: dict[Hashable, list[tuple[A, Question]]] = {}
        self._postponed: dict[str, Collection[str]] = {}
        """By key: the pods that wait for what this one will be answered."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        metrics.caches.follow("suspension", self._usage)

    def __len__(self) -> int:
        """How many pods are suspended."""
        return len(self._suspended)

    def suspend(self, attempt: A, question: Question, instead_of: str = "") -> None:
        """Have the question asked, and the attempt made again when there is an answer.

        ``instead_of`` is the uid of a pod whose place it takes, after ``resume``.
        """
        uid = attempt.queued.info.uid
        size = _size(attempt, question)
        placed = uid in self._suspended or instead_of in self._resumed
        if not placed and not self._has_room(size):
            self._postpone(attempt, question)
            return
        self._leave(instead_of)
        self._enter(uid, attempt, size)
        attempt.restart()  # what plugins have prepared for all nodes would add up
        self._show()
        listeners = self._listeners.get(question.key)
        if listeners is not None:
            listeners.append((attempt, question))
            return
        self._listeners[question.key] = [(attempt, question)]
        self._start(self._ask(question))

    def awaits(self, uid: str) -> bool:
        """Whether a pod is suspended, or ready to go on."""
        return uid in self._suspended

    def holds_place(self, uid: str) -> bool:
        """Whether answers are kept for a pod, and it is suspended or being tried with them."""
        return uid in self._sizes

    def joins(self, key: str, group: Hashable) -> bool:
        """Have a pod wait with the member of its group that is suspended; False if none is.

        A group is tried by one member at a time. Two would take turns to forget what the other was
        told about the rest.
        """
        suspended = self._by_group.get(group)
        if suspended is None:
            return False
        suspended.companions[key] = None
        return True

    def asking(self) -> list[tuple[A, str]]:
        """The attempts that wait for an answer, each with the plugin that is asked; O(n)."""
        return [
            (attempt, question.plugin)
            for listeners in self._listeners.values()
            for attempt, question in listeners
            if self._suspended.get(attempt.queued.info.uid) is attempt
        ]

    def resume(self, uid: str) -> None:
        """A gang is tried again for this pod, which keeps its place until `settled` or `suspend`.

        Meanwhile it is like any pod that was popped: its deletion is handled by the pass.
        """
        if self._take_out(uid):
            self._resumed.add(uid)

    def _usage(self) -> dict[str, Usage]:
        return {"suspended_pods": Usage(len(self._sizes), self._held)}

    def _has_room(self, size: int) -> bool:
        if not self._sizes:
            return True
        return len(self._sizes) < self._limit and self._held + size <= ANSWER_BYTES

    def _enter(self, uid: str, attempt: A, size: int) -> None:
        self._take_out(uid)
        self._suspended[uid] = attempt
        if attempt.group is not None:
            self._by_group[attempt.group] = attempt
            self._group_of[uid] = attempt.group
        self._held += size - self._sizes.get(uid, 0)
        self._sizes[uid] = size

    def _leave(self, uid: str) -> None:
        """Give a place up; nothing happens if there is none."""
        self._take_out(uid)
        self._resumed.discard(uid)
        self._held -= self._sizes.pop(uid, 0)

    def _take_out(self, uid: str) -> bool:
        group = self._group_of.pop(uid, None)
        if group is not None:
            self._by_group.pop(group, None)
        return self._suspended.pop(uid, None) is not None

    def next_ready(self) -> A | None:
        """An attempt that can be made again; the caller suspends it anew or calls ``settled``.

        It is for the pod as it is now: one that has changed is asked about anew.
        """
        if not self._ready:
            return None
        attempt = self._ready.popleft()
        if self._queue.renew_in_flight(attempt.queued):
            attempt.answers.restart()
            if self._journal is not None:
                self._journal.renewed(attempt.queued.info.uid)
        attempt.restart()
        return attempt

    def settled(self, uid: str) -> None:
        """The attempt has come to an end: another pod may be suspended."""
        if uid not in self._sizes:
            return
        self._leave(uid)
        self._show()
        # One for one; more, if no suspended pod is left that would make room for others.
        turns = 1 if self._sizes else self._limit
        while turns and self._postponed:
            key = next(iter(self._postponed))
            del self._postponed[key]
            if self._queue.activate((key,)):
                turns -= 1

    def drop(self, pod: PodInfo) -> None:
        """Drop a pod that is gone or has a node, and its answers."""
        if companions := self._postponed.pop(pod.key, None):
            self._queue.activate(companions)
        uid = pod.uid
        if uid in self._suspended:
            companions = self._suspended[uid].companions
            self.settled(uid)
            self._ready = deque(each for each in self._ready if each.queued.info.uid != uid)
            self._queue.done(uid)
            self._queue.activate(companions)

    @property
    def has_ready(self) -> bool:
        """Whether `next_ready` has an attempt."""
        return bool(self._ready)

    @property
    def is_idle(self) -> bool:
        """Whether no pod is suspended, or being tried again after it was."""
        return not self._sizes

    async def change(self) -> None:
        """Return when another attempt is ready, or another pod is suspended no longer."""
        self._changed.clear()
        await self._changed.wait()

    def cancel(self) -> None:
        """Drop all calls and attempts; those pods are for the next leader."""
        for task in self._tasks:
            task.cancel()
        self._ready.clear()
        self._suspended.clear()
        self._by_group.clear()
        self._group_of.clear()
        self._resumed.clear()
        self._sizes.clear()
        self._held = 0
        self._listeners.clear()
        self._show()

    async def stop(self) -> None:
        """Drop everything and wait for its end."""
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Calls

    async def _ask(self, question: Question) -> None:
        try:
            answer: Any = await question.ask()
        except Exception as fault:
            log.error("Call of a webhook failed unexpectedly", exc=fault, plugin=question.plugin)
            answer = Failed(f"{type(fault).__name__}: {fault}")
        first = True
        for attempt, asked in self._listeners.pop(question.key, ()):
            if self._suspended.get(attempt.queued.info.uid) is attempt:
                asked.record(attempt.answers, answer)
                self._ready.append(attempt)
                if self._journal is not None:
                    self._journal.told(attempt.queued.info.uid, first)
                first = False
        self._changed.set()

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _postpone(self, attempt: A, question: Question) -> None:
        queued = attempt.queued
        self._metrics.webhook_postponed_pods.inc()
        self._postponed[queued.key] = attempt.companions
        message = CROWDED.format(question.plugin)
        self._queue.requeue_rejected(queued, (), (SUSPENSION,), message)

    def _show(self) -> None:
        self._metrics.webhook_suspended_pods.set(len(self._suspended))
        self._changed.set()


def _size(attempt: Suspendable, question: Question) -> int:
    """The bytes of the answers about a pod and its gang, if each gets as many as the largest."""
    members = [attempt.answers, *attempt.companion_answers.values()]
    each = max(answers.bytes for answers in members) + question.bytes
    return each * len(members)


async def answered(work: Callable[[RemoteAnswers], T]) -> T:
    """The result of work that may need answers, for callers that can wait, such as explanations.

    Done in slices, and again from the start after each answer, so it must not change anything.
    """
    answers = RemoteAnswers(insists=True)
    token = EXPLAINING.set(True)
    try:
        while True:
            try:
                return await in_slices(work, answers)
            except AnswerNeeded as needed:
                needed.question.record(answers, await needed.question.ask())
    finally:
        EXPLAINING.reset(token)
