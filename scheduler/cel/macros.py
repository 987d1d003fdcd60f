"""Macros: calls that the parser replaces by what they stand for."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cel.ast import (
    ACCUMULATOR,
    OLD_ACCUMULATOR,
    CallNode,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    copy,
)
from scheduler.cel.lexer import located
from scheduler.cel.limits import NodeCount

_UNUSED = "#unused"
_SORT_INPUT = "@__sortBy_input__"


def expand(text: str, call: CallNode, made: NodeCount) -> Node:
    """What a call stands for if it is one of a macro; else the call."""
    macro = _MACROS.get((call.function, len(call.args), call.target is not None))
    return call if macro is None else macro(_MacroCall(text, call, made))


class _MacroCall:
    """A call of a macro, with the parts from which its expansion is made."""

    def __init__(self, text: str, call: CallNode, made: NodeCount) -> None:
        self.made = made
        self.text = text
        self.call = call
        self.args = call.args
        self.position = call.position

    @property
    def target(self) -> Node:
        assert self.call.target is not None  # the table has member macros only under True
        return self.call.target

    def accumulator(self) -> Ident:
        return Ident(ACCUMULATOR, self.position)

    def literal(self, value: bool | int) -> Literal:
        return Literal(value, self.position)

    def apply(self, function: str, *args: Node) -> CallNode:
        return CallNode(function, None, list(args), self.position)

    def member(self, function: str, target: Node, *args: Node) -> CallNode:
        return CallNode(function, target, list(args), self.position)

    def list(self, *elements: Node) -> ListNode:
        return ListNode(list(elements), self.position)

    def variable(self, index: int, message: str) -> str:
        node = self.args[index]
        if not isinstance(node, Ident):
            raise located(self.text, node.position, message)
        return node.name

    def iteration_variable(self, index: int, message: str) -> str:
        name = self.variable(index, message)
        if name in {ACCUMULATOR, OLD_ACCUMULATOR}:
            complaint = "iteration variable overwrites accumulator variable"
            raise located(self.text, self.args[index].position, complaint)
        return name

    def pair(self) -> tuple[str, str]:
        message = "argument must be a simple name"
        first, second = self.variable(0, message), self.variable(1, message)
        if first == second:
            place = self.args[1].position
            raise located(self.text, place, f"duplicate variable name: {first}")
        return self.iteration_variable(0, message), self.iteration_variable(1, message)

    def fold(
        self,
        over: Node,
        variables: tuple[str, str | None],
        initial: Node,
        step: Node,
        condition: Node | None = None,
        result: Node | None = None,
    ) -> Comprehension:
        return Comprehension(
            over,
            *variables,
            ACCUMULATOR,
            initial,
            self.literal(True) if condition is None else condition,
            step,
            self.accumulator() if result is None else result,
            self.position,
        )

    def bind(self, name: str, value: Node, result: Node) -> Comprehension:
        return Comprehension(
            self.list(), _UNUSED, None, name, value,
            self.literal(False), Ident(name, self.position), result, self.position,
        )  # fmt: skip


def _has(call: _MacroCall) -> Node:
    operand = call.args[0]
    if not isinstance(operand, Select) or operand.test:
        raise located(call.text, operand.position, "invalid argument to has() macro")
    return Select(operand.operand, operand.field, call.position, test=True)


def _single(call: _MacroCall, message: str = "argument must be a simple name") -> tuple[str, None]:
    return call.iteration_variable(0, message), None


def _quantify_all(call: _MacroCall, variables: tuple[str, str | None]) -> Node:
    condition = call.apply("@not_strictly_false", call.accumulator())
    step = call.apply("_&&_", call.accumulator(), call.args[-1])
    return call.fold(call.target, variables, call.literal(True), step, condition)


def _quantify_exists(call: _MacroCall, variables: tuple[str, str | None]) -> Node:
    negated = call.apply("!_", call.accumulator())
    condition = call.apply("@not_strictly_false", negated)
    step = call.apply("_||_", call.accumulator(), call.args[-1])
    return call.fold(call.target, variables, call.literal(False), step, condition)


def _quantify_one(call: _MacroCall, variables: tuple[str, str | None]) -> Node:
    more = call.apply("_+_", call.accumulator(), call.literal(1))
    step = call.apply("_?_:_", call.args[-1], more, call.accumulator())
    result = call.apply("_==_", call.accumulator(), call.literal(1))
    return call.fold(call.target, variables, call.literal(0), step, result=result)


def _collect(
    call: _MacroCall,
    over: Node,
    variables: tuple[str, str | None],
    initial: Node,
    step: Node,
    condition: Node | None,
) -> Node:
    if condition is not None:
        step = call.apply("_?_:_", condition, step, call.accumulator())
    return call.fold(over, variables, initial, step)


def _map_over(call: _MacroCall, over: Node) -> Node:
    variables = _single(call, "argument is not an identifier")
    condition = call.args[1] if len(call.args) == 3 else None
    step = call.apply("_+_", call.accumulator(), call.list(call.args[-1]))
    return _collect(call, over, variables, call.list(), step, condition)


def _map(call: _MacroCall) -> Node:
    return _map_over(call, call.target)


def _filter(call: _MacroCall) -> Node:
    variables = _single(call, "argument is not an identifier")
    step = call.apply("_+_", call.accumulator(), call.list(call.args[0]))
    return _collect(call, call.target, variables, call.list(), step, call.args[1])


def _transform_list(call: _MacroCall) -> Node:
    condition = call.args[2] if len(call.args) == 4 else None
    step = call.apply("_+_", call.accumulator(), call.list(call.args[-1]))
    return _collect(call, call.target, call.pair(), call.list(), step, condition)


def _transform_map(call: _MacroCall) -> Node:
    variables = call.pair()
    condition = call.args[2] if len(call.args) == 4 else None
    key = Ident(variables[0], call.position)
    step = call.apply("cel.@mapInsert", call.accumulator(), key, call.args[-1])
    return _collect(call, call.target, variables, MapNode([], call.position), step, condition)


def _transform_map_entry(call: _MacroCall) -> Node:
    condition = call.args[2] if len(call.args) == 4 else None
    step = call.apply("cel.@mapInsert", call.accumulator(), call.args[-1])
    return _collect(call, call.target, call.pair(), MapNode([], call.position), step, condition)


def _bind(call: _MacroCall) -> Node:
    if not isinstance(call.target, Ident) or call.target.name != "cel":
        return call.call
    name = call.variable(0, "cel.bind() variable names must be simple identifiers")
    return call.bind(name, call.args[1], call.args[2])


def _optional_map(call: _MacroCall) -> Node:
    name = call.variable(0, "optMap() variable name must be a simple identifier")
    value = call.member("value", copy(call.target, call.made))
    mapped = call.apply("optional.of", call.bind(name, value, call.args[1]))
    return _if_present(call, mapped)


def _optional_flat_map(call: _MacroCall) -> Node:
    name = call.variable(0, "optFlatMap() variable name must be a simple identifier")
    return _if_present(
        call, call.bind(name, call.member("value", copy(call.target, call.made)), call.args[1])
    )


def _if_present(call: _MacroCall, mapped: Node) -> Node:
    present = call.member("hasValue", call.target)
    return call.apply("_?_:_", present, mapped, call.apply("optional.none"))


def _sort_by(call: _MacroCall) -> Node:
    if isinstance(call.target, Literal | MapNode):
        message = (
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression"
        )
        raise located(call.text, call.target.position, message)
    keys = _map_over(call, Ident(_SORT_INPUT, call.position))
    ordered = call.member("@sortByAssociatedKeys", Ident(_SORT_INPUT, call.position), keys)
    return call.bind(_SORT_INPUT, call.target, ordered)


_MACROS: dict[tuple[str, int, bool], Callable[[_MacroCall], Node]] = {
    ("has", 1, False): _has,
    ("all", 2, True): lambda call: _quantify_all(call, _single(call)),
    ("exists", 2, True): lambda call: _quantify_exists(call, _single(call)),
    ("exists_one", 2, True): lambda call: _quantify_one(call, _single(call)),
    ("all", 3, True): lambda call: _quantify_all(call, call.pair()),
    ("exists", 3, True): lambda call: _quantify_exists(call, call.pair()),
    ("exists_one", 3, True): lambda call: _quantify_one(call, call.pair()),
    ("existsOne", 3, True): lambda call: _quantify_one(call, call.pair()),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _optional_map,
    ("optFlatMap", 2, True): _optional_flat_map,
    ("sortBy", 2, True): _sort_by,
}
