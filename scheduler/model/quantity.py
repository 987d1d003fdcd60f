"""Kubernetes quantities ("250m", "1.5Gi", "1e3"), read exactly as the API machinery reads them.

A cluster's nodes and pods are only comparable with what other components compute if every amount
is parsed, capped and rounded the same way, oddities included. The API machinery keeps an amount
either as a 64-bit integer with a decimal exponent (*narrow*) or as a decimal of any size counted
in nano units (*wide*), and the two round negative amounts and overflow differently; `Quantity`
keeps that distinction.

Callers on the hot path use `value` and `milli_value`: clusters repeat a few hundred texts, so
each is one dictionary lookup.
"""

import math
import re
from dataclasses import dataclass
from functools import lru_cache

MAX_INT64 = 2**63 - 1

_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")

_NANO = -9
_NARROW_DIGITS = 18
_CACHED_TEXTS = 8192

# No honest amount is this long; the bound keeps the cost of one hostile pod small.
_MAX_TEXT = 256
# Any exponent further out gives the same results as this one, for texts within the bound above.
_MAX_EXPONENT = 1024


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity; the message quotes it and says what is wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount: `unscaled` x 10**`exponent`, held narrow or wide. Compare by `nanos`."""

    unscaled: int
    exponent: int
    wide: bool

    @property
    def nanos(self) -> int:
        """The exact amount in nano units: no quantity is finer."""
        return int(self.unscaled * 10 ** (self.exponent - _NANO))

    def value(self) -> int:
        """The amount as a 64-bit integer: fractions round up; too large amounts wrap or are 0."""
        return self._scaled(0)

    def milli_value(self) -> int:
        """The amount in thousandths, rounded and wrapped like `value`."""
        return self._scaled(-3)

    def _scaled(self, exponent: int) -> int:
        shift = self.exponent - exponent
        if self.wide:
            return _scale_wide(self.unscaled, shift)
        return _scale_narrow(self.unscaled, shift)


def parse(text: str | int | float) -> Quantity:
    """Read one quantity; JSON numbers count as their text. Raises `QuantityError`."""
    return _parse(text if type(text) is str else _text_of(text))


def value(text: str | int | float) -> int:
    """`Quantity.value` of the text, remembered for the most recent few thousand texts."""
    return _value(text if type(text) is str else _text_of(text))


def milli_value(text: str | int | float) -> int:
    """`Quantity.milli_value` of the text, remembered for the most recent few thousand texts."""
    return _milli_value(text if type(text) is str else _text_of(text))


@lru_cache(maxsize=_CACHED_TEXTS)
def _value(text: str) -> int:
    return _parse(text).value()


@lru_cache(maxsize=_CACHED_TEXTS)
def _milli_value(text: str) -> int:
    return _parse(text).milli_value()


def _text_of(number: object) -> str:
    # True == 1 would share a cache entry with 1, so types are checked before any cache is used.
    if isinstance(number, str):
        return str(number)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise QuantityError(f"{number!r} is not a quantity: expected a string or a number")
    if isinstance(number, float) and not math.isfinite(number):
        raise QuantityError(f"{number!r} is not a quantity: it is not finite")
    if isinstance(number, int) and number.bit_length() > _MAX_TEXT * 3:
        raise QuantityError(f"a number of {number.bit_length()} bits is too long for a quantity")
    return repr(number)


def _parse(text: str) -> Quantity:
    if len(text) > _MAX_TEXT:
        raise QuantityError(f"{text[:16]!r}… is not a quantity: longer than {_MAX_TEXT} characters")
    if not text:
        raise QuantityError("an empty string is not a quantity")
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity: expected a number and a suffix")
    sign, leading, fraction, suffix = match.groups(default="")
    whole = leading.lstrip("0") or "0"
    digits = int(whole + fraction)
    shift = _BINARY_SUFFIXES.get(suffix)
    if shift is None:
        exponent = _decimal_exponent(text, suffix) - len(fraction)
        precision = _NARROW_DIGITS - len(whole) - len(fraction)
    else:
        digits <<= shift
        exponent = -len(fraction)
        precision = -1 if fraction else 14 - len(whole) - shift * 3 // 10
    signed = -1 if sign == "-" else 1

    if precision >= 0 and exponent >= _NANO and digits <= MAX_INT64:
        return Quantity(signed * digits, exponent, wide=False)
    if not leading and not fraction:
        raise QuantityError(f"{text!r} is not a quantity: it has no digits")
    nanos = _scale_up(digits, exponent - _NANO)
    if shift is not None and nanos > MAX_INT64 * 10**9:
        return Quantity(signed * MAX_INT64, 0, wide=True)
    return Quantity(signed * nanos, _NANO, wide=True)


def _decimal_exponent(text: str, suffix: str) -> int:
    known = _DECIMAL_SUFFIXES.get(suffix)
    if known is not None:
        return known
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not -MAX_INT64 - 1 <= (exponent := int(match[1])) <= MAX_INT64:
        raise QuantityError(f"{text!r} is not a quantity: unknown suffix {suffix!r}")
    return max(-_MAX_EXPONENT, min(_MAX_EXPONENT, _wrap(exponent, 32)))


def _scale_up(digits: int, exponent: int) -> int:
    """digits x 10**exponent for digits >= 0: a fraction of a unit is rounded up to a whole one."""
    if exponent >= 0:
        return int(digits * 10**exponent)
    return int(-(-digits // 10**-exponent))


def _scale_narrow(amount: int, shift: int) -> int:
    if shift < 0:
        magnitude = _scale_up(abs(amount), shift)
        return magnitude if amount >= 0 else -magnitude
    scaled = int(amount * 10**shift)
    wrapped = _wrap(scaled, 64)
    # The API machinery multiplies at once for these shifts and step by step, giving up, for others.
    return wrapped if wrapped == scaled or shift in {1, 2, 3, 6, 9} else 0


def _scale_wide(amount: int, shift: int) -> int:
    if shift >= 0:
        return _wrap(int(amount * 10**shift), 64)
    if amount >= MAX_INT64:
        return _wrap(_scale_up(amount, shift), 64)
    # Division truncates towards zero before the remainder adds one: -1.5 becomes 0 here.
    narrowed = _wrap(amount, 64)
    quotient, remainder = divmod(abs(narrowed), int(10**-shift))
    return (quotient if narrowed >= 0 else -quotient) + (1 if remainder else 0)


def _wrap(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half
