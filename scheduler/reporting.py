"""The outlet of a real cluster: decisions become bindings, conditions and events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from scheduler.kube.errors import KubeError, NotFound, WritesStopped
from scheduler.kube.events import EventRecorder, ObjectReference
from scheduler.kube.writes import ApiWriter, Binding
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.logs import get_logger

log = get_logger(__name__)

CONDITION_WORKERS = 8
MAX_CONDITIONS = 16_384


class ClusterOutlet:
    """Writes to the API server; ``run`` must be running for conditions and events to go out.

    Only the newest condition of a pod is written, and never after its binding: a pod that is bound
    while a condition is on its way waits for that write first, so that PodScheduled ends up true.
    """

    def __init__(self, writer: ApiWriter, recorders: Mapping[str, EventRecorder]) -> None:
        self._writer = writer
        self._recorders = recorders
        self._conditions: dict[str, tuple[PodInfo, str, str]] = {}
        self._writing: dict[str, asyncio.Event] = {}
        self._work = asyncio.Event()

    async def run(self) -> None:
        """Send conditions and events until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for recorder in self._recorders.values():
                tasks.create_task(recorder.run())
            for _ in range(CONDITION_WORKERS):
                tasks.create_task(self._write_conditions())

    async def flush(self, timeout: float) -> None:
        """Give events that are still queued a chance to be sent."""
        await asyncio.gather(*(recorder.flush(timeout) for recorder in self._recorders.values()))

    async def bind(self, pod: PodInfo, node: str) -> Status:
        """Bind, and return only when it is certain what became of the pod."""
        self._conditions.pop(pod.uid, None)
        if writing := self._writing.get(pod.uid):
            await writing.wait()
        metadata = pod.pod.metadata
        while True:
            outcome = await self._writer.bind(metadata.namespace, metadata.name, pod.uid, node)
            if outcome.result is not Binding.UNKNOWN:
                break
            log.warning("Outcome of a binding is unknown, asking again", pod=pod.key, node=node)
        return SUCCESS if outcome.bound else error(f"{outcome.result.value}: {outcome.message}")

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Queue an event about the pod."""
        metadata = pod.pod.metadata
        regarding = ObjectReference(
            api_version="v1",
            kind="Pod",
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
        )
        self._recorders[pod.pod.spec.scheduler_name].record(regarding, type_, reason, action, note)

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        """Queue the condition, unless the pod says so already."""
        current = pod.pod.condition("PodScheduled")
        if current and (current.status, current.reason, current.message) == (
            "False",
            reason,
            message,
        ):
            return
        if len(self._conditions) >= MAX_CONDITIONS and pod.uid not in self._conditions:
            log.warning("Too many conditions wait to be written, one is dropped", pod=pod.key)
            return
        self._conditions[pod.uid] = (pod, reason, message)
        self._work.set()

    async def _write_conditions(self) -> None:
        while True:
            if not self._conditions:
                self._work.clear()
                await self._work.wait()
                continue
            uid = next(iter(self._conditions))
            if writing := self._writing.get(uid):
                await writing.wait()
                continue
            pod, reason, message = self._conditions.pop(uid)
            self._writing[uid] = asyncio.Event()
            try:
                await self._write_condition(pod, reason, message)
            finally:
                self._writing.pop(uid).set()

    async def _write_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        metadata = pod.pod.metadata
        patch = {"status": {"conditions": [_condition(pod, reason, message)]}}
        try:
            await self._writer.patch_pod_status(
                metadata.namespace, metadata.name, patch, metadata.uid
            )
        except NotFound:
            pass  # deleted meanwhile: nobody is left to read it
        except WritesStopped:
            raise
        except KubeError as fault:
            log.warning("Condition could not be written", pod=pod.key, error=str(fault))


def _condition(pod: PodInfo, reason: str, message: str) -> dict[str, Any]:
    condition: dict[str, Any] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
    }
    if pod.pod.metadata.generation:
        condition["observedGeneration"] = pod.pod.metadata.generation
    current = pod.pod.condition("PodScheduled")
    if current is None or current.status != "False":
        condition["lastTransitionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return condition
