"""The listening socket under the endpoints: plain HTTP or TLS, started and stopped in order."""

import ssl
from types import TracebackType
from typing import Self

from aiohttp import web

KEEPALIVE_SECONDS = 75.0
SHUTDOWN_SECONDS = 5.0


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
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._tls = _tls_context(certificate, key) if certificate else None
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
            await web.TCPSite(self._runner, self.host, self.port, ssl_context=self._tls).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening and end open requests, within a few seconds; may be called again."""
        await self._runner.cleanup()

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


def _tls_context(certificate: str, key: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context
