"""Functions with regular expressions."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cel.errors import CelCompileError, CelRuntimeError, no_such_overload
from scheduler.cel.regex import Pattern, compile_pattern
from scheduler.cel.regex_syntax import RegexError
from scheduler.cel.values import Value, type_name


def matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise CelRuntimeError("no such overload: matches")
    if type(pattern) is not str:
        raise no_such_overload()
    return _compiled(pattern, "").matches(text)


def find(text: Value, pattern: Value) -> str:
    _texts("find", text, pattern)
    return _compiled(pattern, "Illegal regex: ").find(text)


def find_all(text: Value, pattern: Value, limit: Value = -1) -> list[str]:
    _texts("findAll", text, pattern)
    if type(limit) is not int:
        raise no_such_overload("findAll", "string", "string", type_name(limit))
    return _compiled(pattern, "Illegal regex: ").find_all(text, limit)


def _texts(function: str, *args: Value) -> None:
    if any(type(arg) is not str for arg in args):
        raise no_such_overload(function, *(type_name(arg) for arg in args))


def _compiled(pattern: str, prefix: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except RegexError as error:
        raise CelRuntimeError(f"{prefix}{error}") from None


def with_pattern(function: str, source: str) -> Callable[..., Value]:
    """The function for a pattern that is known when the expression is compiled."""
    try:
        pattern = compile_pattern(source)
    except RegexError as error:
        raise CelCompileError(f"program instantiation failed: {error}") from None
    if function == "matches":
        return lambda text, _pattern: pattern.matches(_text(text))
    if function == "find":
        return lambda text, _pattern: pattern.find(_text(text))

    def find_all_known(text: Value, _pattern: Value, limit: Value = -1) -> list[str]:
        if type(limit) is not int:
            raise no_such_overload()
        return pattern.find_all(_text(text), limit)

    return find_all_known


def _text(value: Value) -> str:
    if type(value) is not str:
        raise no_such_overload()
    return value


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "find": find,
    "findAll": find_all,
    "matches": matches,
}
