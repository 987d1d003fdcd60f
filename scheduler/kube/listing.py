"""All objects of a kind as they are now, past every cache of ours."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from scheduler.kube.client import KubeClient
from scheduler.kube.decoding import UNREADABLE, KubeObject, Page
from scheduler.kube.watch import PAGE_SIZE, Resource
from scheduler.model.objects import from_dict

T = TypeVar("T", bound=KubeObject)


async def list_all(client: KubeClient, resource: Resource[T]) -> list[T]:
    """Read a resource page by page; an object that does not decode is left out."""
    objects: list[T] = []
    token = ""
    while True:
        params = {**resource.params, "limit": str(PAGE_SIZE)}
        if token:
            params["continue"] = token
        body = await client.request("GET", resource.path, params=params)
        page = msgspec.json.decode(body, type=Page)
        for raw in page.items or ():
            try:
                objects.append(_decoded(raw, resource.type))
            except UNREADABLE:
                continue
        token = page.metadata.next_token
        if not token:
            return objects


def _decoded(raw: msgspec.Raw, type_: type[T]) -> T:
    """The object, with explicit nulls taken as absent fields, as the watch takes them."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except UNREADABLE:
        return from_dict(msgspec.json.decode(raw), type_)
