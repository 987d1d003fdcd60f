"""Chains of selections and indexes: `device.attributes["d"].x`, `m[?k].y`, `(a ? b : c).d`.

A chain is resolved as a whole, so that an optional in it makes everything after it optional. With
the cost counted, every step costs one unit and so does the chain, unless it is a branch of a
condition or the index of another chain.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.cel.conversions import to_text
from scheduler.cel.errors import CelRuntimeError, no_such_overload
from scheduler.cel.state import Closure, State
from scheduler.cel.values import (
    NONE,
    AddressValue,
    DomainMap,
    Optional,
    Prefix,
    QuantityValue,
    Semver,
    TextMap,
    TypeValue,
    Uint,
    Url,
    Value,
    elements,
    is_list,
    is_map,
    type_name,
)

_KEYS = frozenset({str, int, Uint, bool, float})
_ONE_WAY = {
    QuantityValue: "*resource.Quantity",
    Semver: "semver.Version",
    AddressValue: "netip.Addr",
    Prefix: "netip.Prefix",
    Url: "*url.URL",
}
"""Values that cel-go turns into Go's and not back."""


@dataclass(slots=True)
class ChainStep:
    """One selection or index. `key` is a constant, or `index` gives it."""

    key: Value = None
    index: Closure | None = None
    optional: bool = False
    test: bool = False


@dataclass(slots=True)
class Chain:
    """A base and the steps from it; or two chains of which a condition takes one."""

    base: Closure | None = None
    steps: list[ChainStep] = field(default_factory=list)
    condition: Closure | None = None
    branches: tuple[Chain, ...] = ()
    variable: str | None = None
    """The variable that the base is."""
    plain: bool = False
    """The base is never an optional."""

    def append(self, step: ChainStep) -> None:
        if self.branches:
            for branch in self.branches:
                branch.append(step)
        else:
            self.steps.append(step)

    @property
    def tests(self) -> bool:
        return bool(self.steps) and self.steps[-1].test


def find(holder: Value, key: Value) -> tuple[Value, Value] | None:
    """The entry of a key or index, None where there is none. Raises where neither is possible."""
    if type(key) not in _KEYS:
        raise CelRuntimeError(f"invalid qualifier type: {type_name(key)}")
    if is_map(holder):
        return holder.find(key)  # type: ignore[no-any-return]
    if is_list(holder):
        index = _index(key)
        return (key, elements(holder)[index]) if 0 <= index < len(holder) else None
    return None


def _index(key: Value) -> int:
    kind = type(key)
    if kind is int or kind is Uint:
        return int(key)
    if kind is float:
        if key.is_integer() and abs(key) < 2.0**63:
            return int(key)
        raise CelRuntimeError(f"unsupported index value {key} in list")
    raise CelRuntimeError(f"unsupported index type '{type_name(key)}' in list")


def missing(holder: Value, key: Value) -> CelRuntimeError:
    if is_list(holder):
        return CelRuntimeError(f"index out of bounds: {shown(key)}")
    return CelRuntimeError(f"no such key: {shown(key)}")


def shown(key: Value) -> str:
    return to_text(key)


def resolver(chain: Chain, counted: bool) -> Closure:
    """The closure that resolves a chain, without the unit that the chain itself costs."""
    if chain.condition is not None:
        return _conditional(chain, counted)
    if chain.base is None:
        raise AssertionError("a chain without a condition has a base")
    if not counted:
        fast = _fast(chain)
        if fast is not None:
            return fast
    return _general(chain.base, tuple(chain.steps), counted)


def _conditional(chain: Chain, counted: bool) -> Closure:
    condition = chain.condition
    assert condition is not None
    first, second = (resolver(branch, counted) for branch in chain.branches)

    def choose(state: State) -> Value:
        chosen = condition(state)
        if chosen is True:
            return first(state)
        if chosen is False:
            return second(state)
        raise no_such_overload()

    return choose


def _fast(chain: Chain) -> Closure | None:
    """Closures for the chains that almost every selector has."""
    base = chain.base
    assert base is not None
    if not chain.steps:
        return base if chain.plain else None
    if any(step.optional or step.index is not None for step in chain.steps):
        return None
    keys = [step.key for step in chain.steps]
    if chain.variable != "device" or not all(type(key) is str for key in keys):
        return None
    if len(keys) == 3 and keys[0] == "attributes":
        return _has_attribute(*keys[1:]) if chain.tests else _attribute(*keys[1:])
    if len(keys) == 3 and keys[0] == "capacity" and not chain.tests:
        return _capacity(*keys[1:])
    return (lambda state: state.driver) if keys == ["driver"] and not chain.tests else None


def _attribute(domain: str, name: str) -> Closure:
    def attribute(state: State) -> Value:
        try:
            return state.attributes[domain][name]
        except KeyError:
            raise CelRuntimeError(f"no such key: {name}") from None

    return attribute


def _has_attribute(domain: str, name: str) -> Closure:
    def has_attribute(state: State) -> bool:
        found = state.attributes.get(domain)
        return found is not None and name in found

    return has_attribute


def _capacity(domain: str, name: str) -> Closure:
    def capacity(state: State) -> Value:
        try:
            return state.capacity[domain][name]
        except KeyError:
            raise CelRuntimeError(f"no such key: {name}") from None

    return capacity


def _general(base: Closure, steps: tuple[ChainStep, ...], counted: bool) -> Closure:
    def resolve(state: State) -> Value:
        holder = base(state)
        optional = False
        if type(holder) is Optional:
            if not holder.present:
                return holder
            holder = _through_go(holder)
            if not steps:
                return holder
            holder, optional = holder.take(), True
        for step in steps:
            optional = optional or step.optional
            entry = _step(state, holder, step, optional, counted)
            if entry is None:
                return NONE
            holder = entry[1]
        return Optional(holder, True) if optional else holder

    return resolve


def _through_go(held: Optional) -> Optional:
    """An optional as it comes out of a variable or a branch of a condition.

    cel-go makes a value of Go's of what is in it, and a value of CEL's again: most types survive.
    """
    value = held.value
    while type(value) is Optional:
        value = value.value
    kind = type(value)
    if kind in _ONE_WAY:
        return Optional(None, True, f"unsupported conversion to ref.Val: ({_ONE_WAY[kind]})")
    if kind is TypeValue:
        return Optional(str(value), True)
    if kind is DomainMap:
        return Optional(TextMap(value.entries), True)
    return held if value is held.value else Optional(value, True)


def _step(
    state: State, holder: Value, step: ChainStep, optional: bool, counted: bool
) -> tuple[Value, Value] | None:
    """The entry one step on; None if it is missing and that is allowed."""
    try:
        key = step.key if step.index is None else step.index(state)
        if step.test and not optional:
            present = is_list(holder) or is_map(holder)
            entry = find(holder, key) if present else None
            found: tuple[Value, Value] | None = (key, entry is not None)
        else:
            found = find(holder, key)
            if found is None and not optional:
                raise missing(holder, key)
    except CelRuntimeError:
        if counted and not optional:
            state.charge(1)
        raise
    if counted and (found is not None or step.test):
        state.charge(1)
    return found


def whole(chain: Chain, counted: bool) -> Closure:
    """The closure that evaluates a chain as an expression of its own."""
    resolve = resolver(chain, counted)
    if chain.tests:
        return _tested(resolve)
    if not counted or chain.condition is not None:
        return resolve

    def evaluate(state: State) -> Value:
        try:
            return resolve(state)
        finally:
            state.charge(1)

    return evaluate


def _tested(resolve: Closure) -> Closure:
    def has(state: State) -> bool:
        found = resolve(state)
        return found.present if type(found) is Optional else bool(found)

    return has
