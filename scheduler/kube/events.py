"""Kubernetes events (events.k8s.io/v1), off the scheduling path.

Recording puts an entry into a bounded queue. Workers drain it through the slots that
bindings leave free; only when the queue fills up are events sent earlier, and what does not
fit is dropped and counted; warnings, of which there may be a flood, leave a quarter of it free.
Namespaces share queue and workers: one whose events are many, or hang, leaves room for others.
Equal events within six minutes of each other are one event with a series: it is written when it
begins, when it is first repeated, every half hour while it goes on, and when it has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Never

import msgspec

from scheduler import machine
from scheduler.bounded import Usage
from scheduler.fairness import FairQueue
from scheduler.kube.client import JSON, MERGE_PATCH
from scheduler.kube.errors import ApiError, Conflict, KubeError, NotFound
from scheduler.kube.pacing import RetryDelays
from scheduler.kube.timestamps import micro_time
from scheduler.kube.writes import PATIENT_MOST, ApiWriter
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.slices import checkpoint, in_slices

log = get_logger(__name__)

NORMAL = "Normal"
CAPACITY = 1000
WORKERS = PATIENT_MOST
ATTEMPTS = 4
SERIES_SECONDS = 360.0
REFRESH_SECONDS = 1800.0
SWEEP_SECONDS = 60.0
MAX_SERIES = 10_000
# The API server's limit for notes, in bytes.
NOTE_BYTES = 1024
ELLIPSIS = " ..."
SERIES_BYTES = 2048
"""What a series takes, with a note of ordinary length."""
NAME_CHARS = 253


class RegardingReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The object that an event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class _Key(msgspec.Struct, frozen=True, gc=False):
    """What makes two events the same."""

    regarding: RegardingReference
    type: str
    reason: str
    action: str
    note: str


class _Series(msgspec.Struct):
    """One event and its repetitions."""

    key: _Key
    name: str
    first: datetime
    last: datetime
    last_seen: float
    count: int = 1
    written: int = 0
    written_at: float = 0.0
    queued: bool = False
    """It waits for a worker, or one is writing it: never two at once."""
    again: bool = False
    """There is more to write since."""


class EventRecorder:
    """Records events under the name of `controller`; `instance` identifies the replica.

    `record` may be called from the event loop only; `run` must be running for events to be sent.
    """

    def __init__(
        self,
        writer: ApiWriter,
        metrics: Metrics,
        controller: str,
        instance: str,
        *,
        capacity: int = CAPACITY,
        clock: Callable[[], float] = machine.monotonic,
        wall: Callable[[], datetime] = machine.utc_now,
        rng: Callable[[], float] = machine.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._writer = writer
        self._dropped = metrics.events_dropped
        self._controller = controller
        self._instance = instance
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._sleep = sleep
        self._queue: FairQueue[_Series] = FairQueue(capacity, WORKERS)
        self._room_for_warnings = capacity - capacity // 4
        # Ordered by last repetition: the first is the next to be dropped.
        self._series: dict[_Key, _Series] = {}
        self._last_stamp = 0
        metrics.caches.follow(f"events {controller}", self.usage)
        metrics.tables.follow(self._series)

    def record(
        self,
        regarding: RegardingReference,
        type: str,  # noqa: A002  because the API calls it so
        reason: str,
        action: str,
        note: str,
    ) -> None:
        """Take note of an event; `type` is Normal or Warning. O(1), never blocks, never raises."""
        key = _Key(regarding, type, reason, action, truncate(note))
        now, moment = self._clock(), self._wall()
        series = self._series.pop(key, None)
        if series is not None and now - series.last_seen > SERIES_SECONDS:
            self._finish(series)
            series = None
        if series is None:
            series = _Series(key, self._name(regarding, moment), moment, moment, now)
        else:
            series.count += 1
            series.last, series.last_seen = moment, now
        self._series[key] = series
        if series.count <= 2:
            self._enqueue(series)
        if len(self._series) > MAX_SERIES:
            self._finish(self._series.pop(next(iter(self._series))))

    def usage(self) -> dict[str, Usage]:
        """How much is kept: notes are cut to what the API server accepts."""
        return {"event_series": Usage(len(self._series), SERIES_BYTES * len(self._series))}

    async def run(self) -> None:
        """Send events until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._queue.workers):
                tasks.create_task(self._work())
            tasks.create_task(self._sweep_forever())

    async def flush(self, timeout: float) -> bool:
        """Send all that is outstanding, final counts included; False if `timeout` cut it short."""
        for series in list(self._series.values()):  # one that cannot be queued is dropped
            self._finish(series)
        try:
            async with asyncio.timeout(timeout):
                await self._queue.join()
        except TimeoutError:
            return False
        return True

    def sweep(self) -> None:
        """Finish series that ended, refresh those that go on. O(series), in slices; `run` calls."""
        now = self._clock()
        for key, series in list(self._series.items()):
            checkpoint()
            if self._series.get(key) is not series:
                continue  # it ended meanwhile
            if now - series.last_seen > SERIES_SECONDS:
                del self._series[key]
                self._finish(series)
            elif now - series.written_at > REFRESH_SECONDS:
                self._finish(series)

    def _finish(self, series: _Series) -> None:
        if series.count > series.written:
            self._enqueue(series)

    def _enqueue(self, series: _Series) -> None:
        if series.queued:
            series.again = True
            return
        # What went well is said once, and conditions do not repeat it: it has room of its own.
        namespace = series.key.regarding.namespace
        room = series.key.type == NORMAL or self._queue.waiting(namespace) < self._room_for_warnings
        if room and self._queue.put(namespace, series):
            series.queued = True
        else:
            self._drop(series, "the queue is full")

    def _drop(self, series: _Series, why: str) -> None:
        self._dropped.inc()
        series.again = False
        log.debug("Event dropped", object=series.key.regarding.name, reason=why)
        # Without a first version on the server, a repetition has to begin anew.
        if not series.written and self._series.get(series.key) is series:
            del self._series[series.key]

    async def _work(self) -> Never:
        while True:
            namespace, series = await self._queue.get()
            series.again = False
            try:
                await self._write(series)
            except Exception as fault:
                # An event is never worth the process.
                log.error("Event could not be sent", exc=fault)
                self._drop(series, str(fault))
            finally:
                series.queued = False
                if series.again:
                    self._finish(series)
                self._queue.done(namespace)

    async def _sweep_forever(self) -> Never:
        while True:
            await self._sleep(SWEEP_SECONDS)
            await in_slices(self.sweep)

    async def _write(self, series: _Series) -> None:
        backoff = RetryDelays(1.0, 10.0, rng=self._rng)
        for attempts_left in reversed(range(ATTEMPTS)):
            count = series.count
            try:
                await self._put(series)
            except KubeError as error:
                if not error.retriable or not attempts_left:
                    self._drop(series, str(error))
                    return
                asked = error.retry_after if isinstance(error, ApiError) else None
                await self._sleep(max(backoff.next(), asked or 0.0))
            else:
                series.written, series.written_at = count, self._clock()
                return

    async def _put(self, series: _Series) -> None:
        namespace = series.key.regarding.namespace or "default"
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        if series.written:
            try:
                body = {"series": _series_body(series)}
                await self._send(namespace, "PATCH", f"{path}/{series.name}", body, MERGE_PATCH)
                return
            except NotFound:
                pass  # the server keeps events for an hour or so: make it again
        # Names are ours alone, so "already exists" is an earlier try whose answer was lost.
        with suppress(Conflict):
            await self._send(namespace, "POST", path, self._body(series, namespace))

    async def _send(
        self,
        namespace: str,
        method: str,
        path: str,
        body: Mapping[str, object],
        content_type: str = JSON,
    ) -> None:
        filling_up = len(self._queue) * 2 > self._queue.capacity
        await self._writer.send(
            method, path, body, content_type, namespace=namespace, patient=not filling_up
        )

    def _body(self, series: _Series, namespace: str) -> dict[str, object]:
        key = series.key
        body: dict[str, object] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": micro_time(series.first),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "regarding": key.regarding,
            "type": key.type,
            "reason": key.reason,
            "action": key.action,
            "note": key.note,
        }
        if series.count > 1:
            body["series"] = _series_body(series)
        return body

    def _name(self, regarding: RegardingReference, moment: datetime) -> str:
        """The object's name and a time stamp, made unique within this process."""
        stamp = int(moment.timestamp() * 1e9)
        self._last_stamp = max(stamp, self._last_stamp + 1)
        suffix = f".{self._last_stamp:x}"
        return regarding.name[: NAME_CHARS - len(suffix)].rstrip("-.") + suffix


def _series_body(series: _Series) -> dict[str, object]:
    return {"count": series.count, "lastObservedTime": micro_time(series.last)}


def truncate(note: str) -> str:
    """The note, cut to what the API server accepts; never in the middle of a character."""
    if len(note) <= NOTE_BYTES and note.isascii():
        return note
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_BYTES:
        return encoded.decode()
    return encoded[: NOTE_BYTES - len(ELLIPSIS)].decode(errors="ignore") + ELLIPSIS
