"""A daemon in a process of its own, and an API server that sends it any amount of JSON.

The server is a script: it lists and watches pods from bytes made on the fly, so the test's own
memory stays small, and knows no other objects but one node.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp import web

from e2e.harness.ports import free_port
from tests.builders import make_node
from tests.daemon.support import WAIT_SECONDS

POLL_SECONDS = 0.05


class FloodServer:
    """Answers lists and watches; `send` puts lines into the watch of pods."""

    def __init__(self, listed: Iterable[bytes] = ()) -> None:
        self._listed = list(listed)
        self._version = 1
        self._watches: set[asyncio.Queue[bytes]] = set()
        self._watching = asyncio.Event()
        self.url = ""
        self.page_bytes: list[int] = []

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]  # asyncio's
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def kubeconfig(self) -> str:
        """How to reach it, as a file."""
        clusters = [{"name": "flood", "cluster": {"server": self.url}}]
        contexts = [{"name": "flood", "context": {"cluster": "flood", "user": "nobody"}}]
        users = [{"name": "nobody", "user": {"token": "none"}}]
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": clusters,
                "contexts": contexts,
                "users": users,
                "current-context": "flood",
            }
        )

    async def send(self, type_: str, pod: dict[str, Any]) -> int:
        """An event of a pod; answers the length of its JSON. Waits while the client is behind."""
        await self._watching.wait()
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        body = msgspec.json.encode(pod)
        for queue in self._watches:
            await queue.put(b'{"type":"%s","object":%s}\n' % (type_.encode(), body))
        return len(body)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        kind = request.path.rsplit("/", 1)[-1]
        if "watch" in request.query:
            return await self._watch(request, kind)
        items: list[bytes] = []
        token = ""
        if kind == "nodes":
            items = [msgspec.json.encode(make_node("n").cpu("1000").pods(100_000).obj())]
        elif kind == "pods":
            first = int(request.query.get("continue", "0"))
            last = first + int(request.query.get("limit", len(self._listed) or 1))
            items = self._listed[first:last]
            token = str(last) if last < len(self._listed) else ""
            self.page_bytes.append(sum(map(len, items)))
        meta = msgspec.json.encode({"resourceVersion": str(self._version), "continue": token})
        body = b'{"metadata":%s,"items":[%s]}' % (meta, b",".join(items))
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if kind != "pods":
            await asyncio.Event().wait()
        queue: asyncio.Queue[bytes] = asyncio.Queue(4)
        self._watches.add(queue)
        self._watching.set()
        try:
            while True:
                await response.write(await queue.get())
        finally:
            self._watches.discard(queue)


class DaemonProcess:
    """``equipoise run`` in a process, and what the kernel and its metrics say of it."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self._url = f"http://127.0.0.1:{port}"

    @classmethod
    @asynccontextmanager
    async def running(cls, server: FloodServer, directory: Path) -> AsyncIterator[DaemonProcess]:
        port = free_port()
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(server.kubeconfig)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "run", "--kubeconfig", str(kubeconfig)),
            *("--leader-elect", "false", "--bind-address", "127.0.0.1"),
            *("--secure-port", str(port)),
        )
        try:
            yield cls(process, port)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()

    @property
    def resident(self) -> int:
        """Its memory now, in bytes."""
        return self._status("VmRSS")

    @property
    def peak(self) -> int:
        """The most memory it has had."""
        return self._status("VmHWM")

    def _status(self, field: str) -> int:
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    async def metric(self, name: str) -> float | None:
        """The value of a sample, None while there is none."""
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"{self._url}/metrics") as response:
                    text = await response.text()
            except aiohttp.ClientError:
                return None
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found is not None else None

    async def is_ready(self) -> None:
        """Wait until it has read all that it watches: its start is over."""
        async with asyncio.timeout(WAIT_SECONDS), aiohttp.ClientSession() as session:
            while True:
                with suppress(aiohttp.ClientError):
                    async with session.get(f"{self._url}/readyz") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(POLL_SECONDS)

    async def shrinks_to(self, most: float) -> None:
        """Wait until it has given memory back, which it does after a few looks."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while self.resident > most:  # noqa: ASYNC110  another process
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"it has {self.resident} bytes, never {most:.0f}") from None

    async def reaches(self, name: str, value: float) -> None:
        """Wait until a sample has a value."""
        last = None
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while (last := await self.metric(name)) != value:  # noqa: ASYNC110  another process
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"{name} is {last}, never {value}") from None
