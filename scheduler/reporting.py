"""The outlet of a real cluster: decisions become bindings, conditions and events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import msgspec

from scheduler import machine
from scheduler.fairness import FairQueue
from scheduler.kube.client import JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from scheduler.kube.errors import (
    UNREADABLE,
    Ambiguous,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
    WritesStopped,
)
from scheduler.kube.events import EventRecorder, RegardingReference
from scheduler.kube.listing import decoded
from scheduler.kube.writes import ApiWriter, Binding, pod_path
from scheduler.model.objects import KINDS
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.arenas import own_copy
from scheduler.observe.logs import get_logger
from scheduler.observe.repeats import SharedFaults
from scheduler.plugin_api.outlet import (
    ObjectRequest,
    StaleReason,
    Verb,
    WriteError,
    never_stale,
)

log = get_logger(__name__)

STATUS_WORKERS = 8
MAX_REPORTS = 16_384
MAX_WORDS = 256


class _StatusReport(msgspec.Struct):
    """What is to be said on a pod's status; only the newest of each."""

    pod: PodInfo
    condition: tuple[str, str] | None = None
    nominated: str | None = None


class ClusterOutlet:
    """Writes to the API server; ``run`` must be running for status and events to go out.

    The status of a waiting pod is never written over a binding, ours or another scheduler's: the
    write names the version of the pod that it is about, so that PodScheduled ends up true.
    """

    def __init__(self, writer: ApiWriter, recorders: Mapping[str, EventRecorder]) -> None:
        self._writer = writer
        self._recorders = recorders
        self._reports: dict[str, _StatusReport] = {}
        """By uid: each is in the queue, or follows the one that is being written."""
        self._queue: FairQueue[str] = FairQueue(MAX_REPORTS, STATUS_WORKERS)
        """Uids by namespace: one whose status cannot be written leaves room for others."""
        self._faults = SharedFaults(machine.monotonic)
        self._overfull = False
        self._writing: set[str] = set()
        self._said: dict[str, int] = {}
        """The hash of what was said last, by uid, the oldest first."""
        self._namespaces: dict[str, str] = {}
        self._words: dict[tuple[str, str], tuple[tuple[str, str], int]] = {}
        """What was said of late, with its hash: one object for thousands of pods."""

    def tables(self) -> tuple[dict[Any, Any], ...]:
        """The tables whose length is that of pods whose status was written, or waits to be."""
        return (self._reports, self._said)

    async def run(self) -> None:
        """Send status and events until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for recorder in self._recorders.values():
                tasks.create_task(recorder.run())
            for _ in range(self._queue.workers):
                tasks.create_task(self._write_reports())

    async def flush(self, timeout: float) -> None:
        """Give events that are still queued a chance to be sent."""
        await asyncio.gather(*(recorder.flush(timeout) for recorder in self._recorders.values()))

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        """Bind, and return only when the outcome is certain."""
        self._reports.pop(pod.uid, None)
        metadata = pod.pod.metadata
        where = (metadata.namespace, metadata.name, pod.uid, node)
        outcome = await self._writer.bind(*where, stale)
        if outcome.result is Binding.UNKNOWN:
            log.warning("Outcome of a binding is unknown, reading the pod", pod=pod.key, node=node)
            outcome = await self._writer.settle(*where)
        return SUCCESS if outcome.bound else error(f"{outcome.result.value}: {outcome.message}")

    async def read_pod(self, pod: PodInfo) -> Pod | None:
        """The pod as it is now; None if it is gone, or another has its name."""
        metadata = pod.pod.metadata
        with _as_write_error():
            try:
                path = pod_path(metadata.namespace, metadata.name)
                found = decoded(await self._writer.get(path, metadata.namespace), Pod)
            except NotFound:
                return None
            except UNREADABLE as fault:
                raise WriteError(f"the pod cannot be read: {fault}") from fault
        return found if found.metadata.uid == pod.uid else None

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        """Merge a patch into an object."""
        with _as_write_error():
            await self._writer.send("PATCH", _path(kind, key), patch, MERGE_PATCH)

    async def send(self, request: ObjectRequest) -> Any:
        """Send a request about one object."""
        method, content_type = _METHODS[request.verb]
        namespace = request.key.rpartition("/")[0]
        path = _path(request.kind, request.key).rstrip("/")
        if request.subresource:
            path = f"{path}/{request.subresource}"
        with _as_write_error():
            answer = await self._writer.exchange(
                method,
                path,
                None if request.verb is Verb.GET else request.body,
                content_type,
                namespace=namespace,
                once=request.verb is Verb.CREATE,
            )
        if request.verb is Verb.DELETE:
            return None
        try:
            return decoded(answer, KINDS[request.kind].type)
        except UNREADABLE as fault:
            raise WriteError(f"the answer cannot be read: {fault}") from fault

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        """Put the condition on the pod, then delete it."""
        metadata = pod.pod.metadata
        status = {"status": {"conditions": [condition]}}
        with _as_write_error():
            try:
                await self._writer.patch_pod_status(
                    metadata.namespace, metadata.name, status, metadata.uid
                )
                body = {"preconditions": {"uid": metadata.uid}}
                await self._writer.send("DELETE", pod_path(metadata.namespace, metadata.name), body)
            except NotFound:
                log.debug("Pod to be evicted is gone already", pod=pod.key)

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Queue an event about the pod."""
        metadata = pod.pod.metadata
        regarding = RegardingReference(
            api_version="v1",
            kind="Pod",
            namespace=self._namespace(metadata.namespace),  # events outlive their pods
            name=own_copy(metadata.name),
            uid=own_copy(metadata.uid),
        )
        recorder = self._recorders.get(pod.pod.spec.scheduler_name)
        # Events about others' pods (victims) go out under our first name.
        recorder = recorder or next(iter(self._recorders.values()))
        recorder.record(regarding, type_, reason, action, note)

    def _namespace(self, name: str) -> str:
        """One copy for all events of a namespace."""
        if len(self._namespaces) >= MAX_WORDS:
            self._namespaces.clear()
        copy = own_copy(name)
        return self._namespaces.setdefault(copy, copy)

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        """Queue the condition, unless the pod has it already and no other write is under way.

        What we said last may be written and not yet seen by the watch, so it counts as well.
        """
        word, said = self._word(reason, message)
        current = pod.pod.condition("PodScheduled")
        seen = current and (current.status, current.reason, current.message)
        unsaid = pod.uid in self._reports or pod.uid in self._writing
        if seen == ("False", *word) and not unsaid and self._said.get(pod.uid, said) == said:
            return
        if report := self._report(pod):
            report.condition = word
            self._said.pop(pod.uid, None)
            self._said[pod.uid] = said
            if len(self._said) > MAX_REPORTS:  # many at once: a dict finds its first one slowly
                for uid in list(islice(self._said, MAX_REPORTS // 16)):
                    del self._said[uid]

    def _word(self, reason: str, message: str) -> tuple[tuple[str, str], int]:
        word = (reason, message)
        known = self._words.get(word)
        if known is None:
            if len(self._words) >= MAX_WORDS:
                self._words.clear()
            known = self._words[word] = (word, hash(word))
        return known

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Queue the nomination, whatever the pod's status: an earlier write may be under way."""
        if report := self._report(pod):
            report.nominated = node

    def drop(self, uid: str, /) -> None:
        """The pod is gone: what is not being written yet is not written.

        A flood of pods may be deleted while their statuses wait for an API server that is slow.
        """
        self._reports.pop(uid, None)
        self._said.pop(uid, None)

    def _report(self, pod: PodInfo) -> _StatusReport | None:
        report = self._reports.get(pod.uid)
        if report is None:
            report = _StatusReport(pod)
            # What is being written goes first; the rest of what was said follows it.
            if pod.uid not in self._writing and not self._enqueued(report):
                return None
            self._reports[pod.uid] = report
        report.pod = pod
        return report

    def _enqueued(self, report: _StatusReport) -> bool:
        pod = report.pod
        if self._queue.put(pod.pod.metadata.namespace, own_copy(pod.uid)):
            self._overfull = False
            return True
        if not self._overfull:
            log.warning("Too many status updates wait to be written", dropped=pod.key)
        self._overfull = True
        return False

    async def _write_reports(self) -> None:
        while True:
            namespace, uid = await self._queue.get()
            try:
                # A pod that was bound or deleted meanwhile has no report any more, or another that
                # is queued.
                if uid in self._reports and uid not in self._writing:
                    await self._write_report(uid)
            finally:
                self._queue.done(namespace)

    async def _write_report(self, uid: str) -> None:
        self._writing.add(uid)
        try:
            await self._write(self._reports.pop(uid))
        finally:
            self._writing.remove(uid)
        later = self._reports.get(uid)
        if later is not None and not self._enqueued(later):
            del self._reports[uid]

    async def _write(self, report: _StatusReport) -> None:
        metadata = report.pod.pod.metadata
        status: dict[str, Any] = {}
        if report.condition is not None:
            status["conditions"] = [_condition(report.pod, *report.condition)]
        if report.nominated is not None:
            status["nominatedNodeName"] = report.nominated or None
        try:
            await self._writer.patch_pod_status(
                metadata.namespace,
                metadata.name,
                {"status": status},
                metadata.uid,
                waiting_at=metadata.resource_version,
            )
        except NotFound:
            log.debug("Pod is gone, its status is not written", pod=report.pod.key)
        except WritesStopped:
            raise
        except KubeError as fault:
            others = self._faults.news(str(fault), report.pod.key, report.pod.uid)
            tell = log.debug if others is None else log.warning
            tell("Status could not be written", pod=report.pod.key, error=str(fault), others=others)
        except Exception as fault:
            # A status that cannot be written must not end the process.
            log.error("Status could not be written", exc=fault, pod=report.pod.key)


@contextmanager
def _as_write_error() -> Iterator[None]:
    try:
        yield
    except WritesStopped:
        raise
    except KubeError as fault:
        raise WriteError(
            str(fault),
            conflict=isinstance(fault, Conflict),
            gone=isinstance(fault, NotFound),
            unknown=isinstance(fault, Ambiguous | ServerError),
        ) from fault


_METHODS = {
    Verb.GET: ("GET", JSON),
    Verb.CREATE: ("POST", JSON),
    Verb.MERGE: ("PATCH", MERGE_PATCH),
    Verb.STRATEGIC: ("PATCH", STRATEGIC_MERGE_PATCH),
    Verb.DELETE: ("DELETE", JSON),
}


def _path(kind: str, key: str) -> str:
    """Where the API server keeps an object."""
    namespace, _, name = key.rpartition("/")
    path = KINDS[kind].path
    if namespace:
        group, _, plural = path.rpartition("/")
        path = f"{group}/namespaces/{namespace}/{plural}"
    return f"{path}/{name}"


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
        condition["lastTransitionTime"] = machine.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return condition
