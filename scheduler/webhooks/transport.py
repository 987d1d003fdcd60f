"""One HTTP exchange with a webhook: bytes there, bytes back, everything bounded."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import aiohttp

from scheduler import __version__
from scheduler.config.trust import tls_context
from scheduler.config.webhooks import CallTarget
from scheduler.observe.logs import get_logger

log = get_logger(__name__)

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 4.0
"""How long a connection is kept for the next call: less than servers do, or a call might be sent
on one that is just being closed. So long may an old certificate be in use."""
MAX_MESSAGE = 512
"""Of what an author or a webhook wrote, so much is in an error: it ends up in conditions."""
ANSWER_BYTES = 2**20
ANSWER_TIMES = 16
"""An answer has at most a mebibyte and sixteen times the bytes of its question, whatever the
settings allow: it is read in one piece, and nodes can be named as often as they were asked about.
"""
_EXCERPT = 200
_JSON = "application/json"

T = TypeVar("T")


class CallFailed(Exception):
    """No usable answer. ``result`` is its word in metrics; ``unsent`` if nothing went out."""

    def __init__(self, result: str, message: str, *, unsent: bool = False) -> None:
        super().__init__(message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…")
        self.result = result
        self.unsent = unsent


class Rotated(Generic[T]):
    """Something made of files, made anew when one of them was replaced.

    Looks at the files whenever asked: a few microseconds. Files that cannot be read, as in the
    middle of a replacement, leave what was made before in use.
    """

    def __init__(self, make: Callable[[], T], files: tuple[str, ...]) -> None:
        self._make = make
        self._files = tuple(file for file in files if file)
        self._seen: tuple[object, ...] | None = None
        self._made: T | None = None

    def get(self) -> T:
        """What the files make now. Raises OSError or ssl.SSLError if they never made anything."""
        stamps = tuple(map(_stamp, self._files))
        if self._made is None or stamps != self._seen:
            try:
                self._made = self._make()
                self._seen = stamps
            except (OSError, ssl.SSLError, ValueError) as fault:
                if self._made is None:
                    raise
                self._seen = stamps
                log.warning(
                    "TLS files or token cannot be read, keeping the old ones",
                    files=self._files,
                    exc=fault,
                )
        return self._made


def _stamp(file: str) -> object:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


class Transport:
    """HTTP to one endpoint. Connections are kept; made on the first call, closed by ``close``.

    ``connections`` bounds their number. No answer is decompressed, no redirect followed, no cookie
    kept; the whole exchange has one deadline, so nothing that drips goes on for longer.
    """

    def __init__(self, endpoint: CallTarget, connections: int) -> None:
        self._endpoint = endpoint
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._tls = Rotated(
            self._make_tls, (endpoint.ca_file, endpoint.cert_file, endpoint.key_file)
        )
        self._token = Rotated(self._read_token, (endpoint.token_file,))

    async def post(self, path: str, body: bytes) -> bytes:
        """The answer to one POST of JSON. Raises CallFailed; nothing is repeated."""
        endpoint = self._endpoint
        if len(body) > endpoint.max_request_bytes:
            message = f"the request has {len(body)} bytes, allowed are {endpoint.max_request_bytes}"
            raise CallFailed("request_too_large", message, unsent=True)
        url = f"{endpoint.url}/{path}"
        try:
            async with asyncio.timeout(endpoint.timeout):
                return await self._exchange(url, body)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as fault:
            raise CallFailed("unreachable", _words(fault), unsent=True) from fault
        except TimeoutError:
            raise CallFailed("timeout", f"no answer within {endpoint.timeout:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            raise CallFailed("broken", _words(fault)) from fault

    async def _exchange(self, url: str, body: bytes) -> bytes:
        headers = {"Content-Type": _JSON, "Accept": _JSON, "Accept-Encoding": "identity"}
        tls: ssl.SSLContext | bool = True
        try:
            if self._endpoint.token_file:
                headers["Authorization"] = f"Bearer {self._token.get()}"
            if url.startswith("https://"):
                tls = self._tls.get()
        except (OSError, ValueError, ssl.SSLError) as fault:
            raise CallFailed("credentials", _words(fault), unsent=True) from fault
        async with self._open().post(
            url,
            data=body,
            headers=headers,
            ssl=tls,
            server_hostname=self._endpoint.server_name or None,
            # A token must not follow a redirection.
            allow_redirects=False,
        ) as response:
            if response.status != 200:
                raise await _refusal(response)
            encoding = response.headers.get("Content-Encoding", "identity")
            if encoding.lower() != "identity":
                # A small body could become any size.
                response.close()
                raise CallFailed(
                    "invalid",
                    f"its answer is compressed ({encoding}), the request asked for identity",
                )
            most = ANSWER_BYTES + ANSWER_TIMES * len(body)
            return await _read(response, min(most, self._endpoint.max_response_bytes))

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._connections, keepalive_timeout=IDLE_SECONDS
                ),
                auto_decompress=False,
                headers={"User-Agent": f"equipoise/{__version__}"},
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
                # Cookies are a way for one call to change the next.
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _read_token(self) -> str:
        token = Path(self._endpoint.token_file).read_text(encoding="ascii").strip()
        if not token:
            raise ValueError(f"{self._endpoint.token_file} is empty")
        if not token.isprintable():
            raise ValueError(f"{self._endpoint.token_file} has more than one line")
        return token

    def _make_tls(self) -> ssl.SSLContext:
        endpoint = self._endpoint
        context = tls_context(cafile=endpoint.ca_file or None, cadata=endpoint.ca_data or None)
        if endpoint.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if endpoint.cert_file:
            context.load_cert_chain(endpoint.cert_file, endpoint.key_file)
        elif endpoint.cert_data:
            _load_text(context, endpoint.cert_data, endpoint.key_data)
        return context


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """A body of so many bytes; what has more is not read to its end."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            response.close()
            raise CallFailed("response_too_large", f"the answer has more than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _refusal(response: aiohttp.ClientResponse) -> CallFailed:
    """Why there is no answer, with the first words of the body."""
    excerpt = b""
    async for chunk in response.content.iter_any():
        excerpt += chunk
        if len(excerpt) > _EXCERPT:
            response.close()
            break
    words = excerpt[:_EXCERPT].decode(errors="replace").strip()
    result = "refused" if response.status < 500 else "server_error"
    return CallFailed(result, f"HTTP status {response.status}{f': {words}' if words else ''}")


def _load_text(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate from memory, for which the library has no other way than a file."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        context.load_cert_chain(file.name)


def _words(fault: BaseException) -> str:
    return str(fault) or type(fault).__name__
