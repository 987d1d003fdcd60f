"""Servers that answer a watch or a request with anything but what HTTP says.

Whatever the bytes are: the reflector says why the watch ended, recovers, and reports what changed;
a request ends with a typed error; nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from scheduler.kube import paging
from scheduler.kube.client import KubeClient
from scheduler.kube.decoding import MAX_LINE_BYTES, PageSize
from scheduler.kube.errors import Ambiguous, Garbled
from scheduler.kube.watch import Reflector
from scheduler.observe.metrics import Metrics
from tests.patience import PATIENCE
from tests.raw_servers import listening

from .support import connected, eventually, sample
from .watch_support import PODS, Watched, bookmark, line, page, pod, running

Talk = Callable[[asyncio.StreamWriter], Awaitable[None]]
SHORT = 0.3
"""Seconds that a reflector waits where a test is about the wait."""
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
FIRST = line("ADDED", pod("first", 2))
SECOND = line("ADDED", pod("second", 3))


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class RawServer:
    """Lists honestly, answers the first watch as told, and every later one as a server does."""

    def __init__(self, first_watch: Talk) -> None:
        self.first_watch = first_watch
        self.watches = 0
        self.lists = 0
        self.sent = 0
        self.done = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        if b"watch=true" not in head:
            self.lists += b"/pods" in head
            body = page(version=1)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            return
        self.watches += 1
        if self.watches == 1:
            await self.first_watch(writer)
        else:
            writer.write(CHUNKED + chunk(FIRST) + chunk(SECOND))
        await self.done.wait()


@asynccontextmanager
async def raw_server(talk: Talk | RawServer) -> AsyncIterator[tuple[RawServer, str]]:
    server = talk if isinstance(talk, RawServer) else RawServer(talk)
    async with listening(server.handle) as port:
        yield server, f"http://127.0.0.1:{port}"


def says(*pieces: bytes) -> Talk:
    """Send the bytes and then nothing, with the connection open."""

    async def talk(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return talk


def says_and_closes(*pieces: bytes) -> Talk:
    async def talk(writer: asyncio.StreamWriter) -> None:
        await says(*pieces)(writer)
        writer.close()

    return talk


def says_and_half_closes(*pieces: bytes) -> Talk:
    async def talk(writer: asyncio.StreamWriter) -> None:
        await says(*pieces)(writer)
        writer.write_eof()

    return talk


def drips(beginning: bytes, drop: bytes) -> Talk:
    """Never silent, never done."""

    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        while not writer.is_closing():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(SHORT / 10)  # the drip itself, not a wait for a condition

    return talk


def floods(beginning: bytes, more: bytes) -> Talk:
    """As fast as it is taken, without end."""

    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        while not writer.is_closing():
            writer.write(more)
            await writer.drain()

    return talk


HOSTILE_WATCHES = [
    pytest.param(says(CHUNKED, chunk(FIRST), b"zz\r\n"), "garbled", id="malformed chunk size"),
    pytest.param(says(CHUNKED, chunk(FIRST)[:-2] + b"XX"), "garbled", id="chunk without CRLF"),
    pytest.param(says(CHUNKED, b"ffffffffffffffff\r\n"), "garbled", id="chunk beyond 48 bits"),
    pytest.param(says(CHUNKED, b"-5\r\nhello\r\n"), "garbled", id="negative chunk"),
    pytest.param(floods(CHUNKED, b"1" * 65536), "garbled", id="endless chunk size"),
    pytest.param(floods(CHUNKED, b"5;" + b"x" * 65536), "garbled", id="endless chunk extension"),
    pytest.param(floods(CHUNKED + b"0\r\n", b"X: y\r\n" * 100), "garbled", id="endless trailers"),
    pytest.param(floods(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100), "garbled", id="endless header"),
    pytest.param(
        floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "garbled", id="endless 100 Continue"
    ),
    pytest.param(
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", FIRST),
        "garbled",
        id="more than the announced length",
    ),
    pytest.param(
        says_and_closes(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", FIRST),
        "cut",
        id="less than the announced length",
    ),
    pytest.param(
        says_and_half_closes(CHUNKED, chunk(FIRST)), "cut", id="half-closed between events"
    ),
    pytest.param(
        says_and_closes(CHUNKED, chunk(FIRST[:-1]), b"0\r\n\r\n"), "cut", id="ended within a line"
    ),
    pytest.param(
        says_and_closes(b"HTTP/1.0 200 OK\r\n\r\n", FIRST[:-1]), "cut", id="HTTP/1.0, cut"
    ),
    pytest.param(says_and_closes(b"HTTP/1.0 200 OK\r\n\r\n", FIRST), "ended", id="HTTP/1.0"),
    pytest.param(
        says(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
            chunk(gzip.compress(FIRST)),
        ),
        "garbled",
        id="gzip",
    ),
    pytest.param(
        says_and_closes(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n"
            b"<html>\n</html>\n"
        ),
        "garbled",
        id="a page of a proxy",
    ),
    pytest.param(says(CHUNKED, chunk(b"\n" * 10)), "garbled", id="empty lines"),
    pytest.param(
        says(CHUNKED, chunk(line("SURPRISE", pod("x", 2)))), "garbled", id="an unknown event"
    ),
    pytest.param(says(b"220 smtp ready\r\n\r\n"), "garbled", id="another protocol"),
]


def reflecting(
    client: KubeClient, watched: Watched, *, idle: float = PATIENCE, line: float = PATIENCE
) -> Watched:
    """A reflector with its real clock. Where time decides, only one of its two patiences is short:
    on a busy machine either may come first."""
    watched.reflector = Reflector(
        client,
        PODS,
        watched._take,
        watched.metrics,
        idle_timeout=idle,
        line_timeout=line,
        rng=lambda: 0.0,
        sleep=watched.clock.sleep,
    )
    return watched


@pytest.mark.parametrize(("talk", "reason"), HOSTILE_WATCHES)
async def test_a_reflector_says_why_a_watch_ended_and_recovers(talk: Talk, reason: str) -> None:
    async with raw_server(talk) as (server, url), connected(url) as client:
        watched = reflecting(client, Watched(client))
        with running(watched):
            await eventually(lambda: watched.known == {"a/first": "2", "a/second": "3"})
    assert watched.restarts(reason) >= 1
    assert server.watches >= 2


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(
            says(CHUNKED, b"%x\r\n%s" % (len(FIRST), FIRST[:20])),
            id="truncated chunk, then silence",
        ),
        pytest.param(drips(CHUNKED, chunk(b" ")), id="drip"),
        pytest.param(floods(CHUNKED, chunk(b" ") * 1000), id="flood of spaces"),
    ],
)
async def test_a_line_that_never_ends_ends_the_watch(talk: Talk) -> None:
    async with raw_server(talk) as (_, url), connected(url) as client:
        watched = reflecting(client, Watched(client), line=SHORT)
        with running(watched):
            await eventually(lambda: watched.known == {"a/first": "2", "a/second": "3"})
    assert watched.restarts("garbled") >= 1


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(says(CHUNKED, chunk(FIRST)), id="between events"),
        pytest.param(drips(CHUNKED, b"0"), id="drip of a chunk size"),
    ],
)
async def test_silence_ends_the_watch(talk: Talk) -> None:
    async with raw_server(talk) as (_, url), connected(url) as client:
        watched = reflecting(client, Watched(client), idle=SHORT)
        with running(watched):
            await eventually(lambda: watched.known == {"a/first": "2", "a/second": "3"})
    assert watched.restarts("silent") >= 1


async def test_what_came_before_the_framing_broke_is_reported() -> None:
    async with (
        raw_server(says(CHUNKED, chunk(FIRST) + b"zz\r\n")) as (server, url),
        connected(url) as client,
        client.stream("/api/v1/pods", {"watch": "true"}) as stream,
    ):
        assert await stream.read(PATIENCE) == FIRST
        with pytest.raises(Garbled, match="not the size of a chunk"):
            await stream.read(PATIENCE)
        assert server.watches == 1


async def test_a_line_without_end_takes_no_more_than_its_limit() -> None:
    taken = 0

    async def talk(writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        writer.write(CHUNKED)
        while not writer.is_closing():
            writer.write(chunk(b" " * 2**20))
            await writer.drain()
            taken += 2**20

    async with raw_server(talk) as (_, url), connected(url) as client:
        watched = reflecting(client, Watched(client))
        with running(watched):
            await eventually(lambda: len(watched.known) == 2)
    assert watched.restarts("garbled") == 1
    # What the sockets and buffers in between hold is not ours.
    assert taken < MAX_LINE_BYTES + 16 * 2**20


async def test_a_stream_that_nobody_reads_is_not_read_from_the_network() -> None:
    taken = 0

    async def talk(writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        writer.write(CHUNKED)
        while not writer.is_closing():
            writer.write(chunk(b"x" * 2**20))
            await writer.drain()
            taken += 2**20

    async with (
        raw_server(talk) as (_, url),
        connected(url) as client,
        client.stream("/api/v1/pods", {"watch": "true"}) as stream,
    ):
        await stream.read(PATIENCE)
        held = [-1, 0]
        while held[-1] != held[-2]:  # until the sender is stopped
            await asyncio.sleep(0.05)
            held.append(taken)
        before = taken
        for _ in range(400):
            await stream.read(PATIENCE)
        await eventually(lambda: taken > before)
    assert before < 32 * 2**20


async def test_garbled_three_times_in_a_row_a_list_is_tried() -> None:
    async def garbage(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"zz\r\n")

    async with raw_server(garbage) as (server, url), connected(url) as client:
        watched = reflecting(client, Watched(client))

        async def always(head: bytes, writer: asyncio.StreamWriter) -> None:
            if b"watch=true" in head and server.lists < 2:
                server.watches = 0
            await RawServer._answer(server, head, writer)

        server._answer = always  # type: ignore[method-assign]  # the first watch again and again
        with running(watched):
            await eventually(lambda: len(watched.known) == 2)
    assert server.lists >= 2
    assert watched.restarts("garbled") == 3


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(says(b"HTTP/1.1 200 OK\r\n"), id="a head that does not end"),
        pytest.param(drips(b"HTTP/1.1 200 OK\r\n", b"X"), id="a head that drips"),
        pytest.param(drips(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x"), id="drip"),
        pytest.param(drips(CHUNKED, b"1\r\nx\r\n"), id="chunks that drip"),
        pytest.param(says(), id="nothing"),
    ],
)
async def test_a_request_ends_in_time_whatever_drips(talk: Talk) -> None:
    async with raw_server(talk) as (_, url), connected(url) as client:
        with pytest.raises(Ambiguous, match="no answer within"):
            await client.request("GET", "/x", params={"watch": "true"}, timeout=0.2)


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(floods(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100), id="endless header"),
        pytest.param(floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), id="endless 100 Continue"),
        pytest.param(floods(CHUNKED + b"0\r\n", b"X: y\r\n" * 100), id="endless trailers"),
        pytest.param(
            says(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
            id="gzip",
        ),
        pytest.param(says(CHUNKED, b"zz\r\n"), id="malformed chunk size"),
        pytest.param(says(CHUNKED, b"2\r\nabXX"), id="chunk without CRLF"),
    ],
)
async def test_a_garbled_answer_to_a_request_is_told_at_once(talk: Talk) -> None:
    async with raw_server(talk) as (server, url), connected(url) as client:
        with pytest.raises(Garbled):
            await client.request("GET", "/x", params={"watch": "true"}, timeout=PATIENCE)
        assert server.watches == 1, "what is garbled is not asked for again by itself"


async def test_a_refusal_without_end_is_not_read_without_end() -> None:
    flood = floods(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"x" * 65536))
    async with raw_server(flood) as (_, url), connected(url) as client:
        watched = reflecting(client, Watched(client))
        with running(watched):
            await eventually(lambda: len(watched.known) == 2)


async def test_the_age_of_a_watch_is_counted_from_events_bookmarks_and_lists() -> None:
    sent = asyncio.Event()

    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        await sent.wait()
        writer.write(chunk(bookmark(7)))

    async with raw_server(talk) as (server, url), connected(url) as client:
        watched = Watched(client)
        age = watched.reflector.age
        watched.clock.now += 50
        assert age() == 50
        name = "equipoise_watch_age_seconds"
        assert sample(watched.metrics, name, kind="Pod") == 50
        with running(watched):
            await eventually(lambda: server.watches == 1)
            assert age() == 0
            watched.clock.now += 40
            assert age() == 40
            sent.set()
            await eventually(lambda: age() == 0)
    assert sample(watched.metrics, name, kind="Pod") == 0


class PagedServer(RawServer):
    """Has so many objects of so many bytes, and counts what it sends."""

    def __init__(self, objects: int, size: int) -> None:
        super().__init__(says())
        self.objects = [
            {**pod(f"p{number}", number + 1), "ballast": "x" * size} for number in range(objects)
        ]

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        target = head.split()[1].decode()
        if "watch=true" in target:
            writer.write(CHUNKED)
            await self.done.wait()
            return
        query = dict(each.split("=") for each in target.partition("?")[2].split("&") if each)
        start, limit = int(query.get("continue", 0)), int(query.get("limit", 0))
        items = self.objects[start : start + limit]
        following = start + len(items)
        token = str(following) if following < len(self.objects) else ""
        body = page(*items, version=1, token=token)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 2**16):
            writer.write(body[at : at + 2**16])
            await writer.drain()
            self.sent += len(body[at : at + 2**16])


async def test_pages_of_large_objects_get_smaller_and_each_object_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PageSize, "BYTES", 40_000)
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", 160_000)
    paged = PagedServer(objects=600, size=15_000)
    async with raw_server(paged) as (_, url), connected(url) as client:
        watched = Watched(client)
        with running(watched):
            await eventually(lambda: len(watched.known) == 600)
        batches = [len(batch) for batch in watched.batches]
        assert max(batches) <= 10, "a page is taken in slices"
    whole = sum(len(str(each)) for each in paged.objects)
    assert paged.sent < 2 * whole, "only the first pages are thrown away"


@pytest.mark.parametrize("metrics", [Metrics()])
def test_ages_of_several_kinds_stand_beside_each_other(metrics: Metrics) -> None:
    metrics.watch_ages.follow("Pod", lambda: 1.0)
    metrics.watch_ages.follow("Node", lambda: 2.0)
    assert sample(metrics, "equipoise_watch_age_seconds", kind="Pod") == 1
    assert sample(metrics, "equipoise_watch_age_seconds", kind="Node") == 2
