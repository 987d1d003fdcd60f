"""Pages of a list, bounded in bytes for memory and for the event loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import msgspec

from scheduler.bounded import MEBIBYTE
from scheduler.kube.brackets import spans
from scheduler.kube.client import KubeClient
from scheduler.kube.decoding import MAX_LINE_BYTES, Page, PageSize
from scheduler.kube.errors import UNREADABLE, Garbled, TooLarge
from scheduler.kube.lenient import as_go_reads

# A page of more is not read to its end, but asked for again with fewer objects: one may have 1.5
# MB, however small those before it were.
MAX_PAGE_BYTES = 16 * MEBIBYTE
LIST_TIMEOUT_SECONDS = 60.0

_PAGES = msgspec.json.Decoder(Page)
_ITEMS = re.compile(rb'"items"\s*:\s*\[')


class Pager:
    """Fetches the pages of one list; learns from each how many objects the next may have.

    Raises KubeError, also for an answer that is no page: a proxy may send one of its own.
    """

    def __init__(self, client: KubeClient, path: str, params: Mapping[str, str]) -> None:
        self._client = client
        self._path = path
        self._params = params
        self._size = PageSize()

    async def fetch(self, token: str) -> Page:
        """The page that a token of the one before stands for, or the first (``""``)."""
        size = self._size
        while True:
            params = {**self._params, "limit": str(size.limit)}
            if token:
                params["continue"] = token
            most = MAX_PAGE_BYTES if size.limit > 1 else MAX_LINE_BYTES
            try:
                body = await self._client.request(
                    "GET", self._path, params=params, timeout=LIST_TIMEOUT_SECONDS, limit=most
                )
            except TooLarge:
                if size.limit == 1:
                    raise
                size.limit = max(1, size.limit // 8)
                continue
            page = await self._read(body)
            size.learn(len(body), len(page.items or ()))
            return page

    async def fetch_all(self) -> Page:
        """Everything in one piece, as of now: for when pages expire faster than they come."""
        body = await self._client.request(
            "GET", self._path, params=self._params, timeout=LIST_TIMEOUT_SECONDS
        )
        return await self._read(body)

    async def _read(self, body: bytes) -> Page:
        try:
            return await _decoded(body)
        except UNREADABLE as error:
            raise Garbled(f"GET {self._path}: the answer is not a list: {error}") from error


async def _decoded(body: bytes) -> Page:
    """A page; one object that no decoder reads costs itself alone."""
    try:
        return _PAGES.decode(body)
    except RecursionError:
        return await asyncio.to_thread(_taken_apart, body)
    except msgspec.DecodeError:
        readable = as_go_reads(body)
        if readable == body:
            raise
        return await _decoded(readable)


def _taken_apart(body: bytes) -> Page:
    """A page whose items are found by their brackets: slow, and as deep as they may be.

    Otherwise one object would keep the scheduler from all others of its kind.
    """
    items = _ITEMS.search(body)
    if items is None:
        raise msgspec.DecodeError("a page that is nested too deeply and has no items")
    found = list(spans(body, items.end()))
    end = found[-1][1] if found else items.end()
    page = _PAGES.decode(body[: items.end()] + body[end:])
    page.items = [msgspec.Raw(body[first:last]) for first, last in found]
    return page
