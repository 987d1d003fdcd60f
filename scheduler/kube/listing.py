"""All objects of a kind as they are now, past every cache of ours."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from scheduler.kube.client import KubeClient
from scheduler.kube.decoding import UNREADABLE, KubeObject
from scheduler.kube.paging import Pager
from scheduler.kube.watch import Resource
from scheduler.model.objects import from_dict
from scheduler.model.packed import pack_labels

T = TypeVar("T", bound=KubeObject)


async def list_all(client: KubeClient, resource: Resource[T]) -> list[T]:
    """Read a resource page by page; an object that does not decode is left out."""
    objects: list[T] = []
    pager, token = Pager(client, resource.path, resource.params), ""
    while True:
        page = await pager.fetch(token)
        for raw in page.items or ():
            try:
                objects.append(decoded(raw, resource.type))
            except UNREADABLE:
                continue
        token = page.metadata.next_token
        if not token:
            return objects


def decoded(raw: bytes | msgspec.Raw, type_: type[T]) -> T:
    """The object, with explicit nulls taken as absent fields, as the watch takes them."""
    try:
        decoded = msgspec.json.decode(raw, type=type_)
    except UNREADABLE:
        decoded = from_dict(msgspec.json.decode(raw), type_)
    pack_labels(decoded.metadata)
    return decoded
