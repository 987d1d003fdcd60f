"""Connections to the serving port: bounded in number and in time, and probes always get through.

::

    accepted ──► READING ──► BUSY ──► IDLE ──► READING ──► …
                 TLS and a   being    kept     first bytes of
                 header      answered alive    the next request

READING lasts at most `HEADER_SECONDS` (and `HANDSHAKE_SECONDS` for TLS before), IDLE at most
`KEEPALIVE_SECONDS`, and an answer has to be taken within `SEND_SECONDS`. At the limit a new
connection replaces one that is not BUSY: the one that has waited for longest, of the address that
has most. If all are BUSY, a share is left in which only probes are answered.

A caller that opens connections and sends nothing costs a small object each, and no probe fails.
"""

import asyncio
import socket
import ssl
from collections import Counter as Tally
from collections.abc import Callable
from typing import cast

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_protocol import RequestHandler

from scheduler.observe.instruments import Counter
from scheduler.serve.guards import Unavailable

MAX_CONNECTIONS = 256
PROBE_CONNECTIONS = 32
"""More than the limit, for probes alone."""
HANDSHAKE_SECONDS = 15.0
HEADER_SECONDS = 15.0
SEND_SECONDS = 10.0
KEEPALIVE_SECONDS = 75.0
_CUT_OFF = web.RequestKey("cut off", bool)
PROBES = ("/livez", "/readyz", "/healthz")


class Connections:
    """All connections of one server, from `accept` on. Belongs to one event loop.

    `requests` makes what parses and answers requests, once there are bytes. `dropped` counts, by
    reason, who was not served to the end.
    """

    def __init__(
        self,
        requests: Callable[[], RequestHandler],
        tls: ssl.SSLContext | None = None,
        dropped: Counter | None = None,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._requests = requests
        self._tls = tls
        self._dropped = dropped
        self._clock = clock
        self._all: dict[ServedConnection, None] = {}
        self._by_handler: dict[RequestHandler, ServedConnection] = {}

    def __len__(self) -> int:
        """How many are open."""
        return len(self._all)

    def accept(self, sock: socket.socket, address: str) -> None:
        """Take over the socket of a new connection."""
        connection = ServedConnection(self, address)
        if self.admit(connection):
            connection.open(sock, self._tls)
        else:
            sock.close()

    def sweep(self) -> None:
        """Drop those whose time is over; to be called about once a second."""
        now = self.now()
        for connection in [each for each in self._all if each.overdue(now)]:
            self.drop(connection, "timeout" if connection.reading else "")

    def close(self) -> None:
        """Drop those that are not being answered."""
        for connection in [each for each in self._all if not each.busy]:
            self.drop(connection)

    def middleware(self) -> Middleware:
        """The outermost middleware: records which connections are being answered."""

        @web.middleware
        async def served(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._by_handler.get(request.protocol)
            if connection is None:  # gone meanwhile
                return await handler(request)
            connection.begin()
            try:
                if connection.only_probes and not is_probe(request.path):
                    self.count("refused")
                    response: web.StreamResponse = _no_room()
                else:
                    response = await handler(request)
                await send(request, response)
                return response
            finally:
                if request.get(_CUT_OFF):
                    self.count("timeout")
                connection.end()

        return served

    # For connections

    def now(self) -> float:
        """The time that deadlines are given in."""
        return self._clock() if self._clock else asyncio.get_running_loop().time()

    def admit(self, connection: "ServedConnection") -> bool:
        """Count a connection in; False if there is no room, not even for a probe."""
        share = sum(each.only_probes for each in self._all)
        if not self._make_room(len(self._all) - share, MAX_CONNECTIONS, only_probes=False):
            connection.only_probes = True
            if not self._make_room(share, PROBE_CONNECTIONS, only_probes=True):
                self.count("refused")
                return False
        self._all[connection] = None
        return True

    def serve(self, connection: "ServedConnection") -> RequestHandler:
        """What answers the requests of a connection."""
        handler = self._requests()
        self._by_handler[handler] = connection
        return handler

    def forget(self, connection: "ServedConnection") -> None:
        """A connection has ended; may be called again."""
        self._all.pop(connection, None)
        if connection.handler is not None:
            self._by_handler.pop(connection.handler, None)

    def drop(self, connection: "ServedConnection", reason: str = "") -> None:
        """Close a connection at once."""
        if reason:
            self.count(reason)
        self.forget(connection)
        connection.abort()

    def count(self, reason: str) -> None:
        """Count a caller that was not served to the end."""
        if self._dropped is not None:
            self._dropped.labels(reason).inc()

    def _make_room(self, held: int, limit: int, *, only_probes: bool) -> bool:
        """Whether there is room for one more; may close an idle connection for it. O(all)."""
        if held < limit:
            return True
        of = Tally(each.address for each in self._all)
        waiting = (e for e in self._all if not e.busy and e.only_probes == only_probes)
        victim = max(waiting, key=lambda each: (of[each.address], -each.since), default=None)
        if victim is None:
            return False
        self.drop(victim, "evicted")
        return True


class ServedConnection(asyncio.Protocol):
    """One connection. Bytes go to a handler of requests, which is made with the first of them."""

    def __init__(self, among: Connections, address: str) -> None:
        self.address = address
        self.busy = False
        self.reading = True
        self.only_probes = False
        self.since = among.now()
        """When it began to wait."""
        self.handler: RequestHandler | None = None
        self._deadline = self.since + HANDSHAKE_SECONDS
        self._among = among
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None

    def overdue(self, now: float) -> bool:
        """Whether it has waited for longer than it may."""
        return not self.busy and now >= self._deadline

    def open(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Do the TLS handshake if configured, and read."""
        self._opening = asyncio.create_task(self._open(sock, tls), name="connection")

    def begin(self) -> None:
        """A request is complete."""
        self.busy, self.reading = True, False

    def end(self) -> None:
        """It has been answered."""
        self.busy = False
        self._wait(KEEPALIVE_SECONDS)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """After the handshake: wait for a request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no common class
        self._wait(HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Hand the bytes on; those of a new request have to be complete soon."""
        assert self._transport is not None, "it is connected"
        if not (self.busy or self.reading):
            self.reading = True
            self._wait(HEADER_SECONDS)
        if self.handler is None:
            self.handler = self._among.serve(self)
            self.handler.connection_made(self._transport)
        self.handler.data_received(data)

    def eof_received(self) -> None:
        """The other side sends nothing more."""
        if self.handler is not None:
            self.handler.eof_received()

    def pause_writing(self) -> None:
        """The other side takes too little."""
        if self.handler is not None:
            self.handler.pause_writing()

    def resume_writing(self) -> None:
        """It takes more."""
        if self.handler is not None:
            self.handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self._among.forget(self)
        if self.handler is not None:
            self.handler.connection_lost(exc)

    async def _open(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self,
                sock,
                ssl=tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if tls else None,
            )
        except BaseException as fault:
            sock.close()
            self._among.forget(self)
            if not isinstance(fault, OSError | asyncio.CancelledError):
                raise
            # A client that does not speak TLS or closes; or the server is closing.

    def _wait(self, seconds: float) -> None:
        self.since = self._among.now()
        self._deadline = self.since + seconds


def is_probe(path: str) -> bool:
    """Whether a path is one of those that kubelets ask."""
    return path in PROBES or path.startswith(tuple(f"{probe}/" for probe in PROBES))


async def send(request: web.Request, response: web.StreamResponse) -> None:
    """Send an answer to its end; a caller that does not read it in time is cut off."""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await response.prepare(request)
            await response.write_eof()
    except TimeoutError:
        request[_CUT_OFF] = True
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass  # the client has closed; the library handles that


def _no_room() -> web.Response:
    text = "too many requests are under way: only probes are answered on this connection"
    body = {"error": {"code": Unavailable.status, "message": text}}
    response = web.json_response(
        body, status=Unavailable.status, headers={"Retry-After": "1", "Connection": "close"}
    )
    response.force_close()
    return response
