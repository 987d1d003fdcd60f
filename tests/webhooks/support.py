"""A webhook server for tests, over real HTTP, and a stage whose profile asks it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

from scheduler.assembly import Core
from tests.builders import Json
from tests.patience import PATIENCE
from tests.pipeline.support import FakeClock, RecordingOutlet, Stage

Answering = Callable[[Json], Awaitable[Any]]

NAME = "Remote"


class WebhookServer:
    """Answers each path as it is told, remembers what it was asked, and may be slow or fail."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[str, Json]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: dict[str, Any] = {}
        """By path: plain data, bytes, or a coroutine function of the request."""
        self.status = 200
        self.open = asyncio.Event()
        """Cleared, the server holds its answers back."""
        self.open.set()
        self.present = 0
        self.most = 0
        """How many requests there were at once at most."""
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://localhost:{self.port}/hook"

    def paths(self) -> list[str]:
        """What was asked, in order."""
        return [path for path, _ in self.asked]

    def last(self, path: str) -> Json:
        """The last request to a path."""
        return next(body for asked, body in reversed(self.asked) if asked == path)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        app = web.Application(client_max_size=2**28)
        app.router.add_post("/hook/{path}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "localhost", self.port, ssl_context=self._tls)
        await site.start()
        assert self._runner.addresses
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """As if the process were killed: whoever waits for an answer is cut off."""
        if self._runner is not None:
            self.open.set()
            await self._runner.cleanup()
            self._runner = None

    async def kill(self) -> None:
        """Cut all connections off in the middle of whatever they do."""
        assert self._runner is not None
        assert self._runner.server is not None
        for connection in list(self._runner.server.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await self.stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        body: Json = await request.json()
        self.asked.append((path, body))
        self.headers.append(dict(request.headers))
        self.present += 1
        self.most = max(self.most, self.present)
        try:
            await self.open.wait()
            answer = self.answers.get(path, {})
            if callable(answer):
                answer = await answer(body)
            if isinstance(answer, web.StreamResponse):
                return answer
            if isinstance(answer, bytes):
                return web.Response(body=answer, status=self.status)
            return web.json_response(answer, status=self.status)
        finally:
            self.present -= 1


def webhook(server: WebhookServer, *points: str, **more: Any) -> Json:
    """A webhook of our document."""
    # No time-out passes while a test holds an answer and does something else.
    patient = {"breaker": {"failures": 1000}, "retries": 0, "timeout": "60s"}
    return {"name": NAME, "url": server.url, "points": list(points), **patient, **more}


def documents(*webhooks: Json, profile: Json | None = None, **own: Any) -> tuple[Json, ...]:
    """A configuration whose one profile enables all these webhooks."""
    enabled = [{"name": each["name"]} for each in webhooks]
    return (
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}, **(profile or {})}],
        },
        {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "webhooks": list(webhooks),
            **own,
        },
    )


def with_extenders(*extenders: Json, **own: Any) -> tuple[Json, ...]:
    """A configuration with extenders."""
    return (
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": list(extenders),
        },
        {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration", **own},
    )


class RemoteStage(Stage):
    """A stage that waits for answers from outside, and closes its connections at the end."""

    def __init__(
        self,
        config: tuple[Json, ...],
        outlet: RecordingOutlet | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        super().__init__(config=config, outlet=outlet, clock=clock)

    async def __aenter__(self) -> Self:
        self.core.scheduler.begin()
        self._resuming = asyncio.create_task(self.core.scheduler.resume_suspended())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._resuming.cancel()
        await self.core.stop()

    async def settle(self) -> None:
        """Attempt pods until nobody is ready or suspended, and let all bindings end."""
        async with asyncio.timeout(PATIENCE):
            while True:
                await self.core.background.idle()
                await self.core.scheduler.in_turn(self.start)
                await until(lambda: self.core.suspension.is_idle)
                await self.core.scheduler.in_turn(self.start)  # after an attempt that is under way
                await self.core.bindings.idle()
                await self.core.background.idle()
                if not self.core.queue.view.counts()["active"] and not suspended(self.core):
                    return

    def start(self) -> None:
        """Attempt all that are ready, up to their first question."""
        while self.core.queue.view.counts()["active"]:
            self.attempt()

    def bound(self) -> dict[str, str]:
        """Where pods went, by their short names."""
        return {pod.split("/")[1]: node for pod, node in self.outlet.bound}

    def messages(self) -> dict[str, str]:
        """The last word on each pod, by its short name."""
        return {word.pod.split("/")[1]: word.message for word in self.outlet.conditions}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true; fails if it never does."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  because conditions of tests have no event
            await asyncio.sleep(0.001)


def suspended(core: Core) -> int:
    return len(core.suspension)
