"""The listening socket under the endpoints: plain HTTP or TLS, started and stopped in order."""

import asyncio
from types import TracebackType
from typing import Self

from aiohttp import web

from scheduler.serve.certificates import Tls

KEEPALIVE_SECONDS = 75.0
SHUTDOWN_SECONDS = 5.0
REFRESH_SECONDS = 10.0
"""How often a rotated certificate is looked for."""
MAX_CONNECTIONS = 256
"""Further callers are turned away: whoever opens connections must not exhaust the scheduler's."""
HANDSHAKE_SECONDS = 10.0


class Server:
    """Serves one application; ``async with`` starts and stops it.

    Port 0 takes a free port; `port` and `url` tell which once it has started.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Tls | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self.host = host
        self.port = port
        self._tls = tls
        self._refresh_seconds = refresh_seconds
        self._refreshing: asyncio.Task[None] | None = None
        self._listening: asyncio.Server | None = None
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )

    @property
    def url(self) -> str:
        """The address to call, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def start(self) -> None:
        """Listen; raises OSError if the address cannot be had, and then leaves nothing behind."""
        await self._runner.setup()
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._accept,
                self.host,
                self.port,
                ssl=self._tls.context if self._tls else None,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
                reuse_address=True,
            )
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._listening.sockets[0].getsockname()[1]
        if self._tls:
            self._refreshing = asyncio.create_task(self._refresh(self._tls), name="certificate")

    async def stop(self) -> None:
        """Stop listening and end open requests, within a few seconds; may be called again."""
        if self._refreshing is not None:
            self._refreshing.cancel()
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()

    def _accept(self) -> asyncio.BaseProtocol:
        requests = self._runner.server
        assert requests is not None, "it is set up before anybody can connect"
        return requests() if len(requests.connections) < MAX_CONNECTIONS else _TurnedAway()

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


class _TurnedAway(asyncio.Protocol):
    """Closes a connection as soon as it is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
