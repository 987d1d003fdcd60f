"""Shapes: what devices have in common when only their names differ.

Drivers publish tens of thousands of devices of a few kinds. A shape is everything of a device that
a selector, a constraint, a request or a result reads; equal devices share one. Real devices also
carry attributes that no selector reads (serial numbers, bus addresses), so their shapes differ all
the same. A *facet* is therefore a column over shapes: which of them are equal in what some
selectors and constraints read. Verdicts are computed once per distinct value of a facet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduler.cel.errors import CelRuntimeError
from scheduler.cel.kubernetes import semver_of
from scheduler.devices.capacity import Capacity, amount_of, compile_capacity
from scheduler.model.devices import DeviceAttribute, DeviceTaint, SliceDevice
from scheduler.model.quantity import QuantityError
from scheduler.slices import checkpoint

Counter = tuple[str, str]
"""A counter set and one counter of it."""

Consumption = tuple[tuple[Counter, int], ...]
"""What a device takes of shared counters, exactly."""

Read = tuple[str, str, str]
"""Something that is read: (``attribute`` or ``capacity``, domain, name).

An empty domain stands for that of the driver, whichever it is.
"""

HARD_EFFECTS = ("NoSchedule", "NoExecute")
_CHECK_EVERY = 512


@dataclass(eq=False, slots=True)
class DeviceShape:
    """Everything of a device but its name and where it is."""

    number: int
    base: int
    """Equal in all but attributes: driver, sharing, capacity, taints, counters."""
    driver: str
    attributes: dict[str, DeviceAttribute]
    raw: SliceDevice
    """The first device of this shape."""
    shareable: bool
    capacity: dict[str, Capacity]
    taints: tuple[DeviceTaint, ...]
    """Those that keep requests away which do not tolerate them."""
    consumes: Consumption
    terms: int
    """How many terms the node selector has that a result would copy; 1 if there is none.

    0 if the device ties its claim to the one node: no selector is copied then.
    """
    fault: str
    """What cannot be understood, if anything; the pool of such a device is invalid."""
    unreadable: bool
    """No selector can read the device, whichever attributes it reads: some value is unknown."""
    key: object
    users: int = 0

    def attribute(self, domain: str, name: str) -> DeviceAttribute | None:
        """An attribute by its full name; a bare name belongs to the driver's domain."""
        found = self.attributes.get(f"{domain}/{name}")
        if found is None and domain == self.driver:
            found = self.attributes.get(name)
        return found

    def written(self, kind: str, domain: str, name: str) -> object:
        """What is written under a full name and under the bare name it stands for."""
        values: Mapping[str, object] = self.attributes
        if kind != "attribute":
            values = self.raw.capacity
        full = values.get(f"{domain}/{name}")
        bare = values.get(name) if domain == self.driver else None
        return full if bare is None else (full, bare)


@dataclass(eq=False, slots=True)
class Facet:
    """Which shapes are equal in some attributes and in all that is no attribute."""

    reads: frozenset[Read] | None
    """None: all attributes count."""
    numbers: NDArray[np.int32]
    """By number of the shape: the value of the facet."""
    examples: list[DeviceShape] = field(default_factory=list)
    """By value: one shape that has it."""
    version: int = 0
    """Grows when a shape is added."""
    _values: dict[object, int] = field(default_factory=dict)
    _wanted: tuple[tuple[str, str, str], ...] = ()
    """Full name, domain and bare name of each attribute that counts."""

    def __post_init__(self) -> None:
        self._wanted = tuple(
            (f"{domain}/{name}", domain, name)
            for kind, domain, name in sorted(self.reads or ())
            if kind == "attribute"
        )

    def add(self, shape: DeviceShape) -> None:
        """Give a new shape its value."""
        if shape.number >= len(self.numbers):
            grown = np.zeros(max(64, 2 * shape.number), dtype=np.int32)
            grown[: len(self.numbers)] = self.numbers
            self.numbers = grown
        key = self._key(shape)
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = len(self.examples)
            self.examples.append(shape)
        self.numbers[shape.number] = value
        self.version += 1

    def _key(self, shape: DeviceShape) -> object:
        if self.reads is None:
            return shape.number, shape.key
        attributes, driver = shape.attributes, shape.driver
        key: list[object] = [shape.base]
        for full, domain, name in self._wanted:
            key.append(attributes.get(full if domain else f"{driver}/{name}"))
            if domain in ("", driver):
                key.append(attributes.get(name))
        return tuple(key)


class ShapeTable:
    """All shapes of published devices, interned, and the facets in use."""

    MANY_FACETS = 64

    def __init__(self) -> None:
        self._by_key: dict[object, DeviceShape] = {}
        self._shapes: list[DeviceShape | None] = []
        self._free: list[int] = []
        self._bases: dict[object, int] = {}
        self._base_users: dict[int, tuple[object, int]] = {}
        """The key of each base, and how many shapes have it."""
        self._newest_base = 0
        self._facets: dict[frozenset[Read] | None, Facet] = {}
        self._making: list[Facet] = []
        self.generation = 0
        """Grows when facets are dropped: who keeps values of them starts again."""

    def __len__(self) -> int:
        return len(self._by_key)

    def intern(self, driver: str, device: SliceDevice, terms: int) -> DeviceShape:
        """The shape of a device; counted until `release`."""
        key = (driver, *_content(device), terms)
        shape = self._by_key.get(key)
        if shape is None:
            shape = self._by_key[key] = self._new(driver, device, terms, key)
            for facet in (*self._facets.values(), *self._making):
                facet.add(shape)
        shape.users += 1
        return shape

    def release(self, shape: DeviceShape) -> None:
        """One device of the shape is gone; with the last one the shape goes."""
        shape.users -= 1
        if not shape.users:
            del self._by_key[shape.key]
            self._shapes[shape.number] = None
            self._free.append(shape.number)
            self._release_base(shape.base)
            self._forget_if_many_are_gone()

    def _base(self, key: object) -> int:
        """The number of a base; no number is used twice."""
        base = self._bases.get(key)
        if base is None:
            self._newest_base += 1
            base = self._bases[key] = self._newest_base
        self._base_users[base] = key, self._base_users.get(base, (key, 0))[1] + 1
        return base

    def _release_base(self, base: int) -> None:
        key, users = self._base_users.pop(base)
        if users > 1:
            self._base_users[base] = key, users - 1
        else:
            del self._bases[key]

    def _forget_if_many_are_gone(self) -> None:
        """Facets keep values of shapes that are gone; start again before they are most of all."""
        bound = 4 * len(self._by_key) + 4096
        if any(len(facet.examples) > bound for facet in self._facets.values()):
            self._facets.clear()
            self.generation += 1

    def taints(self) -> dict[DeviceTaint, int]:
        """The taints that refuse claims, and of how many devices each is."""
        found: dict[DeviceTaint, int] = {}
        for shape in tuple(self._by_key.values()):
            for taint in shape.taints:
                found[taint] = found.get(taint, 0) + shape.users
            checkpoint()
        return found

    def facet(self, reads: frozenset[Read] | None) -> Facet:
        """The column of what is read; made when it is first asked for."""
        facet = self._facets.get(reads)
        return self._make(reads) if facet is None else facet

    def _make(self, reads: frozenset[Read] | None) -> Facet:
        facet = Facet(reads, np.zeros(max(64, len(self._shapes)), dtype=np.int32))
        self._making.append(facet)  # shapes that come meanwhile are added by who interns them
        try:
            for number, shape in enumerate(tuple(self._shapes)):
                if shape is not None and self._shapes[number] is shape:
                    facet.add(shape)
                if not number % _CHECK_EVERY:
                    checkpoint()
        finally:
            self._making.remove(facet)
        if len(self._facets) >= self.MANY_FACETS:
            self._facets.clear()
            self.generation += 1
        return self._facets.setdefault(reads, facet)

    def _new(self, driver: str, device: SliceDevice, terms: int, key: object) -> DeviceShape:
        capacity, consumes, fault = _compiled(device)
        taints = tuple(taint for taint in device.taints if taint.effect in HARD_EFFECTS)
        base_key = (
            driver,
            device.allow_multiple_allocations,
            tuple(sorted(device.capacity.items(), key=_name)),
            taints,
            consumes,
            terms,
            fault,
            unreadable := _unreadable(device),
        )
        base = self._base(base_key)
        number = self._free.pop() if self._free else len(self._shapes)
        shape = DeviceShape(
            number=number,
            base=base,
            driver=driver,
            attributes=device.attributes,
            raw=device,
            shareable=device.allow_multiple_allocations,
            capacity=capacity,
            taints=taints,
            consumes=consumes,
            terms=terms,
            fault=fault,
            unreadable=unreadable is not None,
            key=key,
        )
        if number == len(self._shapes):
            self._shapes.append(shape)
        else:
            self._shapes[number] = shape
        return shape


def _unreadable(device: SliceDevice) -> object:
    """The first attribute that selectors cannot read, if there is one."""
    for name, value in device.attributes.items():
        if value.int_ is not None or value.bool_ is not None or value.string is not None:
            continue
        if value.version is None or not _is_semver(value.version):
            return name, value
    return None


@lru_cache(maxsize=4096)
def _is_semver(text: str) -> bool:
    try:
        semver_of(text)
    except CelRuntimeError:
        return False
    return True


def _name(item: tuple[str, object]) -> str:
    return item[0]


def _content(device: SliceDevice) -> Iterable[object]:
    yield tuple(sorted(device.attributes.items(), key=_name))
    yield tuple(sorted(device.capacity.items(), key=_name))
    yield device.taints
    yield device.allow_multiple_allocations
    yield device.binds_to_node
    yield device.binding_conditions
    yield device.binding_failure_conditions
    yield tuple(
        (each.counter_set, tuple(sorted(each.counters.items(), key=_name)))
        for each in device.consumes_counters
    )


def _compiled(device: SliceDevice) -> tuple[dict[str, Capacity], Consumption, str]:
    capacity: dict[str, Capacity] = {}
    consumes: dict[Counter, int] = {}
    try:
        for name, raw in device.capacity.items():
            place = f"capacity {name}"
            capacity[name] = compile_capacity(raw)
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                place = f"counter {consumption.counter_set}/{name}"
                key = (consumption.counter_set, name)
                consumes[key] = consumes.get(key, 0) + amount_of(counter.value).nanos
    except QuantityError as fault:
        return {}, (), f"{place}: {fault}"
    return capacity, tuple(sorted(consumes.items())), ""
