"""What users plug in: a webhook that may hang, lie, flip or stream, and a plugin that may raise."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from aiohttp import web

from scheduler.framework.registry import Registry, merge
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from scheduler.state.columns import Codes, Rows, Scores
from tests.builders import Json

HOST, PORT = "hook", 8080
WEBHOOK = "Remote"
PLUGIN = "Unsteady"


class Webhook:
    """A filter and a score out of process; `mode` says how it behaves."""

    def __init__(self) -> None:
        self.mode = "well"
        self._asked = 0

    async def start(self) -> None:
        """Listen, in a task of its host."""
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, HOST, PORT).start()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        self._asked += 1
        match self.mode:
            case "hang":
                await asyncio.get_running_loop().create_future()
            case "lie":
                return web.json_response({"failed": {"nowhere": "so"}, "scores": {"n0": 1e9}})
            case "flip" if self._asked % 2:
                return web.json_response({"failed": {"n0": "not now"}})
            case "stream":
                return await self._stream(request)
            case "error":
                return web.Response(status=500, text="no")
            case "cut" if request.transport is not None:
                request.transport.abort()
        return web.json_response({})

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        while True:
            await response.write(b" " * 1024)
            await asyncio.sleep(0.5)


def webhook_settings() -> Json:
    """How the replicas ask it."""
    return {
        "name": WEBHOOK,
        "url": f"http://{HOST}:{PORT}/hook",
        "points": ["filter", "score"],
        "timeout": "2s",
        "failurePolicy": "Ignore",
    }


class Switch:
    """At which point the plugin raises."""

    def __init__(self) -> None:
        self.point = ""

    def __call__(self, point: str) -> None:
        if self.point == point:
            raise RuntimeError(f"raised at {point}")


class Unsteady:
    """Does nothing, and raises where the switch says so."""

    name = PLUGIN

    def __init__(self, switch: Switch) -> None:
        self._raise_at = switch

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        self._raise_at("filter")
        return np.zeros(len(rows), np.int32)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        self._raise_at("score")
        return np.zeros(len(rows), np.int64)

    def reserve(self, cycle: Cycle, node: str) -> Status:
        self._raise_at("reserve")
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Nothing was reserved."""

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        self._raise_at("preBind")
        return SUCCESS

    def post_bind(self, cycle: Cycle, node: str) -> None:
        self._raise_at("postBind")


def with_plugin(switch: Switch) -> Registry:
    """The in-tree plugins and this one."""

    def make(args: Any, handle: Handle) -> Unsteady:
        return Unsteady(switch)

    return merge(IN_TREE, {PLUGIN: make})
