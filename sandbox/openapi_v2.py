"""OpenAPI v2 in protobuf, which clients before Kubernetes 1.27 read and no other form of it.

They validate manifests with it, compute patches, look up whether a kind can be dry-run, and explain
fields. The messages are those of `openapi_v2.Document` (gnostic); the schemas are those of OpenAPI
v3, told in the older words.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from sandbox import openapi
from sandbox.protobuf import field, flag
from sandbox.resources import Catalog, Resource
from scheduler.kube.schemas import KIND, PREFIX, Schema

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

# Field numbers of the messages.
_SWAGGER, _INFO, _PATHS, _DEFINITIONS = 1, 2, 8, 9
_NAME, _VALUE = 1, 2
_REF, _FORMAT, _DESCRIPTION, _REQUIRED = 1, 2, 4, 19
_ADDITIONAL, _TYPE, _ITEMS, _PROPERTIES, _EXTENSION = 21, 22, 23, 25, 31
_PATH, _GET, _PATCH = 2, 2, 8
_PARAMETERS, _RESPONSES, _OPERATION_EXTENSION = 8, 9, 13
_OLD_PREFIX = "#/definitions/"


def document(catalog: Catalog) -> bytes:
    """The whole document."""
    served = list(catalog)
    definitions = openapi.reachable(served)
    named = b"".join(field(1, _named(name, _schema(each))) for name, each in definitions.items())
    paths = b"".join(field(_PATH, _path(each)) for each in served if "patch" in each.verbs)
    return b"".join(
        (
            field(_SWAGGER, "2.0"),
            field(_INFO, field(1, "Kubernetes") + field(2, openapi.VERSION)),
            field(_PATHS, paths),
            field(_DEFINITIONS, named),
        )
    )


def _named(name: str, value: bytes) -> bytes:
    return field(_NAME, name) + field(_VALUE, value)


def _any(value: Any) -> bytes:
    """A value of any type: its YAML, for which JSON will do."""
    return field(2, msgspec.json.encode(value))


def _schema(schema: Schema) -> bytes:
    parts = [field(_DESCRIPTION, schema.get("description", ""))]
    target = (schema.get("allOf") or [schema])[0].get("$ref")
    if isinstance(target, str):
        parts.append(field(_REF, _OLD_PREFIX + target.removeprefix(PREFIX)))
    if "format" in schema:
        parts.append(field(_FORMAT, schema["format"]))
    parts += [field(_REQUIRED, name) for name in schema.get("required") or ()]
    if (values := schema.get("additionalProperties")) is not None:
        parts.append(field(_ADDITIONAL, flag(2) if values is True else field(1, _schema(values))))
    # A choice of types is a string in v2: quantities, and numbers that may be names or percentages.
    if kind := "string" if "oneOf" in schema else schema.get("type"):
        parts.append(field(_TYPE, field(1, kind)))
    if "items" in schema:
        parts.append(field(_ITEMS, field(1, _schema(schema["items"]))))
    if properties := schema.get("properties"):
        listed = (field(1, _named(name, _schema(each))) for name, each in properties.items())
        parts.append(field(_PROPERTIES, b"".join(listed)))
    parts += _extensions(schema, _EXTENSION)
    return b"".join(parts)


def _extensions(schema: Schema, number: int) -> Iterable[bytes]:
    return [
        field(number, _named(name, _any(value)))
        for name, value in schema.items()
        if name.startswith("x-")
    ]


def _path(resource: Resource) -> bytes:
    """The patch of one object: where clients look for the parameter `dryRun`."""
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    parameters = b"".join(
        field(_PARAMETERS, _query_parameter(name)) for name in openapi.WRITE_PARAMETERS
    )
    patch = parameters + b"".join(_extensions({KIND: kind}, _OPERATION_EXTENSION))
    return _named(openapi.item_path(resource), field(_PATCH, patch))


def _query_parameter(name: str) -> bytes:
    """ParametersItem → Parameter → NonBodyParameter → QueryParameterSubSchema."""
    query = field(2, "query") + field(4, name) + field(7, "string")
    return field(1, field(2, field(3, query)))
