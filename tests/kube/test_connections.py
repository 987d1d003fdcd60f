"""Kept connections: used again when that is safe, and given up when it is not."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Never

import pytest

from scheduler.kube import connections
from scheduler.kube.connections import ApiEndpoint, ConnectionPool
from scheduler.kube.credentials import ApiAccess
from scheduler.kube.errors import Ambiguous, Unreachable
from scheduler.kube.http1 import HttpResponse
from tests.raw_servers import listening

from .support import ManualClock, eventually

YES = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Listens on loopback, counts connections and requests, and lets a test do the talking."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.accepted = 0
        self.open = 0
        self.requests: list[bytes] = []
        self.endpoint = ApiEndpoint.of(ApiAccess("http://127.0.0.1:1"), {})

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open += 1
        try:
            await self.talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def request(self, reader: asyncio.StreamReader) -> bytes:
        """The next request, of which the body is as long as it says."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
        body = await reader.readexactly(int(length or 0))
        self.requests.append(head + body)
        return head + body


@asynccontextmanager
async def talking(talk: Callable[[Server], Talk] | None = None) -> AsyncIterator[Server]:
    """A server that answers everything with YES, or talks as told."""

    async def always_yes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await server.request(reader)
            writer.write(YES)

    server = Server(always_yes)
    if talk is not None:
        server.talk = talk(server)
    async with listening(server.handle) as port:
        access = ApiAccess(f"http://127.0.0.1:{port}")
        server.endpoint = ApiEndpoint.of(access, {"User-Agent": "test"})
        try:
            yield server
        finally:
            await eventually(lambda: not server.open)


@asynccontextmanager
async def pooled(limit: int = 8, clock: ManualClock | None = None) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(limit, clock or ManualClock())
    try:
        yield pool
    finally:
        pool.close()


async def post(pool: ConnectionPool, server: Server, path: str = "/x") -> bytes:
    message = server.endpoint.message("POST", path, "application/json", b"{}")
    answer = await pool.exchange(server.endpoint, message, harmless=False)
    return answer.body


async def get(pool: ConnectionPool, server: Server) -> bytes:
    message = server.endpoint.message("GET", "/x", "application/json", None)
    answer = await pool.exchange(server.endpoint, message, harmless=True)
    return answer.body


async def test_a_connection_is_used_again() -> None:
    async with talking() as server, pooled() as pool:
        for _ in range(5):
            assert await post(pool, server) == b"yes"
    assert (server.accepted, len(server.requests)) == (1, 5)


async def test_requests_at_the_same_time_have_a_connection_each() -> None:
    async with talking() as server, pooled() as pool:
        await asyncio.gather(*(post(pool, server) for _ in range(4)))
        await asyncio.gather(*(post(pool, server) for _ in range(4)))
    assert server.accepted == 4


async def test_there_are_never_more_connections_than_the_limit() -> None:
    async with talking() as server, pooled(limit=2) as pool:
        bodies = await asyncio.gather(*(post(pool, server) for _ in range(20)))
    assert bodies == [b"yes"] * 20
    assert server.accepted == 2


async def test_each_request_gets_its_own_answer() -> None:
    def echoing(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                path = (await server.request(reader)).split()[1]
                await asyncio.sleep(0)
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(path), path))

        return talk

    paths = [f"/pods/{number}" for number in range(50)]
    async with talking(echoing) as server, pooled() as pool:
        bodies = await asyncio.gather(*(post(pool, server, path) for path in paths))
    assert bodies == [path.encode() for path in paths]


@pytest.mark.parametrize(
    "last_words",
    [
        pytest.param(b"", id="before the answer"),
        pytest.param(YES[:10], id="in the headers"),
        pytest.param(YES[:-1], id="in the body"),
        pytest.param(b"220 smtp ready\r\n\r\n", id="with another protocol"),
        pytest.param(YES + b"!", id="with more than the answer"),
    ],
)
async def test_an_answer_that_breaks_off_or_makes_no_sense_is_ambiguous(last_words: bytes) -> None:
    def breaking(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.request(reader)
            writer.write(last_words)

        return talk

    async with talking(breaking) as server, pooled() as pool:
        for _ in range(2):
            with pytest.raises(Ambiguous, match=r"http://127\.0\.0\.1"):
                await post(pool, server)
    assert server.accepted == 2


async def test_a_reset_is_ambiguous() -> None:
    def resetting(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.request(reader)
            writer.transport.abort()

        return talk

    async with talking(resetting) as server, pooled() as pool:
        with pytest.raises(Ambiguous):
            await post(pool, server)


async def test_nobody_there_is_unreachable() -> None:
    async with talking() as server:
        pass
    async with pooled() as pool:
        with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1"):
            await post(pool, server)


async def test_a_server_that_wants_to_close_gets_a_new_connection_next_time() -> None:
    def closing(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.request(reader)
            writer.write(YES.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            await reader.read()

        return talk

    async with talking(closing) as server, pooled() as pool:
        assert [await post(pool, server) for _ in range(3)] == [b"yes"] * 3
    assert server.accepted == 3


def once(server: Server) -> Talk:
    """Answers one request on each connection and then closes without a word."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(YES)

    return talk


async def test_a_connection_that_the_server_closed_is_noticed_and_replaced() -> None:
    async with talking(once) as server, pooled() as pool:
        for _ in range(3):
            assert await post(pool, server) == b"yes"
            await eventually(lambda: not server.open and not pool._open)
    assert server.accepted == 3


def mute_after_one(server: Server) -> Talk:
    """Answers one request on each connection; the next one there ends it."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(YES)
        await server.request(reader)

    return talk


async def test_a_harmless_request_is_sent_again_when_a_kept_connection_turns_out_dead() -> None:
    async with talking(mute_after_one) as server, pooled() as pool:
        assert await get(pool, server) == b"yes"
        assert await get(pool, server) == b"yes"
    assert server.accepted == 2


async def test_a_write_is_not_sent_again_when_a_kept_connection_turns_out_dead() -> None:
    async with talking(mute_after_one) as server, pooled() as pool:
        assert await post(pool, server) == b"yes"
        with pytest.raises(Ambiguous):
            await post(pool, server)
    assert len(server.requests) == 2


async def test_an_answer_that_nobody_waits_for_does_not_meet_the_next_request() -> None:
    go_on = asyncio.Event()

    def late(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                path = (await server.request(reader)).split()[1]
                if path == b"/slow":
                    await go_on.wait()
                writer.write(YES.replace(b"yes", b"no!") if path == b"/slow" else YES)

        return talk

    async with talking(late) as server, pooled() as pool:
        await post(pool, server)
        slow = asyncio.create_task(post(pool, server, "/slow"))
        await eventually(lambda: len(server.requests) == 2)
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        go_on.set()
        assert await post(pool, server) == b"yes"
    assert server.accepted == 2


async def test_words_that_nobody_asked_for_end_the_connection() -> None:
    speak = asyncio.Event()

    def talkative(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.request(reader)
            writer.write(YES)
            if server.accepted == 1:
                await speak.wait()
                writer.write(YES.replace(b"yes", b"no!"))
            await reader.read()

        return talk

    async with talking(talkative) as server, pooled() as pool:
        await post(pool, server)
        speak.set()
        await eventually(lambda: not pool._open)
        assert await post(pool, server) == b"yes"
    assert server.accepted == 2


async def test_an_old_connection_is_not_trusted() -> None:
    clock = ManualClock()
    async with talking() as server, pooled(clock=clock) as pool:
        await asyncio.gather(post(pool, server), post(pool, server))
        clock.now += connections.KEEPALIVE_SECONDS + 1
        await post(pool, server)
        await eventually(lambda: server.open == 1)
    assert server.accepted == 3


async def test_kept_connections_can_be_dropped_and_those_in_use_stay() -> None:
    go_on = asyncio.Event()

    def late(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                if (await server.request(reader)).split()[1] == b"/slow":
                    await go_on.wait()
                writer.write(YES)

        return talk

    async with talking(late) as server, pooled() as pool:
        slow = asyncio.create_task(post(pool, server, "/slow"))
        await eventually(lambda: len(server.requests) == 1)
        await post(pool, server)
        pool.drop_idle()
        await eventually(lambda: server.open == 1)
        go_on.set()
        assert await slow == b"yes"
        await post(pool, server)
    assert server.accepted == 2


async def test_connections_are_kept_over_a_new_token_and_dropped_with_another_server() -> None:
    async with talking() as server, talking() as other, pooled() as pool:
        await post(pool, server)
        access = ApiAccess(server.endpoint.server, authorization="Bearer new")
        server.endpoint = ApiEndpoint.of(access, {})
        await post(pool, server)
        assert b"Authorization: Bearer new\r\n" in server.requests[-1]
        assert server.accepted == 1
        await post(pool, other)
        await eventually(lambda: not server.open)


async def test_a_closed_pool_ends_what_is_under_way_and_takes_nothing_more() -> None:
    def silent(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.request(reader)
            await reader.read()

        return talk

    async with talking(silent) as server, pooled() as pool:
        waiting = asyncio.create_task(post(pool, server))
        await eventually(lambda: len(server.requests) == 1)
        pool.close()
        with pytest.raises(Ambiguous):
            await waiting
        with pytest.raises(Unreachable, match="closed"):
            await post(pool, server)


async def test_a_server_that_accepts_and_stays_silent_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "CONNECT_TIMEOUT_SECONDS", 0.05)

    def no_handshake(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            await reader.read()

        return talk

    async with talking(no_handshake) as server, pooled() as pool:
        address = server.endpoint.server.replace("http:", "https:")
        server.endpoint = ApiEndpoint.of(ApiAccess(address, tls=ssl.create_default_context()), {})
        with pytest.raises(Unreachable, match=r"no connection within 0\.05 s"):
            await post(pool, server)


async def test_a_stampede_opens_a_few_connections_at_a_time_and_takes_those_that_come_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTING", 2)
    async with talking() as server, pooled(limit=64) as pool:
        message = server.endpoint.message("GET", "/", "", None)
        answers = await asyncio.gather(
            *(pool.exchange(server.endpoint, message, harmless=True) for _ in range(64))
        )
        assert [answer.body for answer in answers] == [b"yes"] * 64
        assert server.accepted < 64


async def test_answers_that_come_at_once_are_dealt_with_some_in_each_turn_of_the_loop() -> None:
    loop = asyncio.get_running_loop()
    answers = connections._AnswerTurns(loop)
    woken: list[int] = []
    waiters: list[asyncio.Future[HttpResponse]] = [loop.create_future() for _ in range(40)]

    async def wait(number: int) -> None:
        with suppress(Ambiguous):
            await waiters[number]
        woken.append(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(40):
            tasks.create_task(wait(number))
        await asyncio.sleep(0)
        waiters[3].cancel()  # its request was given up: it counts for nothing
        for number, waiter in enumerate(waiters):
            lost = number % 10 == 0
            answer = Ambiguous("cut") if lost else HttpResponse(200, b"", True)
            answers.hand_out(waiter, answer)
        turns = []
        while len(woken) < 39:
            before = len(woken)
            await asyncio.sleep(0)
            turns.append(len(woken) - before)
    assert turns == [16, 16, 7]
    assert woken == [number for number in range(40) if number != 3]
    answers.hand_out(late := loop.create_future(), HttpResponse(200, b"late", True))
    assert late.result().body == b"late"  # in a turn without others nothing waits


async def test_streams_are_opened_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    opening, most = 0, 0

    async def connected(*_: object) -> Never:
        nonlocal opening, most
        opening += 1
        most = max(most, opening)
        await asyncio.sleep(0)
        opening -= 1
        raise Unreachable("nobody is there")

    monkeypatch.setattr(connections, "MAX_OPENING", 3)
    async with talking() as server, pooled() as pool:
        monkeypatch.setattr(pool, "_connected", connected)
        opened = (pool.open_stream(server.endpoint, b"") for _ in range(10))
        outcomes = await asyncio.gather(*opened, return_exceptions=True)
    assert all(isinstance(outcome, Unreachable) for outcome in outcomes)
    assert most == 3
