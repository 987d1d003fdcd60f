"""Checks of literals after the types are known: what is wrong for every device is refused."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.cel.ast import (
    CallNode,
    ListNode,
    Literal,
    MapNode,
    Node,
    ParsedExpression,
    children,
    walk,
)
from scheduler.cel.conversions import to_duration, to_time
from scheduler.cel.errors import CelCompileError, CelRuntimeError
from scheduler.cel.formatting import Clause, clauses
from scheduler.cel.lexer import display
from scheduler.cel.regex import compile_pattern
from scheduler.cel.regex_syntax import RegexError
from scheduler.cel.types import DYN, Type, equivalent, unwrap_optional

_Problem = tuple[Node, str]


def validate(expression: ParsedExpression) -> None:
    """Raise `CelCompileError` for literals that cannot be right."""
    problems: list[_Problem] = []
    for node, _ in walk(expression.root):
        if isinstance(node, CallNode):
            problems += _call(node)
    problems += _mixed(expression.root)
    if problems:
        problems.sort(key=lambda problem: problem[0].position)
        shown = "\n".join(
            display(expression.text, node.position, message) for node, message in problems
        )
        raise CelCompileError(f"compilation failed: {shown}")


def _call(node: CallNode) -> Iterator[_Problem]:
    if node.function in {"duration", "timestamp", "matches"} and node.args:
        literal = node.args[0]
        if isinstance(literal, Literal) and not _right(node.function, literal):
            yield literal, f"invalid {node.function} argument"
    if node.function == "format" and isinstance(node.target, Literal):
        arguments = node.args[0]
        if isinstance(arguments, ListNode) and isinstance(node.target.value, str):
            yield from _format(node, node.target.value, arguments.elements)


def _right(function: str, literal: Literal) -> bool:
    try:
        if function == "matches":
            compile_pattern(str(literal.value))
        else:
            (to_duration if function == "duration" else to_time)(literal.value)
    except (RegexError, CelRuntimeError):
        return False
    return True


def _mixed(root: Node) -> Iterator[_Problem]:
    """Elements of lists and maps that are not all of one type. Below `format` they may be so."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, CallNode) and node.function == "format":
            continue
        if isinstance(node, ListNode):
            types = [
                unwrap_optional(part.type) if index in node.optional else part.type
                for index, part in enumerate(node.elements)
            ]
            yield from _different(node.elements, types)
        elif isinstance(node, MapNode):
            yield from _different(
                [entry.key for entry in node.entries], [entry.key.type for entry in node.entries]
            )
            values = [entry.value for entry in node.entries]
            types = [
                unwrap_optional(entry.value.type) if entry.optional else entry.value.type
                for entry in node.entries
            ]
            yield from _different(values, types)
        stack.extend(reversed(children(node)))


def _different(nodes: list[Node], types: list[Type]) -> Iterator[_Problem]:
    for node, t in zip(nodes, types, strict=True):
        if not equivalent(types[0], t):
            yield node, f"expected type '{types[0]}' but found '{t}'"
            return


_CLAUSES: dict[str, tuple[frozenset[str], str]] = {
    "d": (
        frozenset({"int", "uint"}),
        "decimal clause can only be used on integers, was given {}",
    ),
    "f": (
        frozenset({"double", "string"}),
        "fixed-point clause can only be used on doubles, was given {}",
    ),
    "e": (
        frozenset({"double", "string"}),
        "scientific clause can only be used on doubles, was given {}",
    ),
    "b": (
        frozenset({"int", "uint", "bool"}),
        "only integers and bools can be formatted as binary, was given {}",
    ),
    "x": (
        frozenset({"int", "uint", "string", "bytes"}),
        "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    ),
    "o": (
        frozenset({"int", "uint"}),
        "octal clause can only be used on integers, was given {}",
    ),
    "s": (
        frozenset({
            "list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes",
            "duration", "type", "null",
        }),
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        "types, durations, and timestamps, was given {}",
    ),
}  # fmt: skip


def _format(node: CallNode, text: str, values: list[Node]) -> Iterator[_Problem]:
    used = 0
    try:
        for part in clauses(text, len(values)):
            if isinstance(part, Clause):
                kinds, message = _CLAUSES[part.letter.lower()]
                wrong = _unprintable(values[used], kinds, nested=part.letter == "s")
                if wrong is not None:
                    yield wrong, f"error during formatting: {message.format(wrong.type.name)}"
                    return
                used += 1
    except CelRuntimeError as error:
        yield node, str(error)
        return
    if len(values) > used:
        counts = f"(expected {used}, got {len(values)})"
        yield node, f"too many arguments supplied to string.format {counts}"


def _unprintable(node: Node, kinds: frozenset[str], nested: bool) -> Node | None:
    if node.type != DYN and node.type.kind not in kinds:
        return node
    if nested and isinstance(node, ListNode | MapNode):
        for part in children(node):
            wrong = _unprintable(part, kinds, nested)
            if wrong is not None:
                return wrong
    return None
