"""Request bodies in protobuf, which newer kubectls send for what they create themselves.

`kubectl create deployment` and the like have no other form to fall back to. A body becomes the JSON
that the same client would have sent. What the fields are comes from Kubernetes' own Go types, by
way of a file (see `shipping.kubernetes_messages`); answers are always JSON.
"""

import base64
import gzip
import struct
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from sandbox.errors import bad_request
from sandbox.protobuf import fields
from sandbox.store import Body

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_FILE = "kubernetes-messages.json.gz"
_DELETE_OPTIONS = "k8s.io/apimachinery/pkg/apis/meta/v1.DeleteOptions"
_DEEPEST = 64
_INT_OR_STRING = {1: "type", 2: "int", 3: "string"}

_Field = tuple[str, str, str, bool]


@cache
def _messages() -> dict[str, dict[int, _Field]]:
    packed = resources.files("sandbox").joinpath(_FILE).read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=dict[str, dict[int, _Field]])


def decoded(raw: bytes) -> Body:
    """The object in a body, or a 400."""
    try:
        return _unwrapped(raw)
    except (ValueError, RecursionError, struct.error) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def _unwrapped(raw: bytes) -> Body:
    if not raw.startswith(_MAGIC):
        raise ValueError("the body does not begin as protobuf of Kubernetes does")
    envelope = dict(fields(raw[len(_MAGIC) :]))
    kind_of = {number: _text(value) for number, value in fields(_bytes(envelope.get(1, b"")))}
    api_version, kind = kind_of.get(1, ""), kind_of.get(2, "")
    name = _message_name(api_version, kind)
    if name not in _messages():
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}"')
    body = _object(name, _bytes(envelope.get(2, b"")), 0)
    return {"kind": kind, "apiVersion": api_version, **body}


def _message_name(api_version: str, kind: str) -> str:
    if kind == "DeleteOptions":
        return _DELETE_OPTIONS
    group, _, version = api_version.rpartition("/")
    return f"k8s.io/api/{(group or 'core').split('.')[0]}/{version}.{kind}"


def _object(name: str, message: bytes, depth: int) -> Body:
    if depth > _DEEPEST:
        raise ValueError("the object is nested too deeply")
    known = _messages()[name]
    found: Body = {}
    for number, value in fields(message):
        if number not in known:
            continue
        json_name, kind, many, omits_zero = known[number]
        if many == "map":
            entry = dict(fields(_bytes(value)))
            item = _value(kind, entry.get(2, b""), depth + 1)
            found.setdefault(json_name, {})[_text(entry.get(1, b""))] = item
        elif many == "list":
            found.setdefault(json_name, []).append(_value(kind, value, depth + 1))
        elif not json_name:
            found.update(_object(kind, _bytes(value), depth + 1))
        else:
            item = _value(kind, value, depth + 1)
            # Go writes zeros of fields that are no pointers, which JSON leaves out.
            if item is not None and not (omits_zero and item in ("", 0, False, {})):
                found[json_name] = item
    return found


def _value(kind: str, value: int | bytes, depth: int) -> Any:
    match kind:
        case "string":
            return _text(value)
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "bool":
            return bool(value)
        case "int":
            number = _int(value)
            return number - (1 << 64) if number >> 63 else number
        case "double":
            return struct.unpack("<d", _bytes(value))[0]
        case "strings":
            return [_text(item) for _, item in fields(_bytes(value))]
        case "quantity":
            return _text(dict(fields(_bytes(value))).get(1, b"")) or "0"
        case "time" | "microTime":
            return _time(_bytes(value), kind)
        case "intOrString":
            parts = {_INT_OR_STRING[number]: part for number, part in fields(_bytes(value))}
            return _text(parts["string"]) if parts.get("type") else parts.get("int", 0)
        case "raw":
            content = _bytes(dict(fields(_bytes(value))).get(1, b""))
            return msgspec.json.decode(content) if content else None
        case _:
            return _object(kind, _bytes(value), depth)


def _time(message: bytes, kind: str) -> str | None:
    """A time, or None for the zero time, which has no fields."""
    parts = dict(fields(message))
    if not parts:
        return None
    moment = datetime.fromtimestamp(_int(parts.get(1, 0)), UTC)
    if kind == "time":
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    micros = _int(parts.get(2, 0)) // 1000
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message is expected")
    return value


def _int(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("a message where a number is expected")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()
