"""Lists of a kind from the API server, without our caches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import TypeVar

import msgspec

from scheduler.kube.client import KubeClient
from scheduler.kube.decoding import KubeObject, plain
from scheduler.kube.errors import UNREADABLE
from scheduler.kube.paging import Pager
from scheduler.kube.watch import WatchedResource
from scheduler.model.objects import from_dict
from scheduler.model.packed import pack_labels
from scheduler.slices import checkpoint, in_slices

T = TypeVar("T", bound=KubeObject)


async def list_pages(client: KubeClient, resource: WatchedResource[T]) -> AsyncIterator[list[T]]:
    """Read a resource page by page; an object that does not decode is left out.

    No more than a page is in memory. It is decoded in slices.
    """
    pager, token = Pager(client, resource.path, resource.params), ""
    while True:
        page = await pager.fetch(token)
        yield await in_slices(_decoded_all, page.items or (), resource.type)
        token = page.metadata.next_token
        if not token:
            return


async def list_all(client: KubeClient, resource: WatchedResource[T]) -> list[T]:
    """All objects of a resource in memory."""
    return [each async for page in list_pages(client, resource) for each in page]


async def find_one(client: KubeClient, path: str, name: str, type_: type[T]) -> T | None:
    """An object of a cluster-wide resource, None if there is none; needs no right but to list.

    Raises what `UNREADABLE` has if it does not decode.
    """
    page = await Pager(client, path, {"fieldSelector": f"metadata.name={name}"}).fetch("")
    return decoded(page.items[0], type_) if page.items else None


def _decoded_all(items: Iterable[msgspec.Raw], type_: type[T]) -> list[T]:
    objects: list[T] = []
    for raw in items:
        checkpoint()
        with suppress(*UNREADABLE):
            objects.append(decoded(raw, type_))
    return objects


def decoded(raw: bytes | msgspec.Raw, type_: type[T]) -> T:
    """The object, with explicit nulls taken as absent fields, as the watch takes them."""
    try:
        decoded = msgspec.json.decode(raw, type=type_)
    except UNREADABLE:
        decoded = from_dict(plain(raw), type_)
    pack_labels(decoded.metadata)
    return decoded
