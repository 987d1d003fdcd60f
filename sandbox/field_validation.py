"""Field validation: unknown fields and wrong types, when a request asks for it.

`kubectl` asks for `fieldValidation=Strict`. The real server reports these whenever it decodes;
requests that do not ask (the scheduler's, the kubelets') are spared the walk here.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from sandbox import schemas
from sandbox.errors import ApiFailure, bad_request, invalid
from sandbox.field_errors import wrong
from sandbox.resources import Resource
from sandbox.store import Body
from scheduler.kube.schemas import Schema, field_of, fits, resolved

MODES = ("Ignore", "Warn", "Strict")
_GO_TYPES = {"string": "string", "boolean": "bool", "object": "map", "array": "slice"}
_MOST_ERRORS = 20


def check(resource: Resource, body: Body, mode: str) -> list[str]:
    """Refuse what does not decode; drop unknown fields, and say which, or refuse them as well."""
    if not mode:
        return []
    if mode not in MODES:
        raise bad_request(f'fieldValidation: Unsupported value: "{mode}"')
    schema = resolved(schemas.of(resource))
    if wrong := next(_mistyped(schema, body, ""), None):
        raise _undecodable(resource, f"json: {wrong}")
    unknown = list(_unknown(schema, body, ""))
    if unknown and mode == "Strict":
        listed = ", ".join(f'unknown field "{path}"' for path in unknown[:_MOST_ERRORS])
        raise _undecodable(resource, f"strict decoding error: {listed}")
    return [f'unknown field "{path}"' for path in unknown] if mode == "Warn" else []


def check_patched(resource: Resource, patched: Body, patch: Any, mode: str) -> None:
    """As `check`, for the result of a patch; the patch is what is wrong."""
    try:
        check(resource, patched, mode)
    except ApiFailure as error:
        given = msgspec.json.encode(patch).decode()
        why = error.message.partition(f"handled as a {resource.kind}: ")[2] or error.message
        raise invalid("", "", [wrong("patch", given, why)]) from error


def _undecodable(resource: Resource, why: str) -> ApiFailure:
    kind, version = resource.kind, resource.version
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _unknown(schema: Schema, value: Any, path: str) -> Iterator[str]:
    """The paths of unknown fields, each removed as it is found; linear in the body."""
    if isinstance(value, list):
        items = resolved(schema.get("items") or {})
        for index, item in enumerate(value):
            yield from _unknown(items, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name in list(value):
            below = field_of(schema, name)
            inner = f"{path}.{name}" if path else name
            if below is None:
                del value[name]
                yield inner
            elif below:
                yield from _unknown(below, value[name], inner)


def _mistyped(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if value is None or "oneOf" in schema or schema.get("x-kubernetes-int-or-string"):
        return
    wanted = schema.get("type")
    if wanted and not fits(wanted, value):
        go_type = _GO_TYPES.get(wanted) or schema.get("format") or "int64"
        yield f"cannot unmarshal {_json_type(value)} into Go struct field {path} of type {go_type}"
    elif isinstance(value, list):
        items = resolved(schema.get("items") or {})
        for item in value:
            yield from _mistyped(items, item, path)
    elif isinstance(value, dict):
        for name, inner in value.items():
            below = field_of(schema, name)
            if below:
                yield from _mistyped(below, inner, f"{path}.{name}" if path else name)


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"
