"""Static types of an expression: which overloads its calls have, and what it gives.

The API server compiles selectors before it stores them, so exactly what it refuses is refused
here, with its messages.
"""

from __future__ import annotations

from scheduler.cel.ast import (
    CallNode,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    ParsedExpression,
    Select,
    StructNode,
    walk,
)
from scheduler.cel.declarations import FIELDS, FUNCTIONS, TYPE_NAMES, Overload
from scheduler.cel.errors import CelCompileError
from scheduler.cel.lexer import display
from scheduler.cel.limits import Pace
from scheduler.cel.messages import MESSAGES
from scheduler.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Substitution,
    Type,
    is_dyn,
    is_optional,
    list_of,
    map_of,
    most_general,
    optional_of,
    unwrap_optional,
)
from scheduler.cel.values import Uint

_LITERALS: dict[type, Type] = {
    bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip

_MAX_SHOWN = 100


def check(expression: ParsedExpression) -> Type:
    """Write types and overloads into the nodes; the type of the whole. Raises `CelCompileError`."""
    checker = _Checker(expression)
    checker.check(expression.root)
    if checker.errors:
        shown = "\n".join(
            display(expression.text, position, message)
            for position, message in sorted(checker.errors, key=lambda error: error[0])[:_MAX_SHOWN]
        )
        raise CelCompileError(f"compilation failed: {shown}")
    for node, _ in walk(expression.root):
        node.type = checker.known.apply(node.type, to_dyn=True)
    return expression.root.type


def demand_bool(result: Type) -> None:
    """A selector must give a bool, or something of which only a device knows the type."""
    if result not in {BOOL, ANY}:
        message = f"must evaluate to bool or the unknown type, not {_declared(result)}"
        raise CelCompileError(message)


def _declared(t: Type) -> str:
    """A type as cel-go's types print themselves: messages of the checker name some differently."""
    if t.params:
        return f"{t.name}({', '.join(_declared(param) for param in t.params)})"
    return t.name


class _Checker:
    def __init__(self, expression: ParsedExpression) -> None:
        self.known = Substitution()
        self.pace = Pace()
        self.errors: list[tuple[int, str]] = []
        self.scopes: list[dict[str, Type]] = [{"device": DEVICE}]

    def complain(self, node: Node, message: str) -> None:
        self.errors.append((node.position, message))

    def check(self, node: Node) -> None:
        self.pace.tick()
        if isinstance(node, Literal):
            node.type = _LITERALS[type(node.value)]
        elif isinstance(node, Ident):
            self.ident(node)
        elif isinstance(node, Select):
            self.select(node)
        elif isinstance(node, CallNode):
            self.call(node)
        elif isinstance(node, ListNode):
            self.list(node)
        elif isinstance(node, MapNode):
            self.map(node)
        elif isinstance(node, StructNode):
            self.struct(node)
        else:
            self.comprehension(node)

    def lookup(self, name: str) -> Type | None:
        if name.startswith("."):  # from the outermost scope, as names without a dot are in the end
            name = name[1:]
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return TYPE_NAMES.get(name)

    def undeclared(self, node: Node, name: str) -> None:
        node.type = ERROR
        self.complain(node, f"undeclared reference to '{name}' (in container '')")

    def ident(self, node: Ident) -> None:
        found = self.lookup(node.name)
        if found is None:
            self.undeclared(node, node.name)
            return
        node.type = found
        node.name = node.name.removeprefix(".")

    def select(self, node: Select) -> None:
        qualified = _qualified(node)
        found = None if qualified is None else self.lookup(qualified)
        if qualified is not None and found is not None:
            node.type = found
            node.type_named = qualified.removeprefix(".")
            return
        selected = self.field(node, node.operand, node.field)
        node.type = BOOL if node.test else self.known.apply(selected)

    def field(self, node: Node, operand: Node, field: str, optional: bool = False) -> Type:
        self.check(operand)
        operand_type = self.known.apply(operand.type)
        target = unwrap_optional(operand_type)
        if target.kind == "map":
            selected = target.params[1]
        elif target.kind == "struct":
            selected = self.struct_field(node, target, field)
        elif target.kind == "param":
            self.known.assignable(DYN, target)
            selected = DYN
        else:
            if not is_dyn(target) and target != ERROR:
                self.complain(node, f"type '{target}' does not support field selection")
            selected = DYN
        return optional_of(selected) if optional or is_optional(operand_type) else selected

    def struct_field(self, node: Node, target: Type, field: str) -> Type:
        if target != DEVICE:
            self.complain(node, f"unexpected failed resolution of '{target.name}'")
            return ERROR
        if field not in FIELDS:
            self.complain(node, f"undefined field '{field}'")
            return ERROR
        return FIELDS[field]

    def call(self, node: CallNode) -> None:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal)  # the parser makes no other
            selected = self.field(node, node.args[0], field.value, optional=True)
            node.type = self.known.apply(selected)
            node.overloads = ("select_optional_field",)
            field.type = STRING
            return
        for arg in node.args:
            self.check(arg)
        if node.target is not None:
            prefix = _qualified(node.target)
            name = None if prefix is None else f"{prefix}.{node.function}".removeprefix(".")
            if name in FUNCTIONS:
                assert name is not None
                node.target = None
                node.function = name
            else:
                self.check(node.target)
        else:
            node.function = node.function.removeprefix(".")
        overloads = FUNCTIONS.get(node.function)
        if overloads is None:
            self.undeclared(node, node.function)
            return
        self.resolve(node, overloads)

    def resolve(self, node: CallNode, overloads: tuple[Overload, ...]) -> None:
        given = tuple(operand.type for operand in node.operands)
        if node.function in {"_&&_", "_||_"}:
            self.logic(node, overloads[0], given)
            return
        member = node.target is not None
        chosen: list[str] = []
        result: Type | None = None
        for overload in overloads:
            if overload.member is not member:
                continue
            wanted = self.known.instance(overload.signature)
            if not self.known.all_assignable(given, wanted[1:]):
                continue
            chosen.append(overload.id)
            gives = self.known.apply(wanted[0])
            if result is None:
                result = gives
            elif not is_dyn(result) and gives != result:
                result = DYN
        if result is None:
            node.type = ERROR
            self.complain(node, self.mismatch(node.function, given, member))
            return
        node.type = result
        node.overloads = tuple(chosen)

    def mismatch(self, function: str, given: tuple[Type, ...], member: bool) -> str:
        shown = [str(self.known.apply(t, to_dyn=True)) for t in given]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        return f"found no matching overload for '{function}' applied to '{signature}'"

    def logic(self, node: CallNode, overload: Overload, given: tuple[Type, ...]) -> None:
        node.overloads = (overload.id,)
        node.type = BOOL
        for arg, t in zip(node.args, given, strict=True):
            if not self.known.assignable(t, BOOL):
                self.complain(arg, f"expected type 'bool' but found '{t}'")
                node.type = ERROR

    def optional_element(self, node: Node) -> Type:
        t = node.type
        if not is_optional(t) and not is_dyn(t):
            self.complain(node, f"expected type '{optional_of(t)}' but found '{t}'")
        return unwrap_optional(t)

    def join(self, previous: Type | None, current: Type) -> Type:
        """The type of elements of both types. Mixed ones are refused later, with exceptions."""
        if previous is None:
            return current
        if self.known.assignable(previous, current):
            return most_general(previous, current)
        return DYN

    def list(self, node: ListNode) -> None:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            self.check(element)
            t = self.optional_element(element) if index in node.optional else element.type
            joined = self.join(joined, t)
        node.type = list_of(self.known.fresh() if joined is None else joined)

    def map(self, node: MapNode) -> None:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            self.check(entry.key)
            keys = self.join(keys, entry.key.type)
            self.check(entry.value)
            t = self.optional_element(entry.value) if entry.optional else entry.value.type
            values = self.join(values, t)
        if keys is None or values is None:
            keys, values = self.known.fresh(), self.known.fresh()
        node.type = map_of(keys, values)

    def struct(self, node: StructNode) -> None:
        node.name = node.name.removeprefix(".")
        if node.name not in MESSAGES:
            self.not_a_message(node)
            return
        node.type, fields = MESSAGES[node.name]
        for field in node.fields:
            self.check(field.value)
            given = self.optional_element(field.value) if field.optional else field.value.type
            wanted = fields.get(field.name)
            if wanted is None:
                self.errors.append((field.position, f"undefined field '{field.name}'"))
            elif not self.known.assignable(wanted, given):
                message = f"expected type of field '{field.name}' is '{wanted}' but provided type"
                self.errors.append((field.position, f"{message} is '{given}'"))

    def not_a_message(self, node: StructNode) -> None:
        found = self.lookup(node.name)
        if found is None:
            self.undeclared(node, node.name)
            return
        node.type = ERROR
        what = "message type" if found.kind == "type" else "type"
        self.complain(node, f"'{node.name}' is not a {what}")

    def comprehension(self, node: Comprehension) -> None:
        self.check(node.range)
        self.check(node.initial)
        over = self.known.apply(node.range.type)
        accumulator = node.initial.type
        self.scopes.append({node.accumulator: accumulator})
        first, second = self.variables(node, over)
        inner = {node.variable: first}
        if node.variable2 is not None:
            inner[node.variable2] = second
        self.scopes.append(inner)
        self.check(node.condition)
        self.require(node.condition, BOOL)
        self.check(node.step)
        self.require(node.step, accumulator)
        self.scopes.pop()
        self.check(node.result)
        self.scopes.pop()
        node.type = self.known.apply(node.result.type)

    def variables(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        if over.kind == "list":
            element = over.params[0]
            return (element, element) if node.variable2 is None else (INT, element)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if over.kind in {"dyn", "error", "param"}:
            self.known.assignable(DYN, over)
            return DYN, DYN
        self.complain(
            node.range,
            f"expression of type '{over}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def require(self, node: Node, t: Type) -> None:
        if not self.known.assignable(t, node.type):
            self.complain(node, f"expected type '{t}' but found '{node.type}'")


def _qualified(node: Node) -> str | None:
    """The name `a.b.c` that a chain of selections spells, if it is nothing else."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test:
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(names)])
