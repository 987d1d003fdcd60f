"""Quantities agree with the API machinery: its own answers, plain arithmetic, and bad input."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.quantity import QuantityError, milli_value, parse, value

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "quantities.json").read_text())

FACTORS = {
    **{s: Fraction(10) ** e for s, e in zip("num", (-9, -6, -3), strict=True)},
    **{s: Fraction(10) ** (3 * i) for i, s in enumerate(["", *"kMGTPE"])},
    **{f"{s}i": Fraction(1024) ** i for i, s in enumerate("KMGTPE", start=1)},
    **{f"{letter}{e}": Fraction(10) ** e for letter in "eE" for e in range(-12, 13)},
    **{f"e+{e}": Fraction(10) ** e for e in range(1, 7)},
}


def test_recorded_answers_of_the_api_machinery_match() -> None:
    assert len(RECORDED) > 500
    wrong = [(row, got) for row in RECORDED if (got := answer(row["text"])) != expected(row)]
    assert not wrong


def answer(text: str) -> tuple[int, int] | None:
    try:
        return value(text), milli_value(text)
    except QuantityError:
        return None


def expected(row: dict[str, Any]) -> tuple[int, int] | None:
    return None if row.get("error") else (row["value"], row["milli"])


@st.composite
def amounts(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A text and the amount it stands for, small enough for 64 bits of thousandths."""
    number = draw(st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,12})?", fullmatch=True))
    suffix = draw(st.sampled_from([s for s, factor in FACTORS.items() if factor <= 10**12]))
    return number + suffix, Fraction(number) * FACTORS[suffix]


@settings(deadline=None)
@given(amounts())
def test_amounts_round_up_first_to_nanos_then_to_the_asked_unit(case: tuple[str, Fraction]) -> None:
    text, exact = case
    nanos = math.ceil(exact * 10**9)
    assert parse(text).nanos == nanos
    assert milli_value(text) == math.ceil(Fraction(nanos, 10**6))
    assert value(text) == math.ceil(Fraction(nanos, 10**9))


@settings(deadline=None)
@given(amounts())
def test_a_sign_changes_the_exact_amount_and_nothing_else(case: tuple[str, Fraction]) -> None:
    text, _ = case
    assert parse("-" + text).nanos == -parse(text).nanos
    assert parse("+" + text).nanos == parse(text).nanos


@pytest.mark.parametrize(
    ("text", "whole", "thousandths"),
    [
        pytest.param("250m", 1, 250, id="a quarter core rounds up to one"),
        pytest.param("1.5Gi", 1610612736, 1610612736000, id="binary suffixes take fractions"),
        pytest.param("129e6", 129000000, 129000000000, id="exponents are decimal"),
        pytest.param("1n", 1, 1, id="the smallest amount still counts"),
        pytest.param("0.1n", 1, 1, id="less than the smallest amount is the smallest amount"),
        pytest.param("-1.5", -2, -1500, id="narrow negatives round away from zero"),
        pytest.param("-1.5Ki", -1536, -1536000, id="wide negatives that need no rounding"),
        pytest.param("-0.0001Ki", 1, -101, id="wide negatives add one to what division left"),
        pytest.param("16Ei", 2**63 - 1, -1000, id="binary amounts are capped, thousandths wrap"),
        pytest.param("10E", 0, 0, id="decimal amounts beyond 64 bits are lost"),
        pytest.param("1e1000000000", 0, 0, id="an absurd exponent costs nothing"),
        pytest.param("1e-1000000000", 1, 1, id="so does an absurdly small one"),
        pytest.param(2, 2, 2000, id="a JSON integer"),
        pytest.param(0.5, 1, 500, id="a JSON number"),
        pytest.param(1.5e15, 15 * 10**14, 15 * 10**17, id="a float reads as its shortest text"),
    ],
)
def test_values(text: str | int | float, whole: int, thousandths: int) -> None:
    assert (value(text), milli_value(text)) == (whole, thousandths)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "an empty string"),
        ("1.2.3", "'1.2.3' is not a quantity: expected a number and a suffix"),
        ("12xx", "'12xx' is not a quantity"),
        (" 1", "' 1' is not a quantity"),
        ("1\n", "expected a number and a suffix"),
        ("1 Gi", "'1 Gi' is not a quantity"),
        ("+-1", "'+-1' is not a quantity"),
        ("1K", "unknown suffix 'K'"),
        ("1e", "unknown suffix 'e'"),
        ("\N{FULLWIDTH DIGIT ONE}", "expected a number"),
        ("Ei", "it has no digits"),
        ("9" * 300, "longer than 256 characters"),
        (10**4000, "too long"),
        (math.nan, "not finite"),
        (math.inf, "not finite"),
        (True, "expected a string or a number"),
        (None, "expected a string or a number"),
        ([1], "expected a string or a number"),
    ],
)
@pytest.mark.parametrize("read", [parse, value, milli_value])
def test_bad_input_says_what_is_wrong(read: Any, text: object, complaint: str) -> None:
    with pytest.raises(QuantityError) as caught:
        read(text)
    assert complaint in str(caught.value)


def test_true_is_no_quantity_even_after_one_was_remembered() -> None:
    assert value(1) == 1
    with pytest.raises(QuantityError):
        value(True)
