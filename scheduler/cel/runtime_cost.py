"""What calls cost at run time, in the units of cel-go with the functions of Kubernetes.

Functions of Kubernetes' libraries cost by name, others by the overload that the checker has
chosen; where several remained, a call costs one unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scheduler.cel.limits import METER
from scheduler.cel.values import (
    AddressValue,
    NamedFormat,
    Optional,
    Prefix,
    QuantityValue,
    Semver,
    Url,
    Value,
    elements,
    is_list,
    is_map,
    size_of,
)

FAILED: Value = object()
"""Stands for an argument or result that is an error; its size is 1."""

CallCost = Callable[[list[Value], Value], int]
"""The cost of a call with these arguments and this result."""

_TEXT = 0.1
_REGEX = 0.25
_LIST = 10
_SELECTOR = 10 + 40


def _ceil(number: float) -> int:
    return math.ceil(number)


def fixed(cost: int) -> CallCost:
    return lambda _args, _result: cost


def traversal(value: Value) -> int:
    """Reading a value with everything in it."""
    if type(value) is str:
        size = len(value) if value.isascii() else len(value.encode(errors="replace"))
        return int(size * _TEXT)
    if type(value) is bytes:
        return int(len(value) * _TEXT)
    if is_list(value):
        METER.work(len(value))
        return sum(map(traversal, elements(value)))
    if is_map(value):
        METER.work(len(value))
        return sum(traversal(key) + traversal(inner) for key, inner in value.pairs())
    return 1


def _first_traversed(args: list[Value], _result: Value) -> int:
    return traversal(args[0])


def _first_read(args: list[Value], _result: Value) -> int:
    return _ceil(size_of(args[0]) * _TEXT)


def _first_read_twice(args: list[Value], _result: Value) -> int:
    return _ceil(size_of(args[0]) * 2 * _TEXT)


def _joined(_args: list[Value], result: Value) -> int:
    return _ceil(size_of(result) * 2 * _TEXT)


def _searched(args: list[Value], _result: Value) -> int:
    return _ceil((1.0 + size_of(args[0])) * _TEXT) * _ceil(size_of(args[1]) * _REGEX)


def _contained(function: str, overload: str) -> CallCost:
    """A comparison of bytes; a text is read first, where it was known to be one."""
    reads = overload in {"cidr_contains_ip_string", "cidr_contains_cidr_string"}

    def contained(args: list[Value], _result: Value) -> int:
        size = size_of(args[0])
        cost = _ceil(2 * size * _TEXT)
        if function == "containsCIDR":
            cost += _ceil(size * _TEXT) + 1
        return cost + (_ceil(size_of(args[1]) * _TEXT) if reads else 0)

    return contained


def _validated(args: list[Value], _result: Value) -> int:
    if type(args[0]) is not NamedFormat:
        return 1
    return _ceil((1.0 + size_of(args[1])) * _TEXT) * _ceil(args[0].cost * _REGEX)


def _parsed_ip(args: list[Value], result: Value) -> int:
    return 1 if type(args[0]) is Prefix else _first_read(args, result)


def _selector(args: list[Value], _result: Value) -> int:
    length = size_of(args[1])
    return _LIST + _ceil(length * _TEXT) + _ceil(_ceil(length * 0.5) * _SELECTOR)


_BY_FUNCTION: dict[str, CallCost] = {
    "check": fixed(350_000),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _first_traversed
    ),
    **dict.fromkeys(
        (
            "url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR",
            "quantity", "isQuantity", "semver", "isSemver",
        ),
        _first_read,
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first_read_twice),
    "join": _joined,
    "find": _searched,
    "findAll": _searched,
    "ip": _parsed_ip,
    "validate": _validated,
}  # fmt: skip


def _both_read(args: list[Value], _result: Value) -> int:
    return _ceil((size_of(args[0]) + size_of(args[1])) * _TEXT)


def _unwrapped_size(value: Value) -> int:
    while type(value) is Optional and value.present:
        value = value.value
    return size_of(value)


def _shorter_read(args: list[Value], _result: Value) -> int:
    return _ceil(min(_unwrapped_size(args[0]), _unwrapped_size(args[1])) * _TEXT)


def _products_read(args: list[Value], _result: Value) -> int:
    return _ceil(size_of(args[0]) * _TEXT) * _ceil(size_of(args[1]) * _TEXT)


def _second_size(args: list[Value], _result: Value) -> int:
    return size_of(args[1])


def _allocated(factor: float, size: int) -> int:
    return int(size * factor) + 1 + _LIST


def _output(_args: list[Value], result: Value) -> int:
    return _allocated(1, size_of(result))


def _flattened(args: list[Value], _result: Value) -> int:
    depth = args[1] if len(args) == 2 and type(args[1]) is int else 1
    return _allocated(depth, size_of(args[0]))


def _self_compared(values: Value) -> int:
    if not is_list(values) or not len(values):
        return _allocated(2, 0)
    factor = 2 + _TEXT if type(elements(values)[0]) in {str, bytes} else 2
    return _allocated(factor, len(values) ** 2)


def _sets(factor: int) -> CallCost:
    return lambda args, _result: 1 + size_of(args[0]) * size_of(args[1]) * factor


_BY_OVERLOAD: dict[str, CallCost] = {
    **dict.fromkeys(
        (
            "starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string",
            "strings_quote", "string_format",
        ),
        _first_read,
    ),
    "in_list": _second_size,
    **dict.fromkeys(
        (
            f"{name}_{kind}"
            for name in ("less", "greater", "less_equals", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _shorter_read,
    ),
    "equals": _shorter_read,
    "not_equals": _shorter_read,
    "add_string": _both_read,
    "add_bytes": _both_read,
    "matches_string": _searched,
    "contains_string": _products_read,
    "list_slice": _output,
    "lists_range": _output,
    "list_reverse": _output,
    "list_flatten": _flattened,
    "list_flatten_int": _flattened,
    "list_distinct": lambda args, _result: _self_compared(args[0]),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}  # fmt: skip

_UNIT = fixed(1)
_STRICT = (QuantityValue, AddressValue, Prefix, NamedFormat, Url, Semver)


def _equality(args: list[Value], result: Value) -> int:
    return 1 if isinstance(args[0], _STRICT) else _shorter_read(args, result)


def call_cost(function: str, overloads: tuple[str, ...]) -> CallCost:
    """How the cost of calls with these overloads is found."""
    overload = overloads[0] if len(overloads) == 1 else ""
    if overload.endswith("_sort"):
        return lambda args, _result: _self_compared(args[0])
    if overload.endswith("_sortByAssociatedKeys"):
        return lambda args, _result: _self_compared(args[1])
    if overload in _BY_OVERLOAD and overload.startswith(("list_", "lists_")):
        return _BY_OVERLOAD[overload]
    if function == "_==_":
        return _equality
    if function in {"containsIP", "containsCIDR"}:
        return _contained(function, overload)
    by_function = _BY_FUNCTION.get(function)
    if by_function is not None:
        return by_function
    return _BY_OVERLOAD.get(overload, _UNIT)
