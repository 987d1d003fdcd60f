"""Ranges of sizes and costs, in 64 bits without overflow, and the sizes of what a device has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

MAX = 2**64 - 1
_NO_LIMIT = 2**63 - 1


class Size(NamedTuple):
    """A size, or a cost, from `low` to `high`."""

    low: int
    high: int

    def plus(self, other: Size) -> Size:
        return Size(min(MAX, self.low + other.low), min(MAX, self.high + other.high))

    def times(self, other: Size) -> Size:
        return Size(min(MAX, self.low * other.low), min(MAX, self.high * other.high))

    def scaled(self, factor: float) -> Size:
        return Size(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: Size) -> Size:
        return Size(min(self.low, other.low), max(self.high, other.high))


UNKNOWN = Size(0, MAX)


def _scaled(number: int, factor: float) -> int:
    product = float(number) * factor
    return MAX if product >= 2.0**64 else math.ceil(product)


class Entries(NamedTuple):
    """Sizes of keys (or indexes) and values of a list or map."""

    kind: str
    key: Size
    value: Size

    def union(self, other: Entries | None) -> Entries | None:
        if other is None:
            return None
        return Entries(self.kind, self.key.union(other.key), self.value.union(other.value))


class Path:
    """How a value is reached from a variable: names of fields, @items, @values, @keys.

    Paths share their names as slices of Go do: a step from a path may overwrite one that another
    step from it has made. cel-go's estimates depend on that where a fold has two variables.
    """

    __slots__ = ("_length", "_names")

    def __init__(self, names: list[str] | None = None, length: int | None = None) -> None:
        self._names = names or []
        self._length = len(self._names) if length is None else length

    def step(self, name: str) -> Path:
        names, length = self._names, self._length
        if length < len(names):
            names[length] = name
        else:
            names = [*names, name]
            names += [""] * (max(1, 2 * length) - len(names))
        return Path(names, length + 1)

    @property
    def names(self) -> list[str]:
        return self._names[: self._length]


@dataclass(slots=True, eq=False)
class _Declared:
    size: int
    element: _Declared | None = None
    key: _Declared | None = None
    fields: dict[str, _Declared] = field(default_factory=dict)


_ENTRIES = 32
_DOMAIN = _Declared(63)
_NAME = _Declared(32)
_ATTRIBUTE = _Declared(64)
_QUANTITY = _Declared(0)
_DEVICE = _Declared(
    0,
    fields={
        "driver": _Declared(63),
        "allowMultipleAllocations": _Declared(1),
        "attributes": _Declared(_ENTRIES, _Declared(_ENTRIES, _ATTRIBUTE, _NAME), _DOMAIN),
        "capacity": _Declared(_ENTRIES, _Declared(_ENTRIES, _QUANTITY, _NAME), _DOMAIN),
    },
)


def size_at(path: Path) -> Size | None:
    """The size at most of what a path from the device leads to."""
    names = path.names
    if not names or names[0] != "device":
        return None
    at: _Declared | None = _DEVICE
    for name in names[1:]:
        assert at is not None
        if name in {"@items", "@values"}:
            at = at.element
        elif name == "@keys":
            at = at.key
        elif name in at.fields:
            at = at.fields[name]
        else:
            at = _ATTRIBUTE if at.element is _ATTRIBUTE else None
        if at is None:
            return None
    assert at is not None
    return Size(0, at.size)
