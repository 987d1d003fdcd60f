"""Clocks, fakes named by behaviour, and small servers for the tests of `scheduler.kube`."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml
from aiohttp import web

from scheduler.kube.client import JSON, KubeClient
from scheduler.observe.metrics import Metrics
from tests.patience import PATIENCE

WAIT_SECONDS = PATIENCE
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ManualClock:
    """A clock that moves only when the test moves it, or when a task sleeps on it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@dataclass(frozen=True)
class Call:
    """A request that a scripted client received."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    timeout: float = 0.0


class ScriptedClient(KubeClient):
    """Answers requests from a list: bytes and objects are returned, exceptions raised."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = 0.0,
        limit: int = 0,
        check: Callable[[], None] | None = None,
    ) -> bytes:
        if check is not None:
            check()
        plain = msgspec.json.decode(msgspec.json.encode(body))
        self.calls.append(Call(method, path, plain, content_type, timeout))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return msgspec.json.encode(answer)


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """An HTTP server on a free loopback port that answers everything with `handler`."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[KubeClient]:
    """A client without credentials."""
    client = await KubeClient.connect(
        metrics=Metrics(), master=url, environ={}, service_account=Path("/nonexistent")
    )
    try:
        yield client
    finally:
        await client.close()


@dataclass
class Kubeconfig:
    """Writes a kubeconfig with one cluster and one user."""

    directory: Path
    cluster: dict[str, Any]
    user: dict[str, Any] = field(default_factory=dict)
    name: str = "config"

    def write(self) -> str:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "clusters": [{"name": "c", "cluster": self.cluster}],
            "users": [{"name": "u", "user": self.user}],
            "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        }
        path = self.directory / self.name
        path.write_text(yaml.safe_dump(document))
        return str(path)


async def eventually(condition: Callable[[], bool]) -> None:
    """Give the loop back until the condition holds; fails after a generous while."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110  because conditions of tests have no event
            await asyncio.sleep(0.001)


async def promptly(condition: Callable[[], bool]) -> None:
    """As `eventually`, but looks after every step of the loop: for tests without a network."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110  because conditions of tests have no event
            await asyncio.sleep(0)


def sample(metrics: Metrics, name: str, /, **labels: str) -> float:
    """The value of a metric; 0 if it was never touched."""
    return metrics.registry.get_sample_value(name, labels) or 0.0
