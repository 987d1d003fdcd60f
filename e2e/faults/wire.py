"""A TCP proxy between one replica and the API server, with faults at named stages of a request.

::

    replica ── request ──► [before] ── wire ──► [sent] ──► API server
    replica ◄── answer ─── wire ◄── [answered] ── API server

Each connection of the replica gets one to the API server, with a client certificate of the
replica's own, so that the audit log tells replicas apart. Bytes pass as they are: only the
beginning of each request is read, to know which one it is.
"""

from __future__ import annotations

import asyncio
import enum
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

CHUNK = 64 * 1024
MAX_HEAD = 64 * 1024

_HEAD = re.compile(rb"^([A-Z]+) (\S+) HTTP/1\.1\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_BINDING = re.compile(r"/pods/[^/]+/binding$")


class Request(NamedTuple):
    """What a replica asks for."""

    method: str
    path: str
    query: str

    @property
    def binds(self) -> bool:
        """Whether it binds a pod."""
        return self.method == "POST" and bool(_BINDING.search(self.path))

    @property
    def renews(self) -> bool:
        """Whether it renews the lease."""
        return self.method == "PUT" and "/leases/" in self.path

    @property
    def allocates(self) -> bool:
        """Whether it allocates the devices of a claim."""
        return self.method in ("PUT", "PATCH") and "/resourceclaims/" in self.path

    @property
    def watches_pods(self) -> bool:
        """Whether it watches pods."""
        return self.path == "/api/v1/pods" and "watch=true" in self.query

    @property
    def lists_pods(self) -> bool:
        """Whether it lists pods."""
        return self.path == "/api/v1/pods" and "watch=true" not in self.query


Wanted = Callable[[Request], bool]


class Stage(enum.Enum):
    """How far a request has come."""

    BEFORE = "before the request reaches the API server"
    SENT = "after it was sent, before the answer"
    ANSWERED = "after the answer, before the replica has it"


@dataclass
class Trap:
    """Acts once, when the request after ``skip`` others that are wanted has reached a stage.

    Several wires may share it, as it is not certain who will lead.
    """

    wanted: Wanted
    stage: Stage
    act: Callable[[Wire], None]
    """Called at once, with the wire of the request; no byte passes meanwhile."""
    skip: int = 0
    cut: bool = False
    """Whether the connection ends there, with the request or the answer lost."""
    sprung: asyncio.Event = field(default_factory=asyncio.Event)


class CutError(Exception):
    """The connection has to end here."""


@dataclass
class Wire:
    """One address of the API server. Every fault may be set and taken back at any time."""

    url: str = ""
    answer_delay: float = 0.0
    """Seconds by which each piece of an answer is late."""
    traps: list[Trap] = field(default_factory=list)
    cut_answer: Callable[[Request], int | None] = lambda request: None
    """After how many bytes the answer to a request is cut off, None: not."""
    hold: Wanted | None = None
    """Requests that do not pass until `heal` is called."""
    requests: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while requests pass; otherwise their bytes are held."""
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    bindings: int = 0
    """How many bindings the replica has sent, whatever became of them."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    cuts: int = 0
    """How often all connections were ended."""
    opening: int = 0
    """How many connections are held while they open."""
    _open: set[_Connection] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.heal()

    def partition(self, *, answers_only: bool = False) -> None:
        """Hold all bytes, or those of answers only: connections stay, and nothing comes through."""
        self.answers.clear()
        if not answers_only:
            self.requests.clear()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def holds(self) -> bool:
        """Whether bytes may be held now."""
        return self.hold is not None or not self.answers.is_set()

    def heal(self, *, cut: bool = False) -> None:
        """Let bytes pass, also those that were held; or cut the connections that hold them."""
        if cut:
            self.cut_all()
        self.hold = None
        for each in (self.requests, self.answers, self.released):
            each.set()
        self.released = asyncio.Event()

    def cut_all(self) -> int:
        """End all connections at once, also those held while they open; returns how many others."""
        self.cuts += 1
        for each in list(self._open):
            each.cut()
        return len(self._open)

    def reached(self, request: Request, stage: Stage) -> None:
        """Spring the traps for this; raises CutError if one says so."""
        for each in [each for each in self.traps if each.stage is stage and each.wanted(request)]:
            if each.sprung.is_set():
                continue
            if each.skip:
                each.skip -= 1
                continue
            each.sprung.set()
            each.act(self)
            if each.cut:
                raise CutError


class _Connection:
    """One connection of the replica, and its counterpart to the API server."""

    def __init__(
        self,
        wire: Wire,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._wire = wire
        self._from_replica, self._to_replica = near
        self._from_server, self._to_server = far
        self._request = Request("", "", "")
        self._answered = 0
        """Bytes of the answer to the latest request that have passed."""

    def cut(self) -> None:
        """End both sides at once, with whatever is under way."""
        for each in (self._to_replica, self._to_server):
            each.transport.abort()
            each.close()  # TLS of asyncio does not count as closed before

    async def run(self) -> None:
        """Carry bytes until either side ends."""
        self._wire._open.add(self)
        pumps = [asyncio.create_task(self._ask()), asyncio.create_task(self._answer())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._wire._open.discard(self)
            self.cut()
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)

    async def _ask(self) -> None:
        with suppress(CutError, OSError, asyncio.IncompleteReadError):
            while True:
                head = await self._from_replica.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await self._from_replica.readexactly(int(length[1]) if length else 0)
                request = _parsed(head)
                self._request, self._answered = request, 0
                self._wire.bindings += request.binds
                await self._wire.requests.wait()
                if self._wire.hold is not None and self._wire.hold(request):
                    await self._wire.released.wait()
                self._wire.reached(request, Stage.BEFORE)
                self._to_server.write(head + body)
                await self._to_server.drain()
                self._wire.reached(request, Stage.SENT)

    async def _answer(self) -> None:
        with suppress(CutError, OSError):
            while data := await self._from_server.read(CHUNK):
                await self._wire.answers.wait()
                if self._wire.answer_delay:
                    await asyncio.sleep(self._wire.answer_delay)
                if not self._answered:
                    self._wire.reached(self._request, Stage.ANSWERED)
                most = self._wire.cut_answer(self._request)
                rest = len(data) if most is None else max(0, most - self._answered)
                self._to_replica.write(data[:rest])
                await self._to_replica.drain()
                self._answered += len(data)
                if most is not None and self._answered >= most:
                    # What was written has to get out before the connection is reset.
                    self._to_replica.write_eof()
                    return


def _parsed(head: bytes) -> Request:
    found = _HEAD.match(head)
    if found is None:
        raise CutError
    path, _, query = found[2].decode().partition("?")
    return Request(found[1].decode(), path, query)


@asynccontextmanager
async def wire(target: str, trust: ssl.SSLContext) -> AsyncIterator[Wire]:
    """A wire on a free port to the API server at ``target``, with the rights of ``trust``."""
    host, _, port = target.removeprefix("https://").partition(":")
    made = Wire()
    connections: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            cuts = made.cuts
            made.opening += 1
            await made.requests.wait()
            made.opening -= 1
            if made.cuts != cuts:
                return  # no network keeps what was sent on it for as long as a partition
            with suppress(OSError):
                far = await asyncio.open_connection(host, int(port), ssl=trust)
                await _Connection(made, (reader, writer), far).run()
        finally:
            writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(carry(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=MAX_HEAD)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        for task in connections:
            task.cancel()
        if connections:
            await asyncio.wait(connections)
