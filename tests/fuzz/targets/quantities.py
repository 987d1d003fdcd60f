"""Texts of quantities, against exact arithmetic."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from random import Random

from scheduler.model.quantity import MAX_INT64, QuantityError, parse
from tests.fuzz.target import Input

_SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    **{name: Fraction(1000**power) for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGTPE", 1)},
}  # fmt: skip
_DECIMAL = re.compile(
    r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,3})|([numkKMGTPEi]{0,2}))", re.ASCII
)
_ALPHABET = "0123456789.+-eEinumkKMGTP ,_x٣"
_PARTS = (
    "0", "1", "9", "12", "000", "999999999999999999", "9223372036854775807", "9223372036854775808",
    ".", "1.5", ".5", "5.", "0.000000001", "0.0000000001", "+", "-", "e", "E", "e3", "E3", "e-3",
    "e18",
    "e19", "e99", "e999999999", "e99999999999999999999", "n", "u", "m", "k", "K", "Ki", "M", "Mi",
    "G",
    "Gi", "T", "Ti", "P", "Pi", "Ei", "mi", "i", " ", "\n", "1" * 256, "1" * 257,
)  # fmt: skip


class Quantities:
    """Parses one text."""

    name = "quantities"
    what = "texts as quantities: refused with a message, or the exact amount, rounded up"
    share = 200

    def draw(self, rng: Random) -> Input:
        """A text of parts of quantities, or of letters that occur in them."""
        if rng.random() < 0.8:
            return "".join(rng.choice(_PARTS) for _ in range(rng.randint(0, 4)))
        return "".join(rng.choice(_ALPHABET) for _ in range(rng.randint(0, 12)))

    def check(self, given: Input) -> list[str]:
        """The same as fractions say, as far as amounts fit 64 bits."""
        exact = _exact(given)
        try:
            parsed = parse(given)
        except QuantityError as fault:
            if exact is not None and len(given) <= 256:
                return [f"a quantity is refused: {given[:40]!r}: {fault}"]
            return []
        values = parsed.value(), parsed.milli_value(), parsed.nanos
        if exact is None or not 0 <= exact <= Fraction(MAX_INT64, 1000):
            return []
        wanted = math.ceil(exact), math.ceil(exact * 1000), math.ceil(exact * 10**9)
        return [] if values == wanted else [f"{given[:40]!r} is read as {values}, not {wanted}"]

    def close(self) -> None:
        """Nothing is held."""


def _exact(text: str) -> Fraction | None:
    """The amount, if the text is a quantity with an exponent of few digits."""
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    sign, number, exponent, suffix = match.groups()
    amount = Fraction(number if number[-1] != "." else number + "0")
    if exponent is not None:
        amount *= Fraction(10) ** int(exponent)
    elif suffix not in _SUFFIXES:
        return None
    else:
        amount *= _SUFFIXES[suffix]
    return -amount if sign == "-" else amount
