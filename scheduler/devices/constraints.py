"""Constraints of a claim over the attributes of its devices, with the search's doings and undoings.

`Distinct` remembers one value per request, overwrites it with each device of the request, and
forgets it when a device is taken back: so does kube-scheduler, and its verdicts follow from it.
"""

from __future__ import annotations

from scheduler.devices.shapes import DeviceShape
from scheduler.model.devices import DeviceConstraint

Value = tuple[str, object]
"""The type and the value of an attribute."""

UNKNOWN: Value = ("?", None)
"""An attribute of a type that constraints cannot compare."""


def value_of(shape: DeviceShape, attribute: str) -> Value | None:
    """The value of an attribute by its full name; None if the device lacks it."""
    domain, slash, name = attribute.partition("/")
    found = shape.attribute(domain, name) if slash else shape.attributes.get(attribute)
    if found is None:
        return None
    if found.string is not None:
        return "string", found.string
    if found.int_ is not None:
        return "int", found.int_
    if found.bool_ is not None:
        return "bool", found.bool_
    if found.version is not None:
        return "version", found.version
    return UNKNOWN


class Match:
    """All devices have the same value."""

    __slots__ = ("_count", "_value")

    def __init__(self) -> None:
        self._count = 0
        self._value: Value | None = None

    def add(self, request: str, value: Value | None) -> bool:
        """Count a device in, unless it is refused."""
        if value is None:
            return False
        if not self._count:
            self._value = value
        elif value != self._value or value is UNKNOWN:
            return False
        self._count += 1
        return True

    def remove(self, request: str) -> None:
        """Take a device back."""
        self._count -= 1

    def state(self, request: str) -> object:
        """What decides about the next device of a request, and about all that follow."""
        return self._value if self._count else None

    @property
    def required(self) -> Value | None:
        """The value that the next device must have, if one is fixed."""
        return self._value if self._count else None


class Distinct:
    """No two devices have the same value, as far as values are remembered."""

    __slots__ = ("_count", "_values")

    def __init__(self) -> None:
        self._count = 0
        self._values: dict[str, Value] = {}

    def add(self, request: str, value: Value | None) -> bool:
        """Count a device in, unless it is refused."""
        if value is None:
            return False
        known = self._values.values() if self._count else ()
        if known and (value is UNKNOWN or value in known):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str) -> None:
        """Take a device back; the value of its request is forgotten."""
        self._values.pop(request, None)
        self._count -= 1

    def allows(self, value: Value) -> bool:
        """Whether no request has the value."""
        return value not in self._values.values()

    def state(self, request: str) -> object:
        """What decides about the next device of a request, and about all that follow.

        Only the value of the request itself can be overwritten or forgotten from here on.
        """
        others = frozenset(value for name, value in self._values.items() if name != request)
        return bool(self._count), self._values.get(request), others

    @property
    def required(self) -> Value | None:
        """No one value is required."""
        return None


Constraint = Match | Distinct


def begin(raw: DeviceConstraint) -> Constraint:
    """A constraint before any device is chosen."""
    return Match() if raw.match_attribute is not None else Distinct()


def attribute_of(raw: DeviceConstraint) -> str | None:
    """The attribute that a constraint compares; None if its kind is unknown."""
    return raw.distinct_attribute if raw.match_attribute is None else raw.match_attribute


def covers(raw: DeviceConstraint, request: str, alternative: str) -> bool:
    """Whether a request, or an alternative of it, is subject to a constraint."""
    names = raw.requests
    if not names or request in names:
        return True
    return bool(alternative) and f"{request}/{alternative}" in names
