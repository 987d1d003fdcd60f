"""The listening socket under the endpoints: plain HTTP or TLS, started and stopped in order."""

import asyncio
import errno
import ipaddress
import logging
import socket
from types import TracebackType
from typing import Self

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from scheduler.config.schema import ServerSettings as Settings
from scheduler.observe.instruments import Counter
from scheduler.observe.logs import get_logger
from scheduler.serve.access import AccessControl, Reviewer
from scheduler.serve.certificates import Files, SelfSigned, Tls
from scheduler.serve.connections import KEEPALIVE_SECONDS, Connections
from scheduler.serve.endpoints import Backend, build_app
from scheduler.serve.guards import known_expectations
from scheduler.serve.page import OPEN_PATHS, read_page

log = get_logger(__name__)

SHUTDOWN_SECONDS = 5.0
REFRESH_SECONDS = 10.0
"""How often a rotated certificate is looked for."""
SWEEP_SECONDS = 1.0
LINGER_SECONDS = 2.0
"""How long the rest of a body that is not read is discarded."""
PAUSE_SECONDS = 0.1
"""How long not to accept after that has failed."""
BACKLOG = 512
"""Connections that the kernel keeps until they are accepted."""


class Server:
    """Serves one application; ``async with`` starts and stops it.

    Port 0 takes a free port; `port` and `url` have it once it has started. A socket that listens
    already is used in place of host and port; the server closes it.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Tls | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
        dropped: Counter | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._tls = tls
        self._refresh_seconds = refresh_seconds
        self._tending: list[asyncio.Task[None]] = []
        self._listening = [listening] if listening is not None else []
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
            shutdown_timeout=SHUTDOWN_SECONDS,
            lingering_time=LINGER_SECONDS,
            logger=_library_log(),
        )
        self.connections = Connections(self._requests, tls.context if tls else None, dropped)
        app.middlewares.insert(0, self.connections.middleware())

    @property
    def url(self) -> str:
        """The address to call, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def start(self) -> None:
        """Listen; raises OSError if the address cannot be had, and then leaves nothing behind."""
        await self.set_up()
        if not self._listening:
            try:
                self._listening = await _listen(self.host, self.port)
            except OSError:
                await self._runner.cleanup()
                raise
        self.port = self._listening[0].getsockname()[1]
        for listening in self._listening:
            self._tending.append(asyncio.create_task(self._accept(listening), name="accept"))
        self._tending.append(asyncio.create_task(self._sweep(), name="connections"))
        if self._tls:
            self._tending.append(asyncio.create_task(self._refresh(self._tls), name="certificate"))

    async def set_up(self) -> None:
        """Make ready to answer; `start` does so before it listens."""
        await self._runner.setup()
        requests = self._runner.server
        assert requests is not None, "it is set up"
        requests.request_handler = known_expectations(requests.request_handler)

    async def stop(self) -> None:
        """Stop listening and end open requests, within a few seconds; may be called again."""
        for task in self._tending:
            task.cancel()
        if self._tending:
            await asyncio.wait(self._tending)
        for listening in self._listening:
            listening.close()
        self.connections.close()
        await self._runner.cleanup()

    def _requests(self) -> RequestHandler:
        requests = self._runner.server
        assert requests is not None, "it is set up before the socket listens"
        return requests()

    async def _accept(self, listening: socket.socket) -> None:
        """Connections are accepted here and not by the library, so that each is known at once."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as fault:  # no more files may be open, or the caller has gone
                log.warning("A connection cannot be accepted", error=str(fault))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self.connections.accept(accepted, str(address[0]))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.connections.sweep()

    async def _refresh(self, tls: Tls) -> None:
        while True:
            await asyncio.sleep(self._refresh_seconds)
            await tls.refresh()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()


class _FaultsOfOurs(logging.Filter):
    """Leaves out mistakes of callers, who could fill the log with them."""

    def filter(self, record: logging.LogRecord) -> bool:
        fault = record.exc_info[1] if record.exc_info else None
        theirs = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
        return not isinstance(fault, theirs)


def _library_log() -> logging.Logger:
    """Where the library logs what goes wrong with requests."""
    library = logging.getLogger(f"{__name__}.requests")
    library.filters = [_FaultsOfOurs()]
    return library


async def _listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of the host; raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listening: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, *_, address in found):
            sock = socket.socket(family, socket.SOCK_STREAM)
            listening.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setblocking(False)
            try:
                sock.bind(address)
            except OSError as fault:
                reason = (fault.strerror or str(fault)).lower()
                text = f"cannot listen on {address!r}: {reason}"
                raise OSError(fault.errno or errno.EADDRINUSE, text) from fault
            sock.listen(BACKLOG)
    except BaseException:
        for sock in listening:
            sock.close()
        raise
    return listening


# How the endpoints are opened: to all of this machine, or to callers the API server authorizes.


async def open_server(
    backend: Backend,
    settings: Settings,
    reviewer: Reviewer,
    dropped: Counter | None = None,
    listening: socket.socket | None = None,
) -> Server:
    """The server of the settings, not yet started.

    On loopback all may read, by default over plain HTTP.
    Anywhere else it is TLS, and `reviewer` reviews every caller. Raises OSError if there is
    no certificate to serve with. `dropped` counts, by reason, connections that are cut.
    `listening` is a socket that listens already, on the settings' address.
    """
    reviewed = settings.protection == "always" or not is_loopback(settings.bind_address)
    open_paths = (*settings.always_allow_paths, *OPEN_PATHS)
    access = AccessControl(reviewer, open_paths) if reviewed else None
    wanted = reviewed or settings.tls_cert_file
    tls = await asyncio.to_thread(_tls, settings) if wanted else None
    app = build_app(backend, access, await asyncio.to_thread(read_page))
    return Server(
        app,
        host=settings.bind_address,
        port=settings.port,
        tls=tls,
        dropped=dropped,
        listening=listening,
    )


def is_loopback(address: str) -> bool:
    """Whether the address is loopback; a host name counts as reachable from outside."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _tls(settings: Settings) -> Tls:
    if settings.tls_cert_file:
        source = Files(settings.tls_cert_file, settings.tls_private_key_file)
        return Tls(source, settings.client_ca_file)
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    try:
        if not ipaddress.ip_address(settings.bind_address).is_unspecified:
            names.append(settings.bind_address)
    except ValueError:
        names.append(settings.bind_address)
    return Tls(SelfSigned(names), settings.client_ca_file)
