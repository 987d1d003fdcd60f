"""HTTP to one API server: authenticated requests and streams, errors as `scheduler.kube.errors`.

Requests and streams go over connections of our own, all traffic through a proxy over aiohttp's.
Every wait for the server has a deadline of ours: the library's own do not see a body whose framing
is broken, and would wait for ever.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode

import aiohttp
import msgspec

from scheduler import __version__, machine
from scheduler.kube.connections import (
    CONNECT_TIMEOUT_SECONDS,
    STREAM_BUFFER_BYTES,
    ApiEndpoint,
    Check,
    ConnectionPool,
    Stream,
)
from scheduler.kube.credentials import SERVICE_ACCOUNT, ApiAccess, Credentials, find_source
from scheduler.kube.errors import (
    Ambiguous,
    ApiError,
    ClusterUnreachable,
    Garbled,
    Outdated,
    Silent,
    TooLarge,
    Unauthorized,
    Unreachable,
    error_from,
)
from scheduler.kube.fencing import Fence
from scheduler.kube.http1 import MAX_BODY_BYTES, Head, HttpResponse
from scheduler.kube.pacing import RateLimit
from scheduler.kube.scopes import Deadlines
from scheduler.observe.metrics import Children, Metrics

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

REQUEST_TIMEOUT_SECONDS = 30.0
# From asking for a stream to the head of its answer, a connection and credentials included.
OPEN_TIMEOUT_SECONDS = 60.0
# Of an answer that refuses a stream this much is read: a Status, or a page of a proxy.
MAX_REFUSAL_BYTES = 64 * 1024
# What stands for the status code in metrics when there was none.
FAILED = "<error>"
# Room for all watches through a proxy.
MAX_STREAMS = 256


class _Call(msgspec.Struct, frozen=True, gc=False):
    method: str
    path: str
    params: Mapping[str, str] | None = None
    data: bytes | None = None
    content_type: str = JSON
    check: Check | None = None


class KubeClient:
    """One authenticated way to the API server. Made by `connect`; used from one event loop."""

    def __init__(
        self,
        credentials: Credentials,
        metrics: Metrics,
        *,
        user_agent: str = f"equipoise/{__version__}",
        rate_limit: RateLimit | None = None,
        clock: Callable[[], float] = machine.monotonic,
        headers: Mapping[str, str] = {},
    ) -> None:
        self._credentials = credentials
        self._requests = Children(metrics.rest_client_requests)
        self._duration = Children(metrics.rest_client_request_duration)
        self._rate_limit = rate_limit
        self._clock = clock
        self._metrics = metrics
        self.fence: Fence | None = None
        """Asked before the bytes of each request that changes something go out."""
        # Compression costs both sides more CPU than it saves on a cluster's own network.
        common = {"User-Agent": user_agent, "Accept": JSON, "Accept-Encoding": "identity"}
        self._headers = {**common, **headers}
        self._connections = ConnectionPool()
        self._deadlines = Deadlines()
        self._endpoint: tuple[ApiAccess, ApiEndpoint] | None = None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_STREAMS),
            headers=self._headers,
            read_bufsize=STREAM_BUFFER_BYTES,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
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
        """Find the cluster, authenticate, read its version.

        Raises ClusterUnreachable, with everything that was tried, when there is no answer or the
        credentials are refused. Tries once: the supervisor decides about a restart.
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
            said = str(error)
            named = said if said.startswith(source.name) else f"{source.name}: {said}"
            raise ClusterUnreachable([named]) from error
        except ApiError:
            pass  # not its version, but an answer: the cluster is there
        except BaseException:
            await client.close()
            raise
        return client

    def twin(self) -> "KubeClient":
        """A client of the same cluster, without fence and rate limit, for the running event loop.

        May be called in another thread than the one this client is used in. The twin begins with
        this client's credentials; no new login is needed.
        """
        user_agent = self._headers["User-Agent"]
        return KubeClient(self._credentials.twin(), self._metrics, user_agent=user_agent)

    async def access(self) -> ApiAccess:
        """What requests carry now, for libraries that make their own."""
        return await self._credentials.current()

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
        limit: int = MAX_BODY_BYTES,
        check: Check | None = None,
    ) -> bytes:
        """One request, answered within `timeout` or raising; `body` is encoded as JSON.

        Credentials are renewed and the request repeated once on 401; nothing else is retried.
        Raises TooLarge for an answer of more than `limit` bytes, and what `check` raises, which is
        called immediately before the request goes out.
        """
        answer = await self.exchange(
            method,
            path,
            params=params,
            body=body,
            content_type=content_type,
            timeout=timeout,
            limit=limit,
            check=check,
        )
        if answer.status < 300:
            return answer.body
        raise error_from(answer.status, answer.body, answer.retry_after)

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
        limit: int = MAX_BODY_BYTES,
        check: Check | None = None,
    ) -> HttpResponse:
        """Like `request`, but a refusal is returned like any answer: it may be another server's."""
        data = None if body is None else msgspec.json.encode(body)
        call = _Call(method, path, params, data, content_type, check)
        try:
            with self._deadlines.scope(timeout):
                access = await self._admitted()
                answer = await self._ask(access, call, limit)
                if answer.status == 401:
                    answer = await self._ask(await self._credentials.renew(access), call, limit)
        except TimeoutError as error:
            raise Ambiguous(f"{method} {path}: no answer within {timeout:g} s") from error
        return answer

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str]) -> AsyncIterator["ByteStream"]:
        """A GET with an endless body; the connection is closed on leaving the block.

        The answer begins within `OPEN_TIMEOUT_SECONDS`, or this raises.
        """
        try:
            with self._deadlines.scope(OPEN_TIMEOUT_SECONDS):
                source = await self._opened(_Call("GET", path, params))
        except TimeoutError as error:
            message = f"GET {path}: no answer within {OPEN_TIMEOUT_SECONDS:g} s"
            raise Ambiguous(message) from error
        try:
            yield ByteStream(source, self._deadlines)
        finally:
            source.abort()

    def drop_idle_connections(self) -> None:
        """Have the next requests open new connections; none that is under way is disturbed."""
        self._connections.drop_idle()

    async def close(self) -> None:
        """Close all connections; later requests raise Unreachable."""
        self._credentials.close()
        self._connections.close()
        await self._session.close()

    async def _admitted(self) -> ApiAccess:
        """Wait for the rate limit, then say how to reach the server."""
        if self._rate_limit is not None and (delay := self._rate_limit.reserve()) > 0:
            await asyncio.sleep(delay)
        return await self._credentials.current()

    async def _ask(self, access: ApiAccess, call: _Call, limit: int) -> HttpResponse:
        """One exchange, whatever the answer is."""
        if access.proxy is not None:
            source = await self._open_proxied(access, call)
            try:
                body = await _read_all(source, limit)
            finally:
                source.abort()
            return HttpResponse(source.head.status, body, True, source.head.retry_after)
        endpoint, message = self._message(access, call)
        began, code = self._clock(), FAILED
        try:
            harmless = call.method == "GET"
            answer = await self._connections.exchange(
                endpoint,
                message,
                harmless=harmless,
                check=self._check_of(call),
                limit=limit,
            )
            code = str(answer.status)
        except Outdated:
            code = ""  # there was no request
            raise
        finally:
            if code:
                self._count(access, call.method, code, began)
        return answer

    def _check_of(self, call: _Call) -> Check | None:
        """What must not raise for a request to go out: the fence of writes, and its own check."""
        fence = None if call.method == "GET" else self.fence
        if fence is None:
            return call.check
        if call.check is None:
            return fence.check
        own, stopped = call.check, fence.check

        def check() -> None:
            own()
            stopped()

        return check

    async def _opened(self, call: _Call) -> "_ResponseStream":
        """An answer that is no refusal; its body is still to be read."""
        access = await self._admitted()
        source = await self._begin(access, call)
        try:
            if source.head.status == 401:
                source.abort()
                source = await self._begin(await self._credentials.renew(access), call)
            head = source.head
            if head.status >= 300:
                refusal = await _read_all(source, MAX_REFUSAL_BYTES)
                raise error_from(head.status, refusal, head.retry_after)
        except BaseException:
            source.abort()
            raise
        return source

    async def _begin(self, access: ApiAccess, call: _Call) -> "_ResponseStream":
        """Send a request; the body of its answer is still to be read."""
        if access.proxy is not None:
            return await self._open_proxied(access, call)
        endpoint, message = self._message(access, call)
        began, code = self._clock(), FAILED
        try:
            stream: Stream = await self._connections.open_stream(endpoint, message)
            code = str(stream.head.status)
        finally:
            self._count(access, call.method, code, began)
        return stream

    async def _open_proxied(self, access: ApiAccess, call: _Call) -> "_Proxied":
        """The same through aiohttp, which supports proxies."""
        if self._session.closed:
            raise Unreachable("the client is closed")
        if (check := self._check_of(call)) is not None:
            check()  # only behind a proxy; the library may still have to connect
        headers = {"Authorization": access.authorization} if access.authorization else {}
        if call.data is not None:
            headers["Content-Type"] = call.content_type
        began, code = self._clock(), FAILED
        try:
            with _typed_errors(access.server):
                response = await self._session.request(
                    call.method,
                    access.server + call.path,
                    params=call.params,
                    data=call.data,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_SECONDS),
                    ssl=access.tls,
                    server_hostname=access.server_hostname,
                    proxy=access.proxy,
                    # The API server does not redirect; the token must not go elsewhere.
                    allow_redirects=False,
                )
            code = str(response.status)
        finally:
            self._count(access, call.method, code, began)
        return _Proxied(response)

    def _message(self, access: ApiAccess, call: _Call) -> tuple[ApiEndpoint, bytes]:
        endpoint = self._endpoint_of(access)
        target = call.path if not call.params else f"{call.path}?{urlencode(call.params)}"
        return endpoint, endpoint.message(call.method, target, call.content_type, call.data)

    def _count(self, access: ApiAccess, method: str, code: str, began: float) -> None:
        host = access.server.partition("://")[2]
        self._requests[code, method, host].inc()
        self._duration[method, host].observe(self._clock() - began)

    def _endpoint_of(self, access: ApiAccess) -> ApiEndpoint:
        if self._endpoint is None or self._endpoint[0] is not access:
            self._endpoint = access, ApiEndpoint.of(access, self._headers)
        return self._endpoint[1]


class _ResponseStream(Protocol):
    """The answer to one request, read as it comes."""

    @property
    def head(self) -> Head:
        """What it began with."""

    async def read(self) -> bytes:
        """All that has arrived and was not read yet, at least one byte; empty at the end."""

    def abort(self) -> None:
        """Close the connection at once."""


class ByteStream:
    """The body of a stream, read as it comes."""

    def __init__(self, source: _ResponseStream, deadlines: Deadlines) -> None:
        self._source = source
        self._deadlines = deadlines

    async def read(self, within: float) -> bytes:
        """All that has arrived and was not read yet, at least one byte; empty at the end.

        Gives the loop back whenever the buffer is empty, so after each chunk of a fast sender.
        Raises Silent if nothing comes `within` so many seconds, also if these are over and
        something has come, Garbled and Ambiguous.
        """
        if within <= 0:
            # A sender that always has a byte more would never be late.
            raise Silent("nothing came in time")
        try:
            with self._deadlines.scope(within):
                return await self._source.read()
        except TimeoutError as error:
            raise Silent(f"nothing came for {within:.0f} s") from error


class _Proxied:
    """An answer that comes through the library.

    It does not report broken framing of a body; the reader's deadline ends such a read.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        headers = response.headers
        retry_after = headers.get("Retry-After")
        self.head = Head(response.status, response.content_length, False, False, retry_after)
        if headers.get("Content-Encoding", "identity").lower() != "identity":
            response.close()
            raise Garbled(f"{response.url.origin()}: a compressed answer")

    async def read(self) -> bytes:
        with _typed_errors(str(self._response.url.origin())):
            return await self._response.content.readany()

    def abort(self) -> None:
        # An answer that was read to its end has given its connection back already.
        self._response.close()


async def _read_all(source: _ResponseStream, limit: int) -> bytes:
    """The rest of a body, in memory; raises TooLarge."""
    pieces: list[bytes] = []
    size = 0
    while piece := await source.read():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise TooLarge(f"the answer has more than {limit} bytes")
    return b"".join(pieces)


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
    except aiohttp.ClientResponseError as error:
        # A response that is no HTTP; those that are raise nothing here, whatever their status.
        raise Garbled(f"{server}: {error.message}") from error
    except RuntimeError as error:
        # uvloop may hand a socket out whose number a dying connection still holds (its issue 653):
        # raised while connecting, so nothing was sent.
        if "used by transport" not in str(error):
            raise
        raise Unreachable(f"{server}: {error}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Ambiguous(f"{server}: {str(error) or type(error).__name__}") from error
