"""Tokens to a tree, by recursive descent, within the limits that cel-go's parser has."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.cel.ast import (
    CallNode,
    Ident,
    ListNode,
    Literal,
    MapEntry,
    MapNode,
    Node,
    ParsedExpression,
    Select,
    StructField,
    StructNode,
    children,
    walk,
)
from scheduler.cel.errors import CelCompileError
from scheduler.cel.lexer import (
    MAX_INT,
    MIN_INT,
    LexToken,
    located,
    number_of,
    syntax_error,
    tokens,
)
from scheduler.cel.limits import NodeCount
from scheduler.cel.macros import expand
from scheduler.cel.recursion import room_for

MAX_LENGTH = 10 * 1024
"""How many bytes an expression may have: the API server refuses longer ones."""

MAX_DEPTH = 250
"""How deep expressions may nest, and how long a chain of operators or members may be."""

_RESERVED = frozenset((
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
    "let", "loop", "package", "namespace", "null", "return", "true", "var", "void", "while",
))  # fmt: skip
_RELATIONS = {
    "<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in",
}  # fmt: skip
_SUMS = {"+": "_+_", "-": "_-_"}
_PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}


def parse(text: str) -> ParsedExpression:
    """The tree of an expression, macros expanded. Raises `CelCompileError`."""
    length = len(text) if text.isascii() else len(text.encode(errors="replace"))
    if length > MAX_LENGTH:
        raise CelCompileError(f"must be at most {MAX_LENGTH} bytes long, not {length}")
    parser = _ExpressionParser(text)
    root = parser.whole()
    return ParsedExpression(text, root, max(depth for _, depth in walk(root)))


class _ExpressionParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.nesting = 0
        self.made = NodeCount()
        self.heights: dict[int, int] = {}
        self.kept: list[Node] = []

    def whole(self) -> Node:
        """The whole text: descent takes about ten calls for each level of nesting."""
        with room_for(MAX_DEPTH * 11):
            root = self.expression()
        if self.peek().kind != "end":
            raise self.unexpected("<EOF>")
        return root

    def peek(self) -> LexToken:
        return self.tokens[self.at]

    def next(self) -> LexToken:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, kind: str) -> LexToken | None:
        token = self.tokens[self.at]
        if token.kind != kind:
            return None
        self.at += 1
        return token

    def expect(self, kind: str) -> LexToken:
        token = self.accept(kind)
        if token is None:
            raise self.unexpected(f"'{kind}'")
        return token

    def unexpected(self, wanted: str) -> CelCompileError:
        token = self.peek()
        message = f"mismatched input '{token.text}' expecting {wanted}"
        return syntax_error(self.text, token.position, message)

    def counted(self, node: Node, *parts: Node) -> Node:
        """A node of those whose chains are limited, above its parts."""
        return self.above(node, parts, 1)

    def above(self, node: Node, parts: Iterable[Node], count: int = 0) -> Node:
        self.made.add()
        height = count + max((self.heights.get(id(part), 0) for part in parts), default=0)
        if height > MAX_DEPTH:
            raise too_deep("max recursion depth exceeded")
        if height:
            self.heights[id(node)] = height
            self.kept.append(node)  # so that no other node gets its id
        return node

    def expression(self) -> Node:
        self.nesting += 1
        if self.nesting > MAX_DEPTH:
            raise too_deep(f"expression recursion limit exceeded: {MAX_DEPTH}")
        self.made.add()
        node = self.either()
        mark = self.accept("?")
        if mark is not None:
            first = self.either()
            self.expect(":")
            parts = [node, first, self.expression()]
            node = self.counted(CallNode("_?_:_", None, parts, mark.position), *parts)
        self.nesting -= 1
        return node

    def either(self) -> Node:
        terms, marks = [self.both()], list[int]()
        while (mark := self.accept("||")) is not None:
            marks.append(mark.position)
            terms.append(self.both())
        return self.above(_balanced("_||_", terms, marks), terms)

    def both(self) -> Node:
        terms, marks = [self.relation()], list[int]()
        while (mark := self.accept("&&")) is not None:
            marks.append(mark.position)
            terms.append(self.relation())
        return self.above(_balanced("_&&_", terms, marks), terms)

    def relation(self) -> Node:
        left = self.sum()
        while (function := _RELATIONS.get(self.peek().kind)) is not None:
            position = self.next().position
            parts = [left, self.sum()]
            left = self.counted(CallNode(function, None, parts, position), *parts)
        return left

    def sum(self) -> Node:
        left = self.product()
        while (function := _SUMS.get(self.peek().kind)) is not None:
            position = self.next().position
            parts = [left, self.product()]
            left = self.counted(CallNode(function, None, parts, position), *parts)
        return left

    def product(self) -> Node:
        left = self.unary()
        while (function := _PRODUCTS.get(self.peek().kind)) is not None:
            position = self.next().position
            parts = [left, self.unary()]
            left = self.counted(CallNode(function, None, parts, position), *parts)
        return left

    def unary(self) -> Node:
        mark = self.peek()
        if mark.kind not in {"!", "-"}:
            return self.member()
        count = 0
        while self.accept(mark.kind) is not None:
            count += 1
        number = self.peek().kind in {"int", "float"}
        if mark.kind == "-" and number and count == 1:
            return self.member(mark)
        function = "!_" if mark.kind == "!" else "-_"
        operand = self.member()
        if count % 2 == 0:
            return operand
        return self.above(CallNode(function, None, [operand], mark.position), [operand])

    def member(self, sign: LexToken | None = None) -> Node:
        node = self.primary(sign)
        while True:
            mark = self.peek()
            if mark.kind == ".":
                node = self.selection(node)
            elif mark.kind == "[":
                self.next()
                function = "_[?_]" if self.accept("?") else "_[_]"
                index = self.expression()
                self.expect("]")
                parts = [node, index]
                node = self.counted(CallNode(function, None, parts, mark.position), *parts)
            else:
                return node

    def selection(self, operand: Node) -> Node:
        dot = self.expect(".")
        optional = self.accept("?") is not None
        name = self.next()
        if name.kind == "escaped":
            raise located(self.text, name.position, "unsupported syntax: '`'")
        if name.kind != "name":
            self.at -= 1
            raise self.unexpected("IDENTIFIER")
        if optional:
            field = Literal(name.text, name.position)
            return self.counted(CallNode("_?._", None, [operand, field], dot.position), operand)
        mark = self.accept("(")
        if mark is None:
            return self.counted(Select(operand, name.text, dot.position), operand)
        args = self.arguments()
        call = CallNode(name.text, operand, args, mark.position)
        return self.counted(expand(self.text, call, self.made), operand, *args)

    def arguments(self) -> list[Node]:
        found: list[Node] = []
        if self.accept(")"):
            return found
        found.append(self.expression())
        while self.accept(","):
            found.append(self.expression())
        self.expect(")")
        return found

    def primary(self, sign: LexToken | None) -> Node:
        token = self.next()
        if token.kind in {"int", "float"}:
            return self.number(token, sign)
        if token.kind == "literal":
            return Literal(token.value, token.position)
        if token.kind == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if token.kind == "[":
            return self.list(token)
        if token.kind == "{":
            return self.map(token)
        if token.kind in {".", "name"}:
            return self.name(token)
        self.at -= 1
        raise self.unexpected("an expression")

    def number(self, token: LexToken, sign: LexToken | None) -> Node:
        position = token.position if sign is None else sign.position
        if token.kind == "float":
            value = float(token.text)
            if value in {float("inf"), float("-inf")}:
                raise located(self.text, position, "invalid double literal")
            return Literal(value if sign is None else -value, position)
        number = number_of(token.text) * (1 if sign is None else -1)
        if not MIN_INT <= number <= MAX_INT:
            raise located(self.text, position, "invalid int literal")
        return Literal(number, position)

    def name(self, token: LexToken) -> Node:
        prefix = ""
        if token.kind == ".":
            prefix = "."
            token = self.expect("name")
        if (message := self.message_name(token)) is not None:
            return self.struct(prefix + message)
        if token.text in _RESERVED:
            raise located(self.text, token.position, f"reserved identifier: {token.text}")
        mark = self.accept("(")
        if mark is None:
            return Ident(prefix + token.text, token.position)
        args = self.arguments()
        call = CallNode(prefix + token.text, None, args, mark.position)
        return self.above(expand(self.text, call, self.made), args)

    def message_name(self, token: LexToken) -> str | None:
        """The name before a `{`: `a.b.C{…}` makes a message."""
        names, at = [token.text], self.at
        while self.tokens[at].kind == "." and self.tokens[at + 1].kind == "name":
            names.append(self.tokens[at + 1].text)
            at += 2
        if self.tokens[at].kind != "{":
            return None
        self.at = at
        return ".".join(names)

    def list(self, mark: LexToken) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while self.peek().kind not in {"]", ","}:
            if self.accept("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            if self.peek().kind == "," and self.tokens[self.at + 1].kind != "]":
                self.next()
                if self.peek().kind == ",":
                    raise self.unexpected("an expression")
                continue
            break
        self.accept(",")
        self.expect("]")
        node = ListNode(elements, mark.position, frozenset(optional))
        return self.above(node, elements)

    def map(self, mark: LexToken) -> Node:
        entries: list[MapEntry] = []
        while self.peek().kind not in {"}", ","}:
            optional = self.accept("?") is not None
            key = self.expression()
            self.expect(":")
            entries.append(MapEntry(key, self.expression(), optional))
            if self.peek().kind == "," and self.tokens[self.at + 1].kind != "}":
                self.next()
                if self.peek().kind == ",":
                    raise self.unexpected("an expression")
                continue
            break
        self.accept(",")
        self.expect("}")
        node = MapNode(entries, mark.position)
        return self.above(node, children(node))

    def struct(self, name: str) -> Node:
        mark = self.expect("{")
        fields: list[StructField] = []
        while self.peek().kind not in {"}", ","}:
            optional = self.accept("?") is not None
            token = self.next()
            if token.kind == "escaped":
                raise located(self.text, token.position, "unsupported syntax: '`'")
            if token.kind != "name":
                self.at -= 1
                raise self.unexpected("IDENTIFIER")
            colon = self.expect(":")
            value = self.expression()
            fields.append(StructField(token.text, value, optional, colon.position))
            if self.peek().kind == "," and self.tokens[self.at + 1].kind != "}":
                self.next()
                if self.peek().kind == ",":
                    raise self.unexpected("IDENTIFIER")
                continue
            break
        self.accept(",")
        self.expect("}")
        node = StructNode(name, fields, mark.position)
        return self.above(node, children(node))


def too_deep(message: str) -> CelCompileError:
    return CelCompileError(f"compilation failed: ERROR: <input>:-1:0: {message}")


def _balanced(function: str, terms: list[Node], marks: list[int]) -> Node:
    """`a && b && c && d` as a tree of little depth: the order of the terms stays."""
    if len(terms) == 1:
        return terms[0]
    return _balance(function, terms, marks, 0, len(marks) - 1)


def _balance(function: str, terms: list[Node], marks: list[int], low: int, high: int) -> Node:
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balance(function, terms, marks, low, middle - 1)
    right = (
        terms[middle + 1] if middle == high else _balance(function, terms, marks, middle + 1, high)
    )
    return CallNode(function, None, [left, right], marks[middle])
