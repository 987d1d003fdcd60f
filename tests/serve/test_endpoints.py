"""Every path over a real socket: bodies, statuses, headers."""

import asyncio
import io
import threading
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from scheduler.explaining.queries import DecisionsQuery, ExplainQuery, NodesQuery, QueueQuery
from scheduler.model.selectors import parse_label_selector
from scheduler.observe.decisions import Decision, Decisions
from scheduler.observe.metrics import Metrics
from scheduler.serve import parameters
from scheduler.serve.answers import Replica
from scheduler.serve.endpoints import MAX_SCRAPES, READS_OF_ONE, build_app
from scheduler.serve.guards import HttpNotFound, Unavailable
from scheduler.serve.health import PING, Check
from scheduler.serve.parameters import DEFAULT_LIMIT, MAX_BODY_BYTES, MAX_LIMIT, MAX_ODDITIES
from scheduler.serve.server import Server
from tests.builders import make_pod
from tests.patience import PATIENCE
from tests.serve.fake_backend import FakeBackend


class Scheduler:
    """What stands behind the endpoints in these tests."""

    def __init__(self) -> None:
        self.metrics = Metrics(version="9")
        self.decisions = Decisions(clock=lambda: 7.0)
        self.synced = False

        self.asked: ExplainQuery | None = None
        self.looked: QueueQuery | None = None

    def backend(self) -> FakeBackend:
        return FakeBackend(
            registry=self.metrics.registry,
            version="9",
            live=[PING],
            ready=[PING, Check("informer-sync", self.sync_failure)],
            config=lambda: {"kind": "KubeSchedulerConfiguration"},
            queue=self.queue,
            nodes=self.nodes,
            decisions=self.latest_decisions,
            replica=lambda: Replica("r-1", False, "r-2"),
            explain=self.explain,
        )

    def sync_failure(self) -> str | None:
        return None if self.synced else "pods are not listed yet"

    async def nodes(self, query: NodesQuery) -> dict[str, float]:
        return {"nodes": 1 / 0}

    async def latest_decisions(self, query: DecisionsQuery) -> dict[str, list[Decision]]:
        return {"decisions": self.decisions.latest(query.limit, query.pod)}

    async def queue(self, query: QueueQuery) -> dict[str, list[str]]:
        self.looked = query
        if not self.synced:
            raise Unavailable("not synced yet")
        return {"pods": ["ns/a", "ns/b"][: query.limit]}

    async def explain(self, query: ExplainQuery) -> dict[str, Any]:
        self.asked = query
        if query.pod != "ns/a":
            raise HttpNotFound(f"pod {query.pod} is not known")
        return {"fit": ["n1"]}


class Client:
    """GETs against one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def get(self, path: str, method: str = "GET", **headers: str) -> aiohttp.ClientResponse:
        async with self._session.request(method, self._url + path, headers=headers) as response:
            await response.read()
            return response

    async def post(self, path: str, body: bytes) -> tuple[int, Any]:
        async with self._session.post(self._url + path, data=io.BytesIO(body)) as response:
            return response.status, await response.json()

    async def text(self, path: str) -> tuple[int, str]:
        response = await self.get(path)
        return response.status, await response.text()

    async def json(self, path: str, method: str = "GET") -> tuple[int, Any]:
        response = await self.get(path, method)
        return response.status, await response.json()


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
async def client(scheduler: Scheduler) -> AsyncIterator[Client]:
    async with (
        Server(build_app(scheduler.backend())) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, server.url)


async def test_live_while_not_ready(client: Client, scheduler: Scheduler) -> None:
    assert await client.text("/livez") == (200, "ok")
    assert await client.text("/healthz") == (200, "ok")
    status, body = await client.text("/readyz")
    assert status == 500
    assert "[-]informer-sync failed: reason withheld" in body
    scheduler.synced = True
    assert await client.text("/readyz") == (200, "ok")


async def test_probes_can_be_verbose_and_exclude(client: Client) -> None:
    status, body = await client.text("/readyz?verbose&exclude=informer-sync")
    assert status == 200
    assert body == "[+]ping ok\n[+]informer-sync excluded: ok\nreadyz check passed\n"


async def test_a_single_check_tells_its_reason(client: Client) -> None:
    assert await client.text("/readyz/ping") == (200, "ok")
    assert await client.text("/readyz/informer-sync") == (
        500,
        "internal server error: pods are not listed yet\n",
    )
    status, body = await client.json("/livez/informer-sync")
    assert (status, body["error"]["code"]) == (404, 404)


async def test_metrics_in_both_formats(client: Client, scheduler: Scheduler) -> None:
    scheduler.metrics.schedule_attempts.labels("scheduled", "equipoise").inc()
    plain = await client.get("/metrics")
    assert plain.headers["Content-Type"].startswith("text/plain")
    openmetrics = await client.get("/metrics", Accept="application/openmetrics-text;version=1.0.0")
    assert openmetrics.headers["Content-Type"].startswith("application/openmetrics-text")
    for families in (
        parse_text(await plain.text()),
        parse_openmetrics(await openmetrics.text()),  # type: ignore[no-untyped-call]  # ships no types
    ):
        samples = [s for family in families for s in family.samples]
        labels = {"result": "scheduled", "profile": "equipoise"}
        assert [
            (s.labels, s.value) for s in samples if s.name == "scheduler_schedule_attempts_total"
        ] == [(labels, 1.0)]


@pytest.mark.parametrize(
    "accept",
    ["application/openmetrics-text;version=abc", "text/plain;version=", "*/*;;=,;", ""],
)
async def test_an_odd_accept_header_still_gets_metrics(client: Client, accept: str) -> None:
    response = await client.get("/metrics", Accept=accept)
    assert response.status == 200
    assert "scheduler_preemption_attempts_total" in await response.text()


async def test_metrics_are_compressed_when_accepted(client: Client) -> None:
    assert (await client.get("/metrics")).headers["Content-Encoding"] in ("gzip", "deflate")
    plain = await client.get("/metrics", **{"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers


async def test_pages(client: Client, scheduler: Scheduler) -> None:
    scheduler.synced = True
    scheduler.decisions.record("ns/a", "scheduled", node="n1")
    scheduler.decisions.record("ns/b", "error")
    assert await client.json("/version") == (200, {"version": "9"})
    assert await client.json("/configz") == (200, {"kind": "KubeSchedulerConfiguration"})
    who = {"replica": {"identity": "r-1", "leading": False, "leader": "r-2"}}
    assert await client.json("/api/v1/queue") == (200, {"pods": ["ns/a", "ns/b"], **who})
    assert await client.json("/api/v1/queue?limit=1") == (200, {"pods": ["ns/a"], **who})
    assert await client.json("/api/v1/explain?pod=ns/a") == (200, {"fit": ["n1"], **who})
    status, answer = await client.json("/api/v1/decisions?limit=1")
    assert status == 200
    assert [(d["seq"], d["pod"], d["time"]) for d in answer["decisions"]] == [(2, "ns/b", 7.0)]


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/nowhere", 404, "no such path: /nowhere"),
        ("GET", "/livez/", 404, "no such path: /livez/"),
        ("POST", "/metrics", 405, "only GET, HEAD here"),
        ("DELETE", "/api/v1/queue", 405, "only GET, HEAD here"),
        ("GET", "/api/v1/queue", 503, "not synced yet"),
        ("GET", "/api/v1/explain?pod=ns/x", 404, "pod ns/x is not known"),
        ("GET", "/api/v1/explain", 400, "pod must be given as namespace/name, not ''"),
        ("GET", "/api/v1/explain?pod=a/b/c", 400, "namespace/name, not 'a/b/c'"),
        ("GET", "/api/v1/decisions?limit=0", 400, f"from 1 to {MAX_LIMIT}, not '0'"),
        ("GET", "/api/v1/decisions?limit=-1", 400, "not '-1'"),
        ("GET", "/api/v1/decisions?limit=٣", 400, "not '٣'"),
        ("GET", f"/api/v1/decisions?limit={'9' * 5000}", 400, "limit must be"),
        ("GET", f"/api/v1/decisions?limit={MAX_LIMIT + 1}", 400, "limit must be"),
        ("GET", "/api/v1/decisions?pod=a", 400, "namespace/name, not 'a'"),
        ("GET", "/api/v1/queue?tier=lost", 400, "tier must be one of active, backoff"),
        ("GET", "/api/v1/queue?group=yes", 400, "group must be one of false, true, not 'yes'"),
        ("GET", "/api/v1/queue?labelSelector=a%20b", 400, "labelSelector cannot be understood"),
        ("GET", f"/api/v1/queue?labelSelector={'a' * 5000}", 400, "must not exceed 4096"),
        ("GET", "/api/v1/explain?pod=ns/a&count=0", 400, "count must be a number from 1 to"),
        ("GET", "/api/v1/explain?pod=ns/a&count=99999", 400, "count must be a number from 1 to"),
        ("POST", "/api/v1/explain?pod=ns/a", 400, "unknown parameter 'pod'"),
        ("GET", "/api/v1/nodes", 500, "internal error; the log has the details"),
    ],
)
async def test_errors_are_json_and_say_what_is_wrong(
    client: Client, method: str, path: str, status: int, message: str
) -> None:
    got, body = await client.json(path, method)
    assert got == status
    assert body["error"]["code"] == status
    assert message in body["error"]["message"]


async def test_a_manifest_is_explained_without_a_pod(client: Client, scheduler: Scheduler) -> None:
    pod = make_pod("a").cpu("2").label(app="x").on("n1").deleting().obj()
    pod["metadata"]["namespace"] = "ns"
    status, answer = await client.post("/api/v1/explain?count=3", msgspec.json.encode(pod))
    assert (status, answer["fit"]) == (200, ["n1"])
    asked = scheduler.asked
    assert asked is not None
    assert (asked.pod, asked.count) == ("ns/a", 3)
    assert asked.manifest is not None
    assert asked.manifest.metadata.labels == {"app": "x"}
    assert not asked.manifest.deleting
    assert await client.post("/api/v1/explain", b"{}") == (
        404,
        {"error": {"code": 404, "message": "pod default/what-if is not known"}},
    )


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "the body must be a Pod in JSON"),
        (b"kind: Pod", 400, "the body must be a Pod in JSON"),
        (b"[" * 100_000, 400, "the body must be a Pod in JSON"),
        (b"[]", 400, "kind: must be Pod, not 'list'"),
        (b'{"kind":"Deployment"}', 400, "kind: must be Pod, not 'Deployment'"),
        (b'{"apiVersion":"v2","kind":"Pod"}', 400, "apiVersion: must be v1, not 'v2'"),
        (b'{"spec":{"containers":{}}}', 400, "spec.containers: expected a list, got an object"),
        (
            b'{"spec":{"tolerations":[{"key":7}]}}',
            400,
            "tolerations[0].key: expected a text, got 7",
        ),
        (b'{"spec":{"overhead":{"cpu":"1x"}}}', 400, "spec.overhead.cpu: '1x' is not a quantity"),
        (b'{"spec":{"nodeSelecto":{}}}', 400, "spec.nodeSelecto: unknown field (did you mean node"),
        (
            b'{"spec":{"containers":[{"resources":{"requests":{"gpu":1}}}],"tolerations":[{"effect":'
            b'"NoRun"}]}}',
            400,
            'spec.tolerations[0].effect: unknown value "NoRun"',
        ),
        (b'{"metadata":{"name":"\xff"}}', 400, "the body must be a Pod in JSON"),
        (
            msgspec.json.encode({"spec": {f"unheard-of-{n}": n for n in range(MAX_ODDITIES + 1)}}),
            400,
            f"more than {MAX_ODDITIES} unknown fields",
        ),
        (b" " * (MAX_BODY_BYTES + 1), 413, f"must not exceed {MAX_BODY_BYTES} bytes"),
    ],
)
async def test_a_manifest_that_cannot_be_used_is_refused_and_the_field_named(
    client: Client, body: bytes, status: int, message: str
) -> None:
    got, answer = await client.post("/api/v1/explain", body)
    assert got == status
    assert message in answer["error"]["message"]


async def test_a_manifest_is_read_outside_the_loop_that_renews_the_lease(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def reading(raw: object) -> object:
        threads.append(threading.current_thread())
        return raw

    monkeypatch.setattr(parameters, "without_nulls", reading)
    await client.post("/api/v1/explain", b"{}")
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_the_queue_can_be_filtered(client: Client, scheduler: Scheduler) -> None:
    path = "/api/v1/queue?limit=7&namespace=ns&tier=gated&group=true&labelSelector=a%3Db,!c"
    await client.json(path)
    selector = parse_label_selector("a=b,!c")
    assert scheduler.looked == QueueQuery(7, "ns", "gated", selector, True)
    await client.json("/api/v1/queue")
    assert scheduler.looked == QueueQuery(DEFAULT_LIMIT)


@pytest.mark.parametrize("path", ["/livez", "/metrics", "/nowhere", "/api/v1/nodes"])
async def test_every_answer_has_the_headers(client: Client, path: str) -> None:
    headers = (await client.get(path)).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Server"] == "equipoise"


async def test_head_has_headers_and_no_body(client: Client) -> None:
    response = await client.get("/livez", "HEAD")
    assert response.status == 200
    assert response.headers["Content-Length"] == "2"
    # A body after all would be taken for the answer to the next request on this connection.
    assert await client.text("/livez") == (200, "ok")


class BlockingCollector:
    """A collector that does not finish until the test lets it."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def collect(self) -> list[Any]:
        self.release.wait(PATIENCE)
        return []


async def test_scrapes_beyond_the_bound_are_refused_while_probes_still_work() -> None:
    registry, collector = CollectorRegistry(), BlockingCollector()
    registry.register(collector)
    async with (
        Server(build_app(FakeBackend(registry=registry))) as server,
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, server.url)
        scrapes = [asyncio.create_task(client.get("/metrics")) for _ in range(MAX_SCRAPES + 1)]
        refused, _ = await asyncio.wait(scrapes, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result().status for task in refused] == [503]
        assert await client.text("/livez") == (200, "ok")
        collector.release.set()
        answers = await asyncio.gather(*scrapes)
        assert sorted(answer.status for answer in answers) == [200] * MAX_SCRAPES + [503]


async def test_a_slow_sender_of_a_manifest_holds_nobody_up(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = b"POST /api/v1/explain HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    async with Server(build_app(scheduler.backend())) as server, aiohttp.ClientSession() as session:
        slow = [
            await asyncio.open_connection(server.host, server.port) for _ in range(READS_OF_ONE + 1)
        ]
        for _, writer in slow:
            writer.write(header)
            await writer.drain()
        async with asyncio.timeout(PATIENCE):
            status, _ = await Client(session, server.url).json("/api/v1/explain?pod=ns/a")
        assert status == 200
        for _, writer in slow:
            writer.close()
        monkeypatch.setattr(parameters, "BODY_SECONDS", 0.01)
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(header)
        async with asyncio.timeout(PATIENCE):
            assert b" 400 " in await reader.readline()
        writer.close()
