"""Watch streams: the log of a table, read forward and filtered, one JSON line per event.

A watcher is a position in the log, so a slow one costs nothing; one that falls behind the log is
disconnected, as the real server does, and will find its resourceVersion too old.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web

from sandbox.errors import ApiFailure
from sandbox.faults import Faults
from sandbox.representations import Representation
from sandbox.resources import Resource
from sandbox.selectors import Predicate
from sandbox.store import ObjectTable, Store, StoreChange, Version, encode

_BOOKMARK_BEFORE_END = 2.0


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a table a list or watch is about."""

    namespace: str
    predicate: Predicate | None

    def __contains__(self, version: Version | None) -> bool:
        if version is None or (self.namespace and version.key[0] != self.namespace):
            return False
        return self.predicate is None or self.predicate(version.body)


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The parameters of one watch; `revision` None means: whatever is current."""

    revision: int | None
    state_first: bool
    """Begin with an ADDED event for each object there is."""
    mark_state_end: bool
    """Close that beginning with an annotated bookmark."""
    bookmarks: bool
    bookmark_seconds: float
    timeout_seconds: float


class Watch:
    """One watch request, from its first line to its end."""

    def __init__(
        self,
        resource: Resource,
        store: Store,
        selection: Selection,
        options: WatchOptions,
        faults: Faults,
        shown: Representation,
    ) -> None:
        self._resource = resource
        self._shown = shown
        self._store = store
        self._table: ObjectTable = store.table(resource.table)
        self._selection = selection
        self._options = options
        self._faults = faults
        self._woken = asyncio.Event()
        self._ended = False
        self._refusal: ApiFailure | None = None

    def end(self, refusal: ApiFailure | None = None) -> None:
        """Close the stream politely at the next opportunity, with a last word if there is one."""
        self._ended = True
        self._refusal = refusal
        self._woken.set()

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Stream until the timeout, the client's departure, or a fault."""
        response = web.StreamResponse(headers={"Content-Type": self._shown.media_type})
        response.enable_chunked_encoding()
        self._table.wakers[self._woken] = None
        try:
            with self._faults.watching(request, self.end), suppress(ConnectionError):
                await response.prepare(request)
                await self._stream(response, request.path)
        finally:
            self._table.wakers.pop(self._woken, None)
        return response

    async def _stream(self, response: web.StreamResponse, path: str) -> None:
        try:
            position = self._start()
        except ApiFailure as error:
            # Too late for an HTTP status: the stream has begun, so the refusal is an event in it.
            await response.write(_line(b"ERROR", encode(error.status())))
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.timeout_seconds
        bookmark_at = self._next_bookmark(loop.time(), deadline)
        pending = list(self._opening())
        while True:
            await self._faults.speaking.wait()
            if late := self._faults.lateness(path):
                await asyncio.sleep(late)
            changes = self._table.changes(position)
            if changes is None:
                return
            self._woken.clear()
            position += len(changes)
            pending.extend(filter(None, map(self._event, changes)))
            now = loop.time()
            if now >= bookmark_at:
                if self._faults.bookmarks:
                    pending.append(self._bookmark())
                bookmark_at = self._next_bookmark(now, deadline)
            if self._refusal is not None:
                pending.append(_line(b"ERROR", encode(self._refusal.status())))
            if pending:
                if self._faults.repeating(path):
                    pending = [line for line in pending for _ in range(2)]
                await response.write(b"".join(pending))
                pending.clear()
            if self._ended or self._table.closed or now >= deadline:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(deadline, bookmark_at)):
                    await self._woken.wait()

    def _start(self) -> int:
        revision = self._options.revision
        if self._options.state_first or revision is None:
            return self._table.end
        return self._table.position_after(revision)

    def _opening(self) -> Iterator[bytes]:
        if not self._options.state_first:
            return
        for version in self._table.list_at():
            if version in self._selection:
                yield _line(b"ADDED", self._shown.one(version))
        if self._options.mark_state_end:
            yield self._bookmark({"k8s.io/initial-events-end": "true"})

    def _event(self, change: StoreChange) -> bytes:
        """The line for a change as seen through the selection; empty if it is out of sight."""
        was_in = change.before in self._selection
        if change.after is not None and change.after in self._selection:
            kind = b"MODIFIED" if was_in else b"ADDED"
            return _line(kind, self._shown.one(change.after))
        return _line(b"DELETED", self._shown.one(change.last())) if was_in else b""

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self._store.revision)}
        if annotations:
            metadata["annotations"] = annotations
        resource = self._resource
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return _line(b"BOOKMARK", self._shown.bookmark(body))

    def _next_bookmark(self, now: float, deadline: float) -> float:
        if not self._options.bookmarks:
            return float("inf")
        regular = now + self._options.bookmark_seconds
        parting = deadline - _BOOKMARK_BEFORE_END
        return min(regular, parting) if parting > now else regular


def _line(kind: bytes, body: bytes) -> bytes:
    return b'{"type":"' + kind + b'","object":' + body + b"}\n"
