"""A local copy of one resource, kept by list and watch, that reports every change once, in order.

            ┌───────── position in doubt: 410, refused, silence, garbled thrice ──────────┐
            ▼                                                                              │
    ┌──────────────┐  all pages taken   ┌────────────────┐   ended, cut, refused    ┌──────┴─────┐
    │ list (pages) ├───────────────────►│ watch position ├─────────────────────────►│ back off   │
    └──────────────┘  `synced` is set   └────────────────┘◄─────────────────────────┴────────────┘
                                                              position still good

A list after the first emits the difference to what is known, so consumers never start over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Never, TypeVar

import msgspec

from scheduler import machine
from scheduler.kube.client import ByteStream, KubeClient
from scheduler.kube.decoding import (
    Identity,
    LineSplitter,
    ObjectDecoder,
    Page,
    T,
    WatchEvent,
    read_event,
    share_labels,
)
from scheduler.kube.errors import (
    UNREADABLE,
    Ambiguous,
    ApiError,
    ErrorStatus,
    Forbidden,
    Garbled,
    KubeError,
    NotFound,
    ResourceExpired,
    Silent,
    TooManyRequests,
    Unreachable,
    error_from,
)
from scheduler.kube.pacing import RetryDelays
from scheduler.kube.paging import Pager
from scheduler.model.objects import Change
from scheduler.observe.arenas import OutsideArenas
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.slices import in_slices, unbroken

log = get_logger(__name__)

R = TypeVar("R")

# The server ends a watch after this, times one to two: spreads reconnects of many clients.
WATCH_SECONDS = 300
# Servers send a bookmark about once a minute, so two missed ones mean a server that says nothing.
# Connections that lead nowhere end before, by the kernel's probes (`connections.py`).
IDLE_SECONDS = 130.0
# A line that has begun ends within this: an object of 1.5 MB comes at 50 kB a second. A
# connection with fewer bytes counts as dead.
LINE_SECONDS = 30.0
# A healthy watch is never older: silence ends after `IDLE_SECONDS`, and the list that follows takes
# a moment. Beyond, this replica decides by what is long past, and is not ready.
STALE_SECONDS = 180.0
# How often in a row a stream may be garbled before a list is tried instead.
MAX_GARBLED = 3
# How many bytes of a page are decoded and delivered before the event loop runs other tasks.
PAGE_SLICE_BYTES = 128 * 1024
# How many objects likewise, of a page or a stream: small ones take some 10 µs each to decode, and
# as much to take in. More follow as long as the slice is not over.
OBJECTS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class WatchedResource(Generic[T]):
    """What to watch: where it is, what its objects decode to, and which of them (`params`).

    An `optional` resource may be missing from the cluster, as a CRD that is not installed, or be
    forbidden to us: it then counts as empty, and is looked for again from time to time.
    """

    kind: str
    path: str
    type: type[T]
    params: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False


class Reflector(Generic[T]):
    """Keeps `store` (key ``namespace/name`` or ``name``) equal to the cluster's objects.

    `on_changes` is called on the event loop with each batch, in the server's order, after `store`
    has taken the batch, and in slices: others run at its checkpoints, and nothing further is read
    until it has returned. What it raises ends `run`, as the consumer's state can then no longer be
    trusted. Objects are decoded in the same slices, a few at a time.

    `age` is the time since the last event, bookmark or page of a list.

    `refresh` has everything listed anew, for a reader who must know what was so at a moment: a
    watch may be silent although much has happened.

    `keep` is given the bytes of each object as it comes, and None for both when it goes. They are a
    part of a larger buffer: a consumer that holds on to them makes a copy.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: WatchedResource[T],
        on_changes: Callable[[list[Change[T]]], None],
        metrics: Metrics,
        *,
        idle_timeout: float = IDLE_SECONDS,
        line_timeout: float = LINE_SECONDS,
        clock: Callable[[], float] = machine.monotonic,
        rng: Callable[[], float] = machine.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        keep: Callable[[str, T | None, msgspec.Raw | None], None] | None = None,
    ) -> None:
        self.resource = resource
        self.store: dict[str, T] = {}
        self.json_bytes = 0
        """How long the JSON of all objects in ``store`` is together."""
        self.synced = asyncio.Event()
        self._client = client
        self._on_changes = on_changes
        self._metrics = metrics
        self._idle_timeout = idle_timeout
        self._line_timeout = line_timeout
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._keep = keep
        self._objects = ObjectDecoder(resource.kind, resource.type, metrics)
        self._outside_arenas = OutsideArenas()
        self._events = msgspec.json.Decoder(WatchEvent)
        self._position = ""
        self._lists_begun = 0
        self._lists_wanted = 0
        self._lists_taken = 0
        self._list_ended = asyncio.Condition()
        self._waiting: asyncio.Task[Any] | None = None
        """The task that waits for bytes of a watch or the end of a pause, and does nothing else."""
        self._garbled = 0
        self._expired = False
        """Whether the last trouble was that the server no longer had the position."""
        self._forbidden = False
        """Whether the right to list an optional resource was missing the last time."""
        self._heard = clock()
        self._after_trouble = RetryDelays(0.5, 30.0, rng=rng)
        # With its spread below `STALE_SECONDS`.
        self._after_absence = RetryDelays(10.0, 100.0, rng=rng)
        metrics.watch_ages.follow(resource.kind, self.age)

    def age(self) -> float:
        """The seconds since anything arrived for this resource. Any thread may call it."""
        return self._clock() - self._heard

    async def run(self) -> Never:
        """List, watch and recover until cancelled."""
        while True:
            reason, delay = await self._follow()
            self._metrics.watch_restarts.labels(self.resource.kind, reason).inc()
            if delay > 0:
                await self._unless_outdated(partial(self._sleep, delay))

    async def refresh(self) -> None:
        """Return when a list is taken that was begun after this call. `run` must be running.

        The list begins at once: a pause after trouble ends, and so does a request that has no
        answer yet, since its connection may have fallen silent.
        """
        cancelled = self._outdated  # by a caller that requested a list which has not begun yet
        wanted = self._lists_wanted = self._lists_begun + 1
        self._after_trouble.reset()
        if self._waiting is not None and not cancelled:
            self._waiting.cancel()
        async with self._list_ended:
            await self._list_ended.wait_for(lambda: self._lists_taken >= wanted)

    @property
    def _outdated(self) -> bool:
        return self._lists_begun < self._lists_wanted

    async def _follow(self) -> tuple[str, float]:
        """List if the position is lost, then watch. Returns why that ended and how long to wait."""
        try:
            if self._outdated:
                self._position = ""  # until a list has succeeded
            if not self._position and not await self._list():
                return "ended", 0.0
            lively = await self._watch()
        except (KubeError, *UNREADABLE) as error:
            return await self._trouble(error)
        # A server that ends each watch at once must not be asked in a tight loop.
        return "ended", 0.0 if lively or self._outdated else self._after_trouble.next()

    async def _trouble(self, error: Exception) -> tuple[str, float]:
        resource = self.resource
        if resource.optional and isinstance(error, NotFound | Forbidden):
            await self._lose_all()
            delay = self._after_absence.next()
            self._report_absence(error, delay)
            return "absent", delay
        self._garbled = self._garbled + 1 if _reason(error) == "garbled" else 0
        if _doubts_position(error) or self._garbled >= MAX_GARBLED:
            # A list may succeed where something on the way breaks watches.
            self._position = ""
            self._garbled = 0
        expired = isinstance(error, ResourceExpired)
        if expired and not self._expired:
            # The server answers: pauses of the outage before are no reason to list later. They
            # grow again if one list after the other expires.
            self._after_trouble.reset()
        self._expired = expired
        reason, delay = _reason(error), self._after_trouble.next()
        report = log.debug if isinstance(error, ResourceExpired | Silent) else log.warning
        report(
            "Watch interrupted", kind=resource.kind, reason=reason, error=str(error), retry=delay
        )
        return reason, delay

    def _report_absence(self, error: ApiError, delay: float) -> None:
        """Log a missing right once, as nothing else shows it; a missing CRD is no fault."""
        forbidden = isinstance(error, Forbidden)
        report = log.warning if forbidden and not self._forbidden else log.debug
        self._forbidden = forbidden
        report(
            "Resource cannot be listed and counts as empty",
            kind=self.resource.kind,
            error=str(error),
            retry=delay,
        )

    async def _list(self) -> bool:
        """Bring `store` to one consistent state of the server, page by page.

        False if that was given up, because a list is wanted that begins later.
        """
        self._lists_begun += 1
        number = self._lists_begun
        seen: set[str] = set()
        token = ""
        pager = Pager(self._client, self.resource.path, self.resource.params)
        while True:
            try:
                page = await self._unless_outdated(partial(pager.fetch, token))
            except ResourceExpired:
                if not token:
                    raise
                # We are slower than the server forgets: take all in one piece, as of now.
                seen.clear()
                page = await self._unless_outdated(pager.fetch_all)
            if page is None:
                return False
            await self._take_page(page, seen)
            token = page.metadata.next_token
            if not token:
                break
        await self._deliver([self._forget(key) for key in self.store.keys() - seen])
        self._position = page.metadata.resource_version
        self._after_absence.reset()
        self._forbidden = False
        await self._listed(number)
        return True

    async def _listed(self, number: int) -> None:
        self._lists_taken = number
        self.synced.set()
        async with self._list_ended:
            self._list_ended.notify_all()

    async def _take_page(self, page: Page, seen: set[str]) -> None:
        self._heard = self._clock()
        for items in _portions(page.items or ()):
            await in_slices(self._take_items, items, seen)

    def _take_items(self, items: list[msgspec.Raw], seen: set[str]) -> None:
        changes: list[Change[T]] = []
        with self._outside_arenas, unbroken():
            for raw in items:
                seen.add(self._upsert(raw, changes))
        if changes:
            self._on_changes(changes)

    async def _watch(self) -> bool:
        """Follow from the position until the server ends the stream. True if anything came."""
        params = {
            **self.resource.params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._position,
            "timeoutSeconds": str(int(WATCH_SECONDS * (1 + self._rng()))),
        }
        lively = False
        lines = LineSplitter()
        began = 0.0
        async with AsyncExitStack() as stack:
            opening = partial(
                stack.enter_async_context, self._client.stream(self.resource.path, params)
            )
            if (stream := await self._unless_outdated(opening)) is None:
                return lively
            while chunk := await self._read(stream, began if lines.within_line else None):
                if not lines.within_line:
                    began = self._clock()
                if batch := lines.feed(chunk):
                    await self._take_lines(batch)
                    began = self._clock()
                    lively = True
                    self._after_trouble.reset()
                del batch, chunk  # the next may be long in coming
        if lines.within_line:
            raise Ambiguous("the stream ended within a line")
        return lively

    async def _read(self, stream: ByteStream, line_began: float | None) -> bytes:
        """More of the stream: in time for it to be alive, and for a line to end.

        Nothing, as at its end, when everything is to be listed anew.
        """
        read = partial(self._read_in_time, stream, line_began)
        return await self._unless_outdated(read) or b""

    async def _unless_outdated(self, wait: Callable[[], Awaitable[R]]) -> R | None:
        """Wait, but not when everything is to be listed anew."""
        if self._outdated:
            return None
        task = self._waiting = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        try:
            return await wait()
        except asyncio.CancelledError:
            if not self._outdated or task.uncancel():
                raise  # by others
            return None
        finally:
            self._waiting = None

    async def _read_in_time(self, stream: ByteStream, line_began: float | None) -> bytes:
        if line_began is None:
            return await stream.read(self._idle_timeout)
        try:
            return await stream.read(line_began + self._line_timeout - self._clock())
        except Silent as error:
            message = f"a line did not end within {self._line_timeout:g} s"
            raise Garbled(message) from error

    async def _take_lines(self, lines: list[bytes]) -> None:
        for start in range(0, len(lines), OBJECTS_AT_ONCE):
            await in_slices(self._take_some, lines[start : start + OBJECTS_AT_ONCE])

    def _take_some(self, lines: list[bytes]) -> None:
        began = self._clock()
        changes: list[Change[T]] = []
        try:
            with self._outside_arenas, unbroken():
                for line in lines:
                    self._take_line(line, changes)
            self._heard = began
            self._garbled = 0
        finally:
            # Also before an error ends the stream: `store` has these changes already.
            self._metrics.watch_decode.observe(self._clock() - began)
            if changes:
                self._on_changes(changes)

    def _take_line(self, line: bytes, changes: list[Change[T]]) -> None:
        event = read_event(self._events, line)
        match event.type:
            case "ADDED" | "MODIFIED":
                self._upsert(event.object, changes, watched=True)
            case "DELETED":
                identity = self._objects.identify(event.object)
                if not identity.name:
                    self._position = ""  # only a list says what is gone
                    raise Garbled("a deleted object without a name")
                if identity.key in self.store:
                    changes.append(self._forget(identity.key))
                self._position = identity.resource_version
            case "BOOKMARK":
                self._position = self._objects.identify(event.object).resource_version
            case "ERROR":
                status = msgspec.json.decode(event.object, type=ErrorStatus)
                raise error_from(status.code or 500, bytes(event.object))
            case unknown:
                raise Garbled(f"not an event of a watch: {unknown[:40]!r}")

    def _upsert(self, raw: msgspec.Raw, changes: list[Change[T]], *, watched: bool = False) -> str:
        decoded = self._objects.decode(raw)
        meta = decoded if isinstance(decoded, Identity) else decoded.metadata
        if watched:
            self._position = meta.resource_version
        key = meta.key
        old = self.store.get(key)
        if old is not None:
            if old.metadata.resource_version == meta.resource_version:
                return key
            if old.metadata.uid != meta.uid:
                changes.append(self._forget(key))
                old = None
        # Of an object that does not decode, an earlier good version stays: it still occupies
        # what it occupies, and forgetting it would hand its room to others.
        if not isinstance(decoded, Identity):
            if old is not None:
                share_labels(old.metadata, decoded.metadata)
            self.store[key] = decoded
            self.json_bytes += decoded.metadata.json_bytes
            if old is not None:
                self.json_bytes -= old.metadata.json_bytes
            if self._keep is not None:
                self._keep(key, decoded, raw)
            changes.append(Change(old, decoded))
        return key

    def _forget(self, key: str) -> Change[T]:
        if self._keep is not None:
            self._keep(key, None, None)
        gone = self.store.pop(key)
        self.json_bytes -= gone.metadata.json_bytes
        return Change(gone, None)

    async def _lose_all(self) -> None:
        self._position = ""
        self._heard = self._clock()
        await self._deliver([self._forget(key) for key in list(self.store)])
        await self._listed(self._lists_begun)

    async def _deliver(self, changes: list[Change[T]]) -> None:
        if changes:
            await in_slices(self._on_changes, changes)


def _portions(items: Iterable[msgspec.Raw]) -> Iterator[list[msgspec.Raw]]:
    """The items of a page, as many together as are taken without a pause."""
    some: list[msgspec.Raw] = []
    size = 0
    for raw in items:
        some.append(raw)
        size += len(memoryview(raw))
        if size >= PAGE_SLICE_BYTES or len(some) >= OBJECTS_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _doubts_position(error: Exception) -> bool:
    """Whether only a list can help: the server refuses our position, or has nothing to say to it.

    After etcd was restored from a backup, the server sends nothing for positions that it has not
    reached again.
    """
    if isinstance(error, ApiError):
        overloaded = isinstance(error, TooManyRequests) or error.status == 503
        return not overloaded
    return isinstance(error, Silent)


def _reason(error: Exception) -> str:
    """The metric label for why a watch ended."""
    match error:
        case ResourceExpired():
            return "gone"
        case ApiError():
            return "refused"
        case Unreachable():
            return "unreachable"
        case Silent():
            return "silent"
        case Garbled() | msgspec.DecodeError() | RecursionError() | UnicodeDecodeError():
            return "garbled"
        case Ambiguous():
            return "cut"
    return "error"
