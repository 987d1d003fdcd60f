"""Conversions between types: `int(x)`, `string(x)`, `duration(x)` and so on."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from scheduler.cel.arithmetic import SECOND, to_int, to_timestamp, to_uint
from scheduler.cel.errors import CelRuntimeError, no_such_overload
from scheduler.cel.lexer import MAX_INT, MAX_UINT, MIN_INT
from scheduler.cel.times import parse_duration, parse_timestamp, timestamp_text
from scheduler.cel.values import (
    AddressValue,
    Duration,
    Prefix,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    type_name,
)

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INT = re.compile(r"[+-]?[0-9]{1,400}")
_UINT = re.compile(r"[0-9]{1,400}")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LOOSE = re.compile(r"(?<![0-9a-fA-FxX])_|_(?![0-9a-fA-F])")
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)


def _fails(value: Value, target: str) -> CelRuntimeError:
    return CelRuntimeError(f"type conversion error from '{type_name(value)}' to '{target}'")


def to_bool(value: Value) -> bool:
    if type(value) is bool:
        return value
    if type(value) is not str:
        raise no_such_overload("bool", type_name(value))
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise _fails(value, "bool")


def to_bytes(value: Value) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode(errors="surrogatepass")
    raise no_such_overload("bytes", type_name(value))


def to_double(value: Value) -> float:
    kind = type(value)
    if kind is float or kind is int or kind is Uint:
        return float(value)
    if kind is not str:
        raise no_such_overload("double", type_name(value))
    number = parse_float(value)
    if number is None:
        raise _fails(value, "double")
    return number


def parse_float(text: str) -> float | None:
    """What Go reads of a text as a number, or None."""
    if len(text) > 1000:
        return None
    if "_" in text:
        if _LOOSE.search(text):
            return None  # an underscore may only stand between digits
        text = text.replace("_", "")
    if _FLOAT.fullmatch(text):
        number = float(text)
        return None if math.isinf(number) else number
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    return float(text) if _SPECIAL.fullmatch(text) and text.lower() not in _BAD else None


_BAD = frozenset({"+nan", "-nan"})


def to_integer(value: Value) -> int:
    kind = type(value)
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is Uint:
        return to_int(int(value))
    if kind is float:
        if not math.isfinite(value) or not -(2.0**63) < value < 2.0**63:
            raise CelRuntimeError("integer overflow")
        return int(value)
    if kind is Duration:
        return value.nanos  # type: ignore[no-any-return]
    if kind is Timestamp:
        return value.nanos // SECOND  # type: ignore[no-any-return]
    if kind is not str:
        raise no_such_overload("int", type_name(value))
    if _INT.fullmatch(value) and MIN_INT <= (number := int(value)) <= MAX_INT:
        return number
    raise _fails(value, "int")


def to_unsigned(value: Value) -> Uint:
    kind = type(value)
    if kind is Uint:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return to_uint(value)
    if kind is float:
        if not math.isfinite(value) or not 0 <= value < 2.0**64:
            raise CelRuntimeError("unsigned integer overflow")
        return Uint(int(value))
    if kind is not str:
        raise no_such_overload("uint", type_name(value))
    if _UINT.fullmatch(value) and (number := int(value)) <= MAX_UINT:
        return Uint(number)
    raise _fails(value, "uint")


def to_text(value: Value) -> str:
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is Uint:
        return str(int(value))
    if kind is float:
        return double_text(value)
    if kind is bytes:
        try:
            return value.decode()  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            message = "invalid UTF-8 in bytes, cannot convert to string"
            raise CelRuntimeError(message) from None
    if kind is Duration:
        return duration_text(value)
    if kind is Timestamp:
        return timestamp_text(value)
    if kind is AddressValue:
        return str(value.ip)
    if kind is Prefix:
        return f"{value.ip}/{value.bits}"
    raise no_such_overload("string", type_name(value))


def duration_text(value: Duration) -> str:
    return fixed_text(value.nanos / SECOND) + "s"


def fixed_text(number: float) -> str:
    """A double with as many digits as it takes, never with an exponent."""
    shown = repr(number)
    if "e" not in shown:
        return shown.removesuffix(".0")
    digits = format(number, "f") if abs(number) >= 1 else format(number, ".20f")
    return digits.rstrip("0").removesuffix(".")


def double_text(number: float) -> str:
    """A double as Go's %g prints it."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    digits, exponent = _shortest(number)
    if not -4 <= exponent < 6:
        mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        shown = f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    elif exponent < 0:
        shown = "0." + "0" * (-exponent - 1) + digits
    elif len(digits) <= exponent + 1:
        shown = digits + "0" * (exponent + 1 - len(digits))
    else:
        shown = f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
    return f"-{shown}" if number < 0 else shown


def _shortest(number: float) -> tuple[str, int]:
    """The shortest digits that read back as the number, and the exponent of the first one."""
    mantissa, _, exponent = f"{abs(number):.17e}".partition("e")
    for precision in range(17):
        text = f"{abs(number):.{precision}e}"
        if float(text) == abs(number):
            mantissa, _, exponent = text.partition("e")
            break
    digits = mantissa.replace(".", "").rstrip("0") or "0"
    return digits, int(exponent)


def to_duration(value: Value) -> Duration:
    kind = type(value)
    if kind is Duration:
        return value  # type: ignore[no-any-return]
    if kind is int:
        raise _fails(value, "google.protobuf.Duration")
    if kind is not str:
        raise no_such_overload("duration", type_name(value))
    nanos = parse_duration(value)
    if nanos is None:
        raise _fails(value, "google.protobuf.Duration")
    return Duration(nanos)


def to_time(value: Value) -> Timestamp:
    kind = type(value)
    if kind is Timestamp:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return to_timestamp(value * SECOND)
    if kind is not str:
        raise no_such_overload("timestamp", type_name(value))
    found = parse_timestamp(value)
    if found is None:
        raise _fails(value, "google.protobuf.Timestamp")
    return to_timestamp(*found)


def to_type(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


def to_dyn(value: Value) -> Value:
    return value


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "bool": to_bool,
    "bytes": to_bytes,
    "double": to_double,
    "duration": to_duration,
    "dyn": to_dyn,
    "int": to_integer,
    "string": to_text,
    "timestamp": to_time,
    "type": to_type,
    "uint": to_unsigned,
}
