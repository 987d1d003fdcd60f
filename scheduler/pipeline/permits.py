"""Pods that hold a node and wait at Permit, and decisions about them by people.

A Permit plugin that returned Wait decides by itself, in time. An authorised user can decide in its
place: approve stands for Allow, reject for Reject. Only the plugin that keeps a gang together
cannot be approved for, since members would then be bound without their gang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from scheduler import machine
from scheduler.model.workloads import pod_group_of
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.binding import Bindings
from scheduler.plugin_api.waiting import WaitingPod, Waits
from scheduler.queueing.view import PermitWait, QueueEntry
from scheduler.slices import checkpoint
from scheduler.webhooks.suspension import Suspension

log = get_logger(__name__)

WAITING = "waiting-on-permit"
SUSPENDED = "suspended"
"""Besides the tiers of the queue: pods that hold a node and wait for permission, and pods whose
attempt waits for an answer of a webhook or an extender."""

Verb = Literal["approve", "reject"]


class NotWaiting(LookupError):
    """No plugin holds such a pod."""


class Undecidable(Exception):
    """The pod waits, but not for what was decided."""


class PermitDecision(msgspec.Struct, frozen=True):
    """What a user decides about a waiting pod."""

    verb: Verb
    pod: str
    """``namespace/name``."""
    user: str
    plugin: str = ""
    """For which plugin; empty: for all that hold the pod."""
    reason: str = ""
    uid: str = ""
    """Of the pod that is meant; empty: any pod of that name."""


class Permits:
    """All pods of a scheduler that wait for permission. O(pods that are being bound)."""

    def __init__(
        self,
        bindings: Bindings,
        waits: Waits,
        metrics: Metrics,
    ) -> None:
        self._bindings = bindings
        self._waits = waits
        self._metrics = metrics

    def entries(self) -> list[QueueEntry]:
        """Describe them all, in the order in which nodes were reserved; gives the loop back."""
        described = []
        for attempt in self._bindings.attempts():
            checkpoint()
            if held := self.holders(attempt.cycle.pod.uid):
                described.append(_entry(attempt, held))
        return described

    def decide(self, decision: PermitDecision) -> dict[str, Any]:
        """Carry out the decision of an authorised user; raises NotWaiting, Undecidable."""
        attempt, held = self._find(decision)
        chosen = _chosen(decision, attempt, held)
        plugins = [plugin for _, plugin in chosen]
        _carry_out(decision, chosen)
        self._metrics.permit_decisions.labels(decision.verb).inc()
        log.info(
            "User decided about a waiting pod",
            decision=decision.verb,
            pod=decision.pod,
            uid=attempt.cycle.pod.uid,
            node=attempt.node,
            plugins=", ".join(plugins),
            user=decision.user,
            reason=decision.reason,
        )
        still = [
            plugin
            for each in self.holders(attempt.cycle.pod.uid)
            for plugin in each.pending_plugins
        ]
        return {
            "pod": decision.pod,
            "uid": attempt.cycle.pod.uid,
            "node": attempt.node,
            "decision": decision.verb,
            "plugins": plugins,
            "stillWaitingFor": still,
        }

    def _find(self, decision: PermitDecision) -> tuple[Attempt, Sequence[WaitingPod]]:
        for attempt in self._bindings.attempts():
            pod = attempt.cycle.pod
            if pod.key != decision.pod or decision.uid not in ("", pod.uid):
                continue
            if held := self.holders(attempt.cycle.pod.uid):
                return attempt, held
        raise NotWaiting(f"{decision.pod} does not wait for permission")

    def holders(self, uid: str) -> list[WaitingPod]:
        """The undecided waits of a pod."""
        return self._waits.undecided(uid)


def suspended_entries(suspension: Suspension[Attempt], now: float) -> list[QueueEntry]:
    """Describe pods whose attempt waits for an answer, at a moment of the queue's clock."""
    described = []
    for attempt, plugin in suspension.asking():
        checkpoint()
        queued = attempt.queued
        described.append(
            QueueEntry(
                pod=queued.key,
                profile=queued.profile,
                tier=SUSPENDED,
                waiting_seconds=max(0.0, now - attempt.started),
                retry_seconds=None,
                attempts=queued.attempts,
                plugins=(plugin,),
                message=f"waiting for the answer of {plugin}",
                group=pod_group_of(queued.info.pod.metadata) or "",
            )
        )
    return described


def permit_waits(held: Sequence[WaitingPod], now: float) -> tuple[PermitWait, ...]:
    """The plugins at which a pod waits, at a time in seconds since the epoch."""
    return tuple(
        PermitWait(plugin, max(0.0, now - each.since), max(0.0, each.until(plugin) - now))
        for each in held
        for plugin in each.pending_plugins
    )


def _entry(attempt: Attempt, held: Sequence[WaitingPod]) -> QueueEntry:
    now = machine.wall()
    queued = attempt.queued
    waits = permit_waits(held, now)
    return QueueEntry(
        pod=queued.key,
        profile=queued.profile,
        tier=WAITING,
        waiting_seconds=max(0.0, now - min(each.since for each in held)),
        retry_seconds=None,
        attempts=queued.attempts,
        plugins=tuple(wait.plugin for wait in waits),
        message="; ".join(each.message for each in held),
        group=pod_group_of(queued.info.pod.metadata) or "",
        node=attempt.node,
        timeout_seconds=min(wait.timeout_seconds for wait in waits),
        permit=waits,
    )


def _chosen(
    decision: PermitDecision, attempt: Attempt, held: Sequence[WaitingPod]
) -> list[tuple[WaitingPod, str]]:
    """The plugins that the decision is for; raises Undecidable."""
    pending = [(waiting, plugin) for waiting in held for plugin in waiting.pending_plugins]
    chosen = [each for each in pending if decision.plugin in ("", each[1])]
    if not chosen:
        names = ", ".join(plugin for _, plugin in pending)
        raise Undecidable(f"{decision.pod} waits for {names}, not for {decision.plugin}")
    groups = attempt.framework.groups
    gang = groups.name if groups is not None else ""
    if decision.verb == "approve" and any(plugin == gang for _, plugin in chosen):
        raise Undecidable(
            f"{decision.pod} waits for its pod group ({gang}), which only the group itself can end"
        )
    return chosen


def _carry_out(decision: PermitDecision, chosen: Sequence[tuple[WaitingPod, str]]) -> None:
    for waiting, plugin in chosen:
        if decision.verb == "approve":
            waiting.allow(plugin)
        else:
            because = f": {decision.reason}" if decision.reason else ""
            waiting.reject(plugin, f"permit was rejected by {decision.user}{because}")
