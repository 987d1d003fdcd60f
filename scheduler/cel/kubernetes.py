"""Quantities and semantic versions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache

from scheduler.cel.errors import CelRuntimeError, no_such_overload
from scheduler.cel.lexer import MAX_INT, MIN_INT
from scheduler.cel.values import QuantityValue, Semver, Value, type_name
from scheduler.model import quantity as amounts
from scheduler.model.quantity import Quantity as Amount

_CACHED_TEXTS = 4096
_LONGEST_VERSION = 4096


@lru_cache(maxsize=_CACHED_TEXTS)
def quantity_of(text: str) -> QuantityValue:
    """The amount that a text says. Raises `CelRuntimeError`."""
    try:
        parsed = amounts.parse(text)
    except amounts.QuantityError:
        raise CelRuntimeError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None
    return QuantityValue(parsed)


def to_quantity(text: Value) -> QuantityValue:
    if type(text) is not str:
        raise no_such_overload("quantity", type_name(text))
    return quantity_of(text)


def is_quantity(text: Value) -> bool:
    if type(text) is not str:
        raise no_such_overload("isQuantity", type_name(text))
    try:
        quantity_of(text)
    except CelRuntimeError:
        return False
    return True


def _quantity(function: str, value: Value) -> QuantityValue:
    if type(value) is not QuantityValue:
        raise no_such_overload(function, type_name(value))
    return value


def sign(value: Value) -> int:
    nanos = _quantity("sign", value).nanos
    return (nanos > 0) - (nanos < 0)


def is_integer(value: Value) -> bool:
    return _integer(_quantity("isInteger", value)) is not None


def as_integer(value: Value) -> int:
    number = _integer(_quantity("asInteger", value))
    if number is None:
        raise CelRuntimeError("cannot convert value to integer")
    return number


def _integer(value: QuantityValue) -> int | None:
    held = value.held
    if held.wide or held.exponent < 0:
        return None  # also where the fraction is zero
    number = held.unscaled * 10**held.exponent
    return int(number) if MIN_INT <= number <= MAX_INT else None


def as_float(value: Value) -> float:
    held = _quantity("asApproximateFloat", value).held
    try:
        base = float(held.unscaled)
    except OverflowError:
        base = math.copysign(math.inf, held.unscaled)
    return base * _power_of_ten(held.exponent) if held.exponent else base


def _power_of_ten(exponent: int) -> float:
    """As Go has it, to the last bit: the product, or the quotient, of two powers that are exact."""
    if exponent > 308:
        return math.inf
    if exponent < -323:
        return 0.0
    thirty_twos, rest = divmod(abs(exponent), 32)
    if exponent < 0:
        return float(f"1e-{32 * thirty_twos}") / float(f"1e{rest}")
    return float(f"1e{32 * thirty_twos}") * float(f"1e{rest}")


def _sum(function: str, factor: int, args: tuple[Value, ...]) -> QuantityValue:
    value, other = args
    if type(value) is not QuantityValue or type(other) not in {QuantityValue, int}:
        raise no_such_overload(function, *(type_name(arg) for arg in args))
    added = other.held if type(other) is QuantityValue else Amount(other, 0, wide=False)
    return QuantityValue(_added(value.held, factor, added), computed=True)


def _added(a: Amount, factor: int, b: Amount) -> Amount:
    """The sum, held narrow where the API machinery manages that."""
    if not a.wide and not b.wide:
        if not b.unscaled:
            return a
        change = factor * b.unscaled
        if change > MAX_INT:
            change = MIN_INT  # Go's negation of the smallest integer
        if not a.unscaled:
            return Amount(change, b.exponent, wide=False)
        exponent = min(a.exponent, b.exponent)
        first = a.unscaled * 10 ** (a.exponent - exponent)
        second = change * 10 ** (b.exponent - exponent)
        if all(MIN_INT <= part <= MAX_INT for part in (first, second, first + second)):
            return Amount(first + second, exponent, wide=False)
    return Amount(a.nanos + factor * b.nanos, -9, wide=True)


def add(*args: Value) -> QuantityValue:
    return _sum("add", 1, args)


def sub(*args: Value) -> QuantityValue:
    return _sum("sub", -1, args)


def _identifiers(text: str, what: str) -> list[str]:
    parts = text.split(".")
    for part in parts:
        if not part:
            raise CelRuntimeError(f"{what} is empty")
        if re.fullmatch(r"[0-9A-Za-z-]+", part) is None:
            message = f'Invalid character(s) found in {what.lower()} "{part}"'
            raise CelRuntimeError(message)
    return parts


@lru_cache(maxsize=_CACHED_TEXTS)
def semver_of(text: str) -> Semver:
    """The version that a text says. Raises `CelRuntimeError`."""
    if not text:
        raise CelRuntimeError("Version string empty")
    if len(text) > _LONGEST_VERSION:
        raise CelRuntimeError("Version string too long")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelRuntimeError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    number = _number(patch, "Patch")
    found: list[int | str] = [
        _number(part, "Numeric PreRelease version", "") if part.isdigit() else part
        for part in (_identifiers(prerelease, "Prerelease") if dash else ())
    ]
    built = tuple(_identifiers(build, "Build meta data")) if plus else ()
    return Semver(major, minor, number, tuple(found), built)


def _number(text: str, what: str, number: str = " number") -> int:
    if re.fullmatch(r"[0-9]+", text) is None:
        message = f'Invalid character(s) found in {what.lower()} number "{text}"'
        raise CelRuntimeError(message)
    if len(text) > 1 and text.startswith("0"):
        raise CelRuntimeError(f'{what}{number} must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > 2**64 - 1:
        message = f'strconv.ParseUint: parsing "{text}": value out of range'
        raise CelRuntimeError(message)
    return int(text)


def _normalised(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            if not stripped or stripped[0] not in "0123456789":
                stripped = f"0{stripped}"
            parts[index] = stripped
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelRuntimeError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def to_semver(*args: Value) -> Semver:
    text, normalise = _version_args("semver", args)
    return semver_of(_normalised(text) if normalise else text)


def is_semver(*args: Value) -> bool:
    text, normalise = _version_args("isSemver", args)
    try:
        semver_of(_normalised(text) if normalise else text)
    except CelRuntimeError:
        return False
    return True


def _version_args(function: str, args: tuple[Value, ...]) -> tuple[str, bool]:
    if type(args[0]) is not str or (len(args) == 2 and type(args[1]) is not bool):
        raise no_such_overload(function, *(type_name(arg) for arg in args))
    return args[0], len(args) == 2 and args[1]


def _part(function: str) -> Callable[[Value], int]:
    def access(value: Value) -> int:
        if type(value) is not Semver:
            raise no_such_overload(function, type_name(value))
        number = {"major": value.major, "minor": value.minor, "patch": value.patch}[function]
        return number - 2**64 if number > MAX_INT else number

    return access


def _order(function: str, args: tuple[Value, ...]) -> int:
    value, other = args
    if type(value) is QuantityValue and type(other) is QuantityValue:
        return (value.nanos > other.nanos) - (value.nanos < other.nanos)
    if type(value) is Semver and type(other) is Semver:
        return bool(value.order > other.order) - bool(value.order < other.order)
    raise no_such_overload(function, *(type_name(arg) for arg in args))


def compare_to(*args: Value) -> int:
    return _order("compareTo", args)


def is_greater(*args: Value) -> bool:
    return _order("isGreaterThan", args) > 0


def is_less(*args: Value) -> bool:
    return _order("isLessThan", args) < 0


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "add": add,
    "asApproximateFloat": as_float,
    "asInteger": as_integer,
    "compareTo": compare_to,
    "isGreaterThan": is_greater,
    "isInteger": is_integer,
    "isLessThan": is_less,
    "isQuantity": is_quantity,
    "isSemver": is_semver,
    "major": _part("major"),
    "minor": _part("minor"),
    "patch": _part("patch"),
    "quantity": to_quantity,
    "semver": to_semver,
    "sign": sign,
    "sub": sub,
}
