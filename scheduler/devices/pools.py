"""Pools: the devices of a driver that a node can reach, from the slices that the driver publishes.

A pool consists of slices of one generation. A node sees those that name it, select it, or are for
all nodes, and every slice with shared counters. What it sees of a pool is a `PoolView`; a pool that
is being updated or contradicts itself gives one without devices, which stops requests for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from scheduler.devices.capacity import amount_of
from scheduler.devices.shapes import Consumption, Counter, DeviceShape, ShapeTable
from scheduler.model.devices import ResourceSlice, SliceDevice
from scheduler.model.nodes import Node, NodeSelector
from scheduler.model.quantity import QuantityError
from scheduler.model.selectors import NodeTerm, SelectorError, compile_node_selector

if TYPE_CHECKING:
    from scheduler.devices.segments import NodeSegment

PoolKey = tuple[str, str]
"""Driver and name of a pool."""


@dataclass(frozen=True, slots=True)
class DevicePlacement:
    """On which nodes devices are."""

    node_name: str | None = None
    selector: NodeSelector | None = None
    terms: tuple[NodeTerm, ...] = ()
    everywhere: bool = False

    def on(self, node: Node) -> bool:
        """Whether the node has them."""
        if self.node_name:
            return node.name == self.node_name
        return self.everywhere or any(term.matches(node) for term in self.terms)


def _placement(
    node_name: str | None, selector: NodeSelector | None, everywhere: bool
) -> tuple[DevicePlacement, str]:
    if selector is None:
        return DevicePlacement(node_name, None, (), everywhere), ""
    try:
        terms = compile_node_selector(selector, "nodeSelector") or ()
    except SelectorError as fault:  # what cannot be placed is on no node
        return DevicePlacement(node_name, selector, (), everywhere), str(fault)
    return DevicePlacement(node_name, selector, terms, everywhere), ""


@dataclass(eq=False, slots=True)
class PublishedDevice:
    """One device of a slice."""

    name: str
    shape: DeviceShape
    placement: DevicePlacement


@dataclass(eq=False, slots=True)
class PublishedSlice:
    """One slice, with its devices' shapes interned."""

    name: str
    key: PoolKey
    generation: int
    count: int
    placement: DevicePlacement
    per_device: bool
    devices: tuple[PublishedDevice, ...]
    counters: dict[str, dict[str, int]]
    """Counter sets; a slice that has some has no devices of its own."""
    has_counters: bool
    fault: str
    """What cannot be understood in it, if anything."""

    @property
    def local_to(self) -> str | None:
        """The one node that sees it, if only one can."""
        return None if self.has_counters else self.placement.node_name or None

    def concerns(self, node: Node) -> bool:
        """Whether a node sees the slice."""
        if self.has_counters:
            return True
        placement = self.placement
        by_slice = placement.node_name or placement.everywhere or placement.selector is not None
        if by_slice or not self.per_device:
            return placement.on(node)
        return any(device.placement.on(node) for device in self.devices)


def publish(raw: ResourceSlice, shapes: ShapeTable) -> PublishedSlice:
    """Read a slice. Nothing in it raises: what is wrong makes its pool invalid."""
    spec = raw.spec
    placement, fault = _placement(spec.node_name, spec.node_selector, spec.all_nodes)
    per_device = spec.per_device_node_selection
    devices = []
    for device in spec.devices:
        own, own_fault = placement, ""
        if per_device:
            own, own_fault = _device_placement(device)
        shape = shapes.intern(spec.driver, device, _terms(own, device))
        devices.append(PublishedDevice(device.name, shape, own))
        fault = fault or own_fault
        if shape.fault and not fault:
            fault = f"device {device.name}: {shape.fault}"
    counters, counter_fault = _counters(raw)
    return PublishedSlice(
        name=raw.metadata.name,
        key=(spec.driver, spec.pool.name),
        generation=spec.pool.generation,
        count=spec.pool.resource_slice_count,
        placement=placement,
        per_device=per_device,
        devices=tuple(devices),
        counters=counters,
        has_counters=bool(spec.shared_counters),
        fault=fault or counter_fault,
    )


def _device_placement(device: SliceDevice) -> tuple[DevicePlacement, str]:
    return _placement(device.node_name, device.node_selector, device.all_nodes)


def _terms(placement: DevicePlacement, device: SliceDevice) -> int:
    if placement.node_name or device.binds_to_node:
        return 0
    selector = placement.selector
    return max(1, len(selector.node_selector_terms or ())) if selector is not None else 1


def _counters(raw: ResourceSlice) -> tuple[dict[str, dict[str, int]], str]:
    sets: dict[str, dict[str, int]] = {}
    fault = ""
    for counter_set in raw.spec.shared_counters:
        if counter_set.name in sets:
            fault = fault or f"duplicate counter set name {counter_set.name}"
        values = sets.setdefault(counter_set.name, {})
        for name, counter in counter_set.counters.items():
            try:
                values[name] = amount_of(counter.value).nanos
            except QuantityError as error:
                fault = fault or f"counter {counter_set.name}/{name}: {error}"
    return sets, fault


class PoolStatus(IntEnum):
    """Whether a pool can be used."""

    USABLE = 0
    INCOMPLETE = 1
    INVALID = 2
    OBSOLETE = 3
    """What the node sees is older than what others see: no pool at all."""


@dataclass(eq=False, slots=True)
class PoolView:
    """What a node sees of a pool."""

    key: PoolKey
    status: PoolStatus
    reason: str = ""
    devices: tuple[PublishedDevice, ...] = ()
    here: tuple[bool, ...] | None = None
    """Per device whether this node has it; None if it has all of them."""
    counters: Mapping[Counter, int] = field(default_factory=dict)
    """The shared counters in full."""
    consumption: Mapping[str, Consumption] = field(default_factory=dict)
    """By device, also those that other nodes have: what it takes of counters when allocated."""
    binding: bool = False
    """Some device has binding conditions: such pools come after all others."""
    positions: dict[str, int] = field(default_factory=dict)
    available: dict[Counter, int] = field(default_factory=dict)
    """What allocated devices leave of the counters."""
    segments: set[NodeSegment] = field(default_factory=set)
    """Who shows this view."""

    @property
    def order(self) -> tuple[bool, str, str]:
        """Where the pool comes among those of a node."""
        return self.binding, *self.key


class DevicePool:
    """All slices of one pool, of whichever generation, and the views that nodes have of it."""

    __slots__ = (
        "_counting", "_generations", "_open", "_shapes", "_slices", "key", "local", "views",
    )  # fmt: skip

    def __init__(self, key: PoolKey) -> None:
        self.key = key
        self.views: dict[object, PoolView] = {}
        """By what is seen: the names of slices and, where nodes choose by device, which of them."""
        self.local: dict[str, dict[str, PublishedSlice]] = {}
        """By name of a node: slices that only it sees."""
        self._slices: dict[str, PublishedSlice] = {}
        self._open: dict[str, PublishedSlice] = {}
        """Slices that nodes may see without being named."""
        self._counting: dict[str, PublishedSlice] = {}
        """Slices with counters, which all nodes see."""
        self._generations: dict[int, int] = {}
        """How many slices there are of each generation."""
        self._shapes: dict[int, int] = {}
        """How many devices there are of each shape."""

    def __bool__(self) -> bool:
        """Whether there are slices."""
        return bool(self._slices)

    def __contains__(self, name: str) -> bool:
        """Whether there is a slice of this name."""
        return name in self._slices

    @property
    def is_open(self) -> bool:
        """Whether nodes may see devices of it without being named."""
        return bool(self._open)

    @property
    def has_counters(self) -> bool:
        """Whether every node sees some of it."""
        return bool(self._counting)

    @property
    def shapes(self) -> Collection[int]:
        """The numbers of the shapes of all devices, of whichever generation."""
        return self._shapes.keys()

    def replace(self, name: str, new: PublishedSlice | None) -> PublishedSlice | None:
        """A slice is there, is different or, None, is gone; returns the one before.

        Costs what the two slices have, however many others there are.
        """
        self.views.clear()
        old = self._slices.pop(name, None)
        if old is not None:
            self._count(old, -1)
            del self._like(old)[name]
            if old.local_to is not None and not self.local[old.local_to]:
                del self.local[old.local_to]
        if new is not None:
            self._slices[name] = new
            self._count(new, 1)
            self._like(new)[name] = new
        return old

    def _like(self, each: PublishedSlice) -> dict[str, PublishedSlice]:
        """The slices that the same nodes see."""
        if each.has_counters:
            return self._counting
        return self._open if each.local_to is None else self.local.setdefault(each.local_to, {})

    def _count(self, each: PublishedSlice, sign: int) -> None:
        _add(self._generations, each.generation, sign)
        for device in each.devices:
            _add(self._shapes, device.shape.number, sign)

    def seen_by(self, node: Node) -> tuple[PoolView | None, bool]:
        """The view of a node, None if it sees nothing; and whether the view is new."""
        seen = [*self._counting.values(), *self.local.get(node.name, {}).values()]
        seen += [each for each in self._open.values() if each.concerns(node)]
        if not seen:
            return None, False
        newest = max(each.generation for each in seen)
        seen = sorted((each for each in seen if each.generation == newest), key=_by_name)
        key = tuple(_sight(each, node) for each in seen)
        view = self.views.get(key)
        if view is None:
            view = self.views[key] = self._view(seen, newest, node)
            return (None, False) if view.status is PoolStatus.OBSOLETE else (view, True)
        return (None if view.status is PoolStatus.OBSOLETE else view), False

    def _view(self, seen: list[PublishedSlice], generation: int, node: Node) -> PoolView:
        """Build a view.

        Slices should agree on how many there are. kube-scheduler believes whichever it lists first,
        which is by chance. Here all of them have to be right: the pool is as unfinished as any
        of them makes it.
        """
        counts = {each.count for each in seen}
        elsewhere: list[PublishedSlice] = []
        if counts != {len(seen)}:
            if max(self._generations) > generation:
                return PoolView(self.key, PoolStatus.OBSOLETE)
            current = self._generations[generation]
            if not counts <= {len(seen), current}:
                return PoolView(self.key, PoolStatus.INCOMPLETE, _missing(counts, current))
            names = {each.name for each in seen}
            elsewhere = [
                each
                for each in self._slices.values()
                if each.generation == generation and each.name not in names
            ]
        return _built(self.key, seen, elsewhere, node)


def _missing(counts: Iterable[int], current: int) -> str:
    said = " and ".join(str(count) for count in sorted(counts))
    return f"resourceSliceCount is {said}, and its newest generation has {current}"


def _add(counts: dict[int, int], key: int, sign: int) -> None:
    count = counts.get(key, 0) + sign
    if count:
        counts[key] = count
    else:
        del counts[key]


def _by_name(each: PublishedSlice) -> str:
    return each.name


def _sight(each: PublishedSlice, node: Node) -> object:
    if not each.per_device:
        return each.name
    return each.name, *(device.placement.on(node) for device in each.devices)


def _built(
    key: PoolKey, seen: list[PublishedSlice], elsewhere: list[PublishedSlice], node: Node
) -> PoolView:
    shown = [each for each in seen if not each.has_counters]
    devices = tuple(device for each in shown for device in each.devices)
    positions = {device.name: i for i, device in enumerate(devices)}
    sets, reason = _joined_counters(seen)
    reason = (
        next((each.fault for each in (*seen, *elsewhere) if each.fault), "")
        or _duplicate(devices, positions)
        or reason
        or _unknown_counter(sets, (*seen, *elsewhere))
    )
    if reason:
        return PoolView(key, PoolStatus.INVALID, reason)
    counters = {(name, key): value for name, of in sets.items() for key, value in of.items()}
    here = None
    if any(each.per_device for each in shown):
        here = tuple(
            not each.per_device or device.placement.on(node)
            for each in shown
            for device in each.devices
        )
    return PoolView(
        key,
        PoolStatus.USABLE,
        devices=devices,
        here=here,
        counters=counters,
        consumption=_consumption((*seen, *elsewhere)) if counters else {},
        binding=any(device.shape.raw.binding_conditions is not None for device in devices),
        positions=positions,
        available=dict(counters),
    )


def _duplicate(devices: tuple[PublishedDevice, ...], positions: Mapping[str, int]) -> str:
    if len(positions) == len(devices):
        return ""
    names = [device.name for device in devices]
    twice = next(name for i, name in enumerate(names) if name in names[:i])
    return f"duplicate device name {twice}"


CounterSets = dict[str, dict[str, int]]


def _joined_counters(seen: Iterable[PublishedSlice]) -> tuple[CounterSets, str]:
    sets: CounterSets = {}
    for each in seen:
        for name, values in each.counters.items():
            if name in sets:
                return {}, f"duplicate counter set name {name}"
            sets[name] = values
    return sets, ""


def _unknown_counter(sets: CounterSets, slices: Iterable[PublishedSlice]) -> str:
    for each in slices:
        for device in each.devices:
            for consumption in device.shape.raw.consumes_counters:
                name = consumption.counter_set
                if name not in sets:
                    return f"counter set {name} not found"
                for counter in consumption.counters:
                    if counter not in sets[name]:
                        return f"counter {counter} not found in counter set {name}"
    return ""


def _consumption(slices: Iterable[PublishedSlice]) -> dict[str, Consumption]:
    result: dict[str, Consumption] = {}
    for each in slices:
        if not each.has_counters:
            for device in each.devices:
                if device.shape.consumes:
                    result[device.name] = result.get(device.name, ()) + device.shape.consumes
    return result
