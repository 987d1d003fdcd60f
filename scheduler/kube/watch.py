"""A local copy of one resource, kept by list and watch, that reports every change once, in order.

            ┌────────────── position in doubt: 410, refused, silence ─────────────────────┐
            ▼                                                                              │
    ┌──────────────┐  all pages taken   ┌────────────────┐   ended, cut, refused    ┌──────┴─────┐
    │ list (pages) ├───────────────────►│ watch position ├─────────────────────────►│ back off   │
    └──────────────┘  `synced` is set   └────────────────┘◄─────────────────────────┴────────────┘
                                                              position still good

A list after the first emits the difference to what is known, so consumers never start over.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Never

import msgspec

from scheduler.kube.client import KubeClient
from scheduler.kube.decoding import (
    UNREADABLE,
    Identity,
    LineSplitter,
    LineTooLong,
    ObjectDecoder,
    Page,
    PageSize,
    T,
    WatchEvent,
    share_labels,
)
from scheduler.kube.errors import (
    Ambiguous,
    ApiError,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    Silent,
    Status,
    TooManyRequests,
    Unreachable,
    error_from,
)
from scheduler.kube.pacing import Backoff
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.slices import in_slices

log = get_logger(__name__)

LIST_TIMEOUT_SECONDS = 60.0
# The server ends a watch after this, times one to two: spreads reconnects of many clients.
WATCH_SECONDS = 300
# Servers send a bookmark about once a minute, so two missed ones mean a dead connection.
IDLE_SECONDS = 130.0


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """What to watch: where it is, what its objects decode to, and which of them (`params`).

    An `optional` resource may be missing from the cluster, as a CRD that is not installed, or be
    forbidden to us: it then counts as empty, and is looked for again from time to time.
    """

    kind: str
    path: str
    type: type[T]
    params: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """Added (None, new), updated (old, new) or deleted (old, None)."""

    old: T | None
    new: T | None


class Reflector(Generic[T]):
    """Keeps `store` (key ``namespace/name`` or ``name``) equal to the cluster's objects.

    `on_changes` is called on the event loop with each batch, in the server's order, after `store`
    has taken the batch, and in slices: others run at its checkpoints, and nothing further is read
    until it has returned. What it raises ends `run`, as the consumer's state can then no longer be
    trusted. At most one page or one buffer of events is decoded between two awaits.

    `keep` is given the bytes of each object as it comes, and None for both when it goes. They are a
    part of all that came with them, so whoever wants to hold on to them makes a copy.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        on_changes: Callable[[list[Change[T]]], None],
        metrics: Metrics,
        *,
        idle_timeout: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
        rng: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        keep: Callable[[str, T | None, msgspec.Raw | None], None] | None = None,
    ) -> None:
        self.resource = resource
        self.store: dict[str, T] = {}
        self.synced = asyncio.Event()
        self._client = client
        self._on_changes = on_changes
        self._metrics = metrics
        self._idle_timeout = idle_timeout
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._keep = keep
        self._objects = ObjectDecoder(resource.kind, resource.type, metrics)
        self._events = msgspec.json.Decoder(WatchEvent)
        self._pages = msgspec.json.Decoder(Page)
        self._position = ""
        self._after_trouble = Backoff(0.5, 30.0, rng=rng)
        self._after_absence = Backoff(10.0, 120.0, rng=rng)

    async def run(self) -> Never:
        """List, watch and recover until cancelled."""
        while True:
            reason, delay = await self._follow()
            self._metrics.watch_restarts.labels(self.resource.kind, reason).inc()
            if delay > 0:
                await self._sleep(delay)

    async def _follow(self) -> tuple[str, float]:
        """List if the position is lost, then watch. Returns why that ended and how long to wait."""
        try:
            if not self._position:
                await self._list()
            lively = await self._watch()
        except (KubeError, *UNREADABLE) as error:
            return await self._trouble(error)
        # A server that ends each watch at once must not be asked in a tight loop.
        return "ended", 0.0 if lively else self._after_trouble.next()

    async def _trouble(self, error: Exception) -> tuple[str, float]:
        resource = self.resource
        if resource.optional and isinstance(error, NotFound | Forbidden):
            await self._lose_all()
            log.debug("Resource is not there, looking again later", kind=resource.kind)
            return "absent", self._after_absence.next()
        if _doubts_position(error):
            self._position = ""
        reason, delay = _reason(error), self._after_trouble.next()
        report = log.debug if isinstance(error, Gone | Silent) else log.warning
        report(
            "Watch interrupted", kind=resource.kind, reason=reason, error=str(error), retry=delay
        )
        return reason, delay

    async def _list(self) -> None:
        """Bring `store` to one consistent state of the server, page by page."""
        seen: set[str] = set()
        token = ""
        size: PageSize | None = PageSize()
        while True:
            try:
                page = await self._fetch(token, size)
            except Gone:
                if not token:
                    raise
                # We are slower than the server forgets: take all in one piece, as of now.
                token, size = "", None
                seen.clear()
                continue
            await self._take_page(page, seen)
            token = page.metadata.next_token
            if not token:
                break
        await self._deliver([self._forget(key) for key in self.store.keys() - seen])
        self._position = page.metadata.resource_version
        self._after_absence.reset()
        self.synced.set()

    async def _fetch(self, token: str, size: PageSize | None) -> Page:
        params = dict(self.resource.params)
        if size is not None:
            params["limit"] = str(size.limit)
        if token:
            params["continue"] = token
        body = await self._client.request(
            "GET", self.resource.path, params=params, timeout=LIST_TIMEOUT_SECONDS
        )
        page = self._pages.decode(body)
        if size is not None:
            size.learn(len(body), len(page.items or ()))
        return page

    async def _take_page(self, page: Page, seen: set[str]) -> None:
        changes: list[Change[T]] = []
        for raw in page.items or ():
            seen.add(self._upsert(raw, changes))
        await self._deliver(changes)

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
        async with self._client.stream(
            self.resource.path, params, idle_timeout=self._idle_timeout
        ) as stream:
            while chunk := await stream.read():
                if batch := lines.feed(chunk):
                    await self._take_lines(batch)
                    lively = True
                    self._after_trouble.reset()
        return lively

    async def _take_lines(self, lines: list[bytes]) -> None:
        began = self._clock()
        changes: list[Change[T]] = []
        try:
            for line in lines:
                self._take_line(line, changes)
        finally:
            # Also before an error ends the stream: `store` has these changes already.
            self._metrics.watch_decode.observe(self._clock() - began)
            await self._deliver(changes)

    def _take_line(self, line: bytes, changes: list[Change[T]]) -> None:
        try:
            event = self._events.decode(line)
        except RecursionError as error:
            self._objects.skip(Identity(), str(error))
            return
        match event.type:
            case "ADDED" | "MODIFIED":
                self._upsert(event.object, changes, watched=True)
            case "DELETED":
                identity = self._objects.identify(event.object)
                if identity.key in self.store:
                    changes.append(self._forget(identity.key))
                self._position = identity.resource_version
            case "BOOKMARK":
                self._position = self._objects.identify(event.object).resource_version
            case "ERROR":
                status = msgspec.json.decode(event.object, type=Status)
                raise error_from(status.code or 500, bytes(event.object))

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
            if self._keep is not None:
                self._keep(key, decoded, raw)
            changes.append(Change(old, decoded))
        return key

    def _forget(self, key: str) -> Change[T]:
        if self._keep is not None:
            self._keep(key, None, None)
        return Change(self.store.pop(key), None)

    async def _lose_all(self) -> None:
        self._position = ""
        await self._deliver([self._forget(key) for key in list(self.store)])
        self.synced.set()

    async def _deliver(self, changes: list[Change[T]]) -> None:
        if changes:
            await in_slices(self._on_changes, changes)


def _doubts_position(error: Exception) -> bool:
    """Whether only a list can help: the server refuses our position, or has nothing to say to it.

    A server whose etcd was restored from a backup stays silent on positions of its lost future.
    """
    if isinstance(error, ApiError):
        overloaded = isinstance(error, TooManyRequests) or error.status == 503
        return not overloaded
    return isinstance(error, Silent)


def _reason(error: Exception) -> str:
    """The metric label for why a watch ended."""
    match error:
        case Gone():
            return "gone"
        case ApiError():
            return "refused"
        case Unreachable():
            return "unreachable"
        case Silent():
            return "silent"
        case Ambiguous():
            return "cut"
        case LineTooLong() | msgspec.DecodeError() | RecursionError():
            return "garbled"
    return "error"
