"""Runs pods to completion: so many at a time, so many in all, with or without an index."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from sandbox.controllers import conditions
from sandbox.controllers.ownership import Ownership
from sandbox.controllers.recorder import ControllerEvents
from sandbox.controllers.templates import PodMaker, Template, is_active, is_ready, phase, shape
from sandbox.errors import ApiFailure
from sandbox.patching import MERGE
from sandbox.registry import Registry, timestamp
from sandbox.resources import Resource
from sandbox.store import Body, Key, Version
from scheduler.model.meta import Struct

_BURST = 20
"""Pods that one sync makes or deletes."""
_INDEX = "batch.kubernetes.io/job-completion-index"
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


class _CompletedSpec(Struct, frozen=True):
    template: Template = Template()
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    suspend: bool = False
    ttl_seconds_after_finished: int | None = None


class _Ended:
    """What has ended of a Job's pods, also of those that are no longer there."""

    def __init__(self) -> None:
        self.counted: set[str] = set()
        self.succeeded = 0
        self.failed = 0
        self.indexes: set[int] = set()
        self.last_failure = 0.0

    def count(self, pods: Iterable[Version], now: float) -> None:
        """Count the pods that have ended since."""
        for pod in pods:
            uid, result = pod.body["metadata"]["uid"], phase(pod)
            if uid in self.counted or result not in ("Succeeded", "Failed"):
                continue
            self.counted.add(uid)
            if result == "Failed":
                self.failed += 1
                self.last_failure = now
                continue
            index = _index(pod)
            if index is None or index not in self.indexes:
                self.succeeded += 1
            if index is not None:
                self.indexes.add(index)


class Jobs:
    """The controller of Jobs."""

    concerned_by: tuple[str, ...] = ()
    finalizes = False

    def __init__(self, registry: Registry, ownership: Ownership) -> None:
        self._registry = registry
        self._pods = PodMaker(registry, ownership)
        self._recorder = ControllerEvents(registry, "job-controller")
        self._ended: dict[str, _Ended] = {}

    @property
    def resource(self) -> Resource:
        return self._registry.builtin("jobs", "batch")

    def sync(self, owner: Version) -> float | None:
        spec: _CompletedSpec = shape(owner, _CompletedSpec)
        if _is_over(owner):
            return self._expire(owner, spec)
        pods = self._pods.of(owner)
        ended = self._ended.setdefault(owner.body["metadata"]["uid"], _Ended())
        now = self._registry.clock().timestamp()
        ended.count(pods, now)
        active = [pod for pod in pods if is_active(pod)]
        outcome = _outcome(spec, ended, active)
        if outcome is not None or spec.suspend:
            for pod in active:
                self._pods.delete(pod)
            self._report(owner, spec, ended, [], outcome)
            return None
        pause = _pause(ended, now)
        missing = _missing(spec, ended, active) if pause <= 0 else 0
        try:
            self._adjust(owner, spec, ended, active, missing)
        finally:
            self._report(owner, spec, ended, active, None)
        if pause > 0:
            return pause
        return 0.0 if missing > _BURST else None

    def concerned(self, table: str, changed: Body) -> Iterable[Key]:
        """Changes of other tables concern none of them."""
        return ()

    def forget(self, uid: str) -> None:
        self._ended.pop(uid, None)

    def _adjust(
        self,
        owner: Version,
        spec: _CompletedSpec,
        ended: _Ended,
        active: list[Version],
        missing: int,
    ) -> None:
        for pod in active[len(active) + missing :] if missing < 0 else ():
            self._pods.delete(pod)
        names = _labels(owner)
        if spec.completion_mode != "Indexed":
            for _ in range(min(missing, _BURST)):
                self._make(owner, labels=names)
            return
        taken = {_index(pod) for pod in active} | ended.indexes
        free = (i for i in range(spec.completions or spec.parallelism) if i not in taken)
        for index in islice(free, max(0, min(missing, _BURST))):
            self._make(
                owner,
                stem=f"{owner.key[1]}-{index}",
                labels={**names, _INDEX: str(index)},
                annotations={_INDEX: str(index)},
            )

    def _make(self, owner: Version, **how: Any) -> None:
        try:
            made = self._pods.make(owner.body, **how)
        except ApiFailure as fault:
            self._recorder.warn(owner.body, "FailedCreate", f"Error creating: {fault}")
            raise
        self._recorder.normal(owner.body, "SuccessfulCreate", f"Created pod: {made.key[1]}")

    def _expire(self, owner: Version, spec: _CompletedSpec) -> float | None:
        """Delete a Job that is over when its time to live is."""
        if spec.ttl_seconds_after_finished is None:
            return None
        over = conditions.find(owner.body, "Complete") or conditions.find(owner.body, "Failed")
        since = conditions.moment((over or {}).get("lastTransitionTime")) or self._registry.clock()
        left = spec.ttl_seconds_after_finished - (self._registry.clock() - since).total_seconds()
        if left > 0:
            return left
        self._registry.delete(self.resource, owner.key, {"propagationPolicy": "Foreground"})
        return None

    def _report(
        self,
        owner: Version,
        spec: _CompletedSpec,
        ended: _Ended,
        active: list[Version],
        outcome: Body | None,
    ) -> None:
        now = timestamp(self._registry.clock())
        before = owner.body.get("status") or {}
        succeeded = outcome is not None and outcome["type"] == "Complete"
        held = {"type": "Suspended", "status": "True" if spec.suspend else "False"}
        changes = [outcome] if outcome is not None else []
        if spec.suspend or conditions.find(owner.body, "Suspended"):
            changes.append({**held, "reason": "JobSuspended" if spec.suspend else "JobResumed"})
        status: Body = {
            "active": len(active) or None,
            "ready": sum(map(is_ready, active)),
            "terminating": 0,
            "succeeded": ended.succeeded or None,
            "failed": ended.failed or None,
            "startTime": None if spec.suspend else before.get("startTime") or now,
            "completionTime": now if succeeded else None,
            "uncountedTerminatedPods": {},
            "conditions": conditions.updated(before.get("conditions") or (), *changes, now=now),
        }
        if spec.completion_mode == "Indexed":
            status["completedIndexes"] = _written(ended.indexes) or None
        self._registry.patch(self.resource, owner.key, MERGE, {"status": status}, "status")
        if outcome is not None:
            reason = "Completed" if succeeded else outcome["reason"]
            self._recorder.normal(owner.body, reason, outcome["message"])


def _missing(spec: _CompletedSpec, ended: _Ended, active: list[Version]) -> int:
    """How many pods more there should be; negative for too many."""
    if spec.completions is None:
        wanted = len(active) if ended.succeeded else spec.parallelism
    else:
        wanted = min(spec.parallelism, spec.completions - ended.succeeded)
    return wanted - len(active)


def _outcome(spec: _CompletedSpec, ended: _Ended, active: list[Version]) -> Body | None:
    """The condition that ends the Job, if something does."""
    if ended.failed > spec.backoff_limit:
        words = "Job has reached the specified backoff limit"
        return _over("Failed", "BackoffLimitExceeded", words)
    if spec.completions is None:
        done = ended.succeeded > 0 and not active
    else:
        done = ended.succeeded >= spec.completions
    if not done:
        return None
    return _over("Complete", "CompletionsReached", "Reached expected number of succeeded pods")


def _over(kind: str, reason: str, message: str) -> Body:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def _pause(ended: _Ended, now: float) -> float:
    """Seconds until pods may take the place of those that failed."""
    if not ended.failed:
        return 0.0
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (ended.failed - 1))
    return ended.last_failure + pause - now


def _is_over(owner: Version) -> bool:
    return conditions.is_true(owner.body, "Complete") or conditions.is_true(owner.body, "Failed")


def _labels(owner: Version) -> dict[str, str]:
    name, uid = owner.key[1], owner.body["metadata"]["uid"]
    return {
        "batch.kubernetes.io/job-name": name,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "controller-uid": uid,
    }


def _index(pod: Version) -> int | None:
    text = (pod.body["metadata"].get("annotations") or {}).get(_INDEX, "")
    return int(text) if text.isdecimal() else None


def _written(indexes: set[int]) -> str:
    """Indexes as the status has them: ``0-2,5``."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1] = [parts[-1][0], index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)
