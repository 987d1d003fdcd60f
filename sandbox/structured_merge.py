"""Merging by schema: an applied configuration into an object, and paths out of one.

Both return new values and leave the old ones untouched.
"""

from typing import Any

from sandbox.field_sets import Path, is_atomic, item_key, item_step, list_type
from scheduler.kube.schemas import Schema, field_of, resolved


def merged(schema: Schema, live: Any, applied: Any) -> Any:
    """The live value with what is applied: fields and keyed items one by one, the rest whole."""
    if isinstance(applied, dict) and isinstance(live, dict) and not is_atomic(schema):
        result = dict(live)
        for name, value in applied.items():
            result[name] = merged(field_of(schema, name) or {}, live.get(name), value)
        return result
    if isinstance(applied, list) and isinstance(live, list):
        match list_type(schema):
            case "set":
                return [*live, *(item for item in applied if item not in live)]
            case "map":
                return _merged_items(schema, live, applied)
    return applied


def _merged_items(schema: Schema, live: list[Any], applied: list[Any]) -> list[Any]:
    items = resolved(schema.get("items") or {})
    result = list(live)
    positions = {str(item_key(schema, item)): index for index, item in enumerate(live)}
    for item in applied:
        at = positions.get(str(item_key(schema, item)))
        if at is None:
            result.append(item)
        else:
            result[at] = merged(items, result[at], item)
    return result


def without(schema: Schema, value: Any, paths: set[Path]) -> Any:
    """The value without these paths; containers that become empty go as well."""
    if not paths:
        return value
    if isinstance(value, dict):
        return _without_fields(schema, value, paths)
    if isinstance(value, list):
        return _without_items(schema, value, paths)
    return value


def _without_fields(schema: Schema, value: dict[str, Any], paths: set[Path]) -> Any:
    result = dict(value)
    for name, inner in value.items():
        step = f"f:{name}"
        if (step,) in paths:
            del result[name]
        elif below := {path[1:] for path in paths if path[0] == step}:
            left = without(field_of(schema, name) or {}, inner, below)
            if left in ({}, []) and inner not in ({}, []):
                del result[name]
            else:
                result[name] = left
    return result


def _without_items(schema: Schema, value: list[Any], paths: set[Path]) -> list[Any]:
    items, result = resolved(schema.get("items") or {}), []
    for item in value:
        step = item_step(schema, item)
        if (step,) not in paths:
            below = {path[1:] for path in paths if path[0] == step}
            result.append(without(items, item, below))
    return result
