"""Comprehensions and bound variables."""

from __future__ import annotations

from scheduler.cel.errors import CelRuntimeError
from scheduler.cel.state import Closure, State
from scheduler.cel.values import (
    Growing,
    GrowingMap,
    Value,
    elements,
    finished,
    is_list,
    is_map,
    type_name,
)


class _Pending:
    """A bound value that has not been read."""

    __slots__ = ("closure",)

    def __init__(self, closure: Closure) -> None:
        self.closure = closure


def element(slot: int) -> Closure:
    """The variable of an iteration."""

    def read(state: State) -> Value:
        return state.slots[slot]

    return read


def local(slot: int) -> Closure:
    """An accumulator or bound variable: it may hold an error, or not be evaluated yet."""

    def read(state: State) -> Value:
        value = state.slots[slot]
        if type(value) is _Pending:
            value = state.slots[slot] = _evaluated(state, value.closure)
        if isinstance(value, CelRuntimeError):
            raise value
        return value

    return read


def _evaluated(state: State, closure: Closure) -> Value:
    try:
        return _collecting(closure(state))
    except CelRuntimeError as error:
        return error


def _collecting(initial: Value) -> Value:
    """An empty list or map as one that grows: cel-go has it so for whatever is bound, too."""
    if is_list(initial) and not len(initial):
        return Growing()
    return GrowingMap({}) if is_map(initial) and not len(initial) else initial


def compile_bind(slot: int, value: Closure, result: Closure) -> Closure:
    pending = _Pending(value)

    def bind(state: State) -> Value:
        state.slots[slot] = pending
        return finished(result(state))

    return bind


def compile_fold(
    over: Closure,
    initial: Value,
    accumulator: int,
    variables: list[int],
    condition: Closure,
    step: Closure,
    result: Closure,
) -> Closure:
    first, second = variables[0], variables[-1]
    single = len(variables) == 1

    def fold(state: State) -> Value:
        entries = over(state)
        slots = state.slots
        slots[accumulator] = _collecting(initial)
        for key, value in _single(entries) if single else _pairs(entries):
            slots[first] = key
            slots[second] = value
            if _stops(state, condition):
                break
            try:
                slots[accumulator] = step(state)
            except CelRuntimeError as error:
                slots[accumulator] = error
        return finished(result(state))

    return fold


def _stops(state: State, condition: Closure) -> bool:
    try:
        return condition(state) is False
    except CelRuntimeError:
        return False


def _single(entries: Value) -> list[tuple[Value, Value]]:
    if is_list(entries):
        return [(value, value) for value in elements(entries)]
    if is_map(entries):
        return [(key, key) for key, _ in entries.pairs()]
    raise CelRuntimeError(f"got '{type_name(entries)}', expected iterable type")


def _pairs(entries: Value) -> list[tuple[Value, Value]]:
    if is_list(entries):
        return list(enumerate(elements(entries)))
    if is_map(entries):
        return entries.pairs()  # type: ignore[no-any-return]
    raise CelRuntimeError(f"unsupported comprehension range type: {type_name(entries)}")
