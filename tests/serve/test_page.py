"""The web page: headers, caching, encodings, methods, and who may load it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from scheduler.config.schema import ServerSettings
from scheduler.kube.reviews import Right, User
from scheduler.serve.access import AccessControl
from scheduler.serve.endpoints import build_app
from scheduler.serve.page import OPEN_PATHS, read_page
from scheduler.serve.server import Server, open_server
from tests.serve.fake_backend import FakeBackend

SCRIPT = "assets/main-a1b2c3.js"
BROTLI = b"as if it were compressed"
CODE = b"console.log(1);\n" * 40
BODIES = {"br": BROTLI, "gzip": gzip.compress(CODE, mtime=0), None: CODE}


class Nobody:
    """A reviewer that knows nobody and lets nobody do anything."""

    async def identify(self, token: str) -> User | None:
        return None

    async def allows(self, user: User, verb: str, path: str) -> bool:
        return False

    async def grants(self, user: User, right: Right) -> bool:
        return False


async def queue(*asked: object) -> dict[str, object]:
    return {"counts": {}, "pods": []}


def backend() -> FakeBackend:
    return FakeBackend(version="9", queue=queue)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A page as the build writes it, beside a file that is none of its business."""
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html><title>x</title>")
    (static / "icon.svg").write_text("<svg/>")
    (static / SCRIPT).write_bytes(CODE)
    (static / f"{SCRIPT}.gz").write_bytes(BODIES["gzip"])
    (static / f"{SCRIPT}.br").write_bytes(BROTLI)
    (tmp_path / "secret.txt").write_text("secret")
    return static


@pytest.fixture
async def server(built: Path) -> AsyncIterator[Server]:
    async with Server(build_app(backend(), page=read_page(built))) as served:
        yield served


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False) as opened:
        yield opened


Session = aiohttp.ClientSession


async def test_the_root_leads_to_the_page_wherever_it_is_mounted(
    server: Server, session: Session
) -> None:
    for path in ("/", "/ui"):
        async with session.get(server.url + path, allow_redirects=False) as answer:
            assert answer.status == 307
            assert answer.headers["Location"] == "ui/", "a proxy's path comes before it"
    async with session.get(server.url) as answer:
        assert (answer.status, answer.url.path) == (200, "/ui/")
        assert answer.content_type == "text/html"


async def test_browsers_are_told_to_load_nothing_else(server: Server, session: Session) -> None:
    for path in ("/ui/", f"/ui/{SCRIPT}", "/ui/icon.svg"):
        async with session.get(server.url + path) as answer:
            policy = dict(
                part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; ")
            )
            assert policy == {
                "default-src": "'none'",
                "script-src": "'self'",
                "style-src": "'self'",
                "connect-src": "'self'",
                "img-src": "'self' data:",
                "frame-ancestors": "'none'",
                "base-uri": "'none'",
                "form-action": "'none'",
            }
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_hashed_files_are_kept_for_ever_and_others_asked_for_again(
    server: Server, session: Session
) -> None:
    async with session.get(f"{server.url}/ui/{SCRIPT}") as answer:
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    async with session.get(f"{server.url}/ui/index.html") as answer:
        assert answer.headers["Cache-Control"] == "no-cache"
        tag = answer.headers["ETag"]
    known = {"If-None-Match": f'"other", W/{tag}'}
    async with session.get(f"{server.url}/ui/", headers=known) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
        assert answer.headers["ETag"] == tag
    async with session.get(f"{server.url}/ui/", headers={"If-None-Match": '"other"'}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("identity", None),
        ("zstd;q=1, nonsense", None),
    ],
)
async def test_the_smallest_encoding_that_is_accepted(
    server: Server, session: Session, accepted: str, encoding: str | None
) -> None:
    asked = {"Accept-Encoding": accepted}
    async with session.get(f"{server.url}/ui/{SCRIPT}", headers=asked) as answer:
        assert answer.headers.get("Content-Encoding") == encoding
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert answer.content_type == "text/javascript"
        assert await answer.read() == BODIES[encoding]
        tag = answer.headers["ETag"]
    asked["Accept-Encoding"] = "br" if encoding != "br" else "gzip"
    async with session.get(f"{server.url}/ui/{SCRIPT}", headers=asked) as answer:
        assert answer.headers["ETag"] != tag, "each encoding is a thing of its own"


async def test_a_head_is_an_answer_without_its_body(server: Server, session: Session) -> None:
    plain = {"Accept-Encoding": "identity"}
    async with session.head(f"{server.url}/ui/{SCRIPT}", headers=plain) as answer:
        assert answer.status == 200
        assert int(answer.headers["Content-Length"]) == len(CODE)
        assert await answer.read() == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_the_page_is_only_read(server: Server, session: Session, method: str) -> None:
    for path in ("/", "/ui/", f"/ui/{SCRIPT}"):
        async with session.request(method, server.url + path) as answer:
            assert answer.status == 405
            assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path",
    [
        "/ui/../secret.txt",
        "/ui/%2e%2e/secret.txt",
        "/ui/..%2fsecret.txt",
        "/ui/%2e%2e%2fsecret.txt",
        "/ui/..%5csecret.txt",
        "/ui//secret.txt",
        "/ui/assets/../../secret.txt",
        "/ui/assets",
        "/ui/assets/",
        f"/ui/{SCRIPT}.br",
        "/ui/index.html%00",
    ],
)
async def test_nothing_but_the_files_of_the_page(server: Server, path: str) -> None:
    host, port = server.host, server.port
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.split(b" ", 2)[1] in (b"404", b"400")
    assert b"secret\n" not in answer
    assert not answer.endswith(b"secret")


async def test_a_checkout_without_the_page_says_how_to_build_it(
    tmp_path: Path, session: Session
) -> None:
    async with Server(build_app(backend(), page=read_page(tmp_path / "missing"))) as served:
        async with session.get(f"{served.url}/ui/") as answer:
            assert answer.status == 200
            assert "make page" in await answer.text()
        async with session.get(f"{served.url}/api/v1/queue") as answer:
            assert answer.status == 200


async def test_strangers_may_load_the_page_and_nothing_that_it_shows(
    built: Path, session: Session
) -> None:
    access = AccessControl(Nobody(), OPEN_PATHS)
    async with Server(build_app(backend(), access, read_page(built))) as served:
        for path in ("/", "/ui/", f"/ui/{SCRIPT}"):
            async with session.get(served.url + path) as answer:
                assert answer.status == 200
        for path in ("/api/v1/queue", "/version", "/uix", "/ui/../api/v1/queue"):
            async with session.get(served.url + path) as answer:
                assert answer.status == 403


async def test_the_page_is_open_on_a_port_that_asks_who_calls(session: Session) -> None:
    settings = ServerSettings(port=0, protection="always")
    async with await open_server(backend(), settings, Nobody()) as served:
        async with session.get(f"{served.url}/ui/", ssl=False) as answer:
            assert answer.status == 200
        async with session.get(f"{served.url}/api/v1/queue", ssl=False) as answer:
            assert answer.status == 403
        known = {"Equipoise-Authorization": "Bearer of-nobody"}
        async with session.get(f"{served.url}/api/v1/queue", ssl=False, headers=known) as answer:
            assert answer.status == 401
