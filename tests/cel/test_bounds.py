"""Hostile selectors end early: by cost, by size, by counted work; nothing here measures time."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from scheduler.cel import CelCompileError, CelSelector
from scheduler.cel.limits import METER
from scheduler.cel.recursion import room_for
from scheduler.slices import SLICE_SECONDS
from tests.cel.devices import costs, outcome, refusal

_OVER = "operation cancelled: actual cost limit exceeded"


def _bound(count: int, initial: str, step: Callable[[str], str], end: str) -> str:
    """`count` variables, each made of the one before, and an expression of the last one."""
    expression = end.replace("@", f"a{count}")
    for index in range(count, 0, -1):
        expression = f"cel.bind(a{index}, {step(f'a{index - 1}')}, {expression})"
    return f"cel.bind(a0, {initial}, {expression})"


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))",
        "lists.range(1000000000).size() == 1",
        "lists.range(2000).map(x, lists.range(2000)).size() == 1",
        "lists.range(900000).map(x, x).size() == 1",
        "dyn(lists.range(800000)).sort().size() == 1",
        _bound(60, "'x'", lambda a: f"{a} + {a}", "@ == @"),
        _bound(60, "[1]", lambda a: f"{a} + {a}", "@.sum() == 1"),
        _bound(8, "'xxxxxxxxxx'", lambda a: f"{a}.replace('', {a})", "@ == 'x'"),
        _bound(20, "'xxxxxxxxxx'", lambda a: f"[{a}, {a}, {a}, {a}].join({a})", "@ == 'x'"),
        # Values that share their parts: small to write, endless to read.
        _bound(60, "[1]", lambda a: f"[{a}, {a}]", "@ == @"),
        _bound(60, "{'a': 1}", lambda a: f"{{'a': dyn({a}), 'b': dyn({a})}}", "@ == @"),
        _bound(60, "['x']", lambda a: f"[dyn({a}), dyn({a})]", "'%s'.format([@]) == ''"),
        _bound(60, "dyn([])", lambda a: f"[{a}, {a}]", "@.flatten(100) == []"),
        _bound(60, "dyn([])", lambda a: f"[{a}, {a}]", "@.map(x, @).distinct() == []"),
        "lists.range(20000).map(x, dyn([x])).distinct().size() == 3",
        "'%.1000000f'.format([1.0]).size() == 1 || '" + "%.900000f" * 12 + "'.format(["
        + ", ".join(["1.0"] * 12) + "]).size() == 1",
    ],
)  # fmt: skip
def test_an_evaluation_that_would_not_end_is_ended(expression: str) -> None:
    assert outcome(expression) == _OVER
    assert METER.spent <= 1_100_000


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("optional.of(1)" + ".optMap(x, x)" * 60 + ".hasValue()", "more than 50000 nodes"),
        (
            _bound(60, "{1: 1}", lambda a: f"{{{a}: {a}}}", "@ == @"),
            "a type of more than 5000 parts",
        ),
    ],
)
def test_an_expression_that_grows_when_compiled_is_refused(expression: str, text: str) -> None:
    assert text in str(refusal(expression))


def test_nested_literals_are_compiled_once_per_level() -> None:
    assert outcome("[" * 100 + "]" * 100 + " == [[]]") is False
    assert outcome("{'a': " * 100 + "1" + "}" * 100 + " == {}") is False


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("true", 0),
        ("device.driver == 'a'", 3),
        ("device.attributes['d'].x == 1", 5),
        ("has(device.attributes['d'].x)", 3),
        ("[1, 2].exists(x, x == 2)", 13),
        ("lists.range(100).size() == 1", 113),
        ("cel.bind(x, lists.range(100), true)", 0),
        ("'a' in ['a', 'b']", 0),
        ("'abc'.matches('a.*')", 1),
    ],
)
def test_costs_are_those_of_cel_go(expression: str, cost: int) -> None:
    assert costs(expression) == [cost]


@pytest.mark.parametrize(
    ("expression", "estimate"),
    [
        ("device.driver == 'a'", 3),
        ("device.attributes['d'].x == 'abc'", 5),
        ("device.attributes.all(d, device.attributes[d].all(n, n != ''))", 4355),
        ("type(1) == int", 1844674407370955266),
        ("['a'].join('-') == 'a'", 1844674407370955275),
    ],
)
def test_estimates_are_those_of_the_api_server(expression: str, estimate: int) -> None:
    assert CelSelector(expression).estimated_cost == estimate


async def test_long_evaluations_give_the_event_loop_back() -> None:
    import asyncio

    from scheduler.slices import in_slices

    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    expression = "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))"
    assert await in_slices(outcome, expression) == _OVER
    task.cancel()
    assert turns > 0
    assert SLICE_SECONDS < 1


def test_what_does_not_compile_says_so_each_time() -> None:
    for _ in range(2):
        with pytest.raises(CelCompileError, match="nodes"):
            CelSelector("optional.of(1)" + ".optMap(x, x)" * 40 + ".hasValue()")


def test_what_is_kept_of_selectors_and_patterns_is_bounded_in_bytes() -> None:
    from scheduler.cel import regex, selector

    for number in range(60):
        terms = " || ".join(f"device.driver == 'x{number}-{term}'" for term in range(330))
        assert outcome(terms) is False
        assert outcome(f"'a'.matches('(a{{500}}b{{{number + 1}}}){{0,1}}')") is True
    assert selector._selectors.usage().bytes <= 32 * 2**20
    assert selector._selectors.usage().evictions > 0
    assert regex._patterns.usage().bytes <= 8 * 2**20


def test_room_on_the_stack_goes_back_when_nobody_needs_it() -> None:
    before = sys.getrecursionlimit()
    first, second = room_for(5_000), room_for(20_000)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getrecursionlimit() > 20_000
    second.__exit__(None, None, None)
    assert sys.getrecursionlimit() == before
