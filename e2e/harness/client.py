"""A small client for tests: plain JSON objects by path, and waiting for what they should become."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from e2e.harness.patience import PATIENCE

Json = dict[str, Any]

CONCURRENCY = 32
REQUEST_SECONDS = 120.0
POLL_SECONDS = 0.2
OVERLOADED = (429, 503, 504)


class ApiError(Exception):
    """The API server answered with an error status."""

    def __init__(self, status: int, path: str, body: str) -> None:
        super().__init__(f"{status} from {path}: {body[:500]}")
        self.status = status


class ApiClient:
    """Requests as the holder of one TLS context; at most ``CONCURRENCY`` of them at a time."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def get(self, path: str, **query: str) -> Json:
        """Read one object, or one list with its ``items``."""
        return await self._request("GET", path, query)

    async def text(self, path: str) -> str:
        """Read what is not JSON."""
        return await self._send("GET", path, {})

    async def items(self, path: str, **query: str) -> list[Json]:
        """Read the items of a list."""
        items: list[Json] = (await self.get(path, **query))["items"]
        return items

    async def create(self, path: str, body: Json) -> Json:
        """Post ``body`` to a collection or a subresource."""
        return await self._request("POST", path, {}, body)

    async def create_bytes(self, path: str, body: bytes) -> None:
        """Post a body that no JSON encoder writes."""
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url + path, data=body, headers=headers) as response:
            if response.status >= 400:
                raise ApiError(response.status, path, str(await response.read()))

    async def create_all(self, path: str, bodies: Iterable[Json]) -> None:
        """Post each of ``bodies`` to one collection, many at a time, in no certain order."""
        await asyncio.gather(*(self.create(path, body) for body in bodies))

    async def patch(self, path: str, body: Json, kind: str = "merge-patch") -> Json:
        """Patch an object; ``kind`` is ``merge-patch`` or ``strategic-merge-patch``."""
        return await self._request("PATCH", path, {}, body, f"application/{kind}+json")

    async def apply(self, path: str, body: Json) -> Json:
        """Create the object or make it be as ``body`` says."""
        query = {"fieldManager": "e2e", "force": "true"}
        return await self._request("PATCH", path, query, body, "application/apply-patch+yaml")

    async def delete(self, path: str, **query: str) -> None:
        """Delete an object or a collection; it is no error if it is gone already.

        An API server that has too much to do is asked again: what stays behind would fail another
        test.
        """
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self._send("DELETE", path, query)  # the answer may be no proper JSON
                    return
                except ApiError as error:
                    if error.status == 404:
                        return
                    if error.status not in OVERLOADED:
                        raise
                await asyncio.sleep(POLL_SECONDS)

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[AsyncIterator[Json]]:
        """What happens to a list, event by event, until the block or the server ends it.

        A watch may be silent for as long as it likes: callers set the deadline.
        """
        timeout = aiohttp.ClientTimeout(sock_connect=REQUEST_SECONDS)
        async with self._session.get(
            self._url + path, params={**query, "watch": "true"}, timeout=timeout
        ) as response:
            if response.status >= 400:
                raise ApiError(response.status, path, await response.text())
            yield (json.loads(line) async for line in response.content)

    async def wait_until(
        self,
        path: str,
        condition: Callable[[Json], object],
        timeout: float = PATIENCE,
        **query: str,
    ) -> Json:
        """Read ``path`` until ``condition`` holds of it, and return it.

        An API server that is away, or does not know the object, counts as "not yet". After
        ``timeout`` seconds, ``TimeoutError`` has what was seen last. Two thirds of the time nothing
        is read, so that looking at long lists does not slow down what is waited for.
        """
        seen: Json | Exception = {}
        try:
            async with asyncio.timeout(timeout):
                while True:
                    began = time.monotonic()
                    seen = await self._look(path, query)
                    if isinstance(seen, dict) and condition(seen):
                        return seen
                    await asyncio.sleep(max(POLL_SECONDS, 2 * (time.monotonic() - began)))
        except TimeoutError:
            raise TimeoutError(f"{path} after {timeout:g} s: {str(seen)[:2000]}") from None

    async def wait_until_gone(
        self, path: str, unless: Callable[[Json], bool] = lambda _: False
    ) -> None:
        """Wait until there is no such object, or one of which ``unless`` holds."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not await self._is_gone(path, unless):  # noqa: ASYNC110  the event is elsewhere
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            seen = await self._look(path, {})
            raise TimeoutError(f"{path} is there after {PATIENCE:g} s: {seen}"[:2000]) from None

    async def _is_gone(self, path: str, unless: Callable[[Json], bool]) -> bool:
        seen = await self._look(path, {})
        if isinstance(seen, ApiError):
            return seen.status == 404
        return isinstance(seen, dict) and unless(seen)

    async def _look(self, path: str, query: dict[str, str]) -> Json | Exception:
        try:
            return await self.get(path, **query)
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            return error

    async def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> Json:
        answer: Json = json.loads(await self._send(method, path, query, body, content_type))
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> str:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        url = self._url + path
        async with self._session.request(
            method, url, params=query, data=data, headers=headers
        ) as response:
            text = await response.text(errors="replace")
            if response.status >= 400:
                raise ApiError(response.status, path, text)
            return text


@asynccontextmanager
async def api_client(url: str, context: ssl.SSLContext) -> AsyncIterator[ApiClient]:
    """A client with connections of its own, closed at the end of the block."""
    connector = aiohttp.TCPConnector(ssl=context, limit=CONCURRENCY)
    timeout = aiohttp.ClientTimeout(sock_connect=REQUEST_SECONDS, sock_read=REQUEST_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield ApiClient(session, url)
