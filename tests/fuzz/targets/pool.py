"""A hostile API server behind a pool of connections: no answer goes to the wrong request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from random import Random
from typing import Any

from scheduler.kube.connections import ApiEndpoint, ConnectionPool
from scheduler.kube.errors import KubeError
from tests.fuzz.mutating import mutate_bytes
from tests.fuzz.target import Input, as_bytes
from tests.fuzz.targets.answers import PIECES, answer

ENDPOINT = ApiEndpoint("http://server", "server", 80, None, None, "", "Host: server\r\n")
ID = b"~"
"""Stands for the latest request on the connection when the byte is sent."""
TURNS = 40
MOST_BUFFERED = 1 << 20


class Pool:
    """Requests over connections whose other side is a script."""

    name = "pool"
    what = "requests over kept connections to a hostile server: each gets its own answer, in time"
    share = 60

    def __init__(self) -> None:
        self._loop = _ScriptedLoop()
        self._complaints: list[str] = []
        self._loop.set_exception_handler(
            lambda loop, context: self._complaints.append(str(context.get("message")))
        )

    def draw(self, rng: Random) -> Input:
        """For each request: what the server sends, piece by piece, and how it ends."""
        return [_exchange(rng) for _ in range(rng.randint(1, 6))]

    def check(self, given: Input) -> list[str]:
        """Every request ends when the server has sent all, and with its own answer."""
        self._complaints.clear()
        wrong = self._loop.run_until_complete(self._checked(given))
        return wrong + [f"the event loop complains: {each}" for each in self._complaints]

    async def _checked(self, given: Input) -> list[str]:
        pool = ConnectionPool()
        wrong: list[str] = []
        self._loop.scripts = list(given)
        self._loop.connections.clear()
        tasks = []
        for number in range(len(given)):
            message = ENDPOINT.message("GET", f"/id-{number}-", "", None)
            tasks.append(asyncio.create_task(_ask(pool, number, message, harmless=number % 2 == 0)))
            if number % 3 != 1:  # some are under way at once
                await _turns()
            if number % 4 == 3:
                tasks[-1].cancel()
                await _turns()
        await _turns()
        for _ in range(2 * len(given)):  # one that is sent again has another connection
            for connection in list(self._loop.connections):
                connection.end()
            await _turns()
        for task in tasks:
            if not task.done():
                wrong.append("a request hangs though the connection has ended")
                task.cancel()
            elif not task.cancelled() and (text := task.result()):
                wrong.append(text)
        pool.close()
        await _turns()
        if pool._open:
            wrong.append(f"{len(pool._open)} connections stay open")
        return wrong

    def close(self) -> None:
        """End the loop."""
        self._loop.close()


def _exchange(rng: Random) -> list[Any]:
    data = answer(rng, body=b"id=" + ID + b";" + b"x" * rng.choice((0, 1, 30)))
    if rng.random() < 0.3:
        data = mutate_bytes(rng, data, PIECES)
    if rng.random() < 0.3:  # an answer that nobody has asked for
        data += answer(rng, body=b"id=" + ID + b";")
    pieces = []
    while data:
        size = rng.choice((1, 5, len(data), len(data), len(data)))
        pieces.append(data[:size].decode("latin-1"))
        data = data[size:]
        if len(pieces) > 60:
            pieces.append(data.decode("latin-1"))
            break
    return [pieces, rng.choice(("keep", "keep", "close", "reset", "early"))]


async def _ask(pool: ConnectionPool, number: int, message: bytes, *, harmless: bool) -> str:
    try:
        answered = await pool.exchange(ENDPOINT, message, harmless=harmless, limit=MOST_BUFFERED)
    except KubeError:
        return ""
    told = re.match(rb"id=(\d);", answered.body)
    if told and told[1] != b"%d" % number:
        return f"a request got the answer to another: {told[1]!r} for {number}"
    return ""


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class _ScriptedLoop(asyncio.SelectorEventLoop):
    """A loop whose connections lead to scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[Any] = []
        self.connections: list[_Transport] = []

    async def create_connection(  # type: ignore[override]  # the client gives no other arguments
        self, protocol_factory: Callable[[], asyncio.Protocol], *args: Any, **options: Any
    ) -> Any:
        protocol = protocol_factory()
        transport = _Transport(self, protocol)
        self.connections.append(transport)
        protocol.connection_made(transport)
        return transport, protocol


class _Transport(asyncio.Transport):
    """Answers each request by the next script, one piece in each turn of the loop."""

    def __init__(self, loop: _ScriptedLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._lost = False
        self._ended = False
        self._latest = b""

    def write(self, data: Any) -> None:
        found = re.search(rb"/id-(\d+)-", bytes(data))
        if found is None or not self._loop.scripts:
            return
        self._latest = found[1]
        pieces, ending = self._loop.scripts[int(found[1]) % len(self._loop.scripts)]
        if ending == "early":  # it closes without an answer, as servers do with kept connections
            self._loop.call_soon(self.end)
            return
        self._send([as_bytes(each) for each in pieces], ending)

    def _send(self, pieces: list[bytes], ending: str) -> None:
        if self._lost or self._ended:
            return
        if pieces:
            self._protocol.data_received(pieces[0].replace(ID, self._latest))
            self._loop.call_soon(self._send, pieces[1:], ending)
        elif ending == "close":
            self.end()
        elif ending == "reset":
            self._lose(ConnectionResetError("reset"))

    def end(self) -> None:
        """The server closes."""
        if not self._ended and not self._lost:
            self._ended = True
            self._protocol.eof_received()
            self._loop.call_soon(self._lose, None)

    def _lose(self, fault: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(fault)

    def abort(self) -> None:
        self._loop.call_soon(self._lose, None)

    def close(self) -> None:
        self.abort()

    def is_closing(self) -> bool:
        return self._lost

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...
