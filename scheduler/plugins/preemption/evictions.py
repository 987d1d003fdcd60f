"""Carries out preemptions in the background.

Until the watch shows that the last victim is being deleted, the preemptor is gated: an attempt in
between would find its node as full as before and select victims a second time. The last victim is
evicted after all others, so that its deletion is an event after everything was sent, and no event
that could wake the preemptor is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from scheduler import machine
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code
from scheduler.observe.logs import get_logger
from scheduler.plugin_api import Handle
from scheduler.plugin_api.outlet import WriteError
from scheduler.plugins.names import DEFAULT_PREEMPTION
from scheduler.plugins.preemption.candidates import Candidate

log = get_logger(__name__)

CONDITION = "DisruptionTarget"
REASON = "PreemptionByScheduler"

_AT_ONCE = 16


class Evictions:
    """All preemptions under way."""

    def __init__(self, handle: Handle, now: Callable[[], datetime] = machine.utc_now) -> None:
        self._handle = handle
        self._now = now
        self._last_victim: dict[str, PodInfo | None] = {}
        """By the uid of the preemptor; None while other victims are being evicted."""
        self._evicted: dict[str, PodInfo] = {}
        """Uids of victims that were evicted, while the watch has not reported their deletion."""

    def leaving(self, pod: PodInfo) -> bool:
        """Whether a pod is being preempted: evicted here, or so reported by the watch."""
        return pod.uid in self._evicted or leaving_for_preemption(pod)

    def under_way(self, pod: PodInfo) -> bool:
        """Whether the watch has yet to report the deletion of some victim of this pod."""
        if pod.uid not in self._last_victim:
            return False
        last = self._last_victim[pod.uid]
        return last is None or self._stays(last)

    def _stays(self, victim: PodInfo) -> bool:
        state = self._handle.state
        there = state.pod(victim.uid)
        if there is None or state.row(there.node_name) is None:  # or its node is gone
            return False
        return not there.pod.deleting

    def _forget_finished(self) -> None:
        self._evicted = {uid: pod for uid, pod in self._evicted.items() if self._stays(pod)}
        self._last_victim = {
            uid: last
            for uid, last in self._last_victim.items()
            if last is None or self._stays(last)
        }

    def start(self, preemptor: PodInfo, chosen: Candidate) -> None:
        """Evict the victims in the background, except those that are being deleted already."""
        self._forget_finished()
        self._revoke_lower(preemptor, chosen.node)
        staying = [
            victim
            for victim in chosen.victims
            if not victim.pod.deleting and victim.uid not in self._evicted
        ]
        if not staying:
            return
        self._handle.metrics.preemption_victims.observe(len(chosen.victims))
        self._evicted |= {victim.uid: victim for victim in staying}
        self._last_victim[preemptor.uid] = None
        self._handle.run.spawn(self._run(preemptor, chosen.node, staying))

    async def _run(self, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        sent = False
        try:
            await self._evict_all(preemptor, node, victims[:-1])
            self._last_victim[preemptor.uid] = victims[-1]
            await self._evict(preemptor, node, victims[-1])
            sent = True
        except WriteError as fault:
            log.error("Preemption failed", pod=preemptor.key, node=node, error=str(fault))
            for victim in victims:
                self._evicted.pop(victim.uid, None)
        finally:
            state = self._handle.state
            gone = not any(state.pod(victim.uid) for victim in victims)
            if not sent or gone or state.row(node) is None:
                # The deletion of the last victim may not come, or free nothing, so nothing would
                # wake the pod.
                self._last_victim.pop(preemptor.uid, None)
                self._handle.queue.activate([preemptor.key])

    def _revoke_lower(self, preemptor: PodInfo, node: str) -> None:
        """Clear the nominations of pods with lower priority for this node."""
        for pod in self._handle.state.nominations.on(node):
            if pod.priority < preemptor.priority:
                self._handle.write.nominate(pod, "")

    async def _evict_all(self, preemptor: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        """Evict some pods at once; a failure of one does not stop the others."""
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
        waiting = self._handle.permits.waiting(victim.uid)
        if waiting is not None and waiting.reject(DEFAULT_PREEMPTION, "preempted", Code.ERROR):
            note += " (in scheduler memory)."
        else:
            await self._write_eviction(victim, self._condition(preemptor, victim))
        self._handle.write.record_event(victim, "Normal", "Preempted", "Preempting", note)

    async def _write_eviction(self, victim: PodInfo, condition: dict[str, Any]) -> None:
        journal, fault = self._handle.state.journal, ""
        try:
            await self._handle.write.evict(victim, condition)
        except WriteError as refused:
            fault = str(refused)
            raise
        finally:
            if journal is not None:
                journal.evicted(victim.uid, fault)

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
    """Whether a pod is being deleted because of preemption by a scheduler."""
    condition = pod.pod.condition(CONDITION)
    return (
        pod.pod.deleting
        and condition is not None
        and condition.status == "True"
        and condition.reason == REASON
    )
