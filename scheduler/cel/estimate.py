"""What an expression may cost at most, before it is evaluated.

The API server refuses selectors whose estimate is over the limit, so the estimate is that of
cel-go with the functions of Kubernetes, including where it is too high: sizes that it does not
know are taken to be the largest there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.cel.ast import (
    ACCUMULATOR,
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
from scheduler.cel.estimate_calls import CallEstimator, Operand
from scheduler.cel.limits import Pace
from scheduler.cel.sizes import MAX, UNKNOWN, Entries, Path, Size, size_at
from scheduler.cel.types import Type
from scheduler.cel.values import Uint

_LIST_COST = 10
_MAP_COST = 30
_STRUCT_COST = 40
_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_PLAIN = frozenset({bool, int, Uint, float, type(None)})


@dataclass(slots=True)
class _Variable:
    path: Path
    size: Size | None
    entries: Entries | None


def estimate(root: Node) -> int:
    """The cost of an expression at most, in units of cel-go."""
    return _Estimator().cost(root).high


class _Estimator:
    def __init__(self) -> None:
        self.pace = Pace()
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Size] = {}
        self.entries: dict[int, Entries] = {}
        self.variables: dict[str, list[_Variable]] = {}
        self.calls = CallEstimator(self.set_entries, self.entries_of)

    def cost(self, node: Node) -> Size:
        self.pace.tick()
        if isinstance(node, Literal):
            return Size(0, 0)
        if isinstance(node, Ident):
            return self.ident(node)
        if isinstance(node, Select):
            return self.select(node)
        if isinstance(node, CallNode):
            return self.call(node)
        if isinstance(node, ListNode):
            return self.list(node)
        if isinstance(node, MapNode):
            return self.map(node)
        if isinstance(node, StructNode):
            return self.struct(node)
        return self.bind(node) if node.is_bind else self.fold(node)

    def variable(self, name: str) -> _Variable | None:
        stack = self.variables.get(name)
        return stack[-1] if stack else None

    def push(self, name: str, path: Path, size: Size | None, entries: Entries | None) -> None:
        self.variables.setdefault(name, []).append(_Variable(path, size, entries))

    def pop(self, name: str) -> None:
        self.variables[name].pop()

    def path(self, node: Node) -> Path:
        if isinstance(node, Ident):
            found = self.variable(node.name)
            if found is not None:
                return found.path
        return self.paths.get(id(node)) or Path()

    def size(self, node: Node) -> Size | None:
        found = self.sizes.get(id(node)) or _literal_size(node)
        if found is not None:
            return found
        found = size_at(self.path(node))
        if found is not None:
            self.sizes[id(node)] = found
            return found
        if _scalar(node.type):
            return Size(1, 1)
        if isinstance(node, Ident):
            variable = self.variable(node.name)
            return None if variable is None else variable.size
        return None

    def size_or_unknown(self, node: Node) -> Size:
        return self.size(node) or UNKNOWN

    def entries_of(self, node: Node) -> Entries | None:
        found = self.entries.get(id(node))
        if found is None and isinstance(node, Ident):
            variable = self.variable(node.name)
            return None if variable is None else variable.entries
        return found

    def set_entries(self, node: Node, entries: Entries | None) -> None:
        if entries is not None:
            self.entries[id(node)] = entries

    def operand(self, node: Node) -> Operand:
        path = self.path(node)
        if path.names[:1] == [ACCUMULATOR]:
            path = Path()
        return Operand(node, path, self.size(node))

    def ident(self, node: Ident) -> Size:
        found = self.variable(node.name)
        self.paths[id(node)] = Path([node.name]) if found is None else found.path
        return Size(1, 1)

    def select(self, node: Select) -> Size:
        if node.type_named is not None:
            self.paths[id(node)] = Path([node.type_named])
            return Size(1, 1)
        cost = self.cost(node.operand)
        if node.test:
            return cost
        self.paths[id(node)] = self.path(node.operand).step(node.field)
        paid = node.operand.type.kind in {"map", "struct", "param"}
        return cost.plus(Size(1, 1)) if paid else cost

    def call(self, node: CallNode) -> Size:
        if node.function == "dyn":
            cost = self.cost(node.args[0])
            self.copy_size(node, node.args[0])
            return cost.plus(Size(1, 1))
        costs = [self.cost(arg) for arg in node.args]
        args = [self.operand(arg) for arg in node.args]
        target: Operand | None = None
        total = Size(0, 0)
        if node.target is not None:
            total = self.cost(node.target)
            target = self.operand(node.target)
        cost = Size(MAX, 0)
        size: Size | None = None
        for overload in node.overloads:
            found = self.calls.estimate(node, overload, target, args, costs)
            cost = cost.union(found.cost)
            if found.size is not None:
                size = found.size if size is None else size.union(found.size)
            if overload in {"index_list", "index_map"}:
                entries = self.entries_of(node.args[0])
                size = None if entries is None else entries.value
                step = "@items" if overload == "index_list" else "@values"
                self.paths[id(node)] = self.path(node.args[0]).step(step)
            if size is None:
                size = self.size(node)
        if size is not None:
            self.sizes[id(node)] = size
        return total.plus(cost)

    def copy_size(self, to: Node, of: Node) -> None:
        size = self.size(of)
        if size is not None:
            self.sizes[id(to)] = size
        self.set_entries(to, self.entries_of(of))

    def list(self, node: ListNode) -> Size:
        total = Size(0, 0)
        item = Size(MAX if node.elements else 0, 0)
        for element in node.elements:
            total = total.plus(self.cost(element))
            item = item.union(self.size_or_unknown(element))
        self.entries[id(node)] = Entries("list", Size(1, 1), item)
        return total.plus(Size(_LIST_COST, _LIST_COST))

    def map(self, node: MapNode) -> Size:
        total = Size(0, 0)
        key = value = Size(MAX if node.entries else 0, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            key = key.union(self.size_or_unknown(entry.key))
            value = value.union(self.size_or_unknown(entry.value))
        self.entries[id(node)] = Entries("map", key, value)
        return total.plus(Size(_MAP_COST, _MAP_COST))

    def struct(self, node: StructNode) -> Size:
        total = Size(_STRUCT_COST, _STRUCT_COST)
        for field in node.fields:
            total = total.plus(self.cost(field.value))
        return total

    def bind(self, node: Comprehension) -> Size:
        total = self.cost(node.range).plus(self.cost(node.initial))
        self.push_value(node.accumulator, node.initial)
        total = total.plus(self.cost(node.result))
        self.pop(node.accumulator)
        self.copy_size(node, node.result)
        return total

    def push_value(self, name: str, node: Node) -> None:
        self.push(name, self.path(node), self.size(node), self.entries_of(node))

    def fold(self, node: Comprehension) -> Size:
        total = self.cost(node.range).plus(self.cost(node.initial))
        self.push_value(node.accumulator, node.initial)
        self.push_variables(node)
        each = self.cost(node.condition)
        each = self.cost(node.step).plus(each)
        self.pop(node.variable)
        if node.variable2 is not None:
            self.pop(node.variable2)
        total = total.plus(self.cost(node.result))
        self.pop(node.accumulator)
        count = self.size_or_unknown(node.range)
        total = total.plus(count.times(each))
        if isinstance(node.initial, Literal):
            size = self.size(node.initial)
            if size is not None:
                self.sizes[id(node)] = size
        elif isinstance(node.initial, ListNode | MapNode):
            self.sizes[id(node)] = count
            self.set_entries(node, self.entries_of(node.step))
        return total

    def push_variables(self, node: Comprehension) -> None:
        entries = self.entries_of(node.range)
        kind = node.range.type.kind if entries is None else entries.kind
        path = self.path(node.range)
        key = None if entries is None else entries.key
        value = None if entries is None else entries.value
        listed = kind == "list"
        if node.variable2 is None:
            step, size = ("@items", value) if listed else ("@keys", key)
            self.push(node.variable, path.step(step), size, None)
            return
        self.push(node.variable, path.step("@indices" if listed else "@keys"), key, None)
        self.push(node.variable2, path.step("@items" if listed else "@values"), value, None)


def _literal_size(node: Node) -> Size | None:
    if isinstance(node, Literal):
        size = 1 if type(node.value) in _PLAIN else len(node.value)
        return Size(size, size)
    if isinstance(node, ListNode):
        return Size(len(node.elements), len(node.elements))
    if isinstance(node, MapNode):
        return Size(len(node.entries), len(node.entries))
    return None


def _scalar(t: Type) -> bool:
    while t.kind == "opaque" and t.name == "optional_type" and t.params:
        t = t.params[0]
    return t.kind in _SCALARS
