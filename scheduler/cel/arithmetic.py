"""Operators on numbers, strings, lists, durations and timestamps, with the overflows of 64 bits."""

from __future__ import annotations

import math
from collections.abc import Callable

from scheduler.cel.errors import CelRuntimeError, no_such_overload
from scheduler.cel.lexer import MAX_INT, MAX_UINT, MIN_INT
from scheduler.cel.limits import METER, check_count, check_length
from scheduler.cel.values import (
    CelMap,
    Duration,
    Growing,
    Joined,
    Timestamp,
    Uint,
    Value,
    compare,
    elements,
    equal,
    is_list,
)

MIN_SECONDS = -62135596800
MAX_SECONDS = 253402300799
SECOND = 10**9


def to_int(number: int) -> int:
    if MIN_INT <= number <= MAX_INT:
        return number
    raise CelRuntimeError("integer overflow")


def to_uint(number: int) -> Uint:
    if 0 <= number <= MAX_UINT:
        return Uint(number)
    raise CelRuntimeError("unsigned integer overflow")


def to_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    if MIN_SECONDS <= nanos // SECOND <= MAX_SECONDS:
        return Timestamp(nanos, offset)
    raise CelRuntimeError("timestamp overflow")


def _missing(operator: str, a: Value) -> CelRuntimeError:
    """The left operand knows the operator but not for the right one, or does not know it."""
    known = type(a) in _ADDERS if operator == "_+_" else type(a) in _SUBTRACTORS
    return no_such_overload() if known else CelRuntimeError(f"no such overload: {operator}")


_ADDERS = frozenset({int, Uint, float, str, bytes, list, Joined, Growing, Duration, Timestamp})
_SUBTRACTORS = frozenset({int, Uint, float, Duration, Timestamp})


def add(a: Value, b: Value) -> Value:
    kind = type(a)
    other = type(b)
    if kind is int and other is int:
        return to_int(a + b)
    if kind is str and other is str:
        check_length(len(a) + len(b))
        return a + b
    if is_list(a) and is_list(b):
        return _join(a, b)
    if kind is float and other is float:
        return a + b
    if kind is Uint and other is Uint:
        return to_uint(int(a) + int(b))
    if kind is bytes and other is bytes:
        check_length(len(a) + len(b))
        return a + b
    if kind is Duration and other is Duration:
        return Duration(to_int(a.nanos + b.nanos))
    if kind is Duration and other is Timestamp:
        return to_timestamp(a.nanos + b.nanos, b.offset)
    if kind is Timestamp and other is Duration:
        return to_timestamp(a.nanos + b.nanos, a.offset)
    raise _missing("_+_", a)


def _join(a: Value, b: Value) -> Value:
    if type(a) is Growing:
        check_count(len(a) + len(b))
        a.extend(elements(b))
        return a
    if not len(a):
        return b
    return Joined(a, b) if len(b) else a


def subtract(a: Value, b: Value) -> Value:
    kind = type(a)
    other = type(b)
    if kind is int and other is int:
        return to_int(a - b)
    if kind is float and other is float:
        return a - b
    if kind is Uint and other is Uint:
        return to_uint(int(a) - int(b))
    if kind is Duration and other is Duration:
        return Duration(to_int(a.nanos - b.nanos))
    if kind is Timestamp and other is Duration:
        to_int(-b.nanos)
        return to_timestamp(a.nanos - b.nanos, a.offset)
    if kind is Timestamp and other is Timestamp:
        return Duration(to_int(a.nanos - b.nanos))
    raise _missing("_-_", a)


def multiply(a: Value, b: Value) -> Value:
    kind = type(a)
    if kind is type(b):
        if kind is int:
            return to_int(a * b)
        if kind is float:
            return a * b
        if kind is Uint:
            return to_uint(int(a) * int(b))
    raise _missing_number("_*_", a)


def _missing_number(operator: str, a: Value) -> CelRuntimeError:
    known = type(a) in {int, Uint, float}
    return no_such_overload() if known else CelRuntimeError(f"no such overload: {operator}")


def divide(a: Value, b: Value) -> Value:
    kind = type(a)
    if kind is type(b):
        if kind is float:
            return _divide_doubles(a, b)
        if kind is int or kind is Uint:
            if b == 0:
                raise CelRuntimeError("division by zero")
            if kind is Uint:
                return Uint(int(a) // int(b))
            quotient = abs(a) // abs(b)
            return to_int(quotient if (a < 0) == (b < 0) else -quotient)
    raise _missing_number("_/_", a)


def _divide_doubles(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def modulo(a: Value, b: Value) -> Value:
    kind = type(a)
    if kind is type(b) and (kind is int or kind is Uint):
        if b == 0:
            raise CelRuntimeError("modulus by zero")
        if kind is Uint:
            return Uint(int(a) % int(b))
        if a == MIN_INT and b == -1:
            raise CelRuntimeError("integer overflow")
        rest = abs(a) % abs(b)
        return -rest if a < 0 else rest
    if kind is int or kind is Uint:
        raise no_such_overload()
    raise CelRuntimeError("no such overload: _%_")


def negate(a: Value) -> Value:
    kind = type(a)
    if kind is int:
        return to_int(-a)
    if kind is float:
        return -a
    if kind is Duration:
        return Duration(to_int(-a.nanos))
    if kind is bool:
        raise no_such_overload()
    raise CelRuntimeError("no such overload: -_")


def invert(a: Value) -> Value:
    if a is True:
        return False
    if a is False:
        return True
    raise no_such_overload()


def less(a: Value, b: Value) -> bool:
    return _compare("_<_", a, b) < 0


def less_or_equal(a: Value, b: Value) -> bool:
    return _compare("_<=_", a, b) <= 0


def greater(a: Value, b: Value) -> bool:
    return _compare("_>_", a, b) > 0


def greater_or_equal(a: Value, b: Value) -> bool:
    return _compare("_>=_", a, b) >= 0


def _compare(operator: str, a: Value, b: Value) -> int:
    try:
        return compare(a, b)
    except CelRuntimeError:
        if type(a) in _ORDERED:
            raise
        raise CelRuntimeError(f"no such overload: {operator}") from None


_ORDERED = frozenset({int, Uint, float, str, bytes, bool, Duration, Timestamp})


def contains(a: Value, b: Value) -> bool:
    """`a in b`: elements that cannot be compared are not it."""
    if isinstance(b, CelMap):
        return b.contains(a)
    if not is_list(b):
        raise no_such_overload()
    return holds(b, a)


def holds(values: Value, wanted: Value) -> bool:
    METER.work(len(values))
    for value in elements(values):
        try:
            if equal(wanted, value):
                return True
        except CelRuntimeError:
            continue
    return False


def size(a: Value) -> int:
    kind = type(a)
    if kind is str or kind is bytes or is_list(a) or isinstance(a, CelMap):
        return len(a)
    raise CelRuntimeError("no such overload: size")


OPERATORS: dict[str, Callable[..., Value]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "-_": negate,
    "!_": invert,
    "_<_": less,
    "_<=_": less_or_equal,
    "_>_": greater,
    "_>=_": greater_or_equal,
    "@in": contains,
    "size": size,
}
