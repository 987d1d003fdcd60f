"""The language itself: literals, operators, errors, optionals, macros."""

from __future__ import annotations

import pytest

from tests.cel.devices import outcome, refusal


@pytest.mark.parametrize(
    "expression",
    [
        # Literals.
        r'"a\n\t\\\"\x41\u00e9\U0001F600\101" == "a\n\t\\\"A\u00e9\U0001F600A"',
        r"r'\d' == '\\d' && R" + '"""a"b""" == \'a"b\'',
        r"b'\xff\377' == b'\377\xff' && b'é' == bytes('é') && br'\x' == bytes(r'\x')",
        "'''a\nb''' == 'a\\nb'",
        "0x1F == 31 && -0x10 == -16 && 0xFu == 15u && .5 == 0.5 && 1e3 == 1000.0",
        "-9223372036854775808 < 0 && 18446744073709551615u > 0u",
        "[1, 2,] == [1, 2] && {'a': 1,} == {'a': 1}",
        "null == null && dyn(1) != null  // a comment",
        # Operators.
        "1 + 2 * 3 - 4 / 2 % 3 == 5 && -7 / 2 == -3 && -7 % 3 == -1",
        "2 < 2.5 && 2u <= 2 && 3.0 >= 3u && 'a' < 'b' && false < true && b'a' < b'b'",
        "1.0 / 0.0 > 1e300 && !(0.0 / 0.0 == 0.0 / 0.0)",
        "'a' in ['a', 'b'] && !(3 in [1, 2]) && 'k' in {'k': 1} && !(1 in [])",
        "dyn(1) == 1.0 && dyn(1u) == 1 && dyn(8) in [8.0] && {1: 'a'}[dyn(1.0)] == 'a'",
        "!!true && - -1 == 1 && !(!(true))",
        "(true ? 1 : 2) == 1 && (false ? 1 : true ? 2 : 3) == 2",
        "[1] + [2] == [1, 2] && 'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'",
        # Macros.
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2, 2].exists_one(x, x == 1)",
        "[1, 2].map(x, x * 2) == [2, 4] && [1, 2, 3].map(x, x > 1, x) == [2, 3]",
        "[1, 2, 3].filter(x, x % 2 == 1) == [1, 3] && {'a': 1}.map(k, k) == ['a']",
        "[5, 6].all(i, v, v == i + 5) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[1, 1].existsOne(i, v, i == 1) && [4].transformList(i, v, i + v) == [4]",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 2) == {'b': 4}",
        "[7].transformMapEntry(i, v, {string(v): i}) == {'7': 0}",
        "cel.bind(x, 2, cel.bind(y, x + 1, x * y)) == 6",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
        # Optionals.
        "optional.of(1).value() == 1 && !optional.none().hasValue()",
        "{'a': 1}.?a == optional.of(1) && {'a': 1}.?b == optional.none()",
        "[1][?0].orValue(5) == 1 && [1][?9].orValue(5) == 5",
        "optional.none().or(optional.of(2)).value() == 2",
        "optional.of(2).optMap(x, x + 1) == optional.of(3)",
        "optional.of(2).optFlatMap(x, optional.none()) == optional.none()",
        "[?optional.of(1), ?optional.none()] == [1] && {?'a': optional.none()} == {}",
        "{'a': {'b': 1}}.?a.b.value() == 1 && {'a': {'b': 1}}.?c.b == optional.none()",
        "optional.ofNonZeroValue('') == optional.none()",
        "[optional.of(1), optional.none()].unwrapOpt() == [1]",
        "google.protobuf.Int64Value{value: 1} == 1",
        "google.protobuf.Duration{seconds: 90} == duration('1m30s')",
        "type(1) == int && type([]) == list && type(duration('1s')) == google.protobuf.Duration",
    ],
)
def test_true(expression: str) -> None:
    assert outcome(expression) is True


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("[1][5] == 1", "index out of bounds: 5"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
        ("{'a': 1}.b == 1", "no such key: b"),
        ("[1].map(x, x / 0) == [1]", "division by zero"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("dyn('a') < 1", "no such overload"),
        ("dyn([1]) < 1", "no such overload: _<_"),
        ("!dyn('a')", "no such overload"),
        ("dyn(1) + 'a' == 'a'", "no such overload"),
        (
            "{'a': 1}.transformMapEntry(k, v, {'x': v, 'y': dyn(k)/0}) == {}",
            "no such overload: _/_",
        ),
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
    ],
)
def test_errors(expression: str, text: str) -> None:
    assert outcome(expression) == text


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 / 0 == 1 || true", True),
        ("true || 1 / 0 == 1", True),
        ("1 / 0 == 1 && false", False),
        ("1 / 0 == 1 && true", "division by zero"),
        ("1 % 0 == 1 || 1 / 0 == 1", "modulus by zero"),
        ("[0, 1].exists(x, 1 / x == 1)", True),
        ("[0, 2].exists(x, 1 / x == 1)", "division by zero"),
        ("[0, 2].all(x, 1 / x == 1)", False),
        ("[0, 1].exists_one(x, 1 / x == 1)", "division by zero"),
        ("cel.bind(x, 1 / 0, true)", True),
        ("(1 / 0 == 1 ? true : false) || true", True),
        ("device.attributes['a'].b || device.driver == 'gpu.example.com'", True),
        # These end the evaluation, whatever the other side says.
        (
            "device.attributes['gpu.example.com'].fw in ['1'] || true",
            "internal error: runtime error: hash of unhashable type cel.Semver",
        ),
        (
            "lists.range(1000).all(x, lists.range(1000).all(y, y >= 0)) || true",
            "operation cancelled: actual cost limit exceeded",
        ),
    ],
)
def test_logic_absorbs_errors_where_the_other_side_decides(
    expression: str, result: bool | str
) -> None:
    assert outcome(expression) == result


@pytest.mark.parametrize(
    ("expression", "where", "message"),
    [
        ("", "1:1", "Syntax error"),
        ("1 +", "1:4", "Syntax error"),
        ("true true", "1:6", "Syntax error"),
        ("[1,,2] == []", "1:4", "Syntax error"),
        ("a.`b` == 1", "1:3", "unsupported syntax: '`'"),
        ("if == 1", "1:1", "reserved identifier: if"),
        ("9223372036854775808 == 1", "1:1", "invalid int literal"),
        ("18446744073709551616u == 1u", "1:1", "invalid uint literal"),
        ("1e999 == 1.0", "1:1", "invalid double literal"),
        ("'\\ud800' == ''", "1:1", "invalid unicode code point"),
        ("'a\nb' == ''", "1:1", "Syntax error"),
        ("nope", "1:1", "undeclared reference to 'nope' (in container '')"),
        ("device.name == 'a'", "1:7", "undefined field 'name'"),
        ("1 + 'a' == 1", "1:3", "found no matching overload for '_+_' applied to '(int, string)'"),
        ("'a'.nope()", "1:9", "undeclared reference to 'nope' (in container '')"),
        ("1 == 'a'", "1:3", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("1 && true", "1:1", "expected type 'bool' but found 'int'"),
        ("[1, 'a'] == []", "1:5", "expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'} == {}", "1:15", "expected type 'int' but found 'string'"),
        ("[1].existsOne(x, true)", "1:14", "undeclared reference to 'existsOne'"),
        ("[1].all(1, true)", "1:9", "argument must be a simple name"),
        ("[1].all(x, x, true)", "1:12", "duplicate variable name: x"),
        ("has(device)", "1:5", "invalid argument to has() macro"),
        ("duration('1x') == duration('1s')", "1:10", "invalid duration argument"),
        ("timestamp('x') == timestamp(0)", "1:11", "invalid timestamp argument"),
        ("'a'.matches('(')", "1:13", "invalid matches argument"),
        ("'%d'.format(['a']) == ''", "1:14", "error during formatting: decimal clause"),
        ("'%s'.format([]) == ''", "1:12", "index 0 out of range"),
        ("'%s'.format([1, 2]) == ''", "1:12", "too many arguments supplied to string.format"),
        ("authorizer.path('/').check('get').allowed()", "1:1", "undeclared reference"),
    ],
)
def test_refused_at_a_place(expression: str, where: str, message: str) -> None:
    text = refusal(expression)
    assert text is not None
    assert text.startswith(f"compilation failed: ERROR: <input>:{where}: {message}")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("[1, 2]", "must evaluate to bool or the unknown type, not list(int)"),
        (
            "int('x') == 1",
            "program instantiation failed: type conversion error from 'string' to 'int'",
        ),
        (
            "'a'.find('(') == ''",
            "program instantiation failed: error parsing regexp: missing closing ): `(`",
        ),
        ("'" + "a" * 10240 + "' == ''", "must be at most 10240 bytes long, not 10248"),
    ],
)
def test_refused_as_a_whole(expression: str, text: str) -> None:
    assert refusal(expression) == text


def test_a_refusal_shows_the_line_and_marks_the_place() -> None:
    from scheduler.cel import CelCompileError, compile_selector

    with pytest.raises(CelCompileError) as refused:
        compile_selector("true &&\n  nope")
    assert str(refused.value) == (
        "compilation failed: ERROR: <input>:2:3: undeclared reference to 'nope' (in container '')\n"
        " |   nope\n"
        " | ..^"
    )


@pytest.mark.parametrize(
    ("allowed", "refused", "text"),
    [
        ("1" + "+1" * 249 + " == 1", "1" + "+1" * 250 + " == 1", "max recursion depth exceeded"),
        (
            "(" * 249 + "true" + ")" * 249,
            "(" * 250 + "true" + ")" * 250,
            "expression recursion limit exceeded: 250",
        ),
    ],
)
def test_how_deep_and_long_chains_may_be(allowed: str, refused: str, text: str) -> None:
    assert refusal(allowed) is None
    assert refusal(refused) == f"compilation failed: ERROR: <input>:-1:0: {text}"


def test_the_deepest_expressions_are_evaluated() -> None:
    assert outcome("(true && " * 240 + "true" + ")" * 240) is True
    assert outcome("[0][" * 240 + "0" + "]" * 240 + " == 0") is True
    assert outcome("[1]" + ".map(x, x)" * 240 + " == [1]") is True
