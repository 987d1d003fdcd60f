"""Values at run time, their equality and order.

int, float, str, bytes, bool and None are themselves; everything else is a class here. Lists are
Python lists, or `Joined` where two were added: adding is cheap however long they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from scheduler.cel.errors import CelRuntimeError, Panicked, no_such_overload
from scheduler.cel.limits import METER, check_count
from scheduler.model.quantity import Quantity as Amount

Value = Any
"""What an expression can evaluate to: see above."""


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class TypeValue(str):
    """What `type(x)` gives: the name of a type."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Duration:
    nanos: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Nanoseconds since the epoch, and the offset of the zone it was written in, in seconds."""

    nanos: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Optional:
    """`present` tells an optional without a value from one that holds null.

    One with a `fault` is present, but reading its value raises the error.
    """

    value: Value = None
    present: bool = False
    fault: str = ""

    def take(self) -> Value:
        """The value of one that is present."""
        if self.fault:
            raise CelRuntimeError(self.fault)
        return self.value


NONE = Optional()


@dataclass(frozen=True, slots=True, eq=False)
class QuantityValue:
    """An amount, held as the API machinery holds it: whether it is an integer depends on that.

    What `add` and `sub` give is `computed`: it equals others only as the left operand.
    """

    held: Amount
    computed: bool = False

    @property
    def nanos(self) -> int:
        return self.held.nanos


@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[Any, ...]:
        """A key by which versions compare: pre-releases first, numbers before texts."""
        parts = tuple(
            (0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.prerelease
        )
        return self.major, self.minor, self.patch, not parts, parts


@dataclass(frozen=True, slots=True)
class AddressValue:
    ip: IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Prefix:
    ip: IPv4Address | IPv6Address
    bits: int


@dataclass(frozen=True, slots=True)
class Url:
    text: str
    scheme: str
    host: str
    path: str
    query: str


@dataclass(frozen=True, slots=True)
class NamedFormat:
    name: str
    cost: int


class CelMap:
    """A map. Keys of different types are different; lookups accept equal numbers of any type."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[Any, tuple[Value, Value]]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def keys(self) -> Iterator[Value]:
        return (key for key, _ in list(self.entries.values()))

    def pairs(self) -> list[tuple[Value, Value]]:
        return list(self.entries.values())

    def find(self, key: Value) -> tuple[Value, Value] | None:
        """The entry of a key, or None."""
        kind = type(key)
        if kind is str:
            return self.entries.get(key)
        if self.entries:
            check_hashable(kind)
        for candidate in _same_keys(key, kind):
            entry = self.entries.get(candidate)
            if entry is not None:
                return entry
        return None

    def contains(self, key: Value) -> bool:
        return self.find(key) is not None


class TextMap(CelMap):
    """A map of a device: its keys are strings, and nothing else is looked up in it."""

    __slots__ = ()

    @classmethod
    def of(cls, pairs: dict[str, Value]) -> TextMap:
        return cls({key: (key, value) for key, value in pairs.items()})

    def find(self, key: Value) -> tuple[Value, Value] | None:
        return self.entries.get(key) if type(key) is str else None


class DomainMap(TextMap):
    """Attributes or capacity of a device by domain: looking up any other domain finds `{}`."""

    __slots__ = ()

    def find(self, key: Value) -> tuple[Value, Value]:
        return TextMap.find(self, key) or (key, EMPTY_MAP)

    def contains(self, key: Value) -> bool:
        return TextMap.find(self, key) is not None


EMPTY_MAP = CelMap({})


def key_of(key: Value) -> Any:
    """How a map stores a key: Python takes 1, 1.0 and True for one."""
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind is bool or kind is Uint or kind is float:
        return kind, key
    check_hashable(kind)
    return (kind, key) if kind in _HASHABLE else (kind, object())


def check_hashable(kind: type) -> None:
    """Raise for values that Go has no hash of: cel-go looks them up all the same."""
    if kind in _UNHASHABLE:
        raise Panicked(f"runtime error: hash of unhashable type {_UNHASHABLE[kind]}")


_UNHASHABLE = {bytes: "types.Bytes", Semver: "cel.Semver", NamedFormat: "cel.Format"}


_HASHABLE = frozenset({type(None), Duration, Timestamp, TypeValue})


def _same_keys(key: Value, kind: type) -> tuple[Any, ...]:
    if kind is int:
        return (key, (Uint, key))
    if kind is Uint:
        return ((Uint, key), int(key))
    if kind is float:
        same = (int(key), (Uint, int(key))) if key.is_integer() else ()
        return ((float, key), *same)
    return ((kind, key),) if kind is bool or kind in _HASHABLE else ()


class Joined:
    """Two lists as one, without a copy until the whole is needed."""

    __slots__ = ("_first", "_second", "_whole", "length")

    def __init__(self, first: ListValue, second: ListValue) -> None:
        self._first: ListValue | None = first
        self._second: ListValue | None = second
        self._whole: list[Value] | None = None
        self.length = len(first) + len(second)
        check_count(self.length)

    def __len__(self) -> int:
        return self.length

    def whole(self) -> list[Value]:
        """The elements, in one list from now on."""
        if self._whole is None:
            found: list[Value] = []
            parts: list[ListValue | None] = [self]
            while parts:
                part = parts.pop()
                if isinstance(part, Joined):
                    if part._whole is None:
                        parts += (part._second, part._first)
                        continue
                    part = part._whole
                found += part or ()
            self._whole = found
            self._first = self._second = None
        return self._whole


class Growing(list[Value]):
    """The list that a fold collects: adding to it changes it, as long as the fold lasts."""

    __slots__ = ()


class GrowingMap(CelMap):
    """The map that a fold collects, likewise."""

    __slots__ = ()


ListValue = list[Value] | Joined

_LISTS = frozenset({list, Joined, Growing})
_MAPS = frozenset({CelMap, TextMap, DomainMap, GrowingMap})


def finished(value: Value) -> Value:
    """What a fold has collected, as a value that does not change any more."""
    if type(value) is Growing:
        return list(value)
    return CelMap(value.entries) if type(value) is GrowingMap else value


def elements(value: ListValue) -> list[Value]:
    return value.whole() if type(value) is Joined else value  # type: ignore[return-value]


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    Joined: "list",
    Growing: "list",
    CelMap: "map",
    TextMap: "map",
    DomainMap: "map",
    GrowingMap: "map",
    Optional: "optional_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    QuantityValue: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Url: "kubernetes.URL",
    AddressValue: "net.IP",
    Prefix: "net.CIDR",
    NamedFormat: "kubernetes.NamedFormat",
    TypeValue: "type",
}


def type_name(value: Value) -> str:
    return _NAMES[type(value)]


def is_list(value: Value) -> bool:
    return type(value) in _LISTS


def is_map(value: Value) -> bool:
    return type(value) in _MAPS


_NUMBERS = frozenset({int, float, Uint})
_PLAIN = frozenset({str, bool, bytes, TypeValue, Duration})
_STRICT = frozenset({QuantityValue, Semver, Url, AddressValue, Prefix, NamedFormat})


def equal(a: Value, b: Value) -> bool:
    """`a == b`. Values of Kubernetes' own types only compare with their like."""
    kind = type(a)
    other = type(b)
    if kind in _NUMBERS:
        return other in _NUMBERS and numbers_equal(a, b)
    if kind in _PLAIN:
        return other is kind and bool(a == b)
    if a is None or b is None:
        return a is b
    return _equal_objects(a, b, kind, other)


def _equal_objects(a: Value, b: Value, kind: type, other: type) -> bool:
    if kind in _STRICT:
        return _equal_strict(a, b, kind, other)
    if kind in _LISTS:
        return is_list(b) and _equal_lists(a, b)
    if kind in _MAPS:
        return is_map(b) and len(a) == len(b) and _equal_maps(a, b)
    if kind is Optional:
        if other is not Optional or a.present != b.present:
            return False
        return not a.present or equal(a.take(), b.take())
    return kind is Timestamp and other is Timestamp and a.nanos == b.nanos


def _equal_strict(a: Value, b: Value, kind: type, other: type) -> bool:
    if other is not kind:
        raise no_such_overload()
    if kind is QuantityValue:
        if b.computed:
            raise no_such_overload()
        return bool(a.nanos == b.nanos)
    if kind is Semver:
        return bool(a.order == b.order)
    return bool(a == b)


def _equal_lists(a: ListValue, b: ListValue) -> bool:
    if len(a) != len(b):
        return False
    METER.work(len(a))
    failure: CelRuntimeError | None = None
    for left, right in zip(elements(a), elements(b), strict=True):
        try:
            if not equal(left, right):
                return False
        except CelRuntimeError as error:
            failure = failure or error
    if failure is not None and type(a) is Joined:
        raise failure
    return True  # a list that was not joined takes elements that cannot be compared for equal


def _equal_maps(a: CelMap, b: CelMap) -> bool:
    METER.work(len(a))
    for key, value in a.pairs():
        entry = b.find(key)
        if entry is None:
            return False
        try:
            if not equal(value, entry[1]):
                return False
        except CelRuntimeError:
            continue  # likewise
    return True


def numbers_equal(a: float, b: float) -> bool:
    """Numbers of any two types. An int or uint is rounded before a double is compared with it."""
    if type(a) is float:
        return a == b if type(b) is float else _double_equal(a, b)
    return _double_equal(b, a) if type(b) is float else int(a) == int(b)


def _double_equal(double: float, number: float) -> bool:
    return compare_numbers(double, number) == 0 if not math.isnan(double) else False


def compare_numbers(a: float, b: float) -> int:
    """-1, 0 or 1. Raises for NaN."""
    if type(a) is float:
        if type(b) is float:
            if math.isnan(a) or math.isnan(b):
                raise CelRuntimeError("NaN values cannot be ordered")
            return (a > b) - (a < b)
        return _compare_double(a, b)
    if type(b) is float:
        return -_compare_double(b, a)
    return (a > b) - (a < b)


def _compare_double(double: float, number: float) -> int:
    if math.isnan(double):
        raise CelRuntimeError("NaN values cannot be ordered")
    unsigned = type(number) is Uint
    if double < (0 if unsigned else -(2.0**63)):
        return -1
    if double > (2.0**64 if unsigned else 2.0**63):
        return 1
    rounded = float(number)
    return (double > rounded) - (double < rounded)


def compare(a: Value, b: Value) -> int:
    """-1, 0 or 1 for two values that have an order; else there is no such overload."""
    kind = type(a)
    if kind in _NUMBERS and type(b) in _NUMBERS:
        return compare_numbers(a, b)
    if kind is not type(b):
        raise no_such_overload()
    if kind is str:
        if a == b:
            return 0
        # Go compares the bytes of strings; code points order alike.
        return 1 if a > b else -1
    if kind is bool or kind is bytes:
        return bool(a > b) - bool(a < b)
    if kind is Duration or kind is Timestamp:
        return bool(a.nanos > b.nanos) - bool(a.nanos < b.nanos)
    raise no_such_overload()


def comparable(value: Value) -> bool:
    return type(value) in _COMPARABLE


_COMPARABLE = frozenset({int, Uint, float, str, bytes, bool, Duration, Timestamp})


def size_of(value: Value) -> int:
    """What `size` gives where there is one; 1 for anything else. Costs are counted in it."""
    kind = type(value)
    if kind is str or kind is bytes or kind in _LISTS or kind in _MAPS:
        return len(value)
    if kind is AddressValue:
        return 4 if value.ip.version == 4 else 16
    if kind is Prefix:
        return int(-(-value.bits // 8))
    return 1
