"""Objects as plain JSON: changed copies, and the JSON merge patch between two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.model.quantity import QuantityError, parse
from scheduler.model.resources import CPU, MEMORY

Object = Mapping[str, Any]

MOST_LISTED = 8
"""So many names are spelt out in a summary."""
_NANO = 10**9
_MICRO = 10**6
_BINARY = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def at(value: Any, *path: str | int) -> Any:
    """What an object has at a path; None if it has nothing there."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        else:
            value = value[step] if isinstance(value, Sequence) and step < len(value) else None
        if value is None:
            return None
    return value


def put(raw: Object, path: Sequence[str | int], new: Any) -> Object:
    """A copy of an object with something else at a path.

    None, an empty map or an empty list removes the member, and so do maps and lists in which
    nothing is left; but not ``metadata``, ``spec`` or ``status``. Only what is on the path is
    copied.
    """
    top = str(path[0])
    return {**raw, top: _put(raw.get(top), path[1:], new) or {}}


def _put(value: Any, path: Sequence[str | int], new: Any) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(value)
        items[step] = _put(items[step], rest, new)
        return items
    members = dict(value or {})
    inner = _put(members.get(step), rest, new)
    if inner is None or (isinstance(inner, Mapping | list) and not inner):
        members.pop(step, None)
    else:
        members[step] = inner
    return members


def merge_patch(old: Object, new: Object) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that makes one object another; lists are carried whole."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if before is value or before == value:
            continue
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            patch[key] = merge_patch(before, value)
        else:
            patch[key] = value
    return patch


def listed(texts: Sequence[str]) -> str:
    """Texts as a list for people, the first of very many."""
    shown = ", ".join(texts[:MOST_LISTED])
    more = len(texts) - MOST_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def unit_nanos(resource: str) -> int:
    """The smallest amount of a resource that one may ask for: a page, a milli-CPU, one."""
    if resource == CPU:
        return _MICRO
    if resource.startswith("hugepages-"):
        try:
            return parse(resource.removeprefix("hugepages-")).nanos or _NANO
        except QuantityError:
            return _NANO
    return _NANO


def nanos_of(text: Any) -> int:
    """A quantity in nano units."""
    return parse(text).nanos


def quantity_text(resource: str, nanos: int) -> str:
    """A quantity as people write it, exactly."""
    if resource == CPU:
        milli = nanos // _MICRO
        return f"{milli}m" if milli % 1000 else str(milli // 1000)
    amount = nanos // _NANO
    if amount and (resource == MEMORY or "storage" in resource or "hugepages" in resource):
        for suffix, bits in _BINARY:
            if not amount % (1 << bits):
                return f"{amount >> bits}{suffix}"
    return str(amount)
