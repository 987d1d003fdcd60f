"""Kept-alive connections to one API server, for requests that are answered in one piece.

Every pod costs at least two of them, a binding and an event, on machines whose API server wants the
CPU as well. Through aiohttp a request took 0.35 to 0.5 ms of our CPU, nearly all of it for things
that nobody asks for here; through this module it takes 0.1 ms, TLS included. Watches, and clusters
behind a proxy, stay with the library: see `scheduler.kube.client`.
"""

import asyncio
import re
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, urlsplit

from scheduler.kube.credentials import Access
from scheduler.kube.errors import Ambiguous, Unreachable
from scheduler.kube.fencing import Fence
from scheduler.kube.http1 import Answer, Garbled, Reader, reader

CONNECT_TIMEOUT_SECONDS = 10.0
# Room for all binding slots, events and status updates at once.
MAX_CONNECTIONS = 256
# A stampede overflows the server's backlog, and a connection it dropped comes seconds later.
MAX_CONNECTING = 32
# Go's HTTP server closes idle connections after 90 s; being first avoids lost requests.
KEEPALIVE_SECONDS = 75.0

_PLAIN_TARGET = re.compile(r"[A-Za-z0-9/\-._~:@!$&'()*+,;=?%]*")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go, and what each of them begins with; made once for each `Access`."""

    server: str
    host: str
    port: int
    tls: ssl.SSLContext | None
    server_hostname: str | None
    prefix: str
    headers: str

    @classmethod
    def of(cls, access: Access, headers: dict[str, str]) -> "Endpoint":
        """Raises Unreachable if the address or a header makes no sense."""
        try:
            parts = urlsplit(access.server)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise Unreachable(f"{access.server}: {error}") from error
        if not host or parts.scheme not in {"http", "https"}:
            raise Unreachable(f"{access.server}: not the address of a server")
        tls = _context(access.tls) if parts.scheme == "https" else None
        common = {"Host": parts.netloc.rpartition("@")[2], **headers}
        if access.authorization:
            common["Authorization"] = access.authorization
        return cls(
            server=access.server,
            host=host,
            port=port or (443 if tls else 80),
            tls=tls,
            server_hostname=(access.server_hostname or host) if tls else None,
            prefix=parts.path.rstrip("/"),
            headers="".join(_header(name, value) for name, value in common.items()),
        )

    @property
    def key(self) -> tuple[object, ...]:
        """Connections of endpoints with equal keys are interchangeable: tokens go with requests."""
        return self.host, self.port, self.tls, self.server_hostname

    def message(self, method: str, target: str, content_type: str, body: bytes | None) -> bytes:
        """A whole request; `target` is a path, with its query if there is one."""
        if not _PLAIN_TARGET.fullmatch(target):
            target = quote(target, safe="/-._~:@!$&'()*+,;=?%")
        head = f"{method} {self.prefix}{target} HTTP/1.1\r\n{self.headers}"
        if body is None:
            return f"{head}\r\n".encode("latin-1")
        length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return (head + length).encode("latin-1") + body


class ConnectionPool:
    """Connections to one endpoint at a time, each carrying one request at a time."""

    def __init__(
        self, limit: int = MAX_CONNECTIONS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._room = asyncio.Semaphore(limit)
        self._connecting = asyncio.Semaphore(MAX_CONNECTING)
        self._key: tuple[object, ...] = ()
        # By the time of their last use. The latest is used first, so that the rest can grow old.
        self._idle: deque[_Connection] = deque()
        self._open: set[_Connection] = set()
        self._closed = False

    async def exchange(
        self, endpoint: Endpoint, message: bytes, *, harmless: bool, fence: Fence | None = None
    ) -> Answer:
        """Send one request and return its answer.

        Raises Unreachable when nothing was sent, Ambiguous when the answer was lost, WritesStopped
        when the `fence` did not let it out. The caller sets the deadline; cancelled, the request
        may still have its effect. A `harmless` one, which changes nothing, is sent again if the
        server turns out to have closed a kept connection.
        """
        async with self._room:
            connection = self._latest(endpoint) or await self._next(endpoint)
            kept = connection.kept
            try:
                return await self._carry(connection, endpoint, message, fence)
            except Ambiguous:
                if not (harmless and kept):
                    raise
            return await self._carry(await self._connect(endpoint), endpoint, message, fence)

    def close(self) -> None:
        """Close all connections, also those in use; later requests raise Unreachable."""
        self._closed = True
        self._idle.clear()
        for connection in list(self._open):
            connection.abort()

    async def _carry(
        self, connection: "_Connection", endpoint: Endpoint, message: bytes, fence: Fence | None
    ) -> Answer:
        try:
            return await connection.exchange(message, fence)
        except (Garbled, OSError) as error:
            raise Ambiguous(f"{endpoint.server}: {_text(error)}") from error
        finally:
            # Also when cancelled: an answer that nobody waits for must not meet the next request.
            self._release(connection, endpoint.key)

    def _latest(self, endpoint: Endpoint) -> "_Connection | None":
        if self._key != endpoint.key:
            self._key = endpoint.key
            while self._idle:
                self._idle.pop().abort()
        oldest = self._clock() - KEEPALIVE_SECONDS
        while self._idle and self._idle[0].used < oldest:
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _next(self, endpoint: Endpoint) -> "_Connection":
        """The connection that is free first: one that another request gives back, or a new one."""
        async with self._connecting:
            return self._latest(endpoint) or await self._connect(endpoint)

    async def _connect(self, endpoint: Endpoint) -> "_Connection":
        if self._closed:
            raise Unreachable("the client is closed")
        loop = asyncio.get_running_loop()
        with _while_connecting(endpoint.server):
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop, self._open),
                    endpoint.host,
                    endpoint.port,
                    ssl=endpoint.tls,
                    server_hostname=endpoint.server_hostname,
                )
        return connection

    def _release(self, connection: "_Connection", key: tuple[object, ...]) -> None:
        if connection.usable and key == self._key and not self._closed:
            connection.used = self._clock()
            connection.kept = True
            self._idle.append(connection)
        else:
            connection.abort()


class _Connection(asyncio.Protocol):
    """One connection; `usable` while it is open and no answer is outstanding."""

    def __init__(self, loop: asyncio.AbstractEventLoop, all_open: "set[_Connection]") -> None:
        self.usable = False
        self.kept = False
        """Whether it has carried a request before, so that the server may have closed it since."""
        self.used = 0.0
        self._loop = loop
        self._all_open = all_open
        self._transport: asyncio.Transport | None = None
        self._reader: Reader | None = None
        self._waiter: asyncio.Future[Answer] | None = None

    async def exchange(self, message: bytes, fence: Fence | None = None) -> Answer:
        """Send a request and wait for its answer. Raises Garbled, OSError or WritesStopped."""
        assert self._transport is not None, "made by create_connection"
        assert self.usable, "one request at a time"
        if fence is not None:
            # The transport writes to the socket at once unless earlier bytes still wait.
            fence.check()
        self.usable = False
        self._reader = reader()
        self._waiter = self._loop.create_future()
        self._transport.write(message)
        return await self._waiter

    def abort(self) -> None:
        """Close at once."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for the first request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no common class
        self.usable = True
        self._all_open.add(self)

    def data_received(self, data: bytes) -> None:
        """Put the answer together; what nobody asked for makes the connection useless."""
        if self._reader is None:
            self.abort()
            return
        try:
            self._reader.send(data)
        except StopIteration as finished:
            self._settle(finished.value)
        except Garbled as error:
            self._fail(error)

    def eof_received(self) -> None:
        """Let the transport close, and send nothing more meanwhile."""
        self.usable = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits gets what can be made of it."""
        self.usable = False
        self._all_open.discard(self)
        if self._reader is None:
            return
        try:
            self._reader.send(b"")
        except StopIteration as finished:
            self._settle(finished.value)
        except Garbled as error:
            self._fail(exc if isinstance(exc, OSError) else error)

    def _settle(self, answer: Answer) -> None:
        self._reader = None
        self.usable = answer.reusable
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)

    def _fail(self, error: Exception) -> None:
        self._reader = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.abort()


@contextmanager
def _while_connecting(server: str) -> Iterator[None]:
    """Whatever goes wrong here, nothing was sent."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        reason = error.verify_message or error
        raise Unreachable(f"{server}: its certificate is not trusted: {reason}") from error
    except TimeoutError as error:
        raise Unreachable(
            f"{server}: no connection within {CONNECT_TIMEOUT_SECONDS:g} s"
        ) from error
    except OSError as error:
        raise Unreachable(f"{server}: {_text(error)}") from error
    except RuntimeError as error:
        # uvloop may hand a socket out whose number a dying connection still holds (its issue 653).
        if "used by transport" not in str(error):
            raise
        raise Unreachable(f"{server}: {error}") from error


def _context(tls: ssl.SSLContext | bool) -> ssl.SSLContext:
    return tls if isinstance(tls, ssl.SSLContext) else ssl.create_default_context()


def _header(name: str, value: str) -> str:
    if not _HEADER_VALUE.fullmatch(value):
        # The value may be a secret, so it is not shown.
        raise Unreachable(f"the {name} header would contain a character that HTTP does not allow")
    return f"{name}: {value}\r\n"


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
