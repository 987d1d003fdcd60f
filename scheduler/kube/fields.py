"""Unknown fields, wrong types and impossible values of an object, as the API server reports them.

For objects that come from files: the API server refuses, or drops with a warning, what is spelt
wrongly, and nothing else would notice. The schemas are Kubernetes' own (`schemas`), of a version
that may be older than the cluster's: a field that is like no known one may be newer.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache, cached_property
from typing import Any, NamedTuple

from scheduler.kube import formats, schemas
from scheduler.kube.schemas import Schema

_CLOSE = 0.8
"""How alike two names are, from 0 to 1, of which one is taken for a misspelling of the other."""
_CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement", "operator"): (
        *("DoesNotExist", "Exists", "In", "NotIn"),
    ),
}
"""Choices that the API server checks and its schemas do not list."""
_LABELS = {
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", "matchLabels"),
    ("io.k8s.api.core.v1.PodSpec", "nodeSelector"),
}
"""Maps whose keys and values are those of labels, which no schema says."""
_REQUIREMENTS = "io.k8s.api.core.v1.ResourceRequirements"
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
"""Resources that containers may request without a domain, besides huge pages."""
_WORDS = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "array": "a list",
    "object": "an object",
}
_NOT_WRITTEN = ("status", "managedFields")
"""Fields of an object, or of its metadata, that no manifest is about."""
_DEEPEST = 12
"""How deep a field is looked for elsewhere in an object."""

_Path = tuple["_Path | None", str | int]
"""The path of a value as a chain; it becomes a text only if something is wrong there."""


class Fault(Enum):
    """What is wrong with a value."""

    UNKNOWN = "unknown"
    """No such field, and none like it: it may be newer than the schemas."""
    MISSPELT = "misspelt"
    """No such field, but one like it."""
    TYPE = "type"
    VALUE = "value"
    """None of the values that may stand there: choices, quantities, bounds, labels."""


class Oddity(NamedTuple):
    """A field that the API server would not take, or may not know."""

    path: str
    message: str
    fault: Fault


def has_schema(api_version: str, kind: str) -> bool:
    """Whether the fields of a kind are known."""
    return _shape_of(api_version, kind) is not None


def oddities(body: Mapping[str, Any]) -> Iterator[Oddity]:
    """What is wrong with an object of a kind with a schema. Cost: one look at each value."""
    root = _shape_of(str(body.get("apiVersion")), str(body.get("kind")))
    if root is not None:
        yield from _object(body, root, None, root)


class _Shape:
    """A schema, made ready to be compared with values."""

    def __init__(self, schema: Schema, name: str, *, amount: bool = False) -> None:
        self.name = name
        """The schema's name, if it has one."""
        self._schema = schema
        self.types = schemas.types_of(schema)
        self.choices: tuple[str, ...] = tuple(schema.get("enum") or ())
        self._quantity = name == schemas.QUANTITY or schemas.is_custom_quantity(schema)
        self._amount = amount
        self._bounds = formats.bounds(schema)

    @cached_property
    def fields(self) -> Mapping[str, _Shape]:
        """The fields of an object, if they are known."""
        properties = self._schema.get("properties") or {}
        found = {name: _made(schema) for name, schema in properties.items()}
        for (definition, field), choices in _CHOICES.items():
            if definition == self.name:
                found[field].choices = choices
        return found

    @cached_property
    def labels(self) -> frozenset[str]:
        """The fields of an object that are maps of labels."""
        return frozenset(field for definition, field in _LABELS if definition == self.name)

    @cached_property
    def values(self) -> _Shape | None:
        """What the values of a map are like; None if it is none, or they are like anything."""
        values = self._schema.get("additionalProperties")
        if not isinstance(values, dict) or not values:
            return None
        made = _made(values)
        # Maps of quantities are amounts by resource.
        return _Shape(made._schema, made.name, amount=True) if made._quantity else made

    @cached_property
    def items(self) -> _Shape | None:
        """What the items of a list are like."""
        items = self._schema.get("items")
        return _made(items) if items else None

    @cached_property
    def open(self) -> bool:
        """Whether an object may have any other field."""
        return schemas.field_of(self._schema, "") is not None

    @cached_property
    def any_text(self) -> bool:
        """Whether every text is right."""
        return self.types == ("string",) and not self.choices

    def wrong(self, value: Any) -> str | None:
        """What is wrong with a text or a number of the right type."""
        if self._quantity:
            return formats.wrong_amount(value) if self._amount else formats.wrong_quantity(value)
        if self._bounds is not None:
            return formats.wrong_integer(value, self._bounds)
        if self.choices and value and value not in self.choices:
            known = ", ".join(filter(None, self.choices))
            return f'unknown value "{value}" (expected one of {known})'
        return None

    @cached_property
    def places(self) -> Mapping[str, str]:
        """Where fields are, by name, in an object of this kind; the place nearest to the top."""
        found: dict[str, str] = {}
        seen = {self.name}
        level = [(self, "")]
        for _ in range(_DEEPEST):
            below = []
            for shape, path in level:
                for name, field in shape.fields.items():
                    if name in _NOT_WRITTEN and not path.rpartition(".")[0]:
                        continue
                    where = f"{path}.{name}" if path else name
                    found.setdefault(name, where)
                    inner, listed = (field.items, "[]") if field.items else (field, "")
                    if inner.fields and inner.name not in seen:
                        seen.add(inner.name)
                        below.append((inner, where + listed))
            level = below
        return found


def _shape_of(api_version: str, kind: str) -> _Shape | None:
    # Senders of manifests choose the words: only those of kinds that exist are remembered.
    known = schemas.of_kind(api_version, kind) is not None
    return _shape_of_known(api_version, kind) if known else None


@cache
def _shape_of_known(api_version: str, kind: str) -> _Shape:
    schema = schemas.of_kind(api_version, kind)
    assert schema is not None, "its schema is known"
    return _Shape(schema, f"{api_version}/{kind}")


def _made(schema: Schema) -> _Shape:
    name = schemas.reference(schema)
    if name is None:
        return _Shape(schema, "")
    return _named(name) if "enum" not in schema else _Shape(schemas.resolved(schema), name)


@cache
def _named(name: str) -> _Shape:
    return _Shape(schemas.resolved(schemas.definitions()[name]), name)


def _compared(value: Any, shape: _Shape, path: _Path, root: _Shape) -> Iterator[Oddity]:
    if shape.types and not any(schemas.fits(wanted, value) for wanted in shape.types):
        wanted = " or ".join(_WORDS[each] for each in shape.types)
        yield Oddity(_text(path), f"expected {wanted}, got {_shown(value)}", Fault.TYPE)
    elif isinstance(value, dict):
        yield from _object(value, shape, path, root)
    elif isinstance(value, list):
        if shape.items is not None:
            for number, item in enumerate(value):
                yield from _compared(item, shape.items, (path, number), root)
    elif (wrong := shape.wrong(value)) is not None:
        yield Oddity(_text(path), wrong, Fault.VALUE)


def _object(
    value: Mapping[str, Any], shape: _Shape, path: _Path | None, root: _Shape
) -> Iterator[Oddity]:
    fields, others = shape.fields, shape.values
    for name, member in value.items():
        if (field := fields.get(name, others)) is not None:
            if field.any_text and isinstance(member, str):
                continue  # most values are such; a generator for each would double the cost
            yield from _compared(member, field, (path, name), root)
        elif not shape.open:
            yield _unknown(str(name), shape, (path, str(name)), root)
    for name in shape.labels & value.keys():
        yield from _labels(value[name], (path, name))
    if shape.name == _REQUIREMENTS:
        for name in ("requests", "limits"):
            yield from _resources(value.get(name), (path, name))


def _labels(value: Any, path: _Path) -> Iterator[Oddity]:
    """Keys and values that are none of labels; wrong types are named elsewhere."""
    for key, text in value.items() if isinstance(value, Mapping) else ():
        wrong = formats.wrong_label_key(str(key))
        if wrong is None and isinstance(text, str):
            wrong = formats.wrong_label_value(text)
        if wrong is not None:
            yield Oddity(_text((path, str(key))), wrong, Fault.VALUE)


def _resources(value: Any, path: _Path) -> Iterator[Oddity]:
    """Resources that a container cannot request: without a domain there are few names."""
    for name in value if isinstance(value, Mapping) else ():
        if "/" in str(name) or str(name).startswith("hugepages-") or name in _RESOURCES:
            continue
        known = f"{', '.join(_RESOURCES)}, hugepages-… or a name with a domain"
        message = f"unknown resource (expected one of {known})"
        yield Oddity(_text((path, str(name))), message, Fault.VALUE)


def _unknown(name: str, shape: _Shape, path: _Path, root: _Shape) -> Oddity:
    close = difflib.get_close_matches(name, list(shape.fields), 1, _CLOSE)
    meant = close[0] if close else root.places.get(name)
    if meant:
        return Oddity(_text(path), f"unknown field (did you mean {meant}?)", Fault.MISSPELT)
    return Oddity(_text(path), "unknown field", Fault.UNKNOWN)


def _text(path: _Path | None) -> str:
    """``spec.containers[0].image``."""
    parts: list[str] = []
    while path is not None:
        path, step = path
        parts.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(parts)).removeprefix(".")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    shown = f'the text "{value}"' if isinstance(value, str) else str(value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
