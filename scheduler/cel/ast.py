"""The tree of an expression: what the parser makes and every later stage reads.

The checker writes the static type and the overloads it has chosen into the nodes. Macros are
expanded by the parser, so a comprehension is the only loop there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduler.cel.limits import NodeCount
from scheduler.cel.types import DYN, Type
from scheduler.cel.values import Value


@dataclass(slots=True, eq=False)
class Literal:
    value: Value
    position: int
    type: Type = DYN


@dataclass(slots=True, eq=False)
class Ident:
    name: str
    position: int
    type: Type = DYN


@dataclass(slots=True, eq=False)
class Select:
    """`operand.field`, or whether the field is there (`has(operand.field)`)."""

    operand: Node
    field: str
    position: int
    test: bool = False
    type: Type = DYN
    type_named: str | None = None
    """The type that the chain as a whole names, as `google.protobuf.Duration` does."""


@dataclass(slots=True, eq=False)
class CallNode:
    function: str
    target: Node | None
    args: list[Node]
    position: int
    type: Type = DYN
    overloads: tuple[str, ...] = ()

    @property
    def operands(self) -> list[Node]:
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListNode:
    elements: list[Node]
    position: int
    optional: frozenset[int] = frozenset()
    type: Type = DYN


@dataclass(slots=True, eq=False)
class MapEntry:
    key: Node
    value: Node
    optional: bool


@dataclass(slots=True, eq=False)
class MapNode:
    entries: list[MapEntry]
    position: int
    type: Type = DYN


@dataclass(slots=True, eq=False)
class StructField:
    name: str
    value: Node
    optional: bool
    position: int


@dataclass(slots=True, eq=False)
class StructNode:
    name: str
    fields: list[StructField]
    position: int
    type: Type = DYN


@dataclass(slots=True, eq=False)
class Comprehension:
    """A fold over a list or map. `variable2` is there in those with two variables.

    `cel.bind` and its kin are folds over nothing whose accumulator is the bound variable.
    """

    range: Node
    variable: str
    variable2: str | None
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node
    position: int
    type: Type = DYN

    @property
    def is_bind(self) -> bool:
        return (
            isinstance(self.range, ListNode)
            and not self.range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
            and self.accumulator != ACCUMULATOR
        )


Node = Literal | Ident | Select | CallNode | ListNode | MapNode | StructNode | Comprehension

ACCUMULATOR = "@result"
OLD_ACCUMULATOR = "__result__"


@dataclass(slots=True)
class ParsedExpression:
    """A parsed text: its tree, and the text for messages."""

    text: str
    root: Node
    depth: int = field(default=0)


def children(node: Node) -> list[Node]:
    """The nodes directly below, in the order in which they are evaluated."""
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, CallNode):
        return node.operands
    if isinstance(node, ListNode):
        return node.elements
    if isinstance(node, MapNode):
        return [part for entry in node.entries for part in (entry.key, entry.value)]
    if isinstance(node, StructNode):
        return [field.value for field in node.fields]
    if isinstance(node, Comprehension):
        return [node.range, node.initial, node.condition, node.step, node.result]
    return []


def walk(root: Node) -> Iterator[tuple[Node, int]]:
    """All nodes, each before those below it, with how deep it is."""
    stack: list[tuple[Node, int]] = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack.extend((child, depth + 1) for child in reversed(children(node)))


def copy(node: Node, made: NodeCount) -> Node:
    """The same tree in nodes of its own: the checker writes into nodes."""
    made.add()
    if isinstance(node, Literal):
        return Literal(node.value, node.position)
    if isinstance(node, Ident):
        return Ident(node.name, node.position)
    parts = [copy(part, made) for part in children(node)]
    if isinstance(node, Select):
        return Select(parts[0], node.field, node.position, node.test)
    if isinstance(node, CallNode):
        target = None if node.target is None else parts.pop(0)
        return CallNode(node.function, target, parts, node.position)
    if isinstance(node, ListNode):
        return ListNode(parts, node.position, node.optional)
    if isinstance(node, MapNode):
        pairs = zip(node.entries, parts[::2], parts[1::2], strict=True)
        return MapNode(
            [MapEntry(key, value, old.optional) for old, key, value in pairs], node.position
        )
    if isinstance(node, StructNode):
        fields = [
            StructField(old.name, value, old.optional, old.position)
            for old, value in zip(node.fields, parts, strict=True)
        ]
        return StructNode(node.name, fields, node.position)
    over, initial, condition, step, result = parts
    names = node.variable, node.variable2, node.accumulator
    return Comprehension(over, *names, initial, condition, step, result, node.position)
