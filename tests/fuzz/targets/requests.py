"""Bytes of hostile clients to the serving port: well-formed answers, errors as JSON, no 500."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from urllib.parse import quote

from scheduler import inspection
from scheduler.explaining.queries import ExplainQuery
from scheduler.model.objects import KINDS, Change
from scheduler.serve.connections import ServedConnection
from scheduler.serve.endpoints import build_app
from scheduler.serve.guards import HttpNotFound
from scheduler.serve.server import Server
from scheduler.slices import in_slices
from scheduler.views.node_detail import UnknownNode, node_detail
from scheduler.views.node_map import UnknownResource
from scheduler.views.pod_classes import pod_classes
from scheduler.views.pod_groups import pod_groups
from tests.builders import make_pod, make_worker
from tests.fuzz.drawing import draw_object
from tests.fuzz.mutating import ANY, encoded, mutate_bytes, mutate_object
from tests.fuzz.scheduler_under_test import SchedulerUnderTest
from tests.fuzz.target import Input, as_bytes
from tests.serve.fake_backend import FakeBackend

PATHS = (
    "/livez", "/readyz", "/healthz", "/livez/ping", "/metrics", "/version", "/configz",
    "/openapi/v3",
    "/api/v1/queue", "/api/v1/nodes", "/api/v1/decisions", "/api/v1/explain", "/api/v1/waiting",
    "/api/v1/node", "/api/v1/classes", "/api/v1/groups",
    "/",
    "/nothing", "/api/v1/", "//", "/api/v1/queue/", "/ui/", "*",
)  # fmt: skip
PARAMETERS = ("limit", "namespace", "tier", "labelSelector", "group", "view", "resource", "pod",
"count",
              "name", "watch", "verbose", "exclude")  # fmt: skip
VALUES = (
    "1", "0", "-1", "501", "99999999999999999999", "", "default", "default/p0", "a/b/c", "map",
    "list",
    "true", "active", "unschedulable", "cpu", "n0", "app=web", "app in (a,b)", "app in (a", "!app",
    "a==b,c!=d",
    "\u0661", "%", "x" * 5000, "\0", "é", "a,b", "1e3", "0x10", "+1", " 1",
)  # fmt: skip
HEADERS = (
    b"Host: x", b"Connection: close", b"Connection: keep-alive", b"Expect: 100-continue",
    b"Expect: nothing",
    b"Transfer-Encoding: chunked", b"Content-Length: 5", b"Content-Length: -1",
    b"Content-Length: a",
    b"Accept: application/openmetrics-text", b"Accept: \xff", b"Accept-Encoding: gzip, br;q=0",
    b"Authorization: Bearer x", b"Authorization: \x00", b"Content-Encoding: gzip",
    b"Upgrade: websocket",
    b"Content-Type: application/json; charset=nonsense", b"Range: bytes=0-1", b"If-None-Match: *",
    b"X: " + b"y" * 9000, b"Origin: null", b" folded", b"No-Colon", b"Cookie: a=b; c",
    b"TE: trailers",
)  # fmt: skip
PIECES = (
    b"\r\n",
    b"\n",
    b"\0",
    b" ",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"%00",
    b"%",
    b"GET ",
    b"0\r\n\r\n",
    *HEADERS,
)
TURNS = 60
THREAD_TURNS = 50


class Requests:
    """Sends bytes to one connection of a real server application, and reads what it answers."""

    name = "requests"
    what = "bytes, parameters and bodies to the serving port: well-formed answers, never a 500"
    share = 40

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._start())

    async def _start(self) -> None:
        self._world = SchedulerUnderTest()
        core = self._world.core
        node, pod = make_worker("n0").struct(), make_pod("p0").cpu("100").struct()
        core.event_handlers.handler("Node")([Change(None, node)])
        core.event_handlers.handler("Pod")([Change(None, pod)])
        core.scheduler.schedule_one()

        async def look(view: Callable[..., Any], *arguments: Any) -> Any:
            try:
                return await in_slices(view, core, *arguments)
            except (UnknownNode, UnknownResource) as unknown:  # as the daemon answers
                raise HttpNotFound(str(unknown)) from unknown

        async def explain(query: ExplainQuery) -> Any:
            try:
                return await inspection.explain(
                    core, {pod.key: pod}, query.pod, manifest=query.manifest, count=query.count
                )
            except inspection.UnknownPod as unknown:
                raise HttpNotFound(f"unknown pod: {unknown}") from unknown

        backend = FakeBackend(
            registry=core.metrics.registry,
            config=dict,
            queue=partial(look, inspection.queue),
            nodes=partial(look, inspection.nodes),
            decisions=partial(look, inspection.decisions),
            waiting=partial(look, inspection.waiting),
            node=partial(look, node_detail),
            classes=partial(look, pod_classes),
            groups=partial(look, pod_groups),
            explain=explain,
        )
        server = Server(build_app(backend))
        self._server = server  # it listens to nobody: connections are made by hand
        self._connections = server.connections
        await server.set_up()

    def draw(self, rng: Random) -> Input:
        """One to three requests in a row, mostly with something wrong, and where they are cut."""
        data = b"".join(_request(rng) for _ in range(rng.choice((1, 1, 1, 2, 3))))
        if rng.random() < 0.3:
            data = mutate_bytes(rng, data, PIECES)
        cuts = sorted(rng.randint(0, len(data)) for _ in range(rng.choice((0, 0, 1, 3))))
        return [data.decode("latin-1"), cuts]

    def check(self, given: Input) -> list[str]:
        """All answers are HTTP, none is a 500, and errors of ours say what is wrong as JSON."""
        return self._runner.run(self._checked(as_bytes(given[0]), [0, *sorted(given[1])]))

    async def _checked(self, data: bytes, cuts: list[int]) -> list[str]:
        connection = ServedConnection(self._connections, "10.0.0.1")
        self._connections.admit(connection)
        transport = _Transport(connection)
        connection.connection_made(transport)
        for begin, end in zip(cuts, [*cuts[1:], len(data)], strict=True):
            if end > begin and not transport.closed:
                connection.data_received(data[begin:end])
                await asyncio.sleep(0)
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if not connection.busy and transport.closed:
                break
        for _ in range(THREAD_TURNS):  # an answer may be made in a thread, or wait for a body
            if not connection.busy:
                break
            await asyncio.sleep(0.002)
        transport.abort()
        await asyncio.sleep(0)
        wrong = _wrong_answers(bytes(transport.sent), data)
        if len(self._connections):
            wrong.append(f"{len(self._connections)} connections stay")
        return wrong

    def close(self) -> None:
        """End the application and the loop."""
        self._runner.run(self._server.stop())
        self._runner.run(self._world.close())
        self._runner.close()


class _Transport(asyncio.Transport):
    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.sent = bytearray()
        self.closed = False
        self._protocol = protocol

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, pieces: Any) -> None:
        self.sent += b"".join(pieces)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 1) if name in {"peername", "sockname"} else default

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_reading(self) -> bool:
        return True


class _Socket:
    def __init__(self, file: io.BytesIO) -> None:
        self._file = file

    def makefile(self, mode: str) -> io.BytesIO:
        return self._file


def _wrong_answers(sent: bytes, data: bytes) -> list[str]:
    file = io.BytesIO(sent)
    wrong: list[str] = []
    while file.tell() < len(sent):
        at = file.tell()
        if sent[at:] == b"HTTP/1.1 100 Continue\r\n\r\n":
            break  # the caller has gone before the rest
        method = "HEAD" if data.startswith(b"HEAD") else "GET"
        answer = http.client.HTTPResponse(_Socket(file), method=method)  # type: ignore[arg-type]  # it only makes a file
        try:
            answer.begin()
            body = answer.read()
        except (http.client.HTTPException, ValueError, OSError) as fault:
            return [
                *wrong,
                f"an answer is not HTTP: {type(fault).__name__}: {sent[at : at + 60]!r}",
            ]
        if answer.status >= 500 and answer.status != 503:
            wrong.append(f"a request is answered {answer.status}: {body[:80]!r}")
        said = body or b"HEAD" not in data  # which has an answer without a body
        if said and answer.status >= 400 and "json" in answer.headers.get_content_type():
            wrong += _unclear(body)
        if file.closed or file.tell() == at:
            break
    return wrong


def _unclear(body: bytes) -> list[str]:
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return [f"an error is not as errors are: {body[:80]!r}"]
    return [] if error.get("message") else ["an error has no message"]


def _request(rng: Random) -> bytes:
    path = rng.choice(PATHS)
    if rng.random() < 0.6:
        chosen = [(rng.choice(PARAMETERS), rng.choice(VALUES)) for _ in range(rng.randint(1, 3))]
        path += "?" + "&".join(f"{name}={quote(value)}" for name, value in chosen)
    method, body = rng.choice(("GET", "GET", "GET", "HEAD", "PUT", "OPTIONS", "get", "")), b""
    if rng.random() < 0.4:
        method, path = "POST", rng.choice(("/api/v1/explain", "/api/v1/explain?count=2"))
        body = _body(rng)
    head = [f"{method} {path} HTTP/1.1".encode(), b"Host: x"]
    head += [rng.choice(HEADERS) for _ in range(rng.choice((0, 0, 1, 2)))]
    if body:
        head.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*head, b"", body])


def _body(rng: Random) -> bytes:
    if rng.random() < 0.1:
        return encoded(rng.choice(ANY))
    pod: Any = draw_object(rng, KINDS["Pod"])
    if rng.random() < 0.5:
        pod["metadata"].pop("uid", None)
    if rng.random() < 0.7:
        pod = mutate_object(rng, pod)
    body = encoded(pod)
    return mutate_bytes(rng, body) if rng.random() < 0.1 else body
