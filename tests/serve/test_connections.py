"""Who opens connections and says nothing, half a request, or does not take the answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
import trustme
import uvloop
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from scheduler.explaining.queries import NodesQuery
from scheduler.observe.metrics import Metrics
from scheduler.serve import connections as limits
from scheduler.serve import endpoints
from scheduler.serve.certificates import Files, Tls
from scheduler.serve.connections import Connections, ServedConnection
from scheduler.serve.endpoints import ReadTurns, build_app, encoded
from scheduler.serve.guards import HttpTooManyRequests
from scheduler.serve.recent import RecentAnswers, SharedAnswer
from scheduler.serve.server import Server
from tests.patience import PATIENCE
from tests.pipeline.support import FakeClock
from tests.serve.fake_backend import FakeBackend, empty

PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"


class Gate:
    """A source of an answer that is given when the test says so."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer or {"nodes": []}
        self.opened = asyncio.Event()
        self.inside = 0
        self.most = 0

    async def __call__(self, query: NodesQuery) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.opened.wait()
        finally:
            self.inside -= 1
        return self.answer


@asynccontextmanager
async def serving(
    nodes: Callable[[NodesQuery], Awaitable[Any]] = empty, tls: Tls | None = None
) -> AsyncIterator[tuple[Server, Metrics]]:
    metrics = Metrics()
    app = build_app(FakeBackend(nodes=nodes))
    async with Server(app, tls=tls, dropped=metrics.serving_dropped) as server:
        yield server, metrics


def dropped(metrics: Metrics, reason: str) -> float:
    sample = "equipoise_serving_dropped_total"
    return metrics.registry.get_sample_value(sample, {"reason": reason}) or 0.0


async def connect(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(server.host, server.port)


async def answer(server: Server, request: bytes = PROBE) -> bytes:
    """The status line; empty if there is none."""
    reader, writer = await connect(server)
    writer.write(request)
    try:
        return await reader.readline()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Wait until the other side closes."""
    try:
        async with asyncio.timeout(PATIENCE):
            while await reader.read(65536):
                pass
    except ConnectionError:
        pass
    return True


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  because nobody tells
            await asyncio.sleep(0.005)


async def test_300_silent_connections_keep_no_probe_from_being_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Those that are turned away make room, not those whose time is over.
    monkeypatch.setattr(limits, "HEADER_SECONDS", PATIENCE)
    async with serving() as (server, metrics):
        silent = [await connect(server) for _ in range(300)]
        assert await answer(server) == OK
        assert len(server.connections) <= limits.MAX_CONNECTIONS
        assert dropped(metrics, "evicted") >= 300 - limits.MAX_CONNECTIONS
        # Those that came first gave way.
        assert await ended(silent[0][0])
        writer = silent[-1][1]
        writer.write(PROBE)
        assert await silent[-1][0].readline() == OK
        for _, each in silent:
            each.close()


@pytest.fixture
def issued(tmp_path: Path) -> tuple[Tls, ssl.SSLContext]:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.cert_chain_pems[0].write_to_path(chain)
    certificate.private_key_pem.write_to_path(key)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    return Tls(Files(str(chain), str(key))), trust


async def tls_scenario(tls: Tls, trust: ssl.SSLContext) -> None:
    """Silence, nonsense and hanging up instead of a handshake; then probes."""
    async with serving(tls=tls) as (server, _):
        silent = [await connect(server) for _ in range(300)]
        for number in range(5):
            _, writer = await connect(server)
            writer.write(PROBE * (number + 1))
            silent.append((_, writer))
        silent[-1][1].close()
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                async with session.get(f"{server.url}/livez", ssl=trust) as response:
                    assert await response.text() == "ok"
            async with session.get(f"{server.url}/metrics", ssl=trust) as response:
                assert response.status == 200
        # The first request in the same packet as the end of the handshake.
        reader, writer = await asyncio.open_connection(
            server.host, server.port, ssl=trust, server_hostname="127.0.0.1"
        )
        writer.write(PROBE)
        assert await reader.readline() == OK
        writer.close()
        for _, each in silent:
            each.close()


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
async def test_over_tls_too(
    make_loop: Callable[[], asyncio.AbstractEventLoop], issued: tuple[Tls, ssl.SSLContext]
) -> None:
    def run() -> None:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(tls_scenario(*issued))

    await asyncio.to_thread(run)


async def test_a_handshake_that_does_not_end_is_cut(
    issued: tuple[Tls, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_SECONDS", 0.05)
    async with serving(tls=issued[0]) as (server, _):
        reader, writer = await connect(server)
        assert await ended(reader)
        await eventually(lambda: not len(server.connections))
        writer.close()


@pytest.mark.parametrize(
    "bytes_first",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(PROBE[:20], id="half a header"),
        pytest.param(PROBE + PROBE[:20], id="half of the second header"),
        pytest.param(
            b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx", id="half a body"
        ),
    ],
)
async def test_a_request_that_does_not_become_complete_is_cut(
    bytes_first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(limits, "KEEPALIVE_SECONDS", 0.4)
    monkeypatch.setattr("scheduler.serve.server.SWEEP_SECONDS", 0.05)
    monkeypatch.setattr("scheduler.serve.server.LINGER_SECONDS", 0.1)
    async with serving() as (server, _):
        reader, writer = await connect(server)
        writer.write(bytes_first)
        assert await ended(reader)
        await eventually(lambda: not len(server.connections))
        writer.close()


class Wire(asyncio.Transport):
    """A transport that notes its end."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class Parser:
    """Stands for the library's handler of requests."""

    def __init__(self) -> None:
        self.got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        pass

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        pass


class Street:
    """Connections on a clock of their own, from whatever address."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made = 0
        self.all = Connections(self._parser, clock=lambda: self.now)

    def _parser(self) -> RequestHandler:
        self.made += 1
        return cast("RequestHandler", Parser())

    def connect(self, address: str) -> tuple[ServedConnection, Wire]:
        self.now += 1e-6
        connection, wire = ServedConnection(self.all, address), Wire()
        if self.all.admit(connection):
            connection.connection_made(wire)
        else:
            wire.abort()
        return connection, wire


def test_bytes_that_trickle_do_not_prolong_a_header() -> None:
    street = Street()
    connection, wire = street.connect("a")
    for byte in PROBE[: int(limits.HEADER_SECONDS) + 1]:
        connection.data_received(bytes([byte]))
        street.all.sweep()
        assert wire.aborted == (street.now >= limits.HEADER_SECONDS)
        street.now += 1.0
    assert wire.aborted


def test_a_connection_between_requests_is_kept_for_a_while() -> None:
    street = Street()
    connection, wire = street.connect("a")
    connection.data_received(PROBE)
    connection.begin()
    street.now += 1000.0
    street.all.sweep()
    assert not wire.aborted, "it is being answered"
    connection.end()
    street.now += limits.KEEPALIVE_SECONDS - 1
    street.all.sweep()
    assert not wire.aborted
    street.now += 1
    street.all.sweep()
    assert wire.aborted
    assert len(street.all) == 0


def test_silence_costs_no_parser() -> None:
    street = Street()
    for _ in range(1000):
        street.connect("a")
    assert street.made == 0
    assert len(street.all) == limits.MAX_CONNECTIONS


def test_the_address_with_most_connections_gives_way_first() -> None:
    street = Street()
    lonely, wire = street.connect("scraper")
    for _ in range(10 * limits.MAX_CONNECTIONS):
        street.connect("flood")
    assert not wire.aborted
    assert len(street.all) == limits.MAX_CONNECTIONS
    lonely.data_received(PROBE)


def test_whoever_is_being_answered_does_not_give_way_and_probes_have_a_share() -> None:
    street = Street()
    busy = [street.connect("a") for _ in range(limits.MAX_CONNECTIONS)]
    for connection, _ in busy:
        connection.data_received(PROBE)
        connection.begin()
    share = [street.connect("a") for _ in range(limits.PROBE_CONNECTIONS)]
    assert all(connection.only_probes for connection, _ in share)
    late, wire = street.connect("b")
    assert not wire.aborted, "it takes the place of one that only waits"
    assert late.only_probes
    assert share[0][1].aborted
    assert not any(wire.aborted for _, wire in busy)
    for connection, _ in [*share[1:], (late, wire)]:
        connection.begin()
    assert street.connect("c")[1].aborted, "there is no room at all"
    busy[0][0].connection_lost(None)
    connection, wire = street.connect("c")
    assert not wire.aborted
    assert not connection.only_probes


async def test_when_all_are_busy_a_probe_is_answered_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)
    gate = Gate()
    async with serving(gate) as (server, metrics), aiohttp.ClientSession() as session:
        url = f"{server.url}/api/v1/nodes"
        held = [asyncio.create_task(session.get(url)) for _ in range(3)]
        await eventually(lambda: gate.inside == 3)
        assert await answer(server) == OK
        assert await answer(server, PROBE.replace(b"livez", b"readyz/ping")) == OK
        async with session.get(f"{server.url}/version") as refused:
            assert refused.status == 503
            assert refused.headers["Retry-After"] == "1"
            assert "only probes" in await refused.text()
        assert dropped(metrics, "refused") == 1
        gate.opened.set()
        for response in await asyncio.gather(*held):
            assert response.status == 200
        async with session.get(f"{server.url}/version") as response:
            assert response.status == 200


async def test_few_look_at_once_and_nobody_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoints, "WAIT_SECONDS", 0.2)
    gate = Gate()
    async with serving(gate) as (server, _):
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def look() -> tuple[int, str | None]:
                async with session.get(f"{server.url}/api/v1/nodes?limit=5000") as response:
                    await response.read()
                    return response.status, response.headers.get("Retry-After")

            looks = [asyncio.create_task(look()) for _ in range(128)]
            await eventually(lambda: sum(task.done() for task in looks) >= 128 - gate.inside)
            assert gate.inside == endpoints.READS_OF_ONE
            assert await answer(server) == OK
            gate.opened.set()
            answers = await asyncio.gather(*looks)
        assert gate.most == endpoints.READS_OF_ONE
        assert {status for status, _ in answers} == {200, 429}
        assert all((status == 429) == (after == "1") for status, after in answers)


class CountedQuestions(RecentAnswers):
    """Counts who asks for an answer."""

    asked = 0

    async def get(self, *args: Any) -> SharedAnswer:
        self.asked += 1
        return await super().get(*args)


async def test_who_joins_a_question_is_not_refused_because_of_who_asked_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The turns of each address are its own; one that has used them up waits, and is refused."""
    refused, made = asyncio.Event(), 0

    @asynccontextmanager
    async def turn(turns: ReadTurns, request: web.Request) -> AsyncIterator[None]:
        if request.remote == "greedy":
            await refused.wait()
            raise HttpTooManyRequests("others are being answered")
        yield

    async def overview() -> Any:
        nonlocal made
        made += 1
        return {}

    async def ask(address: str) -> int:
        async with session.get("/api/v1/overview", headers={"From": address}) as response:
            await response.read()
            return response.status

    monkeypatch.setattr(ReadTurns, "turn", turn)
    monkeypatch.setattr(web.BaseRequest, "remote", property(lambda each: each.headers["From"]))
    recent = CountedQuestions(FakeClock())
    app = build_app(FakeBackend(overview=overview, recent=recent))
    async with Server(app) as server, aiohttp.ClientSession(server.url) as session:
        first = asyncio.create_task(ask("greedy"))
        await eventually(lambda: recent.asked == 1)
        others = [asyncio.create_task(ask("modest")) for _ in range(3)]
        await eventually(lambda: recent.asked == 4)
        refused.set()
        assert await first == 429
        assert await asyncio.gather(*others) == [200] * 3
    assert made == 1, "those of one address share the question again"


async def test_an_answer_that_is_not_taken_is_cut_and_its_turn_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SEND_SECONDS", 0.1)
    gate = Gate({"nodes": ["x" * 1000] * 20_000})
    gate.opened.set()
    async with serving(gate) as (server, metrics):
        request = b"GET /api/v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n"
        lazy = []
        for _ in range(endpoints.READS_OF_ONE):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect((server.host, server.port))
            sock.sendall(request)
            lazy.append(sock)
        await eventually(lambda: dropped(metrics, "timeout") == endpoints.READS_OF_ONE)
        monkeypatch.setattr(limits, "SEND_SECONDS", 30.0)
        url = f"{server.url}/api/v1/nodes"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            assert len((await response.json())["nodes"]) == 20_000
        for sock in lazy:
            sock.close()


@pytest.mark.parametrize(
    "value",
    [{}, [], {"a": {"b": {"c": [1, 2]}}}, {"a": [{"b": 1}, None], "é": 1.5}, [1, [2, [3]]], "x", 1],
)
def test_what_is_encoded_in_parts_is_what_would_be_encoded_at_once(value: Any) -> None:
    import msgspec

    assert msgspec.json.decode(encoded(value)) == msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("expected", [b"a pony", "größe".encode("latin-1"), b"100-continue, more"])
async def test_whoever_expects_what_is_not_known_is_told_so_in_json(
    expected: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        ask = b"OPTIONS * HTTP/1.1\r\nHost: x\r\nExpect: %s\r\n\r\n" % expected
        writer.write(ask + PROBE)
        async with asyncio.timeout(PATIENCE):
            refused = await reader.readuntil(b"}}")
            answered = await reader.readuntil(OK)
        writer.close()
    assert refused.startswith(b"HTTP/1.1 417 ")
    assert b"only 100-continue is known here" in refused
    assert b"aiohttp" not in refused
    assert answered.endswith(OK), "and the connection serves on"
    assert not caplog.records


async def test_whoever_waits_for_leave_to_send_a_body_gets_it() -> None:
    async with serving() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 2"
        writer.write(head + b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            await reader.readuntil(b"HTTP/1.1 100 Continue\r\n\r\n")
            writer.write(b"{}")
            await reader.readuntil(b"HTTP/1.1 404 ")
        writer.close()
