"""Valid objects, drawn from the OpenAPI schemas of Kubernetes by a seeded random source.

A schema is turned once into a tree of small functions. Fields that the scheduler reads are drawn
often, others seldom: the decoder skips them. Names come from `words`, so that a pod names claims,
nodes and classes that other drawn objects are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, get_args, get_origin

import msgspec

from scheduler.kube import schemas
from scheduler.model.meta import NOT_SENT, Kind
from scheduler.model.objects import KINDS
from tests.fuzz import words

Json = dict[str, Any]
Draw = Callable[[Random], Any]

REQUIRED, READ, UNREAD, SELDOM = 0.95, 0.45, 0.03, 0.05
"""How often a field is there that is required, that the scheduler reads, and another."""
RARE = frozenset({"deletionTimestamp"})
"""Fields that make an object uninteresting to most of the code."""
MOST_ITEMS = 3


@cache
def kinds() -> tuple[Kind, ...]:
    """Every watched kind, those with the most code behind them more than once."""
    often = ("Pod", "Pod", "Pod", "Node", "Node", "ResourceClaim", "ResourceSlice")
    return (*KINDS.values(), *(KINDS[name] for name in often))


def draw_object(rng: Random, kind: Kind) -> Json:
    """A valid object of a kind, with its name and its version."""
    body: Json = _drawn(kind.name)(rng)
    metadata: Json = body.setdefault("metadata", {})
    metadata["name"] = rng.choice(words.NAMES.get(kind.name, words.OTHER_NAMES))
    if kind.namespaced:
        metadata["namespace"] = rng.choice(words.NAMESPACES)
    else:
        metadata.pop("namespace", None)
    metadata["uid"] = f"u{rng.randrange(3)}-{metadata.get('namespace', '')}-{metadata['name']}"
    metadata["resourceVersion"] = str(rng.randrange(1, 10**6))
    if kind.name == "Pod":
        spec: Json = body.setdefault("spec", {})
        spec.setdefault("containers", [{"name": "main"}])
        if rng.random() < 0.5:
            spec["schedulerName"] = "equipoise"
    return {**body, "apiVersion": api_version(kind), "kind": kind.name}


def api_version(kind: Kind) -> str:
    """The group and version in the path of a kind."""
    parts = kind.path.split("/")
    return parts[2] if parts[1] == "api" else "/".join(parts[2:4])


@cache
def _drawn(kind: str) -> Draw:
    entry = KINDS[kind]
    schema = schemas.of_kind(api_version(entry), kind)
    assert schema is not None, f"{kind} has a schema"
    return _of_schema(schema, "", "", entry.type)


def _of_schema(schema: schemas.Schema, name: str, parent: str, read: Any) -> Draw:
    schema = schemas.resolved(schema)
    types = schemas.types_of(schema)
    if "array" in types:
        return _list(_of_schema(schema["items"], name, name, _item(read)))
    if schema.get("properties"):
        return _struct(schema, name, read)
    if "object" in types:
        values = schema.get("additionalProperties")
        return _map(name, _of_schema(values, name, name, None) if values else _number)
    if len(types) > 1 or schema.get("anyOf"):
        return _one_of(words.QUANTITIES)
    return _scalar(schema, types[0] if types else "", name, parent)


def _scalar(schema: schemas.Schema, kind: str, name: str, parent: str) -> Draw:
    if kind == "boolean":
        return _boolean
    if name == "name":
        return _one_of(words.NAMED.get(parent, words.NAMED[""]))
    if name == "type" and parent in words.TYPED:
        return _one_of(words.TYPED[parent])
    if name == "value" and parent == "attributes":
        return _one_of(words.ATTRIBUTE_VALUES)
    if name in words.FIELDS and kind in {"string", "integer"}:
        fitting = [each for each in words.FIELDS[name] if schemas.fits(kind, each)]
        if fitting:
            return _one_of(tuple(fitting))
    if kind in {"integer", "number"}:
        return _number
    if schema.get("format") == "date-time":
        return _one_of(words.TIMES)
    return _one_of(words.VALUES)


def _struct(whole: schemas.Schema, name: str, read: Any) -> Draw:
    known = _fields_of(read)
    required = whole.get("required", ())

    def likely(field: str) -> float:
        if field in RARE:
            return SELDOM
        return REQUIRED if field in required else READ if field in known else UNREAD

    members = [
        (field, likely(field), _member(schema, field, name, known.get(field)))
        for field, schema in whole["properties"].items()
        if field not in {"apiVersion", "kind", "managedFields"}
    ]
    often = {"metadata", "spec", "status"} if not name else set()

    def draw(rng: Random) -> Json:
        chance = rng.random
        return {
            field: make()(rng)
            for field, chances, make in members
            if chance() < chances or (field in often and chance() < 0.9)
        }

    return draw


def _member(schema: schemas.Schema, field: str, parent: str, read: Any) -> Callable[[], Draw]:
    made: list[Draw] = []

    def make() -> Draw:
        if not made:  # when first drawn: most parts of the API never are
            made.append(_of_schema(schema, field, parent, read))
        return made[0]

    return make


def _list(item: Draw) -> Draw:
    def draw(rng: Random) -> list[Any]:
        return [item(rng) for _ in range(rng.randint(0, MOST_ITEMS))]

    return draw


def _map(name: str, value: Draw) -> Draw:
    keys = words.MAP_KEYS.get(name, words.KEYS)
    if name == "labels":
        value = _one_of((*words.VALUES, *words.POD_GROUPS))

    def draw(rng: Random) -> Json:
        return {rng.choice(keys): value(rng) for _ in range(rng.randint(0, MOST_ITEMS))}

    return draw


def _one_of(values: tuple[Any, ...]) -> Draw:
    return lambda rng: values[int(rng.random() * len(values))]


def _boolean(rng: Random) -> bool:
    return rng.random() < 0.5


def _number(rng: Random) -> int:
    return int(rng.random() * 4)


# The struct that a part of the schema is decoded into, to know what is read.


def _fields_of(read: Any) -> dict[str, Any]:
    for each in (read, *get_args(read)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            fields = msgspec.structs.fields(each)
            return {f.encode_name: f.type for f in fields if f.encode_name != NOT_SENT}
    return {}


def _item(read: Any) -> Any:
    for each in (read, *get_args(read)):
        if get_origin(each) in {tuple, list}:
            return get_args(each)[0]
    return None
