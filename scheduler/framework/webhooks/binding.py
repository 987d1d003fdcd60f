"""A webhook from the choice of a node to the end of binding: in the pod's binding task."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from scheduler.config.schema import Webhook
from scheduler.framework.answers import Failed
from scheduler.framework.cycle import Cycle, Slot
from scheduler.framework.handle import Handle
from scheduler.framework.waiting import MAX_WAIT, WaitingPod
from scheduler.framework.webhooks.asking import Asking
from scheduler.framework.webhooks.protocol import (
    UNRESERVE,
    Refusal,
    StatusAnswer,
    refusal_of,
    status_of,
)
from scheduler.framework.webhooks.rows import WebhookError
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, SUCCESS, Code, Status, unschedulable

AGAIN_SECONDS = 1.0
"""After Wait, if the answer does not say when to ask again."""

GONE = "removed while it waited for permission"

_ASKED: Slot[set[str]] = Slot("webhooks that may have booked something", lasting=True)


class BindingPoints:
    """Reserve, permit, pre-bind, bind, post-bind and unreserve of one webhook."""

    remote = True

    def __init__(self, webhook: Webhook, asking: Asking, handle: Handle) -> None:
        self.name = webhook.name
        self.webhook = webhook
        self.asking = asking
        self._handle = handle
        self._undoing: dict[str, asyncio.Event] = {}
        """By the uid of a pod: set once the webhook was told to undo what it did for it."""
        self._fails = webhook.failure_policy == "Fail"

    def concerns(self, pod: PodInfo) -> bool:
        """Whether the webhook is asked about such pods: by namespace and labels."""
        pods, metadata = self.webhook.pods, pod.pod.metadata
        if pods.namespaces and metadata.namespace not in pods.namespaces:
            return False
        return pods.match_labels.items() <= metadata.labels.items()

    def reserve(self, cycle: Cycle, node: str) -> Status:
        """Nothing yet: the webhook is asked when the binding task starts."""
        return SUCCESS

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        """Nothing yet, as for ``reserve``."""
        return SUCCESS, 0.0

    async def reserve_remotely(self, cycle: Cycle, node: str) -> Status:
        """Have the webhook book the pod."""
        return await self._status("reserve", cycle, node)

    async def permit_remotely(self, cycle: Cycle, node: str) -> Status:
        """Ask the webhook until it says yes or no, or until the time is up that it named."""
        if not self.concerns(cycle.pod):
            return SUCCESS
        await self._note(cycle)
        answer = await self.asking.ask("permit", cycle.pod, node=node)
        if isinstance(answer, Failed) or answer.code != Code.WAIT.value:
            return self._permission(answer)
        timeout = min(answer.timeout_seconds, MAX_WAIT)
        waiting = WaitingPod(cycle.pod, node, {self.name: timeout}, expires=False)
        if (inside := self._handle.waiting(cycle.pod.uid)) is not None:
            waiting.follow(inside)
        with self._handle.waits.holding(cycle, waiting):
            return await self._permitted(cycle, waiting, answer, time.monotonic() + timeout)

    async def _permitted(
        self, cycle: Cycle, waiting: WaitingPod, answer: StatusAnswer, deadline: float
    ) -> Status:
        """Ask again and again, unless somebody else decides meanwhile."""
        while True:
            now = time.monotonic()
            if now >= deadline:
                words = f"pod {cycle.pod.key} timed out waiting on permit"
                return unschedulable(words).by(self.name)
            pause = answer.retry_after_seconds or AGAIN_SECONDS
            verdict = await waiting.within(min(pause, deadline - now))
            if verdict is not None:
                return verdict
            if not self._handle.state.assumed(cycle.pod.uid):
                return unschedulable(GONE).by(self.name)
            again = await self.asking.ask("permit", cycle.pod, node=waiting.node)
            if isinstance(again, Failed) or again.code != Code.WAIT.value:
                return self._permission(again)
            answer = again

    def _permission(self, answer: StatusAnswer | Failed) -> Status:
        if isinstance(answer, Failed):
            self._fail(answer)
            return SUCCESS
        return status_of(answer, self.name)

    def pre_bind_pre_flight(self, cycle: Cycle, node: str) -> Status:
        """It is asked about each pod that concerns it, and answers when it likes."""
        return SUCCESS if self.concerns(cycle.pod) else SKIP

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        """The webhook prepares the node, or objects."""
        return await self._status("preBind", cycle, node)

    async def bind(self, cycle: Cycle, node: str) -> Status:
        """The webhook binds the pod itself, or leaves that to the next plugin."""
        if not self.concerns(cycle.pod):
            return SKIP
        answer = await self.asking.ask("bind", cycle.pod, node=node)
        if isinstance(answer, Failed):
            self._fail(answer)
            return SKIP
        return status_of(answer, self.name)

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Tell the webhook, in the background."""
        if self.concerns(cycle.pod):
            self._handle.spawn(self._tell_bound(cycle.pod, node))

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Have the webhook undo what it did, in the background, if it was asked for anything."""
        if self.name in (cycle.find(_ASKED) or ()):
            undone = self._undoing[cycle.pod.uid] = asyncio.Event()
            why = refusal_of(cycle.refusal) if cycle.refusal is not None else None
            self._handle.spawn(self._undo(cycle.pod, node, why, undone))

    async def _undo(
        self, pod: PodInfo, node: str, why: Refusal | None, undone: asyncio.Event
    ) -> None:
        try:
            await self.asking.ask(UNRESERVE, pod, node=node, rejection=why)
        finally:
            undone.set()
            if self._undoing.get(pod.uid) is undone:
                del self._undoing[pod.uid]

    async def _note(self, cycle: Cycle) -> None:
        """Remember to undo; before the call, since an answer that is lost may have been a yes.

        What an earlier attempt did is undone first, or it would be taken for what this one does.
        """
        if (undone := self._undoing.get(cycle.pod.uid)) is not None:
            await undone.wait()
        cycle.put(_ASKED, (cycle.find(_ASKED) or set()) | {self.name})

    async def _tell_bound(self, pod: PodInfo, node: str) -> None:
        await self.asking.ask("postBind", pod, node=node)

    async def _status(self, point: str, cycle: Cycle, node: str) -> Status:
        if not self.concerns(cycle.pod):
            return SUCCESS
        await self._note(cycle)
        answer: StatusAnswer | Failed = await self.asking.ask(point, cycle.pod, node=node)
        if isinstance(answer, Failed):
            self._fail(answer)
            return SUCCESS
        return status_of(answer, self.name)

    def _fail(self, failed: Failed) -> Any:
        """Go on without an answer, or raise, as the policy says."""
        if self._fails:
            raise WebhookError(failed.message)
