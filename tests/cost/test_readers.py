"""However many pages are open, what they show is made, encoded and compressed once for all."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from scheduler.observe.decisions import Decision
from scheduler.serve import endpoints, stream
from scheduler.serve.openapi import STREAM
from scheduler.serve.recent import RecentAnswers
from scheduler.serve.server import Server
from scheduler.serve.stream import STREAMS_OF_ONE
from scheduler.views.updates import Updates
from tests.daemon.support import eventually
from tests.patience import PATIENCE
from tests.pipeline.support import FakeClock
from tests.serve.fake_backend import FakeBackend

VIEWS = (
    "/api/v1/overview",
    "/api/v1/classes",
    "/api/v1/groups",
    "/api/v1/nodes?view=map&resource=cpu",
    "/api/v1/queue?group=true&limit=200",
    "/api/v1/queue?limit=5000",
)
SECONDS = 0.03125
"""How long a view takes to be made."""


class Work:
    """What is made, and how often anything was encoded and compressed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.made = self.encoded = self.compressed = 0
        whole, compress = endpoints._json, gzip.compress

        async def encoding(value: Any) -> Any:
            self.encoded += 1
            return await whole(value)

        def compressing(*args: Any, **options: Any) -> bytes:
            self.compressed += 1
            return compress(*args, **options)

        monkeypatch.setattr(endpoints, "_json", encoding)
        monkeypatch.setattr(gzip, "compress", compressing)

    async def view(self, *query: Any) -> dict[str, Any]:
        self.made += 1
        self.clock.advance(SECONDS)
        return {"text": "a" * 50_000}

    def backend(self) -> FakeBackend:
        return FakeBackend(
            recent=RecentAnswers(self.clock),
            overview=self.view,
            classes=self.view,
            groups=self.view,
            nodes=self.view,
            queue=self.view,
        )


@pytest.mark.parametrize("readers", [1, 12])
@pytest.mark.parametrize("view", VIEWS)
async def test_a_view_is_made_once_for_all_who_poll_it(
    monkeypatch: pytest.MonkeyPatch, view: str, readers: int
) -> None:
    """They ask one after the other, within some times as long as it took."""
    work = Work(monkeypatch)
    app = endpoints.build_app(work.backend())
    async with Server(app) as server, aiohttp.ClientSession(server.url) as session:
        for _ in range(readers):
            async with session.get(view) as answer:
                assert len(await answer.read()) > 50_000
                assert answer.headers["Content-Encoding"] == "gzip"
            work.clock.advance(SECONDS)
    assert (work.made, work.encoded, work.compressed) == (1, 1, 1)


@pytest.mark.parametrize("readers", [1, STREAMS_OF_ONE])
async def test_updates_are_looked_for_and_encoded_once_for_all_streams(
    monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    looks, told, encoded = 0, 0, 0

    async def updates(seq: int | None, taken: int) -> Updates:
        nonlocal looks
        looks += 1
        fresh = range((seq if seq is not None else told) + 1, told + 1)
        decisions = [Decision(n, 1.0, f"default/p{n}", "scheduled", "n1") for n in fresh]
        return Updates(told, decisions, 0, 0, None, 0.0)

    def encode(updates: Updates) -> bytes:
        nonlocal encoded
        chunk = original(updates)
        encoded += bool(chunk)
        return chunk

    original = stream._chunk
    monkeypatch.setattr(stream, "_chunk", encode)
    app = endpoints.build_app(FakeBackend(updates=updates))
    async with (
        Server(app) as server,
        aiohttp.ClientSession(server.url) as session,
        AsyncExitStack() as opened,
    ):
        answers = [await opened.enter_async_context(session.get(STREAM)) for _ in range(readers)]
        await eventually(lambda: looks > 0, "somebody looks")
        told = 100
        async with asyncio.timeout(PATIENCE):
            for answer in answers:
                for number in range(1, 101):
                    while (block := await answer.content.readuntil(b"\n\n")).startswith(b":"):
                        pass  # a heartbeat: the streams were opened long ago
                    assert f'"default/p{number}"'.encode() in block
    assert encoded == 1
