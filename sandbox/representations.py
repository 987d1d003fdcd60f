"""The forms in which objects are shown: whole, as rows of a table, or their metadata alone.

A representation belongs to one request: a table shows its headings only once, also in a watch.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol

from sandbox.media_types import JSON, Form
from sandbox.printing.tables import TableView, partial
from sandbox.resources import Resource
from sandbox.store import Body, Version, encode
from sandbox.views import encoded, encoded_item


class Representation(Protocol):
    """Turns versions into the JSON of one response."""

    @property
    def media_type(self) -> str:
        """The type that the response names."""
        ...

    def one(self, version: Version) -> bytes:
        """A single object, also that of a watch event."""
        ...

    def many(self, versions: Iterable[Version], metadata: dict[str, Any]) -> bytes:
        """A list."""
        ...

    def bookmark(self, body: Body) -> bytes:
        """The object of a bookmark: nothing but metadata."""
        ...


class Objects:
    """Whole objects."""

    media_type = JSON

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def one(self, version: Version) -> bytes:
        return encoded(self._resource, version)

    def many(self, versions: Iterable[Version], metadata: dict[str, Any]) -> bytes:
        kind, api_version = f"{self._resource.kind}List", self._resource.api_version
        head = encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        items = b",".join(encoded_item(self._resource, version) for version in versions)
        return head[:-1] + b',"items":[' + items + b"]}"

    def bookmark(self, body: Body) -> bytes:
        return encode(body)


class Rows:
    """Rows of a table, as `kubectl get` asks for them."""

    media_type = f"{JSON};as=Table;v=v1;g=meta.k8s.io"

    def __init__(self, resource: Resource, include: str, clock: Callable[[], datetime]) -> None:
        self._view = TableView(resource, include)
        self._clock = clock
        self._headed = False

    def one(self, version: Version) -> bytes:
        resource_version = version.body["metadata"].get("resourceVersion", "")
        return self._table([version], {"resourceVersion": resource_version})

    def many(self, versions: Iterable[Version], metadata: dict[str, Any]) -> bytes:
        return self._table(versions, metadata)

    def bookmark(self, body: Body) -> bytes:
        table = self._view.table([], body["metadata"], self._clock(), headed=False)
        return encode({**table, "rows": [{"cells": [], "object": partial(body)}]})

    def _table(self, versions: Iterable[Version], metadata: dict[str, Any]) -> bytes:
        headed, self._headed = not self._headed, True
        return encode(self._view.table(versions, metadata, self._clock(), headed=headed))


class Metadata:
    """The metadata of objects."""

    media_type = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"

    def one(self, version: Version) -> bytes:
        return encode(partial(version.body))

    def many(self, versions: Iterable[Version], metadata: dict[str, Any]) -> bytes:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        items = [partial(version.body) for version in versions]
        return encode({**head, "metadata": metadata, "items": items})

    def bookmark(self, body: Body) -> bytes:
        return encode(partial(body))


def representation(
    form: Form, resource: Resource, include: str, clock: Callable[[], datetime]
) -> Representation:
    """The representation of a resource in a form."""
    match form:
        case Form.TABLE:
            return Rows(resource, include, clock)
        case Form.METADATA:
            return Metadata()
        case _:
            return Objects(resource)
