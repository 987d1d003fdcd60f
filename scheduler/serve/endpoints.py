"""Which path answers what: probes, metrics, configuration and the JSON behind the CLI.

The handlers import nothing of the scheduler: `Sources` has the callables that they call, so
everything here can be tested, and replaced, without one. All paths are read (GET, HEAD), but for
one: POST to a waiting pod decides about it, for callers that the API server authorizes.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from scheduler.fairness import Shares
from scheduler.kube.reviews import Right
from scheduler.kube.slots import Slots
from scheduler.pipeline.permits import PermitDecision, Verb
from scheduler.serve.access import DECISIONS, AccessControl
from scheduler.serve.connections import send
from scheduler.serve.guards import (
    BadRequest,
    HttpForbidden,
    HttpNotFound,
    HttpTooManyRequests,
    Unavailable,
    errors_as_json,
    harden,
)
from scheduler.serve.health import PING, Check, report
from scheduler.slices import checkpoint, in_slices

READS_OF_ONE = 3
"""By one address; a third more is there for others."""
WAITING_OF_ONE = 24
"""Likewise for requests that wait for a slot."""
WAIT_SECONDS = 5.0
HEAVY = ("/api/", "/debug/")


class ReadTurns:
    """Turns to read, shared by address; beyond the bounds, or after a while, 429."""

    def __init__(self) -> None:
        self._slots = Slots(READS_OF_ONE, least=0, most=1)
        self._present = Shares(READS_OF_ONE + WAITING_OF_ONE)

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """A block that runs once it has a slot; raises HttpTooManyRequests."""
        if not self._present.may_take(address):
            raise HttpTooManyRequests("too many such requests wait already")
        self._present.take(address)
        try:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._slots.take(address)
            except TimeoutError:
                raise HttpTooManyRequests("others are being answered") from None
            try:
                yield
            finally:
                self._slots.release(address)
        finally:
            self._present.give_back(address)

    def middleware(self) -> Middleware:
        """Has a turn last until the answer is sent, so that few answers are in memory."""

        @web.middleware
        async def in_turn(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not request.path.startswith(HEAVY):
                return await handler(request)
            async with self.turn(request.remote or ""):
                response = await handler(request)
                await send(request, response)
                return response

        return in_turn


DEFAULT_LIMIT = 500
MAX_LIMIT = 5000
MAX_SCRAPES = 8
MAX_REASON_LENGTH = 256
GROUP, RESOURCE = "equipoise.dev", "waitingpods"
"""The resource in a Role that grants ``approve`` or ``reject``."""

COMPRESS_HERE_BYTES = 16 * 1024

OPENMETRICS = "application/openmetrics-text"


class Replica(msgspec.Struct, frozen=True):
    """The replica and the leader: only the leader has a queue that moves, and decisions."""

    identity: str = ""
    leading: bool = True
    """Whether this replica schedules."""
    leader: str = ""
    """The identity of the leader as last seen from here; empty if there is none."""


@dataclass(frozen=True)
class Sources:
    """Where the endpoints get what they show; an endpoint without a source does not exist.

    The callables run on the event loop that serves and return what msgspec can encode as JSON;
    those of /api/v1 return mappings. Those that are not awaited must be quick.
    They raise `HttpNotFound` or `Unavailable` to have the client told so.
    """

    registry: CollectorRegistry
    """Shown on /metrics."""
    version: Mapping[str, str]
    """Shown on /version."""
    live: Sequence[Check] = (PING,)
    """/livez: does a restart help?"""
    ready: Sequence[Check] = (PING,)
    """/readyz: can it do its work now?"""
    health: Sequence[Check] = (PING,)
    """/healthz: the deprecated name, for probes that still use it."""
    config: Callable[[], Any] | None = None
    """/configz: the effective configuration."""
    replica: Callable[[], Replica] = Replica
    """`replica` in every answer of /api/v1: the replica and the leader."""
    queue: Callable[[int], Awaitable[Any]] | None = None
    """/api/v1/queue?limit=: at most so many pending pods."""
    nodes: Callable[[int], Awaitable[Any]] | None = None
    """/api/v1/nodes?limit=: at most so many nodes."""
    decisions: Callable[[int], Awaitable[Any]] | None = None
    """/api/v1/decisions?limit=: at most so many decisions, newest first."""
    waiting: Callable[[int], Awaitable[Any]] | None = None
    """/api/v1/waiting?limit=: at most so many pods that wait for permission."""
    decide: Callable[[PermitDecision], Awaitable[Any]] | None = None
    """POST /api/v1/waiting/NAMESPACE/NAME/approve or /reject, ?plugin=&reason=&uid=."""
    explain: Callable[[str], Awaitable[Any]] | None = None
    """/api/v1/explain?pod=namespace/name: the verdict of every node; may wait for webhooks."""
    equivalence: Callable[[int | None, str | None, int], Awaitable[Any]] | None = None
    """/debug/equivalence?class=&node=&limit=: what is kept for classes of equal pods."""


def build_app(sources: Sources, access: AccessControl | None = None) -> web.Application:
    """Return the application with one route per source, for callers that `access` admits."""
    guards = [access.middleware()] if access else []
    app = web.Application(middlewares=[errors_as_json, *guards, ReadTurns().middleware()])
    app.on_response_prepare.append(harden)
    routes = app.router
    for name, checks in (
        ("livez", sources.live),
        ("readyz", sources.ready),
        ("healthz", sources.health),
    ):
        routes.add_get(f"/{name}", functools.partial(_probe, name, checks))
        routes.add_get(f"/{name}/{{check}}", functools.partial(_probe_one, checks))
    routes.add_get("/metrics", _Scrapes(sources.registry).handle)
    routes.add_get("/version", functools.partial(_page, lambda: dict(sources.version)))
    if sources.config:
        routes.add_get("/configz", functools.partial(_page, sources.config))
    for name, source in (
        ("queue", sources.queue),
        ("nodes", sources.nodes),
        ("decisions", sources.decisions),
        ("waiting", sources.waiting),
    ):
        if source:
            handler = functools.partial(_list, source, sources.replica)
            routes.add_get(f"/api/v1/{name}", handler)
    if sources.decide:
        decide = functools.partial(_decide, sources.decide, access)
        routes.add_post(DECISIONS + "{namespace}/{name}/{verb:approve|reject}", decide)
    if sources.explain:
        handler = functools.partial(_explain, sources.explain, sources.replica)
        routes.add_get("/api/v1/explain", handler)
    if sources.equivalence:
        kept = functools.partial(_equivalence, sources.equivalence)
        routes.add_get("/debug/equivalence", kept)
    return app


async def _probe(name: str, checks: Sequence[Check], request: web.Request) -> web.Response:
    outcome = report(
        name,
        checks,
        exclude=request.query.getall("exclude", []),
        verbose="verbose" in request.query,
    )
    return web.Response(text=outcome.body, status=200 if outcome.healthy else 500)


async def _probe_one(checks: Sequence[Check], request: web.Request) -> web.Response:
    wanted = request.match_info["check"]
    for check in checks:
        if check.name == wanted:
            if (reason := check.failure()) is None:
                return web.Response(text="ok")
            return web.Response(text=f"internal server error: {reason}\n", status=500)
    raise HttpNotFound(f"no health check is named {wanted!r}")


class _Scrapes:
    """Renders the metrics in a thread, one scrape at a time, with a bounded number waiting."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._one_at_a_time = asyncio.Lock()
        self._present = 0

    async def handle(self, request: web.Request) -> web.Response:
        if self._present >= MAX_SCRAPES:
            raise Unavailable(f"{MAX_SCRAPES} scrapes are already waiting")
        # The library's own reading of the header raises on a version that is no version.
        asked = OPENMETRICS in request.headers.get("Accept", "")
        encode, content_type = choose_encoder(OPENMETRICS if asked else "")
        self._present += 1
        try:
            async with self._one_at_a_time:
                # Thousands of series take longer to render than the loop may be held.
                body = await asyncio.to_thread(encode, self._registry)
        finally:
            self._present -= 1
        return _answer(body, content_type)


async def _page(source: Callable[[], Any], request: web.Request) -> web.Response:
    return await _json(source())


async def _list(
    source: Callable[[int], Awaitable[Any]], replica: Callable[[], Replica], request: web.Request
) -> web.Response:
    return await _json({**await source(_limit(request)), "replica": replica()})


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", str(DEFAULT_LIMIT))
    limit = _number(text)
    if limit is None or not 0 < limit <= MAX_LIMIT:
        raise BadRequest(f"limit must be a number from 1 to {MAX_LIMIT}, not {text!r}")
    return limit


def _number(text: str) -> int | None:
    """A number of up to 64 bits, written in digits."""
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(2**64))
    return int(text) if digits and int(text) < 2**64 else None


async def _equivalence(
    source: Callable[[int | None, str | None, int], Awaitable[Any]], request: web.Request
) -> web.Response:
    text, node = request.query.get("class"), request.query.get("node")
    name = _number(text) if text is not None else None
    if text is not None and name is None:
        raise BadRequest(f"class must be an equivalenceHash, a number, not {text!r}")
    if node is not None and name is None:
        raise BadRequest("node needs a class: what is kept belongs to a class")
    return await _json(await source(name, node, _limit(request)))


async def _explain(
    source: Callable[[str], Awaitable[Any]], replica: Callable[[], Replica], request: web.Request
) -> web.Response:
    pod = request.query.get("pod", "")
    namespace, _, name = pod.partition("/")
    if not namespace or not name or "/" in name:
        raise BadRequest(f"pod must be given as namespace/name, not {pod!r}")
    return await _json({**await source(pod), "replica": replica()})


async def _decide(
    source: Callable[[PermitDecision], Awaitable[Any]],
    access: AccessControl | None,
    request: web.Request,
) -> web.Response:
    """Decide about a pod, if RBAC in the pod's namespace allows it."""
    if access is None:
        raise HttpForbidden("callers are not authenticated: set server.protection to always")
    if "Origin" in request.headers:
        raise HttpForbidden("requests with an Origin header (web pages) may not decide")
    namespace, name, verb = (request.match_info[part] for part in ("namespace", "name", "verb"))
    user = await access.authorize(request, Right(verb, GROUP, RESOURCE, namespace, name))
    reason = " ".join(request.query.get("reason", "").split())
    if len(reason) > MAX_REASON_LENGTH:
        raise BadRequest(f"reason must not be longer than {MAX_REASON_LENGTH} characters")
    plugin, uid = request.query.get("plugin", ""), request.query.get("uid", "")
    decided: Verb = "approve" if verb == "approve" else "reject"
    decision = PermitDecision(decided, f"{namespace}/{name}", user.name, plugin, reason, uid)
    return await _json(await source(decision))


async def _json(value: Any) -> web.Response:
    return _answer(await in_slices(encoded, value), "application/json; charset=utf-8")


def encoded(value: Any, depth: int = 2) -> bytes:
    """The value as JSON, with a checkpoint after each of its larger parts."""
    checkpoint()
    if depth and isinstance(value, dict):
        parts = (_key(key) + b":" + encoded(each, depth - 1) for key, each in value.items())
        return b"{" + b",".join(parts) + b"}"
    if depth and isinstance(value, list):
        return b"[" + b",".join([encoded(each, depth - 1) for each in value]) + b"]"
    return msgspec.json.encode(value)


def _key(key: Any) -> bytes:
    return msgspec.json.encode(key if isinstance(key, str) else str(key))


def _answer(body: bytes, content_type: str) -> web.Response:
    """Return the body, compressed if the client accepts it; a large one in another thread."""
    response = web.Response(
        body=body, headers={"Content-Type": content_type}, zlib_executor_size=COMPRESS_HERE_BYTES
    )
    response.enable_compression()
    return response
