"""Sets of fields: the leaves of an object by their paths, and `FieldsV1`, which lists such paths.

A path is a tuple of steps as `FieldsV1` writes them: `f:spec`, `k:{"name":"web"}` for an item of a
list with keys, `v:"x"` for an item of a set. What is a leaf follows from the schema, by the rules
of Kubernetes' structured merge: scalars, atomic lists and maps, and items themselves.
"""

import json
from collections.abc import Iterable
from typing import Any

from scheduler.kube.schemas import Schema, field_of, resolved

Path = tuple[str, ...]
Leaves = dict[Path, Any]

_ITEM = object()
"""The value of a leaf that only says that an item is there."""


def leaves(schema: Schema, value: Any) -> Leaves:
    """The leaves of a value, by path."""
    found: Leaves = {}
    _collect(schema, value, (), found)
    return found


def _collect(schema: Schema, value: Any, path: Path, found: Leaves) -> None:
    if isinstance(value, dict) and not is_atomic(schema):
        named = schema.get("properties") or {}
        for name, inner in value.items():
            below = (*path, f"f:{name}")
            _collect(field_of(schema, name) or {}, inner, below, found)
            if inner in (None, {}) or (name not in named and below not in found):
                found[below] = inner if inner in (None, {}) else found.get(below, _ITEM)
    elif isinstance(value, list) and (kind := list_type(schema)) != "atomic":
        items = resolved(schema.get("items") or {})
        for item in value:
            below = (*path, item_step(schema, item))
            if kind == "map":
                _collect(items, item, below, found)
            found[below] = _ITEM
    elif path:
        found[path] = value


def containers(schema: Schema, value: Any) -> dict[Path, bool]:
    """The maps and lists of a value that are owned field by field, by path.

    True for those that an empty object has as well: structs that are no pointers in Go.
    """
    found: dict[Path, bool] = {}
    _collect_containers(schema, value, (), True, found)
    return found


def _collect_containers(
    schema: Schema, value: Any, path: Path, implied: bool, found: dict[Path, bool]
) -> None:
    if isinstance(value, dict) and not is_atomic(schema):
        if path and value:
            found[path] = implied
        required = schema.get("required") or ()
        for name, inner in value.items():
            below = field_of(schema, name) or {}
            given = implied and (below.get("default") == {} or name in required)
            _collect_containers(below, inner, (*path, f"f:{name}"), given, found)
    elif isinstance(value, list) and value and list_type(schema) != "atomic":
        found[path] = implied
        items = resolved(schema.get("items") or {})
        for item in value:
            if isinstance(item, dict):
                step = item_step(schema, item)
                _collect_containers(items, item, (*path, step), False, found)


def is_atomic(schema: Schema) -> bool:
    """Whether a map is owned as a whole."""
    return schema.get("x-kubernetes-map-type") == "atomic"


def list_type(schema: Schema) -> str:
    """`map`, `set` or `atomic`."""
    return str(schema.get("x-kubernetes-list-type") or "atomic")


def item_step(schema: Schema, item: Any) -> str:
    """The step that names an item of a list."""
    if list_type(schema) == "set":
        return "v:" + json.dumps(item, separators=(",", ":"))
    return "k:" + json.dumps(item_key(schema, item), separators=(",", ":"), sort_keys=True)


def item_key(schema: Schema, item: Any) -> dict[str, Any]:
    """The key fields of an item; missing ones have their default, a port's protocol for example."""
    properties = resolved(schema.get("items") or {}).get("properties") or {}
    found = {}
    for name in schema.get("x-kubernetes-list-map-keys") or ():
        given = item.get(name) if isinstance(item, dict) else None
        default = (properties.get(name) or {}).get("default")
        if (value := default if given is None else given) is not None:
            found[name] = value
    return found


def from_fields_v1(fields: Any, path: Path = ()) -> set[Path]:
    """The paths that a `FieldsV1` lists."""
    found: set[Path] = set()
    if not isinstance(fields, dict):
        return found
    for step, below in fields.items():
        if step == ".":
            found.add(path)
        elif below:
            found |= from_fields_v1(below, (*path, step))
        else:
            found.add((*path, step))
    return found


def to_fields_v1(paths: Iterable[Path]) -> dict[str, Any]:
    """The `FieldsV1` of some paths."""
    root: dict[str, Any] = {}
    ordered = sorted(paths)
    for index, path in enumerate(ordered):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        following = ordered[index + 1] if index + 1 < len(ordered) else ()
        # In sorted order a path's extensions follow it at once.
        if len(following) > len(path) and following[: len(path)] == path:
            node["."] = {}
    return root


def shown(path: Path) -> str:
    """A path as messages name it: `.spec.containers[name="web"].image`."""
    text = ""
    for step in path:
        kind, content = step[:2], step[2:]
        if kind == "f:":
            text += f".{content}"
        elif kind == "k:":
            parts = (f"{name}={json.dumps(value)}" for name, value in json.loads(content).items())
            text += f"[{','.join(parts)}]"
        else:
            text += f"[={content}]"
    return text
