"""Whatever is written as a selector compiles or is refused, and gives an answer or an error."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cel import CelCompileError, CelRuntimeError, CelSelector
from tests.cel.devices import GPU, device

_TOKENS = st.sampled_from(
    [
        "device", ".", "attributes", "capacity", "driver", "[", "]", "(", ")", "{", "}", "'a'", "1",
        "2u", "1.5", "true", "null", "==", "!=", "<", "+", "-", "*", "/", "%", "&&", "||", "!", "?",
        ":", ",", "in", "x", "has", "all", "exists", "map", "filter", "cel", "bind", "optional",
        "of", "none", "orValue", "size", "string", "int", "dyn", "matches", "format", "split",
        "quantity", "semver", "'1Gi'", "'1.2.3'", "gpu.example.com", "b'x'", "lists", "range",
        "sort", "flatten", "duration", "'1h'", "timestamp", "type", "ip", "cidr", "url", "@", "\\",
    ]
)  # fmt: skip

_VALUES = st.sampled_from(
    [
        "1", "-1", "2u", "1.5", "'a'", "''", "b'a'", "true", "null", "[]", "[1]", "['a']", "{}",
        "{'a': 1}", "device.driver", "device.attributes['gpu.example.com'].model", "dyn(1)",
        "device.attributes['gpu.example.com'].fw", "device.capacity['gpu.example.com'].memory",
        "device.attributes['gpu.example.com'].none", "quantity('1')", "semver('1.2.3')",
        "duration('1h')", "timestamp(0)", "optional.of(1)", "optional.none()", "ip('::1')",
        "cidr('10.0.0.0/8')", "url('/a')", "int", "lists.range(3)", "device.attributes", "device",
        "9223372036854775807", "'\\ud7ff'", "format.uuid()",
    ]
)  # fmt: skip
_METHODS = st.sampled_from(
    [
        "size", "startsWith", "contains", "matches", "split", "join", "indexOf", "sort", "distinct",
        "flatten", "sum", "min", "add", "compareTo", "isGreaterThan", "major", "value", "orValue",
        "or", "first", "format", "replace", "substring", "charAt", "find", "findAll", "getHours",
        "containsIP", "getHost", "validate", "slice", "reverse", "lastIndexOf", "trim", "family",
        "asInteger", "hasValue", "unwrapOpt", "isSorted", "check", "path",
    ]
)  # fmt: skip
_FUNCTIONS = st.sampled_from(
    [
        "int", "uint", "double", "string", "bytes", "bool", "duration", "timestamp", "type", "dyn",
        "size", "quantity", "semver", "ip", "cidr", "url", "sign", "isIP", "lists.range",
        "sets.contains", "optional.of", "strings.quote", "format.named", "matches",
    ]
)  # fmt: skip
_OPERATORS = st.sampled_from(["==", "!=", "<", ">=", "+", "-", "*", "/", "%", "in", "&&", "||"])


def _calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    args = st.lists(inner, max_size=2).map(", ".join)
    return st.one_of(
        st.tuples(inner, _OPERATORS, inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, _METHODS, args).map(lambda parts: f"{parts[0]}.{parts[1]}({parts[2]})"),
        st.tuples(_FUNCTIONS, args).map(lambda parts: f"{parts[0]}({parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"{parts[0]}[{parts[1]}]"),
        st.tuples(inner, inner).map(lambda parts: f"{parts[0]}.exists(x, x == {parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"{parts[0]}.map(x, {parts[1]})"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({' ? '.join(parts[:2])} : {parts[2]})"),
        inner.map(lambda part: f"dyn({part})"),
        inner.map(lambda part: f"has({part}.a)"),
    )


_EXPRESSIONS = st.recursive(_VALUES, _calls, max_leaves=8)
_DEVICE = device(GPU)


def _try(expression: str) -> None:
    """Any exception but the two of the package ends the test."""
    with suppress(CelCompileError, CelRuntimeError):
        assert CelSelector(expression).evaluate(_DEVICE) in {True, False}


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=60))
def test_any_text(expression: str) -> None:
    _try(expression)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes(content: bytes) -> None:
    _try(content.decode("latin-1"))
    _try(content.decode(errors="surrogateescape"))


@settings(deadline=None, max_examples=500)
@given(st.lists(_TOKENS, max_size=20).map(" ".join))
def test_any_tokens(expression: str) -> None:
    _try(expression)


@settings(deadline=None, max_examples=500)
@given(_EXPRESSIONS)
def test_any_expression(expression: str) -> None:
    _try(f"dyn({expression}) == true")
    _try(f"dyn({expression})")


@settings(deadline=None, max_examples=200)
@given(_EXPRESSIONS, _EXPRESSIONS)
def test_equality_never_fails_but_for_kubernetes_own_types(first: str, second: str) -> None:
    _try(f"[dyn({first})] == [dyn({second})]")
