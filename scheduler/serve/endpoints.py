"""Which path answers what: probes, metrics, configuration and the JSON behind the CLI.

The handlers know the scheduler as a `Backend`. All paths are read (GET, HEAD), but for
one: POST to a waiting pod decides about it, for callers that the API server authorizes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from scheduler.explaining.queries import DecisionsQuery, ExplainQuery, NodesQuery, QueueQuery
from scheduler.fairness import Shares
from scheduler.kube.reviews import Right
from scheduler.kube.slots import Slots
from scheduler.pipeline.permits import PermitDecision, Verb
from scheduler.serve.access import DECISIONS, AccessControl
from scheduler.serve.answers import Replica
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
from scheduler.serve.health import Check, report
from scheduler.serve.openapi import PATH, STREAM, check_parameters, document, routes_of
from scheduler.serve.page import Page, add_page, read_page
from scheduler.serve.parameters import (
    MAX_BODY_BYTES,
    decisions_query,
    explain_query,
    limit_of,
    name_of,
    nodes_query,
    number,
    pod_of_query,
    queue_query,
    read_body,
)
from scheduler.serve.recent import VIEW_TIMES, RecentAnswers, SharedAnswer
from scheduler.serve.stream import UpdateStream
from scheduler.slices import checkpoint, in_slices
from scheduler.views.updates import Updates

READS_OF_ONE = 3
"""By one address; a third more is there for others."""
WAITING_OF_ONE = 24
"""Likewise for requests that wait for a slot."""
WAIT_SECONDS = 5.0
HEAVY = ("/api/", "/debug/")
EXPLAIN = "/api/v1/explain"
SHARED = (EXPLAIN, *(f"/api/v1/{name}" for name in ("overview", "queue", "classes", "groups")))
JSON = "application/json; charset=utf-8"


class ReadTurns:
    """Turns to read, shared by address; beyond the bounds, or after a while, 429."""

    def __init__(self, backend: "Backend") -> None:
        self._backend = backend
        self._slots = Slots(READS_OF_ONE, least=0, most=1)
        self._present = Shares(READS_OF_ONE + WAITING_OF_ONE)

    @asynccontextmanager
    async def turn(self, request: web.Request) -> AsyncIterator[None]:
        """A block that runs once the request has a slot; raises HttpTooManyRequests.

        Its body is read before, so that no slow sender holds a slot.
        """
        address = request.remote or ""
        if not self._present.may_take(address):
            raise HttpTooManyRequests("too many such requests wait already")
        self._present.take(address)
        try:
            await read_body(request)
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
            resource = request.match_info.route.resource
            if resource is not None:
                check_parameters(request.method, resource.canonical, request.query.keys())
            if request.path == STREAM:
                return await handler(request)
            if _is_shared(request):
                return await self._shared(request, handler)
            async with self.turn(request):
                response = await handler(request)
                await send(request, response)
                return response

        return in_turn

    async def _shared(self, request: web.Request, handler: Handler) -> web.Response:
        """One answer, and one turn, for all who ask the same within a second.

        Every answer says who leads, so none is used after that has changed. A turn is that of the
        address that asked first; if it is refused, others ask by themselves.
        """
        first = False

        async def make() -> SharedAnswer:
            nonlocal first
            first = True
            async with self.turn(request):
                response = await handler(request)
                assert isinstance(response, web.Response), "an answer is no stream"
                assert isinstance(response.body, bytes), "and its body is in memory"
                return SharedAnswer(response.body)

        key = f"{self._backend.replica()} {request.path_qs}"
        times = 1 if request.path == EXPLAIN else VIEW_TIMES
        try:
            answer = await self._backend.recent.get(key, make, times)
        except HttpTooManyRequests:
            if first:
                raise
            answer = await self._backend.recent.get(f"{key} {request.remote}", make, times)
        response = web.Response(body=answer.body, headers={"Content-Type": JSON})
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            response.body = await answer.compressed()
            response.headers["Content-Encoding"] = "gzip"
        await send(request, response)
        return response


def _is_shared(request: web.Request) -> bool:
    """Whether pages ask for it again and again: those who ask at a time share one answer."""
    a_map = request.path == "/api/v1/nodes" and request.query.get("view") == "map"
    return request.method == "GET" and (a_map or request.path in SHARED)


MAX_SCRAPES = 8
MAX_REASON_LENGTH = 256
GROUP, RESOURCE = "equipoise.dev", "waitingpods"
"""The resource in a Role that grants ``approve`` or ``reject``."""

COMPRESS_HERE_BYTES = 16 * 1024

OPENMETRICS = "application/openmetrics-text"


class Backend(Protocol):
    """What the endpoints show of a scheduler.

    Methods run on the event loop that serves and return what msgspec can encode as JSON; those of
    /api/v1 return mappings. Those that are not awaited must be quick. They raise `HttpNotFound` or
    `Unavailable` to have the client told so.
    """

    @property
    def registry(self) -> CollectorRegistry:
        """/metrics."""
        ...

    @property
    def version(self) -> str:
        """/version."""
        ...

    @property
    def live(self) -> Sequence[Check]:
        """/livez: does a restart help? Also /healthz, the deprecated name."""
        ...

    @property
    def ready(self) -> Sequence[Check]:
        """/readyz: can it do its work now?"""
        ...

    @property
    def recent(self) -> RecentAnswers:
        """Answers that several readers share."""
        ...

    def config(self) -> Any:
        """/configz: the effective configuration."""
        ...

    def replica(self) -> Replica:
        """`replica` in every answer of /api/v1: the replica and the leader."""
        ...

    def queue(self, query: QueueQuery) -> Awaitable[Any]:
        """/api/v1/queue?limit=&namespace=&tier=&labelSelector=&group=: pending pods."""
        ...

    def nodes(self, query: NodesQuery) -> Awaitable[Any]:
        """/api/v1/nodes?limit=&view=&resource=: at most so many nodes."""
        ...

    def node(self, name: str) -> Awaitable[Any]:
        """/api/v1/node?name=: one of them in full."""
        ...

    def pod(self, key: str) -> Awaitable[Any]:
        """/api/v1/pod?pod=namespace/name: what is kept of a pod, as a manifest."""
        ...

    def overview(self) -> Awaitable[Any]:
        """/api/v1/overview: how the scheduler does."""
        ...

    def classes(self) -> Awaitable[Any]:
        """/api/v1/classes: classes of equal pods and hit rates."""
        ...

    def groups(self, limit: int) -> Awaitable[Any]:
        """/api/v1/groups?limit=: at most so many gangs, and the last batches."""
        ...

    def updates(self, seq: int | None, taken: int) -> Awaitable[Updates]:
        """/api/v1/stream: what is new after a decision and a sample."""
        ...

    def decisions(self, query: DecisionsQuery) -> Awaitable[Any]:
        """/api/v1/decisions?limit=&pod=: at most so many decisions, newest first."""
        ...

    def waiting(self, limit: int) -> Awaitable[Any]:
        """/api/v1/waiting?limit=: at most so many pods that wait at Permit."""
        ...

    def decide(self, decision: PermitDecision) -> Awaitable[Any]:
        """POST /api/v1/waiting/NAMESPACE/NAME/approve or /reject, ?plugin=&reason=&uid=."""
        ...

    def explain(self, query: ExplainQuery) -> Awaitable[Any]:
        """/api/v1/explain?pod=namespace/name&count=, or POST with a manifest.

        The verdict of every node; may wait for webhooks.
        """
        ...

    def equivalence(self, name: int | None, node: str | None, limit: int) -> Awaitable[Any]:
        """/debug/equivalence?class=&node=&limit=: what is kept for classes of equal pods."""
        ...


def build_app(
    backend: Backend, access: AccessControl | None = None, page: Page | None = None
) -> web.Application:
    """Return the application with all routes, for callers that `access` admits."""
    guards = [access.middleware()] if access else []
    app = web.Application(
        middlewares=[errors_as_json, *guards, ReadTurns(backend).middleware()],
        client_max_size=MAX_BODY_BYTES,
    )
    app.on_response_prepare.append(harden)
    routes = app.router
    for name, checks in (
        ("livez", backend.live),
        ("readyz", backend.ready),
        ("healthz", backend.live),
    ):
        routes.add_get(f"/{name}", partial(_probe, name, checks))
        routes.add_get(f"/{name}/{{check}}", partial(_probe_one, checks))
    routes.add_get("/metrics", _Scrapes(backend.registry).handle)
    routes.add_get("/version", partial(_page, lambda: {"version": backend.version}))
    routes.add_get("/configz", partial(_page, backend.config))
    reads: dict[str, tuple[Callable[..., Awaitable[Any]], Callable[[web.Request], Any] | None]] = {
        "queue": (backend.queue, queue_query),
        "nodes": (backend.nodes, nodes_query),
        "node": (backend.node, name_of),
        "pod": (backend.pod, pod_of_query),
        "overview": (backend.overview, None),
        "classes": (backend.classes, None),
        "groups": (backend.groups, limit_of),
        "decisions": (backend.decisions, decisions_query),
        "waiting": (backend.waiting, limit_of),
    }
    for name, (read, query) in reads.items():
        routes.add_get(f"/api/v1/{name}", partial(_read, backend, read, query))
    stream = UpdateStream(backend.updates)
    routes.add_get(STREAM, stream.handle)
    app.on_shutdown.append(stream.close)
    verbs: tuple[Verb, ...] = ("approve", "reject")
    for verb in verbs:
        decide = partial(_decide, backend, access, verb)
        routes.add_post(f"{DECISIONS}{{namespace}}/{{name}}/{verb}", decide)
    routes.add_get(EXPLAIN, partial(_explain, backend))
    routes.add_post(EXPLAIN, partial(_explain, backend))
    routes.add_get("/debug/equivalence", partial(_equivalence, backend))
    add_page(app, read_page() if page is None else page)
    described = document(backend.version, {("get", PATH), *routes_of(app)})
    routes.add_get(PATH, partial(_page, lambda: described))
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


async def _page(content: Callable[[], Any], request: web.Request) -> web.Response:
    return await _json(content())


async def _read(
    backend: Backend,
    read: Callable[..., Awaitable[Any]],
    query: Callable[[web.Request], Any] | None,
    request: web.Request,
) -> web.Response:
    answer = await (read() if query is None else read(query(request)))
    return await _json({**answer, "replica": backend.replica()})


async def _equivalence(backend: Backend, request: web.Request) -> web.Response:
    text, node = request.query.get("class"), request.query.get("node")
    name = number(text) if text is not None else None
    if text is not None and name is None:
        raise BadRequest(f"class must be an equivalenceHash, a number, not {text!r}")
    if node is not None and name is None:
        raise BadRequest("node needs a class: what is kept belongs to a class")
    return await _json(await backend.equivalence(name, node, limit_of(request)))


async def _explain(backend: Backend, request: web.Request) -> web.Response:
    answer = await backend.explain(await explain_query(request))
    return await _json({**answer, "replica": backend.replica()})


async def _decide(
    backend: Backend, access: AccessControl | None, verb: Verb, request: web.Request
) -> web.Response:
    """Decide about a pod, if RBAC in the pod's namespace allows it."""
    if access is None:
        raise HttpForbidden("callers are not authenticated: set server.protection to always")
    if "Origin" in request.headers:
        raise HttpForbidden("requests with an Origin header (web pages) may not decide")
    namespace, name = (request.match_info[part] for part in ("namespace", "name"))
    user = await access.authorize(request, Right(verb, GROUP, RESOURCE, namespace, name))
    reason = " ".join(request.query.get("reason", "").split())
    if len(reason) > MAX_REASON_LENGTH:
        raise BadRequest(f"reason must not be longer than {MAX_REASON_LENGTH} characters")
    plugin, uid = request.query.get("plugin", ""), request.query.get("uid", "")
    decision = PermitDecision(verb, f"{namespace}/{name}", user.name, plugin, reason, uid)
    return await _json(await backend.decide(decision))


async def _json(value: Any) -> web.Response:
    return _answer(await in_slices(encoded, value), JSON)


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
