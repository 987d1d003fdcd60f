"""The three patch types: JSON merge patch, JSON patch, and Kubernetes' strategic merge patch.

All return a new body and leave the old one untouched (unchanged parts are shared).
"""

from collections.abc import Callable, Mapping
from typing import Any

from sandbox.errors import ApiFailure, bad_request

Body = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"

MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "allocatedResourcesStatus": "name",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "reservedFor": "uid",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "x-kubernetes-validations": "rule",
}
"""Lists of objects that merge by key; a field name means the same in all kinds, but for `ports`.
Lists that are not here (taints, tolerations, …) are replaced as a whole, as in the real server."""

_PRIMITIVE_MERGE = frozenset({"finalizers", "podCIDRs"})
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_REJECTED = "the server rejected our request due to an error in our request"


def copied(value: Any) -> Any:
    """A copy of a value of JSON that shares no part with it."""
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    if isinstance(value, list):
        return [copied(part) for part in value]
    return value


def patcher(content_type: str) -> Callable[[Body, Any], Any]:
    """The function that applies patches of this media type; KeyError if there is none."""
    return {MERGE: merge_patch, STRATEGIC: strategic_merge_patch, JSON: json_patch}[content_type]


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def strategic_merge_patch(target: Any, patch: Any) -> Any:
    """As a merge patch, but keyed lists merge item by item, and `$patch` directives apply."""
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: the patch is not an object")
    return _strategic_object(target if isinstance(target, dict) else {}, patch)


def _strategic_object(target: Body, patch: Body) -> Body:
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    merged = dict(target)
    if "$retainKeys" in patch:
        kept = set(patch["$retainKeys"])
        merged = {name: value for name, value in merged.items() if name in kept}
    for name, value in patch.items():
        if name.startswith("$"):
            _primitive_directive(merged, name, value)
        elif value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            old = merged.get(name)
            merged[name] = _strategic_object(old if isinstance(old, dict) else {}, value)
        elif isinstance(value, list):
            merged[name] = _strategic_list(name, merged.get(name) or [], value)
        else:
            merged[name] = value
    return merged


def _primitive_directive(merged: Body, name: str, value: Any) -> None:
    if name.startswith(_DELETE_PRIMITIVES):
        field = name.removeprefix(_DELETE_PRIMITIVES)
        merged[field] = [item for item in merged.get(field) or [] if item not in value]


def _strategic_list(name: str, old: list[Any], patch: list[Any]) -> list[Any]:
    if name in _PRIMITIVE_MERGE:
        return [*old, *(item for item in patch if item not in old)]
    key = _merge_key(name, patch)
    if key is None:
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    merged = list(old)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, had in enumerate(merged) if had.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del merged[at]
        elif at is None:
            merged.append(_strategic_object({}, item))
        else:
            merged[at] = _strategic_object(merged[at], item)
    return merged


def _merge_key(name: str, items: list[Any]) -> str | None:
    if not all(isinstance(item, dict) for item in items):
        return None
    if name == "ports":
        return "containerPort" if all("containerPort" in item for item in items) else "port"
    return MERGE_KEYS.get(name)


def json_patch(target: Body, operations: Any) -> Any:
    """RFC 6902. A failed `test` or a missing path is a 422, the target stays as it was."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: the patch is not a list of operations")
    document: Any = copied(target)
    for operation in operations:
        try:
            document = _apply(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise ApiFailure(422, "Invalid", f"{_REJECTED}: {error}") from error
    return document


def _apply(document: Any, operation: Body) -> Any:
    verb, path = operation["op"], _pointer(operation["path"])
    if verb == "test":
        if _read(document, path) != operation.get("value"):
            raise ValueError(f"testing path {operation['path']} value failed")
        return document
    if verb == "remove":
        return _remove(document, path)
    if verb == "add":
        return _add(document, path, operation["value"])
    if verb == "replace":
        _read(document, path)
        return (
            _add(_remove(document, path), path, operation["value"]) if path else operation["value"]
        )
    if verb in {"move", "copy"}:
        source = _pointer(operation["from"])
        value = copied(_read(document, source))
        return _add(_remove(document, source) if verb == "move" else document, path, value)
    raise ValueError(f"unexpected kind: {verb}")


def _pointer(text: str) -> list[str]:
    if not text:
        return []
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _read(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _read(document, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else int(path[-1]), value)
    else:
        parent[path[-1]] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    parent = _read(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return document
