"""A checked tree to closures: each node becomes a function of the state of one evaluation.

Errors are exceptions, which `&&`, `||` and folds absorb where the other side decides. There are
two ways to compile: with the cost counted as cel-go counts it, or without, for expressions whose
estimated cost is so far below the limit that no device can reach it.
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
    Select,
    StructNode,
)
from scheduler.cel.attributes import Chain, ChainStep, resolver, whole
from scheduler.cel.calls import (
    compile_and,
    compile_call,
    compile_depth,
    compile_equal,
    compile_list,
    compile_lister,
    compile_map,
    compile_member,
    compile_message,
    compile_not_false,
    compile_or,
    compile_or_value,
)
from scheduler.cel.errors import Aborted, CelCompileError, CelRuntimeError
from scheduler.cel.folds import compile_bind, compile_fold, element, local
from scheduler.cel.library import FUNCTIONS
from scheduler.cel.limits import Pace
from scheduler.cel.patterns import with_pattern
from scheduler.cel.regex import compile_pattern
from scheduler.cel.runtime_cost import call_cost
from scheduler.cel.state import Closure, State
from scheduler.cel.types import is_dyn, is_optional
from scheduler.cel.values import TypeValue, Uint, Value, is_list, type_name

_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_LISTERS = {"distinct": 0, "sort": 0, "@sortByAssociatedKeys": 1}
"""Functions, and which argument cel-go takes for a list when it counts their cost."""
_SINGLETONS = frozenset({
    "_+_", "_-_", "_*_", "_/_", "_%_", "-_", "!_", "_<_", "_<=_", "_>_", "_>=_", "@in", "size",
    "type", "dyn", "matches", "sort", "@sortByAssociatedKeys",
})  # fmt: skip
"""Functions with one implementation for all overloads, which gets all arguments at once."""
_PATTERNS = frozenset({"matches", "find", "findAll"})
_KEYS = frozenset({str, int, Uint, bool, float})
_UNKNOWN = object()


class Compiler:
    """Compiles one expression; `slots` is how many variables it has."""

    def __init__(self, counted: bool) -> None:
        self.counted = counted
        self.slots = 0
        self.pattern_bytes = 0
        self._scope: list[tuple[str, int, bool]] = []
        self._constants: dict[int, Value] = {}
        self._pace = Pace()

    def compile(self, node: Node) -> Closure:
        self._pace.tick()
        constant = self.constant(node)
        if constant is not _UNKNOWN:
            return lambda _state: constant
        if isinstance(node, CallNode):
            special = _SPECIAL.get(node.function)
            if special is not None:
                return special(self, node)
            if node.function not in _CHAINED:
                return self.call(node)
        elif isinstance(node, ListNode):
            parts = [self.compile(part) for part in node.elements]
            return compile_list(parts, node.optional, self.counted)
        elif isinstance(node, MapNode):
            return self.map(node)
        elif isinstance(node, Comprehension):
            return self.comprehension(node)
        elif isinstance(node, StructNode):
            fields = [
                (field.name, self.compile(field.value), field.optional) for field in node.fields
            ]
            return compile_message(node.name, fields, self.counted)
        return whole(self.chain(node), self.counted)

    def constant(self, node: Node) -> Value:
        """The value of a node that cel-go knows before it evaluates anything, or `_UNKNOWN`."""
        if id(node) not in self._constants:
            self._constants[id(node)] = self._constant(node)
        return self._constants[id(node)]

    def _constant(self, node: Node) -> Value:
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, Ident):
            if node.type.kind != "type":
                return _UNKNOWN
            if self._find(node.name) is None:
                return TypeValue(node.name)
            # cel-go takes any variable that holds a type for the name of one.
            message = f"reference to undefined type: {node.name}"
            raise CelCompileError(f"program instantiation failed: {message}")
        if isinstance(node, Select) and node.type_named is not None:
            return TypeValue(node.type_named)
        if isinstance(node, ListNode | MapNode):
            return self._constant_aggregate(node)
        if isinstance(node, CallNode) and node.overloads == ("in_list",):
            if self.constant(node.args[1]) != []:
                return _UNKNOWN
            self.compile(node.args[0])  # it may still not compile, but is not evaluated
            return False
        if isinstance(node, CallNode) and len(node.args) == 1 and node.target is None:
            if node.function in _CONVERSIONS:
                return self._converted(node)
            if not self.counted and node.function in {"quantity", "semver"}:
                return self._early(node)
        return _UNKNOWN

    def _constant_aggregate(self, node: ListNode | MapNode) -> Value:
        if isinstance(node, ListNode):
            if any(self.constant(part) is _UNKNOWN for part in node.elements):
                return _UNKNOWN
            parts = [self.compile(part) for part in node.elements]
            return _now(compile_list(parts, node.optional, counted=False))
        for entry in node.entries:
            if self.constant(entry.key) is _UNKNOWN or self.constant(entry.value) is _UNKNOWN:
                return _UNKNOWN
        return _now(self.map(node, counted=False))

    def _converted(self, node: CallNode) -> Value:
        value = self.constant(node.args[0])
        if value is _UNKNOWN:
            return _UNKNOWN
        try:
            return FUNCTIONS[node.function](value)
        except CelRuntimeError as error:
            raise CelCompileError(f"program instantiation failed: {error}") from None

    def _early(self, node: CallNode) -> Value:
        value = self.constant(node.args[0])
        if value is _UNKNOWN:
            return _UNKNOWN
        try:
            return FUNCTIONS[node.function](value)
        except CelRuntimeError:
            return _UNKNOWN  # it fails for each device that reaches it

    def map(self, node: MapNode, counted: bool | None = None) -> Closure:
        pairs = [
            (self.compile(entry.key), self.compile(entry.value), entry.optional)
            for entry in node.entries
        ]
        return compile_map(pairs, self.counted if counted is None else counted)

    def call(self, node: CallNode) -> Closure:
        args = [self.compile(operand) for operand in node.operands]
        function = FUNCTIONS[node.function]
        stops_early = node.function == "format" or (
            len(node.overloads) != 1 and node.function not in _SINGLETONS
        )
        if node.function in _PATTERNS:
            pattern = self.constant(node.operands[1])
            if type(pattern) is str:
                function = with_pattern(node.function, pattern)
                self.pattern_bytes += compile_pattern(pattern).size
                stops_early = True
        if len(node.overloads) == 1 and node.function in _LISTERS:
            compared = _LISTERS[node.function]
            args[compared] = compile_lister(args[compared])
        elif node.overloads == ("list_flatten_int",):
            args[1] = compile_depth(args[1])
        cost = call_cost(node.function, node.overloads) if self.counted else None
        return compile_call(args, function, cost, stops_early)

    def equality(self, node: CallNode) -> Closure:
        first, second = (self.compile(arg) for arg in node.args)
        cost = call_cost(node.function, (node.overloads[0],)) if self.counted else None
        return compile_equal(first, second, node.function == "_==_", cost)

    def logic(self, node: CallNode) -> Closure:
        """`a && b && c` as one: the parser has made a tree of it."""
        terms: list[Closure] = []
        stack: list[Node] = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, CallNode) and part.function == node.function:
                stack.extend(reversed(part.args))
            else:
                terms.append(self.compile(part))
        return compile_and(terms) if node.function == "_&&_" else compile_or(terms)

    def not_false(self, node: CallNode) -> Closure:
        return compile_not_false(self.compile(node.args[0]), self.counted)

    def membership(self, node: CallNode) -> Closure:
        values = self.constant(node.args[1])
        if node.overloads == ("in_list",) and is_list(values):
            closure = compile_member(self.compile(node.args[0]), values)
            if closure is not None:
                return closure
        return self.call(node)

    def or_value(self, node: CallNode) -> Closure:
        first, second = (self.compile(operand) for operand in node.operands)
        return compile_or_value(first, second, node.function == "orValue")

    def comprehension(self, node: Comprehension) -> Closure:
        if node.is_bind:
            value = self.compile(node.initial)
            slot = self._enter(node.accumulator, lazy=True)
            result = self.compile(node.result)
            self._scope.pop()
            return compile_bind(slot, value, result)
        over = self.compile(node.range)
        initial = self.constant(node.initial)
        accumulator = self._enter(node.accumulator, lazy=True)
        variables = [self._enter(node.variable)]
        if node.variable2 is not None:
            variables.append(self._enter(node.variable2))
        condition = self.compile(node.condition)
        step = self.compile(node.step)
        del self._scope[-len(variables) :]
        result = self.compile(node.result)
        self._scope.pop()
        return compile_fold(over, initial, accumulator, variables, condition, step, result)

    def _enter(self, name: str, lazy: bool = False) -> int:
        """A slot of its own: what is bound is evaluated later, amid other variables."""
        slot = self.slots
        self.slots += 1
        self._scope.append((name, slot, lazy))
        return slot

    def _find(self, name: str) -> tuple[int, bool] | None:
        for known, slot, lazy in reversed(self._scope):
            if known == name:
                return slot, lazy
        return None

    def chain(self, node: Node) -> Chain:
        """A node as a chain: a longer one if what it selects from is one."""
        if isinstance(node, Ident):
            return self.variable(node)
        if isinstance(node, Select) and node.type_named is None:
            chain = self.chain_or_value(node.operand)
            chain.append(ChainStep(node.field, test=node.test))
            return chain
        if isinstance(node, CallNode) and node.function == "_?_:_":
            condition, first, second = node.args
            return Chain(
                condition=self.compile(condition),
                branches=(self.chain_or_value(first), self.chain_or_value(second)),
            )
        if isinstance(node, CallNode) and node.function in _CHAINED:
            chain = self.chain_or_value(node.args[0])
            chain.append(self.step(node))
            return chain
        raise AssertionError(f"{type(node).__name__} is no chain")

    def chain_or_value(self, node: Node) -> Chain:
        """A chain, or one without steps whose base is the value."""
        chained = isinstance(node, Ident | Select) or (
            isinstance(node, CallNode) and (node.function in _CHAINED or node.function == "_?_:_")
        )
        if not chained or self.constant(node) is not _UNKNOWN:
            return Chain(self.compile(node))
        if isinstance(node, Select) and node.test:
            return Chain(self.compile(node))
        return self.chain(node)

    def variable(self, node: Ident) -> Chain:
        found = self._find(node.name)
        if found is None:
            return Chain(_device, variable="device", plain=True)
        slot, lazy = found
        plain = not is_optional(node.type) and not is_dyn(node.type)
        return Chain(local(slot) if lazy else element(slot), variable=node.name, plain=plain)

    def step(self, node: CallNode) -> ChainStep:
        optional = node.function != "_[_]"
        index = node.args[1]
        key = self.constant(index)
        if key is not _UNKNOWN:
            if type(key) not in _KEYS:
                kind = type_name(key)
                message = f"program instantiation failed: invalid qualifier type: {kind}"
                raise CelCompileError(message)
            return ChainStep(key, optional=optional)
        chain = self.chain_or_value(index)
        if chain.tests:
            return ChainStep(index=whole(chain, self.counted), optional=optional)
        return ChainStep(index=resolver(chain, self.counted), optional=optional)


def _device(state: State) -> Value:
    return state.device


def _now(closure: Closure) -> Value:
    """The value of what needs no state."""
    try:
        return closure(None)  # type: ignore[arg-type]
    except CelRuntimeError:
        return _UNKNOWN
    except Aborted as error:
        raise CelCompileError(str(error)) from None


_CHAINED = frozenset({"_[_]", "_[?_]", "_?._", "_?_:_"})
_SPECIAL = {
    "_==_": Compiler.equality,
    "_!=_": Compiler.equality,
    "_&&_": Compiler.logic,
    "_||_": Compiler.logic,
    "@not_strictly_false": Compiler.not_false,
    "@in": Compiler.membership,
    "or": Compiler.or_value,
    "orValue": Compiler.or_value,
}
