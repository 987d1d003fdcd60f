"""What may be asked of /debug/equivalence, and what is answered to nonsense."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from scheduler.serve.endpoints import build_app
from scheduler.serve.guards import HttpNotFound
from scheduler.serve.server import Server
from tests.serve.fake_backend import FakeBackend

LARGEST = 2**64 - 1


async def kept(name: int | None, node: str | None, limit: int) -> list[Any]:
    if name == 404:
        raise HttpNotFound("nothing is kept for a class 404")
    return [None if name is None else str(name), node, limit]


@pytest.fixture
async def url() -> AsyncIterator[str]:
    backend = FakeBackend(equivalence=kept)
    async with Server(build_app(backend)) as server:
        yield f"{server.url}/debug/equivalence"


async def get(url: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        pytest.param("", [None, None, 500], id="all classes"),
        pytest.param("?limit=2", [None, None, 2], id="some classes"),
        pytest.param("?class=7", ["7", None, 500], id="one class"),
        pytest.param(f"?class={LARGEST}&node=n1", [str(LARGEST), "n1", 500], id="on one node"),
    ],
)
async def test_what_is_asked(url: str, query: str, asked: list[Any]) -> None:
    assert await get(url + query) == (200, asked)


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        pytest.param("?class=red", 400, "class must be an equivalenceHash", id="no number"),
        pytest.param("?class=", 400, "class must be an equivalenceHash", id="empty"),
        pytest.param("?class=-1", 400, "class must be an equivalenceHash", id="negative"),
        pytest.param(f"?class={2**64}", 400, "class must be an equivalenceHash", id="too large"),
        pytest.param("?class=" + "9" * 5000, 400, "class must be", id="far too large"),
        pytest.param("?node=n1", 400, "node needs a class", id="a node alone"),
        pytest.param("?limit=0", 400, "limit must be a number", id="no limit"),
        pytest.param("?class=404", 404, "nothing is kept for a class 404", id="unknown"),
    ],
)
async def test_nonsense_is_named(url: str, query: str, status: int, message: str) -> None:
    got, body = await get(url + query)
    assert got == status
    assert message in body["error"]["message"]
