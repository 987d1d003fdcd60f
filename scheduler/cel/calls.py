"""Closures of calls, operators and literals with parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from scheduler.cel.errors import CelRuntimeError, Panicked, no_such_overload
from scheduler.cel.messages import make
from scheduler.cel.runtime_cost import FAILED, CallCost
from scheduler.cel.state import Closure, State
from scheduler.cel.values import (
    CelMap,
    Optional,
    Uint,
    Value,
    check_hashable,
    elements,
    equal,
    is_list,
    key_of,
    type_name,
)

LIST_COST = 10
MAP_COST = 30
MESSAGE_COST = 40


def compile_call(
    args: list[Closure],
    function: Callable[..., Value],
    cost: CallCost | None,
    stops_early: bool = False,
) -> Closure:
    """A call. `stops_early` says that no argument after one that fails is evaluated."""
    if cost is not None:
        return _counted_call(args, function, cost, stops_early or len(args) > 2)
    if len(args) == 1:
        (only,) = args
        return lambda state: function(only(state))
    if len(args) == 2:
        return _binary(args[0], args[1], function)
    return lambda state: function(*[arg(state) for arg in args])


def _binary(first: Closure, second: Closure, function: Callable[..., Value]) -> Closure:
    """Both arguments are evaluated even if the first fails: the second may end the evaluation."""

    def call(state: State) -> Value:
        try:
            value = first(state)
        except CelRuntimeError:
            with suppress(CelRuntimeError):
                second(state)
            raise
        return function(value, second(state))

    return call


def _counted_call(
    args: list[Closure], function: Callable[..., Value], cost: CallCost, stops_early: bool
) -> Closure:
    last = len(args) - 1

    def call(state: State) -> Value:
        values: list[Value] = []
        failure: CelRuntimeError | None = None
        for index, arg in enumerate(args):
            try:
                values.append(arg(state))
            except CelRuntimeError as error:
                if stops_early and index < last:
                    raise
                failure = failure or error
                values.append(FAILED)
        if failure is not None:
            state.charge(cost(values, FAILED))
            raise failure
        result: Value = FAILED
        try:
            result = function(*values)
        finally:
            state.charge(cost(values, result))
        return result

    return call


def compile_lister(operand: Closure) -> Closure:
    """An argument that cel-go takes for a list, without a look, when it counts the cost."""

    def lister(state: State) -> Value:
        try:
            value = operand(state)
        except CelRuntimeError:
            message = "*types.Err is not traits.Lister: missing method Add"
            raise Panicked(f"interface conversion: {message}") from None
        if not is_list(value):
            message = f"{type_name(value)} is not traits.Lister: missing method Contains"
            raise Panicked(f"interface conversion: {message}")
        return value

    return lister


def compile_depth(operand: Closure) -> Closure:
    """An argument that cel-go takes for an int likewise."""

    def depth(state: State) -> int:
        try:
            value = operand(state)
        except CelRuntimeError:
            message = "ref.Val is *types.Err, not types.Int"
            raise Panicked(f"interface conversion: {message}") from None
        if type(value) is not int:
            message = f"ref.Val is {type_name(value)}, not types.Int"
            raise Panicked(f"interface conversion: {message}")
        return value

    return depth


def compile_equal(first: Closure, second: Closure, wanted: bool, cost: CallCost | None) -> Closure:
    compare = _same if wanted else _different
    if cost is not None:
        return _counted_call([first, second], compare, cost, stops_early=False)
    return _binary(first, second, compare)


def _same(a: Value, b: Value) -> bool:
    if type(a) is str and type(b) is str:
        return bool(a == b)
    return False if (a is None) != (b is None) else equal(a, b)


def _different(a: Value, b: Value) -> bool:
    try:
        return not _same(a, b)
    except CelRuntimeError:
        return True


def compile_and(terms: list[Closure]) -> Closure:
    def conjunction(state: State) -> bool:
        failure: CelRuntimeError | None = None
        for term in terms:
            try:
                value = term(state)
            except CelRuntimeError as error:
                failure = failure or error
                continue
            if value is False:
                return False
            if value is not True and failure is None:
                failure = no_such_overload()
        if failure is not None:
            raise failure
        return True

    return conjunction


def compile_or(terms: list[Closure]) -> Closure:
    def disjunction(state: State) -> bool:
        failure: CelRuntimeError | None = None
        for term in terms:
            try:
                value = term(state)
            except CelRuntimeError as error:
                failure = failure or error
                continue
            if value is True:
                return True
            if value is not False and failure is None:
                failure = no_such_overload()
        if failure is not None:
            raise failure
        return False

    return disjunction


def compile_not_false(operand: Closure, counted: bool) -> Closure:
    def not_false(state: State) -> bool:
        try:
            value = operand(state)
        except CelRuntimeError:
            value = True
        if counted:
            state.charge(1)
        return value if type(value) is bool else True

    return not_false


def compile_or_value(first: Closure, second: Closure, unwrap: bool) -> Closure:
    def choose(state: State) -> Value:
        value = first(state)
        if type(value) is not Optional:
            return value
        if not value.present:
            return second(state)
        return value.take() if unwrap else value

    return choose


def compile_member(operand: Closure, values: Value) -> Closure | None:
    """`x in [constants]` as one lookup, where the constants are of plain types."""
    known: set[Value] = set()
    for value in elements(values):
        kind = type(value)
        if kind is bool:
            known.add((bool, value))
        elif kind is str or kind is float:
            known.add(value)
        elif kind is int or kind is Uint:
            known |= {int(value), float(value)}
        else:
            return None

    def member(state: State) -> bool:
        value = operand(state)
        kind = type(value)
        if kind is bool:
            return (bool, value) in known
        check_hashable(kind)
        return (kind is str or kind is int or kind is Uint or kind is float) and value in known

    return member


def compile_list(parts: list[Closure], optional: frozenset[int], counted: bool) -> Closure:
    def construct(state: State) -> list[Value]:
        made: list[Value] = []
        try:
            for index, part in enumerate(parts):
                value = part(state)
                if index in optional:
                    if type(value) is not Optional:
                        raise _not_optional(value)
                    if not value.present:
                        continue
                    value = value.take()
                made.append(value)
        finally:
            if counted:
                state.charge(LIST_COST)
        return made

    return construct


def compile_map(pairs: list[tuple[Closure, Closure, bool]], counted: bool) -> Closure:
    def construct(state: State) -> CelMap:
        entries: dict[Value, tuple[Value, Value]] = {}
        try:
            for key_closure, value_closure, optional in pairs:
                key, value = key_closure(state), value_closure(state)
                if optional:
                    if type(value) is not Optional:
                        raise _not_optional(value)
                    if not value.present:
                        entries.pop(key_of(key), None)
                        continue
                    value = value.take()
                entries[key_of(key)] = (key, value)
        finally:
            if counted:
                state.charge(MAP_COST)
        return CelMap(entries)

    return construct


def compile_message(name: str, fields: list[tuple[str, Closure, bool]], counted: bool) -> Closure:
    def construct(state: State) -> Value:
        values: dict[str, Value] = {}
        try:
            for field, closure, optional in fields:
                value = closure(state)
                if optional:
                    if type(value) is not Optional:
                        raise _not_optional(value)
                    if not value.present:
                        continue
                    value = value.take()
                values[field] = value
        finally:
            if counted:
                state.charge(MESSAGE_COST)
        return make(name, values)

    return construct


def _not_optional(value: Value) -> CelRuntimeError:
    kind = type_name(value)
    return CelRuntimeError(f"cannot initialize optional entry from non-optional value {kind}")
