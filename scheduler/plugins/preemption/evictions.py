"""Carrying a preemption out, behind the back of the cycle.

While evictions are sent the pod that they are for is kept out of the queue, so that it does not
look for victims a second time. The last victim is evicted after all others: once the watch shows
that it is leaving, everything has been sent, even if its answer has not come yet. So no event that
could wake the pod is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from scheduler.framework.interface import Handle
from scheduler.framework.outlet import WriteError
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code
from scheduler.observe.logs import get_logger
from scheduler.plugins.names import DEFAULT_PREEMPTION
from scheduler.plugins.preemption.candidates import Candidate

log = get_logger(__name__)

CONDITION = "DisruptionTarget"
REASON = "PreemptionByScheduler"

_AT_ONCE = 16


class Evictions:
    """All preemptions under way."""

    def __init__(
        self, handle: Handle, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._handle = handle
        self._now = now
        self._last_victim: dict[str, PodInfo | None] = {}
        """By the uid of the pod they are for; None while others are to be evicted first."""

    def under_way(self, pod: PodInfo) -> bool:
        """Whether evictions for this pod remain to be sent."""
        if pod.uid not in self._last_victim:
            return False
        last = self._last_victim[pod.uid]
        if last is None:
            return True
        there = self._handle.state.pod(last.uid)
        return there is not None and not there.pod.deleting

    def start(self, preemptor: PodInfo, chosen: Candidate) -> None:
        """Evict the victims in the background; those that are leaving already need nothing."""
        staying = [victim for victim in chosen.victims if not victim.pod.deleting]
        if not staying:
            return
        self._handle.metrics.preemption_victims.observe(len(chosen.victims))
        self._last_victim[preemptor.uid] = None
        self._handle.spawn(self._run(preemptor, chosen.node, staying))

    async def _run(self, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        sent = False
        try:
            self._revoke_lower(preemptor, node)
            await self._evict_all(preemptor, node, victims[:-1])
            self._last_victim[preemptor.uid] = victims[-1]
            await self._evict(preemptor, node, victims[-1])
            sent = True
        except WriteError as fault:
            log.error("Preemption failed", pod=preemptor.key, node=node, error=str(fault))
        finally:
            del self._last_victim[preemptor.uid]
            if not sent or not any(self._handle.state.pod(victim.uid) for victim in victims):
                # No victim may be left whose going would wake the pod.
                self._handle.activate([preemptor.key])

    def _revoke_lower(self, preemptor: PodInfo, node: str) -> None:
        """Whoever was promised the node and is of lower priority should look for another one."""
        for pod in self._handle.state.nominations.on(node):
            if pod.priority < preemptor.priority:
                self._handle.outlet.nominate(pod, "")

    async def _evict_all(self, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        """Evict some at once; if that fails for one, the others are tried all the same."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def evict(victim: PodInfo) -> None:
            async with slots:
                await self._evict(preemptor, node, victim)

        outcomes = await asyncio.gather(*map(evict, victims), return_exceptions=True)
        for fault in outcomes:
            if fault is not None:
                raise fault

    async def _evict(self, preemptor: PodInfo, node: str, victim: PodInfo) -> None:
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        waiting = self._handle.waiting(victim.uid)
        if waiting is not None and waiting.reject(DEFAULT_PREEMPTION, "preempted", Code.ERROR):
            note += " (in scheduler memory)."
        else:
            await self._handle.outlet.evict(victim, self._condition(preemptor, victim))
        self._handle.outlet.record_event(victim, "Normal", "Preempted", "Preempting", note)

    def _condition(self, preemptor: PodInfo, victim: PodInfo) -> dict[str, Any]:
        name = preemptor.pod.spec.scheduler_name
        condition: dict[str, Any] = {
            "type": CONDITION,
            "status": "True",
            "reason": REASON,
            "message": f"{name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": self._now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if victim.pod.metadata.generation:
            condition["observedGeneration"] = victim.pod.metadata.generation
        return condition


def leaving_for_preemption(pod: PodInfo) -> bool:
    """Whether a pod is being deleted because a scheduler wanted its place."""
    condition = pod.pod.condition(CONDITION)
    return (
        pod.pod.deleting
        and condition is not None
        and condition.status == "True"
        and condition.reason == REASON
    )
