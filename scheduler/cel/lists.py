"""Functions on lists, sets and optionals."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduler.cel import texts
from scheduler.cel.arithmetic import add, holds
from scheduler.cel.errors import CelRuntimeError, CostLimitExceeded, no_such_overload
from scheduler.cel.limits import COST_LIMIT, MAX_SORTED, METER, check_count
from scheduler.cel.values import (
    NONE,
    CelMap,
    Duration,
    GrowingMap,
    Optional,
    Timestamp,
    Uint,
    Value,
    comparable,
    compare,
    elements,
    equal,
    is_list,
    is_map,
    key_of,
    type_name,
)


def _list(function: str, *args: Value) -> list[Value]:
    """The elements of the first argument, which must be a list."""
    if not is_list(args[0]):
        raise no_such_overload(function, *(type_name(arg) for arg in args))
    return elements(args[0])


def index_of(*args: Value) -> int:
    if not is_list(args[0]):
        return texts.index_of(*args)
    if len(args) != 2:
        raise no_such_overload("indexOf", *(type_name(arg) for arg in args))
    return _position(enumerate(elements(args[0])), args[1])


def last_index_of(*args: Value) -> int:
    if not is_list(args[0]):
        return texts.last_index_of(*args)
    if len(args) != 2:
        raise no_such_overload("lastIndexOf", *(type_name(arg) for arg in args))
    values = elements(args[0])
    return _position(zip(range(len(values) - 1, -1, -1), reversed(values), strict=True), args[1])


def _position(values: Iterable[tuple[int, Value]], wanted: Value) -> int:
    for index, value in values:
        try:
            if equal(value, wanted):
                return index
        except CelRuntimeError:
            continue
    return -1


def _of_one_kind(function: str, values: list[Value], kinds: frozenset[type]) -> None:
    if values and type(values[0]) not in kinds:
        raise no_such_overload(function, "list")


_SUMMABLE = frozenset({int, Uint, float, Duration})
_COMPARABLE = frozenset({int, Uint, float, bool, Duration, Timestamp, str, bytes})
_ZEROS: dict[type, Value] = {int: 0, Uint: Uint(0), float: 0.0, Duration: Duration(0)}


def total(*args: Value) -> Value:
    values = _list("sum", *args)
    _of_one_kind("sum", values, _SUMMABLE)
    result = _ZEROS[type(values[0])] if values else 0
    for value in values:
        result = add(result, value)
    return result


def is_sorted(*args: Value) -> bool:
    values = _list("isSorted", *args)
    _of_one_kind("isSorted", values, _COMPARABLE)
    for index, value in enumerate(values):
        if not comparable(value):
            raise no_such_overload()
        if index and _compare_or_zero(values[index - 1], value) > 0:
            return False
    return True


def _compare_or_zero(a: Value, b: Value) -> int:
    try:
        return compare(a, b)
    except CelRuntimeError:
        return 0  # what cannot be compared is not out of order


def _extreme(function: str, sign: int, args: tuple[Value, ...]) -> Value:
    values = _list(function, *args)
    _of_one_kind(function, values, _COMPARABLE)
    if not values:
        raise CelRuntimeError(f"{function} called on empty list")
    best = values[0]
    for value in values[1:]:
        if not comparable(value):
            raise no_such_overload()
        if _compare_or_zero(best, value) == sign:
            best = value
    return best


def smallest(*args: Value) -> Value:
    return _extreme("min", 1, args)


def largest(*args: Value) -> Value:
    return _extreme("max", -1, args)


def part(*args: Value) -> list[Value]:
    values = _list("slice", *args)
    start, end = args[1], args[2]
    if type(start) is not int or type(end) is not int:
        raise no_such_overload("slice", *(type_name(arg) for arg in args))
    shown = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelRuntimeError(f"{shown}, negative indexes not supported")
    if start > end:
        raise CelRuntimeError(f"{shown}, start index must be less than or equal to end index")
    if len(values) < end:
        raise CelRuntimeError(f"{shown}, list is length {len(values)}")
    return values[start:end]


def flatten(*args: Value) -> list[Value]:
    values = _list("flatten", *args)
    depth = args[1] if len(args) == 2 else 1
    if type(depth) is not int:
        raise no_such_overload("flatten", *(type_name(arg) for arg in args))
    if depth < 0:
        raise CelRuntimeError("level must be non-negative")
    found: list[Value] = []
    stack = [(iter(values), depth)]
    while stack:
        METER.work(0)
        values_left, levels = stack[-1]
        value = next(values_left, _END)
        if value is _END:
            stack.pop()
        elif levels > 0 and is_list(value):
            stack.append((iter(elements(value)), levels - 1))
        else:
            found.append(value)
            check_count(len(found))
    return found


_END: Value = object()


def up_to(*args: Value) -> list[int]:
    count = args[0]
    if type(count) is not int:
        raise no_such_overload("lists.range", type_name(count))
    if count > COST_LIMIT:
        raise CostLimitExceeded
    return list(range(count))


def reverse(*args: Value) -> list[Value]:
    return _list("reverse", *args)[::-1]


def distinct(*args: Value) -> Value:
    values = _list("distinct", *args)
    plain = {type(value) for value in values} <= {str} or {type(value) for value in values} <= {int}
    if plain:
        return list(dict.fromkeys(values))
    found: list[Value] = []
    for value in values:
        if not holds(found, value):
            found.append(value)
    return found


def sort(*args: Value) -> Value:
    return _sorted("sort", args[0], args[0])


def sort_by_keys(*args: Value) -> Value:
    return _sorted("@sortByAssociatedKeys", args[0], args[1])


def _sorted(function: str, values: Value, keys: Value) -> Value:
    if not is_list(values) or not is_list(keys):
        raise CelRuntimeError(f"no such overload: {function}")
    found = elements(keys)
    if not found:
        return values
    if not comparable(found[0]):
        raise CelRuntimeError("list elements must be comparable")
    kind = type(found[0])
    if len(found) > 1 and any(type(key) is not kind for key in found):
        raise CelRuntimeError("list elements must have the same type")
    if len(found) > MAX_SORTED:
        raise CostLimitExceeded
    own = elements(values)
    if kind is Duration or kind is Timestamp:
        found = [key.nanos for key in found]
    return [own[index] for index in sorted(range(len(found)), key=found.__getitem__)]


def sets_contain(*args: Value) -> bool:
    values, wanted = _both("sets.contains", args)
    return all(holds(values, value) for value in wanted)


def sets_equal(*args: Value) -> bool:
    first, second = _both("sets.equivalent", args)
    return all(holds(first, value) for value in second) and all(
        holds(second, value) for value in first
    )


def sets_meet(*args: Value) -> bool:
    first, second = _both("sets.intersects", args)
    return any(holds(second, value) for value in first)


def _both(function: str, args: tuple[Value, ...]) -> tuple[list[Value], list[Value]]:
    first = _list(function, *args)
    if not is_list(args[1]):
        raise no_such_overload(function, *(type_name(arg) for arg in args))
    second = elements(args[1])
    return first, second


def first(*args: Value) -> Optional:
    values = _list("first", *args)
    return Optional(values[0], True) if values else NONE


def last(*args: Value) -> Optional:
    values = _list("last", *args)
    return Optional(values[-1], True) if values else NONE


def unwrap(*args: Value) -> list[Value]:
    values = _list("optional.unwrap", *args)
    for value in values:
        if type(value) is not Optional:
            raise CelRuntimeError(f"value {value} is not optional")
    return [value.take() for value in values if value.present]


def optional_of(value: Value) -> Optional:
    return Optional(value, True)


def optional_none() -> Optional:
    return NONE


def optional_of_non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value, True)


def _is_zero(value: Value) -> bool:
    if value is None or value is False:
        return True
    if type(value) in {int, Uint, float}:
        return bool(value == 0)
    if type(value) in {str, bytes} or is_list(value) or is_map(value):
        return len(value) == 0
    if type(value) is Duration:
        return bool(value.nanos == 0)
    return type(value) is Timestamp and bool(value.nanos == _ZERO_TIME)


_ZERO_TIME = -62135596800 * 10**9


def optional_value(value: Value) -> Value:
    if type(value) is not Optional:
        raise no_such_overload("value", type_name(value))
    if not value.present:
        raise CelRuntimeError("optional.none() dereference")
    return value.take()


def has_value(value: Value) -> bool:
    if type(value) is not Optional:
        raise no_such_overload("hasValue", type_name(value))
    return value.present


def insert(*args: Value) -> CelMap:
    """A map with an entry, or with all entries of another, added."""
    target = args[0]
    if not is_map(target) or (len(args) == 2 and not is_map(args[1])):
        raise no_such_overload("cel.@mapInsert", *(type_name(arg) for arg in args))
    added = [(args[1], args[2])] if len(args) == 3 else args[1].pairs()
    grown = target if type(target) is GrowingMap else CelMap(dict(target.entries))
    for key, value in added:
        if grown.contains(key):
            raise CelRuntimeError(f"insert failed: key {key} already exists")
        grown.entries[key_of(key)] = (key, value)
    return grown


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "@sortByAssociatedKeys": sort_by_keys,
    "cel.@mapInsert": insert,
    "distinct": distinct,
    "first": first,
    "flatten": flatten,
    "hasValue": has_value,
    "indexOf": index_of,
    "isSorted": is_sorted,
    "last": last,
    "lastIndexOf": last_index_of,
    "lists.range": up_to,
    "max": largest,
    "min": smallest,
    "optional.none": optional_none,
    "optional.of": optional_of,
    "optional.ofNonZeroValue": optional_of_non_zero,
    "optional.unwrap": unwrap,
    "reverse": reverse,
    "sets.contains": sets_contain,
    "sets.equivalent": sets_equal,
    "sets.intersects": sets_meet,
    "slice": part,
    "sort": sort,
    "sum": total,
    "unwrapOpt": unwrap,
    "value": optional_value,
}
