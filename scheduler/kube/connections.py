"""Connections to one API server: kept ones for requests, and one of its own for each stream.

Every pod costs at least two requests, a binding and an event, on machines whose API server needs
the CPU as well. Through aiohttp a request took 0.35 to 0.5 ms of our CPU, nearly all of it for
things that are not needed here; through this module it takes 0.1 ms, TLS included. Streams are
read here too, because aiohttp does not report broken framing of a body. Clusters behind a
proxy stay with the library: see `scheduler.kube.client`.
"""

import asyncio
import re
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast
from urllib.parse import quote, urlsplit

from scheduler import machine
from scheduler.config.trust import tls_context
from scheduler.kube.credentials import ApiAccess
from scheduler.kube.errors import Ambiguous, Garbled, TooLarge, Unreachable
from scheduler.kube.http1 import MAX_BODY_BYTES, Head, HttpResponse, Reader, StreamReader, reader

Check = Callable[[], None]
"""Raises if a request must not go out."""
Waiter = asyncio.Future[HttpResponse]

CONNECT_TIMEOUT_SECONDS = 10.0
# Room for all binding slots, events and status updates at once.
MAX_CONNECTIONS = 256
# A stampede overflows the server's backlog, and a connection it dropped comes seconds later. Nor
# may it hold the event loop: each handshake takes most of a millisecond of CPU.
MAX_CONNECTING = 8
# Streams have room of their own: they do not wait behind requests whose connections fail.
MAX_OPENING = 4
# How many answers reach those who wait for them in one turn of the event loop. To deal with one,
# and to send what was waiting for its slot, takes some 0.2 ms of CPU.
ANSWERS_AT_ONCE = 16
# How many bytes of a stream may wait for us: one batch of changes is decoded from at most twice
# this without giving the loop back, which takes a few milliseconds.
STREAM_BUFFER_BYTES = 128 * 1024
# After which bytes that nobody acknowledged are given up. Otherwise the kernel sends them for
# minutes after we are gone, and a partition that ends delivers a binding of a former leader.
UNACKNOWLEDGED_SECONDS = 5.0
# After so much silence the kernel asks the other side whether it is there, and then once more. A
# watch whose connection is dead is known to be so after some 35 s, as with kube-scheduler's pings.
PROBE_AFTER_SECONDS, PROBE_EVERY_SECONDS, PROBES = 30, 5, 3
# Go's HTTP server closes idle connections after 90 s; being first avoids lost requests.
KEEPALIVE_SECONDS = 75.0

_PLAIN_TARGET = re.compile(r"[A-Za-z0-9/\-._~:@!$&'()*+,;=?%]*")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    """Where requests go, and what each of them begins with; made once for each `ApiAccess`."""

    server: str
    host: str
    port: int
    tls: ssl.SSLContext | None
    server_hostname: str | None
    prefix: str
    headers: str

    @classmethod
    def of(cls, access: ApiAccess, headers: dict[str, str]) -> "ApiEndpoint":
        """Raises Unreachable if the address or a header makes no sense."""
        try:
            parts = urlsplit(access.server)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise Unreachable(f"{access.server}: {error}") from error
        if not host or parts.scheme not in {"http", "https"} or not _can_be_looked_up(host):
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
        self, limit: int = MAX_CONNECTIONS, clock: Callable[[], float] = machine.monotonic
    ) -> None:
        self._clock = clock
        self._room = asyncio.Semaphore(limit)
        self._connecting = asyncio.Semaphore(MAX_CONNECTING)
        self._opening = asyncio.Semaphore(MAX_OPENING)
        self._answers = _AnswerTurns(asyncio.get_running_loop())
        self._key: tuple[object, ...] = ()
        # By the time of their last use. The latest is used first, so that the rest can grow old.
        self._idle: deque[_Connection] = deque()
        self._open: dict[_Connection | Stream, None] = {}
        self._closed = False

    async def exchange(
        self,
        endpoint: ApiEndpoint,
        message: bytes,
        *,
        harmless: bool,
        check: Check | None = None,
        limit: int = MAX_BODY_BYTES,
    ) -> HttpResponse:
        """Send one request and return its answer, whose body has at most `limit` bytes.

        Raises Unreachable when nothing was sent, Ambiguous when the answer was lost, and what the
        `check` raises, which is called immediately before the bytes go out: then nothing was sent
        either. The caller sets the deadline; cancelled, the request may still have its effect. A
        `harmless` one, which changes nothing, is sent again if the server turns out to have closed
        a kept connection.
        """
        async with self._room:
            connection = self._latest(endpoint) or await self._next(endpoint)
            kept = connection.kept
            try:
                return await self._carry(connection, endpoint, message, check, limit)
            except (Garbled, TooLarge):
                raise
            except Ambiguous:
                if not (harmless and kept):
                    raise
            async with self._connecting:
                connection = await self._connect(endpoint)
            return await self._carry(connection, endpoint, message, check, limit)

    async def open_stream(self, endpoint: ApiEndpoint, message: bytes) -> "Stream":
        """Send one request on a connection of its own and return its answer once it begins.

        Raises as `exchange`; the caller sets the deadline, and closes the stream.
        """
        loop = asyncio.get_running_loop()
        async with self._opening:
            stream: Stream = await self._connected(
                endpoint, lambda: Stream(loop, self._open, endpoint.server)
            )
        try:
            await stream.begin(message)
        except BaseException:
            stream.abort()
            raise
        return stream

    def drop_idle(self) -> None:
        """Close idle connections: one may be dead without a sign of it."""
        while self._idle:
            self._idle.pop().abort()

    def close(self) -> None:
        """Close all connections, also those in use; later requests raise Unreachable."""
        self._closed = True
        self._idle.clear()
        for connection in list(self._open):
            connection.abort()

    async def _carry(
        self,
        connection: "_Connection",
        endpoint: ApiEndpoint,
        message: bytes,
        check: Check | None,
        limit: int,
    ) -> HttpResponse:
        try:
            return await connection.exchange(message, check, limit)
        except (Ambiguous, OSError) as error:
            raise _lost(endpoint.server, error) from error
        finally:
            # Also when cancelled: the late answer must not be taken for that of the next request.
            self._release(connection, endpoint.key)

    def _latest(self, endpoint: ApiEndpoint) -> "_Connection | None":
        if self._key != endpoint.key:
            self._key = endpoint.key
            self.drop_idle()
        oldest = self._clock() - KEEPALIVE_SECONDS
        while self._idle and self._idle[0].used < oldest:
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _next(self, endpoint: ApiEndpoint) -> "_Connection":
        """The connection that is free first: one that another request returns, or a new one."""
        async with self._connecting:
            return self._latest(endpoint) or await self._connect(endpoint)

    async def _connect(self, endpoint: ApiEndpoint) -> "_Connection":
        loop = asyncio.get_running_loop()
        return await self._connected(endpoint, lambda: _Connection(loop, self._open, self._answers))

    async def _connected(self, endpoint: ApiEndpoint, protocol: "Callable[[], P]") -> "P":
        if self._closed:
            raise Unreachable("the client is closed")
        loop = asyncio.get_running_loop()
        with _while_connecting(endpoint.server):
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                transport, connection = await loop.create_connection(
                    protocol,
                    endpoint.host,
                    endpoint.port,
                    ssl=endpoint.tls,
                    server_hostname=endpoint.server_hostname,
                )
                _bound_transmission(transport)
        return connection

    def _release(self, connection: "_Connection", key: tuple[object, ...]) -> None:
        if connection.usable and key == self._key and not self._closed:
            connection.used = self._clock()
            connection.kept = True
            self._idle.append(connection)
        else:
            connection.abort()


class _AnswerTurns:
    """Hands answers to those who wait for them, so many in each turn of the event loop, in order.

    All may come at once, and each wakes a task, and another that waits for its slot.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = ANSWERS_AT_ONCE
        self._counting = False
        """Whether the end of this turn is awaited."""
        self._waiting: deque[tuple[Waiter, HttpResponse | Exception]] = deque()

    def hand_out(self, waiter: Waiter, answer: HttpResponse | Exception) -> None:
        """An answer has come, or will not come."""
        self._waiting.append((waiter, answer))
        self._count()
        self._hand_out()

    def _count(self) -> None:
        if not self._counting:
            self._counting = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._left, self._counting = ANSWERS_AT_ONCE, False
        if self._waiting:
            self._count()
            self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._left:
            waiter, answer = self._waiting.popleft()
            if waiter.done():  # its request was given up
                continue
            self._left -= 1
            if isinstance(answer, Exception):
                waiter.set_exception(answer)
            else:
                waiter.set_result(answer)


class _Connection(asyncio.Protocol):
    """One connection; `usable` while it is open and no answer is outstanding."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        all_open: "dict[_Connection | Stream, None]",
        answers: _AnswerTurns,
    ) -> None:
        self.usable = False
        self.kept = False
        """Whether it has carried a request before, so that the server may have closed it since."""
        self.used = 0.0
        self._loop = loop
        self._all_open = all_open
        self._answers = answers
        self._transport: asyncio.Transport | None = None
        self._reader: Reader | None = None
        self._waiter: Waiter | None = None

    async def exchange(self, message: bytes, check: Check | None, limit: int) -> HttpResponse:
        """Send a request and wait for its answer. Raises Ambiguous, OSError or what `check` does.

        What is raised by `check` leaves the connection as it is.
        """
        assert self._transport is not None, "made by create_connection"
        assert self.usable, "one request at a time"
        if check is not None:
            # The transport writes to the socket at once unless earlier bytes still wait.
            check()
        self.usable = False
        self._reader = reader(limit)
        waiter: Waiter = self._loop.create_future()
        self._waiter = waiter
        self._transport.write(message)
        return await waiter

    def abort(self) -> None:
        """Close at once."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for the first request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no common class
        self.usable = True
        self._all_open[self] = None

    def data_received(self, data: bytes) -> None:
        """Assemble the answer; bytes without a request make the connection unusable."""
        if self._reader is None:
            self.abort()
            return
        try:
            self._reader.send(data)
        except StopIteration as finished:
            self._settle(finished.value)
        except Ambiguous as error:
            self._fail(error)

    def eof_received(self) -> None:
        """Let the transport close, and send nothing more meanwhile."""
        self.usable = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete the waiting request with what has arrived."""
        self.usable = False
        self._all_open.pop(self, None)
        if self._reader is None:
            return
        try:
            self._reader.send(b"")
        except StopIteration as finished:
            self._settle(finished.value)
        except Ambiguous as error:
            self._fail(exc if isinstance(exc, OSError) else error)

    def _settle(self, answer: HttpResponse) -> None:
        self._reader = None
        self.usable = answer.reusable
        self._hand_out(answer)

    def _fail(self, error: Exception) -> None:
        self._reader = None
        self._hand_out(error)
        self.abort()

    def _hand_out(self, answer: HttpResponse | Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            self._answers.hand_out(waiter, answer)


class Stream(asyncio.Protocol):
    """One answer on a connection of its own, read as it comes.

    Reads no more from the network while `STREAM_BUFFER_BYTES` wait. What breaks the framing ends
    the stream at once: `read` hands out what came before, then raises.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        all_open: "dict[_Connection | Stream, None]",
        server: str,
    ) -> None:
        self._loop = loop
        self._all_open = all_open
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._reader = StreamReader()
        self._pieces: list[bytes] = []
        self._size = 0
        self._paused = False
        self._error: Exception | None = None
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def head(self) -> Head:
        """What the answer began with; there is one once the stream has begun."""
        assert self._reader.head is not None, "the stream has begun"
        return self._reader.head

    async def begin(self, message: bytes) -> None:
        """Send the request and wait for the head of its answer."""
        assert self._transport is not None, "made by create_connection"
        self._transport.write(message)
        while self._reader.head is None:
            self._raise_error()
            await self._news()

    async def read(self) -> bytes:
        """All that has arrived and was not read yet, at least one byte; empty at the end."""
        while not self._pieces:
            self._raise_error()
            if self._ended:
                return b""
            await self._news()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._size = [], 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for the request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no common class
        self._all_open[self] = None

    def data_received(self, data: bytes) -> None:
        """Keep the body that is in it, and pause if too much waits."""
        if self._ended or self._error is not None:
            return
        try:
            self._reader.feed(data, self._pieces)
        except Ambiguous as error:
            self._fail(error)
            return
        self._size += len(data)
        if self._reader.ended:
            self._end()
        elif self._size > STREAM_BUFFER_BYTES and not self._paused and self._transport:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand the reader what has arrived, then the end or the error."""
        self._all_open.pop(self, None)
        if self._ended or self._error is not None:
            return
        try:
            self._reader.feed_end()
        except Ambiguous as error:
            self._fail(exc if isinstance(exc, OSError) else error)
        else:
            self._end()
            self._wake()

    def _end(self) -> None:
        self._ended = True
        self.abort()

    def _fail(self, error: Exception) -> None:
        self._error = error
        self.abort()
        self._wake()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise _lost(self._server, self._error) from self._error

    async def _news(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


P = TypeVar("P", _Connection, Stream)


def _bound_transmission(transport: asyncio.Transport) -> None:
    """Have the kernel give up what is not acknowledged in time, also after we closed.

    A connection on which nothing is sent has nothing to acknowledge: the kernel probes it.
    """
    connected = transport.get_extra_info("socket")
    if sys.platform == "linux" and connected is not None:
        milliseconds = int(1000 * UNACKNOWLEDGED_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def _lost(server: str, error: Exception) -> Ambiguous:
    """Why there is no answer, in the words of the tree of errors."""
    kind = type(error) if isinstance(error, Ambiguous) else Ambiguous
    return kind(f"{server}: {_text(error)}")


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


def _can_be_looked_up(host: str) -> bool:
    """Whether a host has no label that is empty or too long: resolvers raise for those."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _context(tls: ssl.SSLContext | bool) -> ssl.SSLContext:
    return tls if isinstance(tls, ssl.SSLContext) else tls_context()


def _header(name: str, value: str) -> str:
    if not _HEADER_VALUE.fullmatch(value):
        # The value may be a secret, so it is not shown.
        raise Unreachable(f"the {name} header would contain a character that HTTP does not allow")
    return f"{name}: {value}\r\n"


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
