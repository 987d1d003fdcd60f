"""Kubernetes' own OpenAPI v3 schemas: which fields an object may have, and of which types.

Those of the built-in kinds are read from a file that a real API server has filled (see
`shipping.kubernetes_schemas`); they are Kubernetes', under the Apache License 2.0. Those of the
custom resources that the scheduler reads come from their CRDs (`shipping.custom_schemas`). Nothing
is read before it is needed: the larger file takes some milliseconds.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

Schema = dict[str, Any]

KUBERNETES_MINOR = "1.36"
"""The Kubernetes whose schemas these are."""
KIND = "x-kubernetes-group-version-kind"
PREFIX = "#/components/schemas/"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
FILE = "kubernetes-schemas.json.gz"
CUSTOM_FILE = "custom-schemas.json"

_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


@cache
def definitions() -> dict[str, Schema]:
    """The schemas of the built-in kinds and of their parts, by name."""
    found: dict[str, Schema] = msgspec.json.decode(gzip.decompress(_content(FILE)))
    return found


@cache
def built_in() -> dict[tuple[str, str, str], str]:
    """The names of the schemas of kinds, by group, version and kind."""
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, schema in definitions().items()
        for kind in schema.get(KIND, ())
    }


@cache
def _custom() -> dict[str, Schema]:
    found: dict[str, Schema] = msgspec.json.decode(_content(CUSTOM_FILE))
    return found


def of_kind(api_version: str, kind: str) -> Schema | None:
    """The schema of a kind that is built in or that the scheduler reads; None if it is unknown."""
    group, _, version = api_version.rpartition("/")
    name = built_in().get((group, version, kind))
    if name is not None:
        return definitions()[name]
    schema = _custom().get(f"{api_version}/{kind}")
    return None if schema is None else with_metadata(schema)


def with_metadata(schema: Mapping[str, Any]) -> Schema:
    """The schema of a custom resource with what all objects have, which its CRD leaves open."""
    text = {"type": "string"}
    metadata = {"default": {}, "allOf": [{"$ref": PREFIX + OBJECT_META}]}
    own = {"apiVersion": text, "kind": text, "metadata": metadata}
    return {**schema, "properties": {**(schema.get("properties") or {}), **own}}


def resolved(schema: Schema) -> Schema:
    """A schema without its reference: what it refers to, under its own remarks on merging."""
    target = reference(schema)
    if target is None:
        return schema
    own = {name: value for name, value in schema.items() if name not in {"allOf", "$ref"}}
    return {**resolved(definitions()[target]), **own}


def reference(schema: Schema) -> str | None:
    """The name of the schema that this one refers to."""
    parts = schema.get("allOf")
    target = parts[0].get("$ref") if parts else schema.get("$ref")
    return target.removeprefix(PREFIX) if isinstance(target, str) else None


def field_of(schema: Schema, name: str) -> Schema | None:
    """The schema of a field of an object, or of a value of a map; None if there is no such field.

    An empty schema allows everything.
    """
    properties = schema.get("properties")
    if properties and name in properties:
        return resolved(properties[name])
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return resolved(values)
    free = values is True or not properties or schema.get("x-kubernetes-preserve-unknown-fields")
    return {} if free else None


def types_of(schema: Schema) -> tuple[str, ...]:
    """The JSON types that a value may have; nothing if it may have any."""
    if schema.get("x-kubernetes-int-or-string"):
        return "integer", "string"
    if "oneOf" in schema:
        return tuple(each["type"] for each in schema["oneOf"] if "type" in each)
    return (schema["type"],) if "type" in schema else ()


def is_custom_quantity(schema: Schema) -> bool:
    """Whether a field of a custom resource is a quantity; CRDs call it an integer or a text."""
    return bool(schema.get("x-kubernetes-int-or-string"))


def fits(wanted: str, value: Any) -> bool:
    """Whether a value has a JSON type; in Python a boolean is a number, in JSON it is none."""
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _PYTHON_TYPES[wanted])


def _content(name: str) -> bytes:
    return resources.files("scheduler.kube").joinpath(name).read_bytes()
