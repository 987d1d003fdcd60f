"""A webhook at PreEnqueue and QueueSort: whether a pod may be queued, and its sort key.

The queue cannot wait, so a pod is gated until the webhook has answered, and then activated.
It is asked once for each version of a pod that differs in its spec or its labels.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import msgspec

from scheduler.bounded import ENTRY_BYTES, MEBIBYTE, Usage
from scheduler.config.schema import Webhook
from scheduler.config.webhooks import PRE_ENQUEUE, QUEUE_SORT
from scheduler.model.packed import labels_digest
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.plugin_api.handle import Handle
from scheduler.webhooks.answers import Failed
from scheduler.webhooks.asking import Asking
from scheduler.webhooks.protocol import status_of

MAX_KNOWN = 65_536
MAX_KNOWN_BYTES = 32 * MEBIBYTE
"""Of answers that are kept. Each is used as soon as it is there, so a pod whose answer was dropped
is at worst asked about again at its next PreEnqueue."""
AGAIN_SECONDS = 60.0
"""After a no that does not say when to ask again."""
AFTER_FAILURE_SECONDS = 5.0


class _GateAnswer(msgspec.Struct, frozen=True):
    status: Status
    key: float = 0.0

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return ENTRY_BYTES + sum(ENTRY_BYTES + len(reason) for reason in self.status.reasons)


class Gate:
    """A webhook's answers about pods before they are queued, for the latest pods.

    ``verdict`` and ``key`` are dictionary lookups.
    """

    def __init__(self, webhook: Webhook, asking: Asking, handle: Handle) -> None:
        self._webhook = webhook
        self._points = frozenset(webhook.points)
        self._asking = asking
        self._handle = handle
        self._known: OrderedDict[Hashable, _GateAnswer] = OrderedDict()
        self._known_bytes = 0
        self._evictions = 0
        self._under_way: set[Hashable] = set()
        self._begun = False
        """A replica that does not schedule asks nothing."""
        self._pending = Status(
            Code.PENDING, (f"waiting for the answer of webhook {webhook.name}",), webhook.name
        )

    def begin(self) -> None:
        """Ask from now on: this replica schedules, and runs PreEnqueue for all gated pods again."""
        self._begun = True

    def verdict(self, pod: PodInfo) -> Status:
        """Whether a pod may be queued; starts asking if that is not known."""
        subject = _subject(pod)
        known = self._known.get(subject)
        if known is not None:
            return known.status
        if self._begun and subject not in self._under_way:
            self._under_way.add(subject)
            self._handle.run.spawn(self._ask(subject, pod))
        return self._pending

    def key(self, pod: PodInfo) -> float:
        """The pod's sort key; 0 if there is none."""
        known = self._known.get(_subject(pod))
        return known.key if known is not None else 0.0

    def usage(self) -> Usage:
        """How much is kept of answers."""
        return Usage(len(self._known), self._known_bytes, self._evictions)

    async def _ask(self, subject: Hashable, pod: PodInfo) -> None:
        try:
            known, again = await self._answer(pod)
        finally:
            self._under_way.discard(subject)
        self._remember(subject, known)
        self._handle.queue.activate([pod.key])
        if again:
            asyncio.get_running_loop().call_later(again, self._forget, subject, known, pod.key)

    def _remember(self, subject: Hashable, known: _GateAnswer) -> None:
        self._drop(subject)
        while self._known and (
            self._known_bytes + known.bytes > MAX_KNOWN_BYTES or len(self._known) >= MAX_KNOWN
        ):
            self._drop(next(iter(self._known)))
            self._evictions += 1
        self._known[subject] = known
        self._known_bytes += known.bytes

    def _drop(self, subject: Hashable) -> None:
        if (known := self._known.pop(subject, None)) is not None:
            self._known_bytes -= known.bytes

    def _forget(self, subject: Hashable, known: _GateAnswer, key: str) -> None:
        """Drop an answer and activate the pod, so that the webhook is asked again.

        The answer may have been dropped before, to make room for newer ones.
        """
        if self._known.get(subject, known) is known:
            self._drop(subject)
            self._handle.queue.activate([key])

    async def _answer(self, pod: PodInfo) -> tuple[_GateAnswer, float]:
        """What is known now, and after how many seconds to ask again, if at all."""
        key = 0.0
        if PRE_ENQUEUE in self._points:
            answer: Any = await self._asking.ask(PRE_ENQUEUE, pod)
            if isinstance(answer, Failed):
                if (held := self._held_by(answer)) is not None:
                    return held
            elif answer.code != Code.SUCCESS.value:
                again = answer.retry_after_seconds or AGAIN_SECONDS
                return _GateAnswer(status_of(answer, self._webhook.name)), again
        if QUEUE_SORT in self._points:
            answer = await self._asking.ask(QUEUE_SORT, pod)
            if isinstance(answer, Failed):
                if (held := self._held_by(answer)) is not None:
                    return held
            else:
                key = answer.key
        return _GateAnswer(SUCCESS, key), 0.0

    def _held_by(self, failed: Failed) -> tuple[_GateAnswer, float] | None:
        """Without an answer a pod is gated and asked about again, or None: it is queued."""
        if self._webhook.failure_policy == "Ignore":
            return None
        status = Status(Code.PENDING, (failed.message,), self._webhook.name)
        return _GateAnswer(status), AFTER_FAILURE_SECONDS


def _subject(pod: PodInfo) -> Hashable:
    # A digest, because labels may be long, and answers outlive their pods.
    metadata = pod.pod.metadata
    return pod.uid, metadata.generation, labels_digest(metadata.labels)
