"""An API server that misbehaves: a proxy before the real one, with faults that can be set.

Each replica gets a proxy of its own, so that what one of them sends can be told from the others.
"""

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

BINDING = re.compile(r"^/api/v1/namespaces/([^/]+)/pods/([^/]+)/binding$")
HOP_BY_HOP = {"host", "connection", "transfer-encoding", "content-length", "authorization"}


@dataclass(frozen=True)
class SentBinding:
    """A binding as the proxy got it."""

    at: float
    namespace: str
    pod: str
    node: str


@dataclass
class Faults:
    """What goes wrong now. Each is asked for every request and may be changed at any time."""

    fail_binding: Callable[[str], bool] = lambda namespace: False
    """Answer 500 without binding."""
    hang_binding: Callable[[str], bool] = lambda namespace: False
    """Never answer, and do not bind."""
    swallow_binding: Callable[[str], bool] = lambda namespace: False
    """Answer 201 without binding."""
    delay_binding: float = 0.0
    """Seconds before a binding reaches the API server; it gets there even if the client left."""


@dataclass
class Proxy:
    """One misbehaving address of the API server."""

    url: str
    faults: Faults = field(default_factory=Faults)
    bindings: list[SentBinding] = field(default_factory=list)
    _watches: set[tuple[str, web.StreamResponse, asyncio.Transport]] = field(default_factory=set)

    def garble(self, path: str) -> int:
        """Send a malformed chunk on every watch of a path; returns on how many."""
        hit = [transport for watched, _, transport in self._watches if watched == path]
        for transport in hit:
            transport.write(b"this is no chunk size\r\n")
        return len(hit)


class _Handler:
    def __init__(self, target: str, session: aiohttp.ClientSession, proxy: Proxy) -> None:
        self._target = target
        self._session = session
        self._proxy = proxy
        self._late: set[asyncio.Task[object]] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method == "POST" and (match := BINDING.match(request.path)):
            return await self._bind(request, body, match[1], match[2])
        return await self._pass_on(request, body)

    async def _bind(
        self, request: web.Request, body: bytes, namespace: str, pod: str
    ) -> web.StreamResponse:
        faults = self._proxy.faults
        node = (re.search(rb'"kind":"Node","name":"([^"]*)"', body) or [b"", b""])[1].decode()
        self._proxy.bindings.append(SentBinding(time.monotonic(), namespace, pod, node))
        if faults.hang_binding(namespace):
            await asyncio.sleep(3600)
        if faults.fail_binding(namespace):
            failure = {"kind": "Status", "code": 500, "message": "etcdserver: request timed out"}
            return web.json_response(failure, status=500)
        if faults.swallow_binding(namespace):
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        if faults.delay_binding:
            late = asyncio.create_task(self._later(request, body, faults.delay_binding))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            status, answer = await asyncio.shield(late)
            return web.Response(body=answer, status=status, content_type="application/json")
        return await self._pass_on(request, body)

    async def _later(self, request: web.Request, body: bytes, delay: float) -> tuple[int, bytes]:
        url, headers = self._target + request.path_qs, _headers(request)
        await asyncio.sleep(delay)
        async with self._session.post(url, data=body, headers=headers) as answer:
            return answer.status, await answer.read()

    async def _pass_on(self, request: web.Request, body: bytes) -> web.StreamResponse:
        url = self._target + request.path_qs
        async with self._session.request(
            request.method, url, data=body or None, headers=_headers(request)
        ) as answer:
            headers = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in HOP_BY_HOP
            }
            if request.query.get("watch") != "true":
                return web.Response(body=await answer.read(), status=answer.status, headers=headers)
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            transport = request.transport
            assert isinstance(transport, asyncio.Transport), "the response has begun"
            entry = (request.path, response, transport)
            self._proxy._watches.add(entry)
            try:
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            finally:
                self._proxy._watches.discard(entry)
            return response


def _headers(request: web.Request) -> dict[str, str]:
    return {
        name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP
    }


@asynccontextmanager
async def proxy(target: str, trust: ssl.SSLContext) -> AsyncIterator[Proxy]:
    """A proxy on a free port, with the rights of ``trust``; gone when the block ends."""
    connector = aiohttp.TCPConnector(ssl=trust, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False
    ) as session:
        made = Proxy("")
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", _Handler(target, session, made).handle)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield made
        finally:
            await runner.cleanup()
