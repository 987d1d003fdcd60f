"""The stream of decisions and samples: what is sent, to how many, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from scheduler.observe.decisions import Decision
from scheduler.observe.samples import Sample
from scheduler.serve import stream as streams
from scheduler.serve.endpoints import build_app
from scheduler.serve.guards import Unavailable, errors_as_json
from scheduler.serve.server import Server
from scheduler.serve.stream import STREAMS_OF_ONE, UpdateStream
from scheduler.views.updates import Updates
from tests.daemon.support import eventually
from tests.patience import PATIENCE
from tests.serve.fake_backend import FakeBackend


class Scheduler:
    """What a test says is new."""

    def __init__(self) -> None:
        self.decisions = 0
        self.samples = 0
        self.looks = 0
        self.text = ""
        self.fault: Exception | None = None

    async def updates(self, seq: int | None, taken: int) -> Updates:
        self.looks += 1
        if self.fault is not None:
            raise self.fault
        fresh = [] if seq is None else list(range(seq + 1, self.decisions + 1))
        told = [Decision(n, 1.0, f"default/p{n}", "scheduled", "n1", self.text) for n in fresh[-5:]]
        sample = Sample(2.0, 1.5, 2.0, None, None, {"active": 3}) if self.samples > taken else None
        return Updates(self.decisions, told, len(fresh) - len(told), self.samples, sample, 0.25)


Opened = aiohttp.ClientResponse


@asynccontextmanager
async def serving(
    scheduler: Scheduler, **options: float
) -> AsyncIterator[tuple[Server, UpdateStream, aiohttp.ClientSession]]:
    stream = UpdateStream(scheduler.updates, **{"interval": 0.005, **options})
    app = web.Application(middlewares=[errors_as_json])
    app.router.add_get("/stream", stream.handle)
    app.on_shutdown.append(stream.close)
    async with Server(app) as server, aiohttp.ClientSession() as session:
        yield server, stream, session


async def event(response: Opened) -> tuple[str, Any]:
    """The next event, past comments."""
    async with asyncio.timeout(PATIENCE):
        while True:
            block = (await response.content.readuntil(b"\n\n")).decode()
            if block.startswith(":"):
                continue
            fields = dict(line.split(": ", 1) for line in block.strip().split("\n"))
            return fields["event"], msgspec.json.decode(fields["data"])


async def test_decisions_and_samples_are_sent_as_they_come() -> None:
    scheduler = Scheduler()
    scheduler.decisions = 3
    async with (
        serving(scheduler) as (server, _, session),
        session.get(f"{server.url}/stream") as response,
    ):
        assert response.headers["Content-Type"] == "text/event-stream"
        sample = await event(response)
        assert sample == (
            "overview",
            {
                "time": 2.0,
                "bound": 1.5,
                "attempts": 2.0,
                "p50": None,
                "p99": None,
                "tiers": {"active": 3},
                "loopLagMs": 0.25,
            },
        )
        scheduler.decisions = 4
        name, decision = await event(response)
        assert (name, decision["pod"], decision["seq"]) == ("decision", "default/p4", 4)
        scheduler.decisions = 24
        assert await event(response) == ("skipped", {"count": 15})
        assert [(await event(response))[1]["seq"] for _ in range(5)] == [20, 21, 22, 23, 24]


async def test_nobody_is_asked_while_nobody_reads() -> None:
    scheduler = Scheduler()
    async with serving(scheduler) as (server, stream, session):
        assert scheduler.looks == 0
        async with session.get(f"{server.url}/stream") as response:
            await event(response)
        await eventually(lambda: len(stream) == 0, "the stream ends with its reader")
        looks = scheduler.looks
        await asyncio.sleep(0.05)
        assert scheduler.looks == looks


async def test_all_readers_share_one_look() -> None:
    scheduler = Scheduler()
    async with serving(scheduler, interval=PATIENCE) as (server, stream, session):
        async with AsyncExitStack() as opened:
            for _ in range(STREAMS_OF_ONE):
                await opened.enter_async_context(session.get(f"{server.url}/stream"))
            assert len(stream) == STREAMS_OF_ONE
            await eventually(lambda: scheduler.looks == 1, "somebody looks")
            async with session.get(f"{server.url}/stream") as refused:
                assert refused.status == 429
                assert "too many streams" in await refused.text()
        await eventually(lambda: len(stream) == 0, "all end")
        async with session.get(f"{server.url}/stream") as again:
            assert again.status == 200


async def test_a_stream_ends_when_its_time_is_over() -> None:
    async with (
        serving(Scheduler(), life=0.05) as (server, _, session),
        session.get(f"{server.url}/stream") as response,
        asyncio.timeout(PATIENCE),
    ):
        assert (await response.read()).startswith(b"event: overview")


async def test_a_quiet_stream_has_a_heartbeat() -> None:
    async with (
        serving(Scheduler(), interval=PATIENCE, heartbeat=0.01) as (server, _, session),
        session.get(f"{server.url}/stream") as response,
    ):
        await event(response)
        assert await response.content.readuntil(b"\n\n") == b": still here\n\n"


async def test_a_reader_that_is_slow_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler()
    scheduler.text = "x" * 200_000
    monkeypatch.setattr(streams, "MAX_CHUNKS", 2)
    async with serving(scheduler) as (server, stream, _):
        _, writer = await asyncio.open_connection(server.host, server.port, limit=1024)
        writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        await eventually(lambda: len(stream) == 1, "it is open")

        def cut() -> bool:
            scheduler.decisions += 5
            return not stream or all(reader.ended.is_set() for reader in stream._readers)

        await eventually(cut, "its buffer is full")
        writer.close()


async def test_a_busy_scheduler_is_asked_again() -> None:
    scheduler = Scheduler()
    scheduler.fault = Unavailable("busy")
    async with (
        serving(scheduler) as (server, _, session),
        session.get(f"{server.url}/stream") as response,
    ):
        await eventually(lambda: scheduler.looks > 2, "it is asked again")
        scheduler.fault = None
        assert (await event(response))[0] == "overview"


async def test_a_fault_ends_all_streams_and_the_next_begins_anew() -> None:
    scheduler = Scheduler()
    scheduler.fault = ValueError("planted")
    async with serving(scheduler) as (server, _, session):
        async with session.get(f"{server.url}/stream") as response, asyncio.timeout(PATIENCE):
            await response.read()
        scheduler.fault = None
        async with session.get(f"{server.url}/stream") as response:
            assert (await event(response))[0] == "overview"


async def test_stopping_the_server_ends_streams() -> None:
    async with serving(Scheduler()) as (server, stream, session):
        async with session.get(f"{server.url}/stream") as response:
            await event(response)
            async with asyncio.timeout(PATIENCE):
                await server.stop()
                await response.read()
        assert len(stream) == 0


async def test_a_stream_takes_no_turn_of_others() -> None:
    async def nodes(query: Any) -> dict[str, Any]:
        return {"nodes": []}

    backend = FakeBackend(nodes=nodes, updates=Scheduler().updates)
    async with (
        Server(build_app(backend)) as server,
        aiohttp.ClientSession() as session,
        AsyncExitStack() as opened,
    ):
        for _ in range(STREAMS_OF_ONE):
            stream = session.get(f"{server.url}/api/v1/stream")
            assert (await opened.enter_async_context(stream)).status == 200
        async with session.get(f"{server.url}/api/v1/nodes") as response:
            assert response.status == 200
        async with session.get(f"{server.url}/api/v1/stream?x=1") as response:
            assert response.status == 400
        async with session.head(f"{server.url}/api/v1/stream") as response:
            assert response.status == 200
