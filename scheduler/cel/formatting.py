"""`"%s is %d".format([…])`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from scheduler.cel.conversions import to_text
from scheduler.cel.errors import CelRuntimeError, no_such_overload
from scheduler.cel.limits import METER, check_length
from scheduler.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    elements,
    is_list,
    is_map,
    type_name,
)

DEFAULT_PRECISION = 6
_MAX_PRECISION = 1_000_000
_PRECISION = re.compile(r"\.([0-9]*)")
_SPECIAL_DOUBLES = frozenset({"NaN", "Infinity", "-Infinity"})


class Clause(NamedTuple):
    """One `%` of a format: its letter and precision."""

    letter: str
    precision: int


def clauses(text: str, count: int) -> Iterator[str | Clause]:
    """The parts of a format for so many values: texts and clauses. Raises `CelRuntimeError`."""
    at = used = 0
    while at < len(text):
        mark = text.find("%", at)
        if mark < 0:
            yield text[at:]
            return
        yield text[at:mark]
        at = mark + 1
        if text.startswith("%", at):
            yield "%"
            at += 1
            continue
        if at >= len(text):
            raise CelRuntimeError("unexpected end of string")
        if used >= count:
            raise CelRuntimeError(f"index {used} out of range")
        clause, at = _clause(text, at)
        yield clause
        used += 1


def _clause(text: str, at: int) -> tuple[Clause, int]:
    precision = DEFAULT_PRECISION
    match = _PRECISION.match(text, at)
    if match is not None:
        if match.end() >= len(text):
            raise CelRuntimeError(
                "could not parse formatting clause: error while parsing precision: "
                "could not find end of precision specifier"
            )
        if not match[1] or len(match[1]) > 18:
            raise CelRuntimeError(
                "could not parse formatting clause: error while parsing precision: "
                "error while converting precision to integer: strconv.Atoi: parsing "
                f'"{match[1]}": invalid syntax'
            )
        precision = int(match[1])
        at = match.end()
    if text[at] not in "sdfebxXo":
        raise CelRuntimeError(
            f'could not parse formatting clause: unrecognized formatting clause "{text[at]}"'
        )
    return Clause(text[at], precision), at + 1


def format_text(*args: Value) -> str:
    if type(args[0]) is not str or not is_list(args[1]):
        raise no_such_overload("format", *(type_name(arg) for arg in args))
    values = iter(elements(args[1]))
    shown: list[str] = []
    length = 0
    for part in clauses(args[0], len(args[1])):
        text = part if isinstance(part, str) else _formatted(next(values), part)
        shown.append(text)
        length += len(text)
        check_length(length)
    return "".join(shown)


def _formatted(value: Value, clause: Clause) -> str:
    try:
        return _FORMATS[clause.letter](value, clause)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"error during formatting: {error}") from None


def _as_string(value: Value, _clause: Clause | None = None) -> str:
    if is_list(value):
        return f"[{', '.join(_bounded(_member(part) for part in elements(value)))}]"
    if is_map(value):
        pairs = ((_key(key), _member(inner)) for key, inner in value.pairs())
        return f"{{{', '.join(sorted(_bounded(f'{key}:{inner}' for key, inner in pairs)))}}}"
    if value is None:
        return "null"
    if type(value) is TypeValue:
        return str(value)
    try:
        return to_text(value)
    except CelRuntimeError as error:
        if type(value) is bytes:
            raise CelRuntimeError("could not convert argument to string") from error
        raise CelRuntimeError(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
            f"types, durations, and timestamps, was given {type_name(value)}"
        ) from None


def _bounded(parts: Iterable[str]) -> list[str]:
    """The parts, unless they are too long together."""
    found: list[str] = []
    length = 0
    for part in parts:
        length += len(part)
        check_length(length)
        METER.work(0)
        found.append(part)
    return found


def _key(value: Value) -> str:
    if type(value) not in {str, bool, int, Uint}:
        raise CelRuntimeError(f"no formatting function for map key of type {type_name(value)}")
    return _member(value)


def _member(value: Value) -> str:
    """A value inside a list or map."""
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is bytes:
        return f"b{_quoted(_as_string(value))}"
    if kind is float:
        text = _decimals(value, DEFAULT_PRECISION, "+Inf", "-Inf")
        return _quoted(text) if not math.isfinite(value) else text
    if kind is Timestamp:
        return f"timestamp({_quoted(to_text(value))})"
    if kind is Duration:
        return f"duration({_quoted(to_text(value))})"
    known = {bool, int, Uint, type(None), TypeValue}
    if kind in known or is_list(value) or is_map(value):
        return _as_string(value)
    raise CelRuntimeError(f"no formatting function for {type_name(value)}")


def _quoted(text: str) -> str:
    """A text as Go's %q shows it."""
    shown = []
    for char in text:
        code = ord(char)
        if char in '"\\':
            shown.append(f"\\{char}")
        elif char.isprintable():
            shown.append(char)
        elif char in _SHORT:
            shown.append(_SHORT[char])
        elif code < 128:
            shown.append(f"\\x{code:02x}")
        else:
            shown.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f'"{"".join(shown)}"'


_SHORT = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def _as_decimal(value: Value, _clause: Clause) -> str:
    if type(value) in {int, Uint}:
        return str(int(value))
    raise CelRuntimeError(
        f"decimal clause can only be used on integers, was given {type_name(value)}"
    )


def _double(value: Value, clause: str) -> float:
    if type(value) is float:
        return value + 0.0  # the zero below zero is shown without a sign
    if type(value) is str and value in _SPECIAL_DOUBLES:
        return float(value)
    raise CelRuntimeError(
        f"{clause} clause can only be used on doubles, was given {type_name(value)}"
    )


def _decimals(value: float, precision: int, infinite: str, minus_infinite: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return infinite if value > 0 else minus_infinite
    return f"{value:.{precision}f}"


def _as_fixed(value: Value, clause: Clause) -> str:
    number = _double(value, "fixed-point")
    if clause.precision > _MAX_PRECISION:
        return "%!(BADPREC)"
    if not math.isfinite(number):
        return _decimals(number, 0, "∞", "-∞")
    return f"{number:,.{clause.precision}f}"


def _as_scientific(value: Value, clause: Clause) -> str:
    # The precision is the width there: six digits come after the point whatever it says.
    number = _double(value, "scientific")
    if clause.precision > _MAX_PRECISION:
        return "%!(BADWIDTH)"
    if math.isfinite(number):
        mantissa, _, exponent = f"{number:.6e}".partition("e")
        text = f"{mantissa}\u00d710{_superscript(int(exponent))}"
    else:
        text = _decimals(number, 0, "∞", "-∞")
    return text.rjust(clause.precision)


_SUPERSCRIPTS = str.maketrans("0123456789-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077"
                              "\u2078\u2079\u207b")  # fmt: skip


def _superscript(exponent: int) -> str:
    return f"{'-' if exponent < 0 else ''}{abs(exponent):02d}".translate(_SUPERSCRIPTS)


def _as_binary(value: Value, _clause: Clause) -> str:
    if type(value) in {int, Uint, bool}:
        return f"{int(value):b}"
    raise CelRuntimeError(
        f"only integers and bools can be formatted as binary, was given {type_name(value)}"
    )


def _as_hex(value: Value, clause: Clause) -> str:
    if type(value) in {int, Uint}:
        text = f"{int(value):x}"
    elif type(value) is str:
        text = value.encode(errors="replace").hex()
    elif type(value) is bytes:
        text = value.hex()
    else:
        raise CelRuntimeError(
            "only integers, byte buffers, and strings can be formatted as hex, was given "
            f"{type_name(value)}"
        )
    return text.upper() if clause.letter == "X" else text


def _as_octal(value: Value, _clause: Clause) -> str:
    if type(value) in {int, Uint}:
        return f"{int(value):o}"
    raise CelRuntimeError(
        f"octal clause can only be used on integers, was given {type_name(value)}"
    )


_FORMATS: dict[str, Callable[[Value, Clause], str]] = {
    "s": _as_string,
    "d": _as_decimal,
    "f": _as_fixed,
    "e": _as_scientific,
    "b": _as_binary,
    "x": _as_hex,
    "X": _as_hex,
    "o": _as_octal,
}

FUNCTIONS: dict[str, Callable[..., Value]] = {"format": format_text}
