"""HTTP to one API server: authenticated requests and streams, errors as `scheduler.kube.errors`."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from scheduler import __version__
from scheduler.kube.credentials import SERVICE_ACCOUNT, Access, Credentials, find_source
from scheduler.kube.errors import (
    Ambiguous,
    ApiError,
    ClusterUnreachable,
    Silent,
    Unauthorized,
    Unreachable,
    error_from,
)
from scheduler.kube.pacing import RateLimit
from scheduler.observe.metrics import Metrics

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

REQUEST_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 10.0
# Room for all watches, all binding slots and the event workers at once.
MAX_CONNECTIONS = 256
# Go's HTTP server closes idle connections after 90 s; being first avoids lost requests.
KEEPALIVE_SECONDS = 75.0
# How many bytes of a watch may wait for us: one batch of changes is decoded from at most twice
# this without giving the loop back, which takes a few milliseconds.
STREAM_BUFFER_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    path: str
    params: Mapping[str, str] | None = None
    data: bytes | None = None
    content_type: str = JSON
    idle_timeout: float | None = None


class KubeClient:
    """One authenticated connection pool. Made by `connect`; used from one event loop."""

    def __init__(
        self,
        credentials: Credentials,
        metrics: Metrics,
        *,
        user_agent: str = f"equipoise/{__version__}",
        rate_limit: RateLimit | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._credentials = credentials
        self._requests = metrics.rest_client_requests
        self._duration = metrics.rest_client_request_duration
        self._rate_limit = rate_limit
        self._clock = clock
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MAX_CONNECTIONS, keepalive_timeout=KEEPALIVE_SECONDS
            ),
            # Compression costs both sides more CPU than it saves on a cluster's own network.
            headers={"User-Agent": user_agent, "Accept": JSON, "Accept-Encoding": "identity"},
            read_bufsize=STREAM_BUFFER_BYTES,
        )

    @classmethod
    async def connect(
        cls,
        *,
        metrics: Metrics,
        kubeconfig: str | None = None,
        context: str | None = None,
        master: str | None = None,
        user_agent: str = f"equipoise/{__version__}",
        rate_limit: RateLimit | None = None,
        environ: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> "KubeClient":
        """Find the cluster, authenticate, ask for its version.

        Raises ClusterUnreachable, with everything that was tried, when there is no answer or the
        credentials are refused. Tries once: who starts us decides whether to start us again.
        """
        source = find_source(
            kubeconfig, context, master, environ=environ, service_account=service_account
        )
        credentials = Credentials(source, master)
        client = cls(credentials, metrics, user_agent=user_agent, rate_limit=rate_limit)
        try:
            await credentials.current()  # first, as a person may have to log in
            await client.request("GET", "/version", timeout=CONNECT_TIMEOUT_SECONDS)
        except (Unauthorized, Unreachable, Ambiguous) as error:
            await client.close()
            raise ClusterUnreachable([source.name, str(error)]) from error
        except ApiError:
            pass  # not its version, but an answer: the cluster is there
        except BaseException:
            await client.close()
            raise
        return client

    async def server(self) -> str:
        """The address in use, for people."""
        return (await self._credentials.current()).server

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> bytes:
        """One request, answered within `timeout` or raising; `body` is encoded as JSON.

        Credentials are renewed and the request repeated once on 401; nothing else is retried.
        """
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with asyncio.timeout(timeout):
                response = await self._open(_Call(method, path, params, data, content_type))
                async with response:
                    return await ByteStream(response).read_all()
        except TimeoutError as error:
            raise Ambiguous(f"{method} {path}: no answer within {timeout:g} s") from error

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, idle_timeout: float
    ) -> AsyncIterator["ByteStream"]:
        """A GET whose body goes on and on; the connection is closed on leaving the block.

        Reading raises Ambiguous when it is cut, Silent after `idle_timeout` seconds of nothing.
        """
        response = await self._open(_Call("GET", path, params, idle_timeout=idle_timeout))
        try:
            yield ByteStream(response)
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections; later requests raise Unreachable."""
        self._credentials.close()
        await self._session.close()

    async def _open(self, call: _Call) -> aiohttp.ClientResponse:
        if self._rate_limit is not None and (delay := self._rate_limit.reserve()) > 0:
            await asyncio.sleep(delay)
        access = await self._credentials.current()
        try:
            return await self._send(access, call)
        except Unauthorized:
            return await self._send(await self._credentials.renew(access), call)

    async def _send(self, access: Access, call: _Call) -> aiohttp.ClientResponse:
        if self._session.closed:
            raise Unreachable("the client is closed")
        headers = {"Authorization": access.authorization} if access.authorization else {}
        if call.data is not None:
            headers["Content-Type"] = call.content_type
        host = access.server.partition("://")[2]
        began = self._clock()
        code = "<error>"
        try:
            with _typed_errors(access.server):
                response = await self._session.request(
                    call.method,
                    access.server + call.path,
                    params=call.params,
                    data=call.data,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(
                        total=None, connect=CONNECT_TIMEOUT_SECONDS, sock_read=call.idle_timeout
                    ),
                    ssl=access.tls,
                    server_hostname=access.server_hostname,
                    proxy=access.proxy,
                    # The API server does not redirect; our token must not follow who does.
                    allow_redirects=False,
                )
            code = str(response.status)
        finally:
            self._requests.labels(code, call.method, host).inc()
            self._duration.labels(call.method, host).observe(self._clock() - began)
        if response.status < 300:
            return response
        async with response:
            body = await ByteStream(response).read_all()
        raise error_from(response.status, body, response.headers.get("Retry-After"))


class ByteStream:
    """The body of a response, read as it comes."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def read(self) -> bytes:
        """All that has arrived and was not read yet, at least one byte; empty at the end.

        Gives the loop back whenever the buffer is empty, so after each chunk of a fast sender.
        """
        with _typed_errors(str(self._response.url.origin())):
            return await self._response.content.readany()

    async def read_all(self) -> bytes:
        """The rest of the body, in memory."""
        with _typed_errors(str(self._response.url.origin())):
            return await self._response.read()


@contextmanager
def _typed_errors(server: str) -> Iterator[None]:
    """Translate aiohttp's errors by the one question that matters: was anything sent?"""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        reason = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        raise Unreachable(f"{server}: its certificate is not trusted: {reason}") from error
    except (
        aiohttp.ClientConnectorError,
        aiohttp.ConnectionTimeoutError,
        aiohttp.ClientHttpProxyError,
        aiohttp.InvalidURL,
    ) as error:
        raise Unreachable(f"{server}: {str(error) or type(error).__name__}") from error
    except aiohttp.SocketTimeoutError as error:
        raise Silent(f"{server}: {error}") from error
    except RuntimeError as error:
        # uvloop may hand a socket out whose number a dying connection still holds (its issue 653):
        # raised while connecting, so nothing was sent.
        if "used by transport" not in str(error):
            raise
        raise Unreachable(f"{server}: {error}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Ambiguous(f"{server}: {str(error) or type(error).__name__}") from error
