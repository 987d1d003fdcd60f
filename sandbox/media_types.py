"""Representations: what a client accepts, and what of it this server has.

The server answers in JSON only. Clients that prefer protobuf or CBOR name JSON as well, so they are
answered; one that names nothing else gets a 406. Bodies are JSON or protobuf, others get a 415.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec
import yaml

from sandbox import protobuf_bodies
from sandbox.errors import bad_request, not_acceptable, unsupported_media_type

JSON = "application/json"
_JSON_RANGES = frozenset({JSON, "application/*", "*/*"})
_READABLE = frozenset({"", JSON, "application/octet-stream", "text/plain"})
"""Body types that are read as JSON; clients that set none send aiohttp's or Go's default."""


class Form(Enum):
    """The forms in which objects and lists are shown."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    DISCOVERY = "APIGroupDiscoveryList"


_BY_NAME = {
    "": Form.OBJECT,
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
    "APIGroupDiscoveryList": Form.DISCOVERY,
}
_VERSIONS = {
    Form.TABLE: ("v1",),
    Form.METADATA: ("v1",),
    Form.DISCOVERY: ("v2",),
}
OBJECTS = frozenset({Form.OBJECT, Form.TABLE, Form.METADATA})
DISCOVERIES = frozenset({Form.OBJECT, Form.DISCOVERY})


def chosen(accept: str, offered: frozenset[Form]) -> Form:
    """The first form that the client names and that is offered; a 406 if there is none."""
    if not accept:
        return Form.OBJECT
    for form in _accepted(accept):
        if form in offered:
            return form
    raise not_acceptable([JSON])


def _accepted(accept: str) -> Iterator[Form]:
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        if media.lower() not in _JSON_RANGES:
            continue
        options = dict(part.split("=", 1) for part in rest if "=" in part)
        form = _BY_NAME.get(options.get("as", ""))
        if form is not None and options.get("v", "v1") in _VERSIONS.get(form, ("v1",)):
            yield form


def decoded_body(content_type: str, raw: bytes) -> dict[str, Any]:
    """The object in a body: JSON, or protobuf; a 415 for other types, a 400 for other content."""
    if content_type == protobuf_bodies.MEDIA_TYPE:
        return protobuf_bodies.decoded(raw)
    if content_type.lower() not in _READABLE:
        raise unsupported_media_type([JSON, protobuf_bodies.MEDIA_TYPE])
    body = decoded_json(raw)
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be a JSON object)")
    return body


def decoded_json(raw: bytes) -> Any:
    """Any JSON, or a 400."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def decoded_yaml(raw: bytes) -> Any:
    """YAML, of which JSON is a part, or a 400."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        try:
            return yaml.safe_load(raw)
        except (yaml.YAMLError, RecursionError) as error:
            raise bad_request(f"error decoding YAML: {error}") from error
