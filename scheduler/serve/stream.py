"""Decisions and samples as they come, for many readers: text/event-stream.

The scheduler is queried twice a second for all readers, and not at all without readers.
Each reader has a bounded buffer and is cut off when that is full; at most 16 read at a time, 12 of
one address. A stream ends after five minutes, so that access is reviewed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from scheduler.fairness import Shares
from scheduler.observe.logs import get_logger
from scheduler.serve.connections import SEND_SECONDS
from scheduler.serve.guards import HttpTooManyRequests, RequestError
from scheduler.serve.openapi import EVENT_STREAM
from scheduler.views.updates import Updates

log = get_logger(__name__)

STREAMS_OF_ONE = 12
"""By one address; a third more is there for others."""
LOOK_INTERVAL_SECONDS = 0.5
HEARTBEAT_SECONDS = 10.0
LIFE_SECONDS = 300.0
MAX_CHUNKS = 32
"""That wait for one reader: as many looks, each of at most 200 decisions of a few KiB."""
_encode_lines = msgspec.json.Encoder().encode_lines
_HEARTBEAT = b": still here\n\n"


class _OpenStream:
    """One open stream."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes] = asyncio.Queue(MAX_CHUNKS)
        self.ended = asyncio.Event()

    def give(self, chunk: bytes) -> None:
        """Queue a chunk; the stream ends if the reader is too slow for it."""
        try:
            self.chunks.put_nowait(chunk)
        except asyncio.QueueFull:
            self.ended.set()


class UpdateStream:
    """All streams of one server. Belongs to its event loop."""

    def __init__(
        self,
        source: Callable[[int | None, int], Awaitable[Updates]],
        *,
        interval: float = LOOK_INTERVAL_SECONDS,
        heartbeat: float = HEARTBEAT_SECONDS,
        life: float = LIFE_SECONDS,
    ) -> None:
        self._source = source
        self._interval = interval
        self._heartbeat = heartbeat
        self._life = life
        self._shares = Shares(STREAMS_OF_ONE)
        self._readers: dict[_OpenStream, None] = {}
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many streams are open."""
        return len(self._readers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Send what comes until the reader goes, is too slow, or its time is over."""
        response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
        if request.method == "HEAD":
            return response
        address = request.remote or ""
        if not self._shares.may_take(address):
            raise HttpTooManyRequests("too many streams are open already")
        self._shares.take(address)
        reader = _OpenStream()
        self._readers[reader] = None
        try:
            await response.prepare(request)
            self._look_on()
            await self._send(reader, response)
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._shares.give_back(address)
            del self._readers[reader]
            if not self._readers and self._looking is not None:
                self._looking.cancel()
                self._looking = None
        return response

    async def close(self, app: web.Application | None = None) -> None:
        """End all streams: the server stops."""
        for reader in self._readers:
            reader.ended.set()

    async def _send(self, reader: _OpenStream, response: web.StreamResponse) -> None:
        """Write chunks; raises TimeoutError if one is not taken in time."""
        loop = asyncio.get_running_loop()
        over = loop.time() + self._life
        ended = asyncio.ensure_future(reader.ended.wait())
        try:
            while not reader.ended.is_set() and (left := over - loop.time()) > 0:
                chunk = asyncio.ensure_future(reader.chunks.get())
                await asyncio.wait(
                    (chunk, ended),
                    timeout=min(left, self._heartbeat),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                body = chunk.result() if chunk.done() else _HEARTBEAT
                chunk.cancel()
                async with asyncio.timeout(SEND_SECONDS):
                    await response.write(body)
        finally:
            ended.cancel()

    def _look_on(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="stream of updates")

    async def _look(self) -> None:
        """Query updates for as long as there are readers."""
        seq: int | None = None
        taken = -1
        while True:
            try:
                updates = await self._source(seq, taken)
            except RequestError:  # the scheduling loop is busy
                await asyncio.sleep(self._interval)
                continue
            except Exception as fault:
                log.error("Streams end: new decisions could not be read", exc=fault)
                await self.close()
                return
            seq, taken = updates.seq, updates.taken
            if chunk := _chunk(updates):
                for reader in self._readers:
                    reader.give(chunk)
            await asyncio.sleep(self._interval)


def _chunk(updates: Updates) -> bytes:
    """The events of one look."""
    parts = []
    if updates.skipped:
        parts.append(_event(b"skipped", {"count": updates.skipped}))
    # All in one call, a line each: JSON has no line breaks within.
    lines = _encode_lines(updates.decisions).splitlines()
    parts += [
        b"event: decision\nid: %d\ndata: %s\n\n" % (each.seq, line)
        for each, line in zip(updates.decisions, lines, strict=True)
    ]
    if updates.sample is not None:
        sample = msgspec.to_builtins(updates.sample)
        parts.append(_event(b"overview", {**sample, "loopLagMs": updates.loop_lag_ms}))
    return b"".join(parts)


def _event(name: bytes, value: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name, msgspec.json.encode(value))
